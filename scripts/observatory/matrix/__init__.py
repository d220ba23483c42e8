"""The matrix: experiments, and the applications and cases that they declare."""
