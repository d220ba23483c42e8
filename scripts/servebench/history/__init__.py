"""The history: results on a branch of their own, added to and never rewritten."""
