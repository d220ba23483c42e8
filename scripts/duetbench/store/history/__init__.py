"""The branch of results: pulled, laid out, and pushed without losing anybody's work."""
