"""This machine, which no other folder touches: processes, /proc, ports, git, files, caches."""
