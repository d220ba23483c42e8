"""Which launches, in which order, how long, and on which machine."""
