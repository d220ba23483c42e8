"""`duetbench ci detect`: where did a series move for good, and was it the stack?"""

import json
from collections import Counter
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Final

from rich.table import Table
from typer import Exit, Option

from duetbench.cli.options import (
    DEFAULT_SEED,
    JsonOption,
    SeedOption,
    budget_option,
    budget_seconds,
    clean_up,
    tell,
)
from duetbench.cli.verbs import hook
from duetbench.core.errors import UsageError
from duetbench.core.units import Interval
from duetbench.github import actions
from duetbench.host import machine, paths
from duetbench.host.console import Console, Narrator, errors, print_json
from duetbench.host.signals import interruptible
from duetbench.judge.counted import declared_jobs
from duetbench.judge.loop import Reporter
from duetbench.project.project import Project
from duetbench.show.change import narrowed_line, title
from duetbench.show.formats import ends, percent
from duetbench.store import change, files
from duetbench.store.change import Candidates, Change, Step
from duetbench.store.comparison import COMPARISONS, Comparison
from duetbench.trend import reading
from duetbench.trend.candidates import searched, unjudged
from duetbench.trend.conclude import closed, grown
from duetbench.trend.confirm import RealDuets
from duetbench.trend.confirm import confirm as conclude
from duetbench.trend.narrowing import narrowed
from duetbench.trend.nights import present
from duetbench.trend.releases import axes
from duetbench.trend.table import tables as tables_of

_SHOWN: Final = 5  # series of a candidate, and steps without a cause, that are printed


def detect_command(
    confirm: Annotated[
        bool, Option("--confirm", help="Judge this machine's candidates by duets: measures.")
    ] = False,
    elsewhere: Annotated[
        bool,
        Option(
            "--elsewhere",
            help="With --confirm: candidates of other machines, too. The size is then this one's.",
        ),
    ] = False,
    from_: Annotated[
        Path | None,
        Option("--from", help="With --confirm: candidates of an earlier `detect --output`."),
    ] = None,
    to: Annotated[
        Path | None,
        Option("--to", help="Results folder for what is recorded; default: this checkout's."),
    ] = None,
    budget: Annotated[str, budget_option("With --confirm, time for measuring")] = "30m",
    output: Annotated[Path | None, Option("--output", "-o", help="Write the candidates.")] = None,
    as_json: JsonOption = False,
    seed: SeedOption = DEFAULT_SEED,
) -> None:
    """Find series that moved for good when a stack changed, and confirm them by duets.

    Each machine's series of this checkout's results (`duetbench ci history pull` fetches the
    nights) are looked through: the ratios to the anchor, and of what has none the figures of server
    runs from their last break on, and those inside the process that a comparison can play (git
    tells with which locks a commit was measured). Steps
    near a change of their stack are candidates: one per change of a stack, however many series
    moved. Changes that were undone are closed; to those between whose stacks other series have
    stepped since, these are added, as not played. Where several releases lie between the versions
    of a culprit, and `duetbench backfill --releases` has measured them, the one is named.

    With --confirm, on the machine itself, the stacks before and after are measured together. Where
    that machine is no more, --elsewhere judges on this one, and the change says so. What
    is confirmed becomes results/changes/<id>.json, and so is what is not, as dismissed; the
    comparison is kept beside them. Nothing is judged twice. The functions behind what is confirmed
    are looked for at once, by counting instructions, and kept in results/attributions/<id>.json.

    Exit code 0: done. 1: a candidate could not be judged, with the reason.
    """
    if from_ is not None and not confirm:
        raise UsageError("--from: the candidates of a file are there already: add --confirm")
    if elsewhere and not confirm:
        raise UsageError("--elsewhere: nothing is judged without --confirm")
    project = Project.here()
    results = to or project.results
    if confirm:
        files.require_room(results)
        _confirm(
            project,
            from_,
            results,
            budget_seconds(budget) or 0.0,
            seed,
            elsewhere=elsewhere,
            as_json=as_json,
        )
        return
    candidates, undone, more, there = _detected(project)
    for record in (*undone, *more):
        change.save(results, record)
    if output is not None:
        files.write(output, candidates)
    actions.outputs(_outputs(candidates, there))
    lines = [f"- {_headline(candidate)}" for candidate in candidates.candidates]
    lines += [f"- closed: `{record.id}`: {record.note}" for record in undone]
    heading = f"### Detection: {len(candidates.candidates)} candidates"
    actions.summary("\n".join((heading, "", *lines)))
    if as_json:
        print_json(
            {**candidates.model_dump(mode="json"), "closed": [record.id for record in undone]}
        )
    else:
        _show(Console(), candidates, undone, more)


def _detected(
    project: Project,
) -> tuple[Candidates, tuple[Change, ...], tuple[Change, ...], frozenset[str]]:
    """Candidates, records that are undone now, others that are grown, and machines at work."""
    results = project.results
    sources = reading.read(results, paths.cache_dir() / "site")
    tables = tables_of(sources.nights)
    names = sorted({record.evidence for record in sources.changes if record.evidence})
    places = (results / COMPARISONS / f"{name}.json" for name in names)
    unread: list[str] = []
    read = files.attempted(filter(Path.is_file, places), partial(files.read, Comparison), unread)
    evidence = {comparison.id: comparison for comparison in read}
    for problem in (*sources.problems, *sources.notes, *unread):
        errors().say(f"note: {problem}")
    # Without such nights no declaration is read.
    inside = declared_jobs(project) if any(table.track.ratio for table in tables) else {}
    every = searched(tables, inside)
    candidates = unjudged(every, (*sources.changes, *sources.dismissed))
    all_candidates = [candidate for table in every for candidate in table.candidates]
    new: dict[str, Change] = {}

    def known() -> list[Change]:
        return [new.get(record.id, record) for record in sources.changes]

    new |= {record.id: record for record in grown(known(), all_candidates, evidence)}
    new |= {record.id: record for record in narrowed(known(), axes(sources.points))}
    undone = closed(known(), evidence)
    for record in undone:
        new.pop(record.id, None)
    # Ids begin with the time at which they were measured.
    latest: dict[str, str] = {}
    for table in tables:
        newest = max(night.run for night in table.nights)
        latest[table.machine] = max(latest.get(table.machine, ""), newest)
    return candidates, undone, tuple(new.values()), present(latest)


