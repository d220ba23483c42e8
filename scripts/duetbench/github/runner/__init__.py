"""Guarding a runner of one's own: the job hook, the other user, the checks."""
