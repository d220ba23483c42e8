"""GitHub: its API, comments, and files that other machines sent."""
