"""Nights: a plan shared out over machines, and what came of it."""
