"""The history: its kinds of files, the branch that keeps them, nights, and asv's results."""
