"""`observatory detect`: where did a series move for good, and did its stack change there?"""

import json
from collections import Counter
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated

from typer import Exit, Option

from duetbench.ci import actions
from duetbench.cli.options import budget_option, budget_seconds, clean_up
from duetbench.core.errors import UsageError
from duetbench.core.metrics import row
from duetbench.host import files, machine
from duetbench.host.console import Console, errors, write_summary
from duetbench.judge.comparison import DEFAULT_SEED
from duetbench.judge.duet_loop import Reporter
from duetbench.report.formats import change
from observatory.matrix.checkout import Checkout
from observatory.store.change import Candidates, Change
from observatory.trend import candidates, confirm, reading


def detect_command(
    judge: Annotated[
        bool, Option("--confirm", help="Measure this machine's candidates by duets.")
    ] = False,
    elsewhere: Annotated[
        bool, Option("--elsewhere", help="With --confirm: also those of other machines.")
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
) -> None:
    """Find series that moved for good when a stack changed, and confirm them by duets.

    $ observatory detect --output candidates.json
    $ observatory detect --confirm --from candidates.json --budget 30m

    Searches each machine's ratios to the anchor in this checkout's results. Steps near a change of
    their stack are candidates: one per change of a stack. Changes that were undone are closed.

    With --confirm, this machine measures the stacks before and after its candidates together, and
    half of the time searches for the release that did it. Each becomes results/changes/<id>.json,
    with its comparison; nothing is judged twice.

    Exit code 0: done. 1: a candidate could not be judged, with the reason.
    """
    if (from_ is not None or elsewhere) and not judge:
        raise UsageError("--from and --elsewhere are for --confirm: add it")
    project = Checkout.here("nightly")
    results = to or project.results
    if judge:
        files.require_room(results)
        detected = files.read(Candidates, from_) if from_ is not None else _detect(project)[0]
        _confirm(project, detected, results, budget_seconds(budget) or 0.0, elsewhere=elsewhere)
        return
    detected, undone, machines = _detect(project)
    results.mkdir(parents=True, exist_ok=True)  # even if empty: a workflow pushes it
    for record in undone:
        files.save(results, record)
    if output is not None:
        files.write(output, detected)
    counts = Counter(candidate.series.machine for candidate in detected.candidates)
    include = [
        {"machine": name, "runner": name, "candidates": n}
        for name, n in counts.items()
        if name in machines
    ]
    matrix = json.dumps({"include": include}, separators=(",", ":"))
    actions.outputs({"matrix": matrix, "candidates": str(sum(counts[n] for n in machines))})
    lines = [f"closed: {record.id}: {record.note}" for record in undone]
    lines += map(_headline, detected.candidates)
    heading = f"### Detection: {len(detected.candidates)} candidates"
    write_summary("\n".join((heading, "", *(f"- {line}" for line in lines))))
    lines.append(f"{len(detected.candidates)} candidates, {detected.known} judged already")
    if detected.candidates:
        lines.append("judge them on their machines: observatory detect --confirm")
    for line in lines:
        Console().say(line)


def _detect(project: Checkout) -> tuple[Candidates, tuple[Change, ...], frozenset[str]]:
    """Return candidates, undone records, and active machines."""
    sources = reading.read(project.results, with_runs=False)
    for problem in (*sources.problems, *sources.notes):
        errors().say(f"note: {problem}")
    if not sources.tables:
        errors().say("note: there are no points against an anchor, and nothing else is searched")
    detected = candidates.detect(sources.tables, (*sources.changes, *sources.dismissed))
    return detected, confirm.close(sources.changes), candidates.present(sources.tables)


def _confirm(
    project: Checkout, detected: Candidates, results: Path, seconds: float, *, elsewhere: bool
) -> None:
    """Judge the candidates of this machine, or all."""
    here, console, progress = machine.fingerprint().id, Console(), errors()
    own = [c for c in detected.candidates if elsewhere or c.series.machine == here]
    for candidate in detected.candidates:
        if candidate not in own:
            progress.say(
                f"note: {candidate.id} waits for its machine {candidate.series.machine}; if that "
                "no longer exists: --elsewhere"
            )
    clean_up(progress)
    reporter = Reporter(console)
    explain = partial(resolve_name("duetbench.cli.why:explain_comparison"), narrator=reporter)
    judge = partial(
        confirm.compare_stacks, project, seed=DEFAULT_SEED, reporter=reporter, explain=explain
    )
    find = resolve_name("observatory.trend.cause:search")
    judged, left = confirm.confirm(
        own, judge, seconds, results, log=console.say,
        search=lambda change, rest: find(project, change, rest, reporter),
    )  # fmt: skip
    sentences = [_sentence(record) for record in judged]
    for line in sentences if own else [f"no candidate on this machine ({here})"]:
        console.say(line)
    write_summary("\n".join(f"- {sentence}" for sentence in sentences) or "No change.")
    for name, reason in left.items():
        progress.say(f"{name}: not judged: {reason}")
    if left:
        raise Exit(1)


def _headline(candidate: Change) -> str:
    moved = ", ".join(map(str, candidate.packages)) or "the files of the same versions"
    return (
        f"{candidate.id}: {len(candidate.steps)} series on {candidate.series.machine} moved with "
        f"{moved}"
    )


def _sentence(concluded: Change) -> str:
    if not concluded.confirmed:
        return f"{concluded.id}: not confirmed ({concluded.verdict}): {concluded.note}"
    return (
        f"{concluded.id}: {concluded.verdict}: {concluded.series.case} "
        f"{row(concluded.series.metric).title} {change(concluded.ratio)} "
        f"({change(concluded.low)} to {change(concluded.high)}), and "
        f"{len(concluded.others)} more series; not measured: {len(concluded.unplayed)}; cause: "
        f"{', '.join(map(str, concluded.releases)) or concluded.unsettled or 'not searched for'}"
    )
