"""Instructions per request, counted by Callgrind, and the functions that execute them."""
