"""Runs and comparisons as tables and sentences, for terminals and Markdown."""
