"""`servebench compare`: is HEAD faster or slower than BASE, and what could have been seen?"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from servebench import load, orphans, paths
from servebench.cli.options import (
    DEFAULT_SEED,
    ProfileOption,
    SeedOption,
    SelectOption,
    budget_option,
    budget_seconds,
    day,
    repository,
    require_writable,
)
from servebench.compare import again, keeping, revisions
from servebench.compare import sides as sides_
from servebench.compare import touched as touched_
from servebench.compare.model import Comparison
from servebench.compare.sides import Sides, Wanted
from servebench.compare.touched import Touched
from servebench.errors import RecordError, UsageError
from servebench.exclusive import measuring
from servebench.printing import Console
from servebench.progress import Narrator
from servebench.report.comparison import exit_code
from servebench.signals import InterruptedRun, interruptible

_AS_LOCKED: Final = "locked"


def compare_command(
    base: Annotated[
        str | None,
        typer.Argument(help="A revision; default: where HEAD left main.", show_default=False),
    ] = None,
    head: Annotated[
        str | None,
        typer.Argument(
            help="A revision; default: the files as they are, with what is not committed.",
            show_default=False,
        ),
    ] = None,
    stack_as_of: Annotated[
        list[str] | None,
        typer.Option(
            "--stack-as-of",
            metavar="DATE",
            help="Compare stacks: as locked with those of a date; given twice: base, then head. "
            f"'{_AS_LOCKED}' stands for the locks.",
        ),
    ] = None,
    with_: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="PACKAGE==VERSION",
            help="Compare stacks: as locked with such a package, 'granian==2.7.8'; repeatable.",
        ),
    ] = None,
    python: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--python", metavar="BASE HEAD", help="Compare two interpreters, e.g. 3.14 3.14t."
        ),
    ] = None,
    select: SelectOption = None,
    profile: ProfileOption = "quick",
    budget: Annotated[
        str | None,
        budget_option(
            "Time for measuring",
            "Default: until all is decided, or more duets would be no use.",
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Judge the cases that the change cannot touch as well.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the comparison as JSON.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", help="Write the report as Markdown.")
    ] = None,
    svg: Annotated[Path | None, typer.Option("--svg", help="Write the forest plot.")] = None,
    fail_on: Annotated[
        Literal["undecided", "slower"],
        typer.Option(
            "--fail-on",
            help="With 'slower' the exit code is 0 as long as anything was judged and nothing got "
            "slower: for gates that shall not fail because the time was too short.",
        ),
    ] = "undecided",
    seed: SeedOption = DEFAULT_SEED,
) -> None:
    """Compare HEAD with BASE on this machine, both measured together; judge what can have changed.

    Exit code 0: all that was to be judged was judged, and nothing got slower; or there was nothing
    to judge. 1: something got slower, or does not work any more. 3: something was not judged or
    not decided, and nothing that was got slower: a longer --budget may help. 4: it could not be
    measured.
    """
    limit = budget_seconds(budget)
    require_writable({"--output": output, "--markdown": markdown, "--svg": svg})
    console = Console(highlight=False)
    root = repository(console)
    found = orphans.reap()
    for sentence in found:
        console.print(f"note: {sentence}", markup=False, soft_wrap=True)
    load.sweep()
    narrator = Narrator(console)
    options = [word for glob in select or () for word in ("--select", glob)]
    options += ["--profile", profile, "--seed", str(seed)]
    options += (["--all"] if everything else []) + (["--budget", budget] if budget else [])
    with interruptible(), revisions.copies(narrator) as copies:
        wanted = Wanted(profile, tuple(select or ()), paths.state_dir() / "logs", narrator, copies)
        sides = _sides(root, (base, head), stack_as_of or [], with_ or [], python, wanted)
        touched = touched_.find(sides, everything=everything)
        reproduce = again.command(sides.base.record, sides.head.record, options)
        notes = (f"{len(found)} sessions that a killed run had left were found first",)
        comparison, interruption = _compared(
            sides,
            touched,
            limit,
            seed,
            console,
            reproduce=(reproduce,) if reproduce else (),
            notes=notes if found else (),
        )
    try:
        _write(comparison, output, markdown, svg)
    finally:
        _show(console, comparison)
    if interruption is not None:
        raise interruption
    code = exit_code(comparison, lenient=fail_on == "slower")
    if code:
        raise typer.Exit(code)


def _sides(
    root: Path,
    revisions: tuple[str | None, str | None],
    dates: list[str],
    pins: list[str],
    python: tuple[str, str] | None,
    wanted: Wanted,
) -> Sides:
    """Prepare what the command line asks for: one kind of comparison."""
    given = {
        "BASE": revisions[0] is not None,
        "--stack-as-of": bool(dates),
        "--with": bool(pins),
        "--python": python is not None,
    }
    named = [name for name, is_given in given.items() if is_given]
    if len(named) > 1:
        raise UsageError(f"{' and '.join(named)} were given: choose one kind of comparison")
    if len(dates) > 2:
        raise UsageError(f"--stack-as-of was given {len(dates)} times: expected base and head")
    if dates:
        days = [_day(text) for text in dates]
        first, second = (None, days[0]) if len(days) == 1 else (days[0], days[1])
        return sides_.of_dates(root, first, second, wanted)
    if pins:
        return sides_.of_packages(root, pins, wanted)
    if python is not None:
        return sides_.of_interpreters(root, *python, wanted)
    return sides_.of_revisions(root, *revisions, wanted)


def _day(text: str) -> date | None:
    if text == _AS_LOCKED:
        return None
    return day(text, "--stack-as-of", f", or {_AS_LOCKED!r}")


def _compared(
    sides: Sides,
    touched: Touched,
    limit: float | None,
    seed: int,
    console: Console,
    *,
    reproduce: tuple[str, ...],
    notes: tuple[str, ...],
) -> tuple[Comparison, InterruptedRun | None]:
    """Measure, if there is something to judge; an interrupted comparison is partial."""
    # Statistics take a second to import, which no other verb should wait for.
    from servebench.compare import session  # noqa: PLC0415
    from servebench.compare.draft import Header, unmeasured  # noqa: PLC0415
    from servebench.compare.progress import Reporter  # noqa: PLC0415

    header = Header(cross=sides.cross, reproduce=reproduce, notes=notes)
    if touched.nothing:
        return unmeasured(sides.base, sides.head, touched, header, limit), None
    told = Reporter(console)
    for sentence in touched.notes:
        told.note(sentence)
    sentence = (
        f"cases that can have changed: {len(touched.pairs)}; that cannot: {touched.untouched}"
    )
    sentence += f"; without counterpart: {len(touched.missing)}" if touched.missing else ""
    sentence += f"; in-process benchmarks: {len(touched.targets)}" if touched.targets else ""
    told.note(sentence)
    try:
        with measuring():
            return session.compare(
                sides.base, sides.head, touched, limit, seed, told, header=header
            ), None
    except session.InterruptedComparison as interruption:
        return interruption.comparison, interruption


def _write(
    comparison: Comparison, output: Path | None, markdown: Path | None, svg: Path | None
) -> None:
    """Write the files that were asked for.

    Raises:
        RecordError: One of them cannot be written.
    """
    from servebench.report import markdown as markdown_  # noqa: PLC0415
    from servebench.site.charts import forest  # noqa: PLC0415

    written: tuple[tuple[Path | None, Callable[[], str]], ...] = (
        (output, lambda: comparison.model_dump_json(indent=1) + "\n"),
        (markdown, lambda: markdown_.comparison(comparison)),
        (svg, lambda: forest.of_comparison(comparison)),
    )
    for path, text in written:
        if path is None:
            continue
        try:
            path.write_text(text(), "utf-8")
        except OSError as problem:
            raise RecordError(f"{path}: cannot be written: {problem.strerror}") from problem


def _show(console: Console, comparison: Comparison) -> None:
    from servebench.report.terminal import print_comparison  # noqa: PLC0415

    print_comparison(console, comparison)
    # Elsewhere the folder may be gone by the time that somebody reads this: a job's log, a room.
    if console.is_terminal and keeping.file_of(comparison).is_file():
        again = f"servebench show {comparison.id}"
        console.print(f"\nKept; to read it again: {again}", markup=False, soft_wrap=True)
