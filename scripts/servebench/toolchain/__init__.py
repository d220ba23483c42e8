"""Making what measuring needs: interpreters, the load generator, environments."""
