"""Charts as SVG, each with its data as a table."""
