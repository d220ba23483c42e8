"""The experiments as their articles published them."""
