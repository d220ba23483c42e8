"""Which functions a change of instructions lies in."""
