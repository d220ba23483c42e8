"""Applications of experiments inside one process, by the standard library alone."""
