"""What of ours runs inside of measured servers: this folder is on their search path."""
