"""A comparison: which cases a change can affect, when enough was measured, and the verdicts."""
