"""What one request does to databases, hosts, files and memory, seen from inside its process."""
