"""Words and arithmetic: cases, metrics, flags, units, errors."""

__version__ = "0.1.0"
