"""The program `duetbench`: Ctrl-C ends it with one line from its first moment on."""

import sys
from pathlib import Path
from typing import Final

_HELP: Final = {("--help",): "duetbench", ("compare", "--help"): "compare"}
"""Command lines that a stored text answers at once."""


def main() -> None:
    """Run the command line, whose own imports may already be interrupted."""
    try:
        if name := _HELP.get(tuple(sys.argv[1:])):
            text = Path(__file__).with_name("cli") / "help" / f"{name}.txt"
            sys.stdout.write(text.read_text("utf-8"))
            return
        from duetbench.cli import main as run  # noqa: PLC0415 - it takes most of a start
    except KeyboardInterrupt:
        sys.stderr.write("duetbench: interrupted by SIGINT\n")
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
