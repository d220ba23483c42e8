"""asv's suites: everything that can be timed without a socket.

asv imports the suites from the working tree, and the applications from the commit under test. Each
module imports with the standard library alone, as asv lists the benchmarks in an arbitrary
environment; the packages of a stack are imported if they are there.
"""
