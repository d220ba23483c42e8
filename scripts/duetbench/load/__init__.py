"""One launch and one duet: start, verify, warm up, load, watch, stop."""
