"""What workflows need: GitHub, files from other machines, runners of one's own."""
