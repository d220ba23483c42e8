"""asv's suites: everything that can be timed without a socket.

asv imports the suites from the working tree, and the applications from the commit under test. Each
module imports with the standard library and duetbench alone, as asv lists the benchmarks in an
arbitrary environment; the packages of a stack are imported if they are there.
"""

import sys
from pathlib import Path

# asv puts only this checkout on the path, and no stack has duetbench among its packages.
sys.path.append(str(Path(__file__).resolve().parents[1] / "scripts"))
