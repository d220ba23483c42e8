"""HTML: a comparison as one file, with the charts, words and styles that a site shares."""
