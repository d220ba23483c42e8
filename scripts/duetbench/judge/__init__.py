"""Two sides of a change: what it affects, duets, statistics, verdicts."""
