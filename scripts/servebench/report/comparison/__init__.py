"""A comparison for people: Markdown for a pull request, a terminal table, a forest plot."""
