"""Instructions per unit of work, counted by Valgrind. Standard library only.

`counting` starts Valgrind, `phases` runs in the counted process, `callgrind` reads what was
counted. Benchmarks import them from the working tree; the harness's packages are not installed
where they run.
"""
