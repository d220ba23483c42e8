"""Benchmarks inside the process: asv's environments and suites."""
