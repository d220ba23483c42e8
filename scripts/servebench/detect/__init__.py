"""Where a series moved for good: found in the history, confirmed by duets, recorded."""
