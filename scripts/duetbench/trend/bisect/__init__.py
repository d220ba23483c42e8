"""Searches for the release behind a change: tests mixed locks until one is left."""
