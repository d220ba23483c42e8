"""`duetbench ci detect`: where did a series move for good, and was it the stack?"""

import json
from collections import Counter
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Exit, Option

from duetbench.cli.options import DEFAULT_SEED, SeedOption, budget_option, budget_seconds, clean_up
from duetbench.cli.verbs import hook
from duetbench.core.errors import UsageError
from duetbench.github import actions
from duetbench.host import machine
from duetbench.host.console import Console, Narrator, errors
from duetbench.host.signals import interruptible
from duetbench.judge.counted import declared_jobs
from duetbench.judge.duet_loop import Reporter
from duetbench.judge.instruments import Real
from duetbench.project.project import Project
from duetbench.show.change import narrowed_line
from duetbench.show.formats import percent, series_title
from duetbench.store import files
from duetbench.store.change import Candidates, Change
from duetbench.trend import candidates, confirm, nights, reading
from duetbench.trend.releases import axes, narrowed
from duetbench.trend.table import tables


def detect_command(
    judge: Annotated[
        bool, Option("--confirm", help="Judge this machine's candidates by duets: measures.")
    ] = False,
    elsewhere: Annotated[
        bool, Option("--elsewhere", help="With --confirm: other machines' candidates, too.")
    ] = False,
    from_: Annotated[
        Path | None,
        Option(
            "--from",
            metavar="FILE",
            help="With --confirm: candidates of an earlier `detect --output`.",
        ),
    ] = None,
    to: Annotated[
        Path | None,
        Option("--to", metavar="FOLDER", help="Where to record it; default: results/ here."),
    ] = None,
    budget: Annotated[str, budget_option("With --confirm, time for measuring")] = "30m",
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE", help="Write the candidates.")
    ] = None,
    seed: SeedOption = DEFAULT_SEED,
) -> None:
    """Find series that moved for good when a stack changed, and confirm them by duets.

    $ duetbench ci detect --output candidates.json
    $ duetbench ci detect --confirm --from candidates.json --budget 30m

    Each machine's ratios to the anchor in this checkout's results are looked through (`duetbench ci
    history pull` fetches the nights). Steps near a change of their stack are candidates: one per
    change of a stack, however many series moved. Changes that were undone are closed. Where several
    releases lie between the versions of a culprit, and `duetbench backfill --releases` has measured
    them, the one is named.

    With --confirm, on the machine itself, the stacks before and after are measured together. Where
    that machine is no more, --elsewhere judges on this one, and the change says so. What
    is confirmed becomes results/changes/<id>.json, and so is what is not, as dismissed; the
    comparison is kept beside them. Nothing is judged twice. The functions behind what is confirmed
    are looked for at once, by counting instructions, and kept in results/attributions/<id>.json.

    Exit code 0: done. 1: a candidate could not be judged, with the reason.
    """
    if from_ is not None and not judge:
        raise UsageError("--from: the candidates of a file are there already: add --confirm")
    if elsewhere and not judge:
        raise UsageError("--elsewhere: nothing is judged without --confirm")
    project = Project.here()
    results = to or project.results
    if judge:
        files.require_room(results)
        found = files.read(Candidates, from_) if from_ is not None else _detected(project)[0]
        limit = budget_seconds(budget) or 0.0
        _confirm(project, found, results, limit, seed, elsewhere=elsewhere)
        return
    found, undone, closer, there = _detected(project)
    for record in (*undone, *closer):
        files.save(results, record)
    if output is not None:
        files.write(output, found)
    actions.outputs(_outputs(found, there))
    news = [f"closed: {record.id}: {record.note}" for record in undone]
    news += [f"{one.id}: {narrowed_line(one.narrowed)}" for one in closer if one.narrowed]
    lines = [*news, *map(_headline, found.candidates)]
    heading = f"### Detection: {len(found.candidates)} candidates"
    actions.summary("\n".join((heading, "", *(f"- {line}" for line in lines))))
    lines.append(
        f"{len(found.candidates)} candidates, {found.known} judged already; steps where no stack "
        f"changed (the machine, or our own commits): {len(found.unexplained)}"
    )
    if found.candidates:
        lines.append("judge them on their machines: duetbench ci detect --confirm")
    for line in lines:
        Console().say(line)


def _detected(
    project: Project,
) -> tuple[Candidates, tuple[Change, ...], tuple[Change, ...], frozenset[str]]:
    """Candidates, records that are undone now, others that are narrowed, and machines at work."""
    sources = reading.read(project.results)
    for problem in (*sources.problems, *sources.notes):
        errors().say(f"note: {problem}")
    every = [table for table in tables(sources.nights) if table.ratio]
    if not every:
        errors().say("note: there is no point against an anchor yet, and nothing else is searched")
    # Without such nights no declaration is read.
    inside = declared_jobs(project) if every else {}
    found = candidates.found(every, (*sources.changes, *sources.dismissed), inside)
    closer = {one.id: one for one in narrowed(sources.changes, axes(sources.points))}
    known = [closer.get(record.id, record) for record in sources.changes]
    undone = confirm.closed(
        known, {comparison.id: comparison for comparison in sources.comparisons}
    )
    for record in undone:
        closer.pop(record.id, None)
    # Ids begin with the time at which they were measured.
    latest = {night.machine: night.run for night in sorted(sources.nights, key=lambda one: one.run)}
    return found, undone, tuple(closer.values()), nights.present(latest)


def _confirm(
    project: Project,
    found: Candidates,
    results: Path,
    seconds: float,
    seed: int,
    *,
    elsewhere: bool,
) -> None:
    """Judge the candidates of this machine, or all."""
    here = machine.fingerprint().id
    ours = [one for one in found.candidates if elsewhere or one.series.machine == here]
    for candidate in found.candidates:
        if candidate not in ours:
            errors().say(
                f"note: {candidate.id} waits for its machine {candidate.series.machine}; where "
                "that is no more: --elsewhere"
            )
    clean_up(errors())
    console = Console()
    narrator = Narrator(console)
    judge = partial(
        confirm.compare_stacks, project, seed=seed, reporter=Reporter(console), make=Real
    )

    def explain(record: Change) -> None:
        hook("why:explain_change")(project, record, results, narrator)

    with interruptible():
        judged, left = confirm.confirm(
            ours, judge, seconds, results, log=console.say, explain=explain
        )
    sentences = [_sentence(record) for record in judged]
    for line in sentences if ours else [f"no candidate on this machine ({here})"]:
        console.say(line)
    actions.summary("\n".join(f"- {sentence}" for sentence in sentences) or "No change.")
    for name, why in left.items():
        errors().say(f"{name}: not judged: {why}")
    if left:
        raise Exit(1)


def _outputs(found: Candidates, machines: Collection[str]) -> dict[str, str]:
    """Outputs for a workflow: one job per machine that has candidates, and is there."""
    counts = Counter(
        candidate.series.machine
        for candidate in found.candidates
        if candidate.series.machine in machines
    )
    include = [{"machine": name, "runner": name, "candidates": n} for name, n in counts.items()]
    return {
        "matrix": json.dumps({"include": include}, separators=(",", ":")),
        "candidates": str(counts.total()),
    }


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
        f"{series_title(concluded.series.metric)} {percent(concluded.ratio)} "
        f"({percent(concluded.low)} to {percent(concluded.high)}), and "
        f"{len(concluded.others)} more series; not played: {len(concluded.unplayed)}"
    )
