"""GitHub: answers to requests, files of machines, and the sandbox of a runner."""
