"""Finds the functions that a change of instructions lies in."""
