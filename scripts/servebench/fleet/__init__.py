"""Machines of one's own behind GitHub Actions: who may start a job there, and as which user."""
