"""asv's suites: everything that can be timed without a socket.

The suites are read from the working tree, the applications from the commit that asv has checked
out. Each module imports with the standard library alone, because asv lists the benchmarks in
whichever environment comes first; the packages of a stack are imported when they are there.
"""
