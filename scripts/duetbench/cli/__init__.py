"""The commands: arguments in, sentences out."""

import sys
import traceback
from typing import Annotated, Final

import typer

from duetbench.cli.verbs import VERBS, make_group
from duetbench.core import __version__
from duetbench.core.errors import FAILED, DuetbenchError, InterruptedRun
from duetbench.host.signals import interruptible

CLOSED_PIPE: Final = 141
"""Exit code if the reader of a pipe has ended (`… | head -1`): 128 + SIGPIPE, as of other tools."""

app = make_group(VERBS)


def _version(is_set: bool) -> None:
    if is_set:
        typer.echo(__version__)
        raise typer.Exit


VersionOption = Annotated[
    bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
]


@app.callback()
def _root(_version_: VersionOption = False) -> None:
    """What did this change do to our Python web application, and which release did it?"""


def main(application: typer.Typer | None = None, name: str = "duetbench") -> None:
    """Run this process's command line; an expected error is one line, and exits.

    A bug keeps its traceback, and does not exit as Python does: code 1 would say that something got
    slower. A closed pipe does not exit with 1 either, as typer and rich would.
    """
    try:
        with interruptible():
            (application or app)()
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
