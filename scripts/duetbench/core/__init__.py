"""Words and arithmetic: metrics, flags, units, errors, cases, and what comparisons record."""

__version__ = "0.1.0"
