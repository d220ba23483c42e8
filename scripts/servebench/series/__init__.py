"""Runs over time as tables: what the site draws, and what detection looks through."""
