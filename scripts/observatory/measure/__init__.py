"""In-process benchmarks: asv's environments and runs."""
