"""Options of commands that measure experiments, and what commands of workflows report."""

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from duetbench.cli.options import Words
from duetbench.core.model import Profile
from duetbench.host.console import Console, write_summary

_SELECT: Final = "Only cases whose id matches this glob, e.g. 'asgi-wsgi/*/py3.14t/*'; repeatable."

SelectOption = Annotated[Words, Parameter(metavar="GLOB", help=_SELECT)]

ProfileOption = Annotated[
    Profile,
    Parameter(
        help="Which cases, under which loads. quick: each experiment once, waits shortened; a run "
        "takes under 5 minutes. nightly: one launch per case, about 20 minutes. published: the "
        "articles' own durations, about an hour."
    ),
]

ResultsOption = Annotated[
    Path | None, Parameter(metavar="FOLDER", help="Results folder; default: the repository's.")
]

OUTPUT: Final = Parameter(("--output", "-o"), metavar="FILE")


def report(lines: Collection[str], heading: str) -> None:
    """Print lines, and list them on the page of a workflow's run, as code: no text acts there."""
    for line in lines:
        Console().say(line)
    items = "\n".join("- `{}`".format(line.replace("`", "'")) for line in lines)
    write_summary(f"{heading}\n\n{items}")
