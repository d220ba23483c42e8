"""The instrument measured by itself: comparisons whose right answer is known."""
