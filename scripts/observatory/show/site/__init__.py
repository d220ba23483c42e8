"""The static site: its pages and how it is built."""
