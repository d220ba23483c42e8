"""Making what measuring needs: interpreters, tools, locks and environments."""
