"""The program `duetbench`: Ctrl-C ends it with one line from its first moment on."""

import sys
from collections.abc import Sequence
from pathlib import Path

from duetbench.core import __version__


def stored_text(words: Sequence[str]) -> str:
    """Return the help or version that a command line asks for, if it is stored: that is fast."""
    if not words or words[0] == "--help":
        name = "duetbench"
    elif words[0] == "compare" and "--help" in words:
        name = "compare"
    elif words[0] == "--version":
        return f"{__version__}\n"
    else:
        return ""
    return (Path(__file__).parent / "cli" / "help" / f"{name}.txt").read_text("utf-8")


def main() -> None:
    """Run the command line, whose own imports may already be interrupted."""
    try:
        words = sys.argv[1:]
        if text := stored_text(words):
            print(text, end="", file=sys.stdout if words else sys.stderr)
            sys.exit(0 if words else 2)
        from duetbench.cli import main as run  # noqa: PLC0415 - it takes most of a start
    except KeyboardInterrupt:
        sys.stderr.write("duetbench: interrupted by SIGINT\n")
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
