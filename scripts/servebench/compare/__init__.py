"""Comparing two sides of a change: duets, verdicts, and what could have been seen."""
