"""Comparisons whose right answer is known, to learn how often the instrument is wrong."""
