"""The history: its kinds of files, nights, and asv's results."""
