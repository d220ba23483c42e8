"""Which release of many made a difference: tests of mixed locks until one is left."""
