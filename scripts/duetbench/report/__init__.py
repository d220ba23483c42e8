"""What was found, for people: terminal, Markdown and HTML."""
