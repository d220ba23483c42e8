"""A shop: items that are read, orders that are written."""
