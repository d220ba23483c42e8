"""What was measured, for people: terminal, Markdown, HTML and the site."""
