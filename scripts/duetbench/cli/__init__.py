"""The commands: arguments in, sentences out."""

import os
import sys
import traceback
from typing import Final

from cyclopts import App, CycloptsError

from duetbench.cli.verbs import CI, VERBS, make_group
from duetbench.core.errors import FAILED, DuetbenchError, InterruptedRun, UsageError
from duetbench.host.signals import interruptible

CLOSED_PIPE: Final = 141
"""Exit code if the reader of a pipe has ended (`… | head -1`): 128 + SIGPIPE, as of other tools."""

app = make_group(
    "duetbench",
    "What did this change do to our Python web application, and which release did it?",
    VERBS,
)
app.command(make_group("ci", "Commands for workflows: compare what a pull request changes.", CI))


def main(application: App | None = None, name: str = "duetbench") -> None:
    """Run this process's command line; an expected error is one line, and exits.

    A bug keeps its traceback, and does not exit as Python does: code 1 would say that something got
    slower. A closed pipe does not exit with 1 either, as rich would.
    """
    try:
        with interruptible():
            code = (application or app)(sys.argv[1:])
        sys.exit(code if isinstance(code, int) else 0)
    except CycloptsError as error:
        _say(name, f"{error} (--help explains it)")
        sys.exit(UsageError.exit_code)
    except DuetbenchError as error:
        _say(name, str(error))
        sys.exit(error.exit_code)
    except InterruptedRun as interruption:
        advice = f": {interruption.advice}" if interruption.advice else ""
        _say(name, f"interrupted by {interruption}{advice}")
        sys.exit(interruption.exit_code)
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):
            sys.exit(CLOSED_PIPE)
        raise
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left to write
        sys.exit(CLOSED_PIPE)
    except OSError as error:
        from duetbench.host.files import ADVICE

        where = f"{error.filename}: " if error.filename else ""
        _say(name, f"{where}{error.strerror or error}; {ADVICE}")
        sys.exit(FAILED)
    except Exception:
        traceback.print_exc()
        sys.exit(FAILED)


def _say(name: str, sentence: str) -> None:
    from duetbench.host.console import errors

    errors().say(f"{name}: {sentence}")
