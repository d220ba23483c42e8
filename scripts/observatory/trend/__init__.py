"""Over time: points against the anchor, tables, levels, steps and changes."""
