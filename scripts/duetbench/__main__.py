"""The program `duetbench`: Ctrl-C ends it with one line from its first moment on."""

import sys


def main() -> None:
    """Run the command line, whose own imports may already be interrupted."""
    try:
        from duetbench.cli import main as run  # noqa: PLC0415 - it takes most of a start
    except KeyboardInterrupt:
        sys.stderr.write("duetbench: interrupted by SIGINT\n")
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
