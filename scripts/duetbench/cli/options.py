"""What several commands share: options, readers of their values, and the start of a measurement."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any, Final

from typer import Option

from duetbench.core import units
from duetbench.core.errors import UsageError
from duetbench.host import files, paths, process_session
from duetbench.host.console import STANDARD, Console, write
from duetbench.host.machine import measuring

WORDS: Final = "KEY=VALUE, of python, server, lock, env.NAME, …, or PACKAGE==VERSION"

_TIMES: Final = "180s, 5m, 1h or 1h30m"

SelectOption = Annotated[
    list[str] | None,
    Option(
        "--select",
        metavar="GLOB",
        help="Only cases whose id matches this glob, e.g. 'shop/*'; repeatable.",
    ),
]

LaunchesOption = Annotated[
    int | None,
    Option("--launches", metavar="N", min=1, help="Server starts per case (1); 3 give verdicts."),
]

JsonOption = Annotated[bool, Option("--json", help="Print JSON.")]

ReportsOption = Annotated[
    list[Path] | None,
    Option(
        "-o",
        metavar="FILE",
        help="Write FILE.json, FILE.md or FILE.html; repeatable. -: JSON on standard output.",
    ),
]

BaseOption = Annotated[
    list[str] | None,
    Option("--base", metavar="WORD", help=f"What base has otherwise: {WORDS}; repeatable."),
]

HeadOption = Annotated[
    list[str] | None,
    Option("--head", metavar="WORD", help="What head has otherwise, likewise; repeatable."),
]

SecondsOption = Annotated[
    float | None,
    Option("--seconds", metavar="SECONDS", min=0.5, help="Seconds of load per case, e.g. 10."),
]

WaitOption = Annotated[
    str | None,
    Option("--wait", metavar="TIME", help="Wait at most this long for another one, e.g. 10m."),
]


def budget_option(purpose: str, more: str = "") -> Any:
    """Return the option `--budget`, read by `budget_seconds`; `more` follows the format."""
    return Option("--budget", metavar="TIME", help=f"{purpose}: {_TIMES}. {more}".rstrip())


def budget_seconds(text: str | None, option: str = "--budget") -> float | None:
    """Read the time of an option, such as 90s, 20m, 1h30m, in seconds; raises UsageError."""
    total = None if text is None else units.read_time(text)
    if text is not None and not total:
        raise UsageError(f"{option} {text!r}: expected a time such as {_TIMES}")
    return total


def clean_up(console: Console) -> None:
    """End processes that killed runs left on this machine; print a sentence for each."""
    for sentence in process_session.reap():
        console.say(f"note: {sentence}")
    paths.sweep_scratch()


def machine(
    wait: str | None, console: Console, *, timed: bool = True
) -> AbstractContextManager[None]:
    """Clean this machine up, and hold it for a measurement.

    Preparations belong to it, since they would disturb another one. `wait` is the value of --wait,
    and the console is told what it waits for. What is not `timed` needs no machine of its own.
    """
    clean_up(console)
    patience = budget_seconds(wait, "--wait") or 0.0
    return measuring(patience, console.say) if timed else nullcontext()


def repository(console: Console) -> Path:
    """Find the repository to measure, and print its path; UsageError if there is none."""
    root = paths.project_root(stand_in=False)
    console.say(f"repository: {root}")
    return root


def reports(paths: Sequence[Path] | None, *kinds: str, as_json: bool = False) -> list[Path]:
    """Check the files of -o, with that of --json, whose suffixes must be among `kinds`.

    Raises UsageError if a path can be no file of these kinds, RecordError if it cannot be written.
    """
    for path in paths or ():
        if path != STANDARD:
            if path.suffix not in kinds:
                raise UsageError(f"-o {path}: expected a file {' or '.join(kinds)}, or -: JSON")
            files.require_writable(path)
    return [*(paths or ()), *[STANDARD] * as_json]


def write_reports(paths: Sequence[Path], texts: Mapping[str, Callable[[], str]]) -> None:
    """Write each file, with the text of its suffix; RecordError if it cannot be written."""
    for path in paths:
        write(texts[path.suffix or ".json"](), path)
