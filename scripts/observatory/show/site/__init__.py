"""The static site: its data files and how it is built."""
