"""`servebench ci detect`: where did a series move for good, and was it the stack?"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.table import Table

from servebench import actions, changes, files, load, machine, orphans, paths
from servebench.changes import ChangeRecord
from servebench.cli.options import (
    DEFAULT_SEED,
    FOR_WORKFLOWS,
    SeedOption,
    budget_option,
    budget_seconds,
)
from servebench.compare import keeping
from servebench.compare.model import Comparison
from servebench.detect.model import (
    Candidate,
    Candidates,
    Dismissal,
)
from servebench.errors import RecordError, UsageError
from servebench.night.planning import present
from servebench.printing import Console
from servebench.progress import Narrator
from servebench.report.change import title
from servebench.report.formats import percent
from servebench.signals import interruptible

_SHOWN: Final = 5  # series of a candidate, and steps without a cause, that are printed


def detect_command(
    confirm: Annotated[
        bool,
        typer.Option("--confirm", help="Judge this machine's candidates by duets: measures."),
    ] = False,
    from_: Annotated[
        Path | None,
        typer.Option("--from", help="With --confirm: candidates of an earlier `detect --output`."),
    ] = None,
    from_sha256: Annotated[
        str | None,
        typer.Option(
            "--from-sha256",
            rich_help_panel=FOR_WORKFLOWS,
            help="What its SHA-256 must be, from a job's output.",
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", help="Results folder for what is recorded; default: this checkout's."),
    ] = None,
    budget: Annotated[str, budget_option("With --confirm, time for measuring")] = "30m",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the candidates.")
    ] = None,
    github_output: Annotated[
        bool,
        typer.Option(
            "--github-output",
            rich_help_panel=FOR_WORKFLOWS,
            help="Hand the machines to a workflow: matrix, candidates and sha256 in GITHUB_OUTPUT.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    seed: SeedOption = DEFAULT_SEED,
) -> None:
    """Find series that moved for good when a stack changed, and confirm them by duets.

    Each machine's series of this checkout's results (`servebench ci history pull` fetches the
    nights) are looked through, from their last break on: those of server runs, and those inside the
    process that a comparison can play (git tells with which locks a commit was measured). Steps
    near a change of their stack are candidates: one per change of a stack, however many series
    moved. Changes that were undone are closed.

    With --confirm, on the machine itself, the stacks before and after are measured together. What
    is confirmed becomes results/changes/<id>.json, what is not, results/dismissed/<id>.json; the
    comparison is kept beside them. Nothing is judged twice.

    Exit code 0: done. 1: a candidate could not be judged, with the reason.
    """
    if from_ is not None and not confirm:
        raise UsageError("--from: the candidates of a file are there already: add --confirm")
    if from_ is not None and from_sha256 is not None:
        from servebench.artifacts.accepting import require_digest  # noqa: PLC0415 - as below

        require_digest(from_, from_sha256)
    console = Console(highlight=False)
    results = to or paths.results_dir()
    if confirm:
        files.require_room(results)
        _confirm(from_, results, budget_seconds(budget), seed, console, as_json=as_json)
        return
    found, undone, there = _detected(paths.results_dir())
    for record in undone:
        changes.save(results, record)
    if output is not None:
        files.write(output, found)
    if github_output:
        actions.outputs(_outputs(found, there))
    actions.summary(_markdown(found, undone))
    if as_json:
        described = found.model_dump(mode="json")
        typer.echo(json.dumps({**described, "closed": [record.id for record in undone]}))
        return
    _show(console, found, undone)


def _detected(results: Path) -> tuple[Candidates, tuple[ChangeRecord, ...], frozenset[str]]:
    """What moved, which changes were undone, and the machines that still measure nights."""
    # numpy, and all of the site's reading: only this verb waits for them.
    from servebench.detect import declared  # noqa: PLC0415
    from servebench.detect.candidates import detect  # noqa: PLC0415
    from servebench.detect.conclude import closed  # noqa: PLC0415
    from servebench.detect.model import dismissals  # noqa: PLC0415
    from servebench.series import reading  # noqa: PLC0415
    from servebench.series.table import tables as tables_of  # noqa: PLC0415

    root = paths.project_root()
    sources = reading.read(results, paths.cache_dir() / "site", root)
    tables = tables_of(sources.nights)
    evidence, unread = _evidence(results, sources.changes)
    dismissed, unreadable = dismissals(results)
    errors = Console(stderr=True, highlight=False)
    for problem in (*sources.problems, *sources.notes, *unread, *unreadable):
        errors.print(f"note: {problem}", markup=False, soft_wrap=True)
    undone = closed(sources.changes, evidence)
    # Without such nights no declaration is read.
    inside = declared.benchmarks(root) if any(not table.track.served for table in tables) else {}
    found = detect(tables, sources.changes, dismissed, inside)
    latest = {table.machine: table.nights[-1].run for table in tables if table.track.served}
    return found, undone, present(latest)


def _evidence(
    results: Path, records: Sequence[ChangeRecord]
) -> tuple[dict[str, Comparison], list[str]]:
    """The comparisons that records name, as far as they are kept, and what cannot be read."""
    found: dict[str, Comparison] = {}
    problems: list[str] = []
    for name in sorted({record.evidence for record in records if record.evidence}):
        path = results / keeping.FOLDER / f"{name}.json"
        if path.is_file():
            try:
                found[name] = keeping.read(path)
            except RecordError as problem:
                problems.append(str(problem))
    return found, problems


def _confirm(
    from_: Path | None,
    results: Path,
    seconds: float | None,
    seed: int,
    console: Console,
    *,
    as_json: bool,
) -> None:
    """Judge the candidates of this machine."""
    from servebench.compare.progress import Reporter  # noqa: PLC0415 - statistics take a second
    from servebench.detect.confirm import confirm  # noqa: PLC0415
    from servebench.detect.duets import RealDuets  # noqa: PLC0415

    errors = Console(stderr=True, highlight=False)
    found = (
        files.read(Candidates, from_) if from_ is not None else _detected(paths.results_dir())[0]
    )
    here = machine.fingerprint().id
    ours = [candidate for candidate in found.candidates if candidate.machine == here]
    for candidate in found.candidates:
        if candidate.machine != here:
            errors.print(
                f"note: {candidate.id} waits for its machine {candidate.machine}", markup=False
            )
    for sentence in orphans.reap():
        errors.print(f"note: {sentence}", markup=False, soft_wrap=True)
    load.sweep()
    told = errors if as_json else console
    judge = RealDuets(paths.project_root(), seed, Reporter(told), Narrator(told))
    with interruptible():
        confirmed = confirm(
            ours,
            judge,
            seconds or 0.0,
            results,
            told=lambda sentence: told.print(sentence, markup=False, soft_wrap=True),
        )
    if as_json:
        described = {
            "confirmed": [record.model_dump(mode="json") for record in confirmed.records],
            "dismissed": [one.model_dump(mode="json") for one in confirmed.dismissed],
            "left": {candidate.id: why for candidate, why in confirmed.left},
        }
        typer.echo(json.dumps(described))
    else:
        both: list[ChangeRecord | Dismissal] = [*confirmed.records, *confirmed.dismissed]
        for concluded in both:
            console.print(_sentence(concluded), markup=False, soft_wrap=True)
        if not ours:
            console.print(f"no candidate on this machine ({here})", markup=False)
    actions.summary("\n".join(f"- {_sentence(one)}" for one in confirmed.records) or "No change.")
    for candidate, why in confirmed.left:
        errors.print(f"{candidate.id}: not judged: {why}", markup=False, soft_wrap=True)
    if confirmed.left:
        raise typer.Exit(1)


def _outputs(found: Candidates, machines: Collection[str]) -> dict[str, str]:
    """What a workflow needs of the candidates: one job per machine that has any, and is there."""
    counts: dict[str, int] = {}
    for candidate in found.candidates:
        if candidate.machine in machines:
            counts[candidate.machine] = counts.get(candidate.machine, 0) + 1
    include = [
        {"machine": name, "runner": name, "candidates": count} for name, count in counts.items()
    ]
    return {
        "matrix": json.dumps({"include": include}, separators=(",", ":")),
        "machines": json.dumps(list(counts), separators=(",", ":")),
        "candidates": str(sum(counts.values())),
        "sha256": hashlib.sha256(files.encode(found)).hexdigest(),
    }


def _show(console: Console, found: Candidates, undone: Sequence[ChangeRecord]) -> None:
    for record in undone:
        console.print(f"closed: {record.id}: {record.note}", markup=False, soft_wrap=True)
    for candidate in found.candidates:
        console.print(_headline(candidate), markup=False, soft_wrap=True)
        table = Table("case", "metric", "change", "nights")
        for step in candidate.steps[:_SHOWN]:
            table.add_row(
                step.series.case,
                title(step.series.metric),
                percent(step.ratio),
                f"{step.nights[0]} + {step.nights[1]}",
            )
        console.print(table)
        if len(candidate.steps) > _SHOWN:
            console.print(f"and {len(candidate.steps) - _SHOWN} more series")
    if found.unexplained:
        console.print(
            f"{len(found.unexplained)} steps where no stack changed (the machine, or our own "
            "commits); the strongest:"
        )
        strongest = sorted(found.unexplained, key=lambda step: -step.strength)
        for step in strongest[:_SHOWN]:
            console.print(
                f"  {step.series.case} {title(step.series.metric)} {percent(step.ratio)} at "
                f"{step.after_run} on {step.series.machine}",
                markup=False,
                soft_wrap=True,
            )
    console.print(
        f"{len(found.candidates)} candidates, {found.known} judged already"
        + (
            "; judge them on their machines: servebench ci detect --confirm"
            * bool(found.candidates)
        ),
        soft_wrap=True,
    )


def _markdown(found: Candidates, undone: Sequence[ChangeRecord]) -> str:
    lines = [f"### Detection: {len(found.candidates)} candidates", ""]
    lines += [f"- {_headline(candidate)}" for candidate in found.candidates]
    lines += [f"- closed: `{record.id}`: {record.note}" for record in undone]
    return "\n".join(lines) + "\n"


def _headline(candidate: Candidate) -> str:
    moved = ", ".join(
        f"{move.package} {move.base or '—'} → {move.head or '—'}" for move in candidate.packages
    )
    return (
        f"{candidate.id}: {len(candidate.steps)} series on {candidate.machine} moved with "
        f"{moved or 'the files of the same versions'}"
    )


def _sentence(concluded: ChangeRecord | Dismissal) -> str:
    if isinstance(concluded, Dismissal):
        return f"{concluded.id}: not confirmed ({concluded.verdict}): {concluded.note}"
    return (
        f"{concluded.id}: {concluded.verdict}: {concluded.series.case} "
        f"{title(concluded.series.metric)} {percent(concluded.ratio)} "
        f"({percent(concluded.low)} to {percent(concluded.high)}), and "
        f"{len(concluded.others)} more series; not played: {len(concluded.unplayed)}"
    )
