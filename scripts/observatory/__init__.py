"""observatory: this repository's own continuous benchmark, built on duetbench."""
