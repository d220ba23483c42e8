"""Words and arithmetic: cases, metrics, flags, units, errors. No input or output."""
