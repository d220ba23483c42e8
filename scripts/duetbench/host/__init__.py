"""This machine: processes, /proc, ports, locks, git, caches. The only folder that touches them."""
