"""Instructions per request, counted by Callgrind inside the process."""