def _confirm(
    project: Project,
    from_: Path | None,
    results: Path,
    seconds: float,
    seed: int,
    *,
    elsewhere: bool,
    as_json: bool,
) -> None:
    """Judge the candidates of this machine, or all."""
    candidates = files.read(Candidates, from_) if from_ is not None else _detected(project)[0]
    here = machine.fingerprint().id
    ours = [one for one in candidates.candidates if elsewhere or one.series.machine == here]
    for candidate in candidates.candidates:
        if candidate not in ours:
            errors().say(
                f"note: {candidate.id} waits for its machine {candidate.series.machine}; where "
                "that is no more: --elsewhere"
            )
    clean_up(errors())
    console = Console(stderr=as_json)
    narrator = Narrator(console)
    judge = RealDuets(project, seed, Reporter(console), narrator)

    def explain(change: Change) -> None:
        hook("why:explain_change")(project, change, results, narrator)

    with interruptible():
        conclusions = conclude(ours, judge, seconds, results, log=console.say, explain=explain)
    document = {
        "confirmed": [
            record.model_dump(mode="json") for record in conclusions.judged if record.confirmed
        ],
        "dismissed": [
            record.model_dump(mode="json") for record in conclusions.judged if not record.confirmed
        ],
        "left": {candidate.id: why for candidate, why in conclusions.left},
    }
    lines = [*map(_sentence, conclusions.judged)]
    lines += [] if ours else [f"no candidate on this machine ({here})"]
    tell(lines, lambda: document, as_json=as_json)
    summary = [f"- {_sentence(record)}" for record in conclusions.judged if record.confirmed]
    actions.summary("\n".join(summary) or "No change.")
    for candidate, why in conclusions.left:
        errors().say(f"{candidate.id}: not judged: {why}")
    if conclusions.left:
        raise Exit(1)


def _outputs(candidates: Candidates, machines: Collection[str]) -> dict[str, str]:
    """Outputs for a workflow: one job per machine that has candidates, and is there."""
    counts = Counter(
        candidate.series.machine
        for candidate in candidates.candidates
        if candidate.series.machine in machines
    )
    include = [{"machine": name, "runner": name, "candidates": n} for name, n in counts.items()]
    return {
        "matrix": json.dumps({"include": include}, separators=(",", ":")),
        "machines": json.dumps(list(counts), separators=(",", ":")),
        "candidates": str(counts.total()),
    }


def _show(
    console: Console,
    candidates: Candidates,
    undone: Sequence[Change],
    more: Sequence[Change],
) -> None:
    for record in undone:
        console.say(f"closed: {record.id}: {record.note}")
    for record in more:
        if record.narrowed:
            console.say(f"{record.id}: {narrowed_line(record.narrowed)}")
        if record.unplayed:
            console.say(
                f"{record.id}: {len(record.unplayed)} series stepped with it and were not played"
            )
    for candidate in candidates.candidates:
        console.say(_headline(candidate))
        table = Table("case", "metric", "change", "nights")
        for step in candidate.steps[:_SHOWN]:
            nights = f"{step.nights[0]} + {step.nights[1]}"
            table.add_row(step.series.case, title(step.series.metric), _size(step), nights)
        console.print(table)
        if len(candidate.steps) > _SHOWN:
            console.say(f"and {len(candidate.steps) - _SHOWN} more series")
    if candidates.unexplained:
        console.say(
            f"{len(candidates.unexplained)} steps where no stack changed (the machine, or our own "
            "commits); the strongest:"
        )
    for step in sorted(candidates.unexplained, key=lambda step: -step.strength)[:_SHOWN]:
        console.say(
            f"  {step.series.case} {title(step.series.metric)} {_size(step)} at "
            f"{step.after_run} on {step.series.machine}"
        )
    next_ = "; judge them on their machines: duetbench ci detect --confirm"
    hint = next_ if candidates.candidates else ""
    console.say(f"{len(candidates.candidates)} candidates, {candidates.known} judged already{hint}")


def _size(step: Step) -> str:
    """A step, with its interval where it has one."""
    within = f" ({ends(Interval(step.ratio, *step.within))})" if step.within else ""
    return percent(step.ratio) + within


def _headline(candidate: Change) -> str:
    moved = ", ".join(
        f"{move.package} {move.base or '—'} → {move.head or '—'}" for move in candidate.packages
    )
    return (
        f"{candidate.id}: {len(candidate.steps)} series on {candidate.series.machine} moved with "
        f"{moved or 'the files of the same versions'}"
    )


def _sentence(concluded: Change) -> str:
    if not concluded.confirmed:
        return f"{concluded.id}: not confirmed ({concluded.verdict}): {concluded.note}"
    return (
        f"{concluded.id}: {concluded.verdict}: {concluded.series.case} "
        f"{title(concluded.series.metric)} {percent(concluded.ratio)} "
        f"({percent(concluded.low)} to {percent(concluded.high)}), and "
        f"{len(concluded.others)} more series; not played: {len(concluded.unplayed)}"
    )
