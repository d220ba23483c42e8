"""Which release or commit did it, and what several launches say together."""
