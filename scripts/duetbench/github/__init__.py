"""GitHub: its API, comments, issues, and files that other machines sent."""
