"""What one request does to databases, hosts, files and memory, and how both sides differ in it."""
