"""What is timed inside the process: asv's environments, its results, and the tables from them."""
