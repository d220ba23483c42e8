"""From run files to pages for people: tables, Markdown, the findings. Pure: values to text."""
