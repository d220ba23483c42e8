"""GitHub: issues, the lock branch, a night's files, and the sandbox of a runner."""
