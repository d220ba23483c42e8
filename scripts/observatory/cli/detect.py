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
from duetbench.judge.duet_loop import Reporter
from duetbench.report.formats import change
from observatory.matrix.checkout import Checkout
from observatory.store.change import Candidates, Change
from observatory.trend import candidates, confirm, reading


def detect_command(
    judge: Annotated[
        bool, Option("--confirm", help="Measure this machine's candidates by duets.")
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
    if from_ is not None and not judge:
        raise UsageError("--from is for --confirm: add it")
    project = Checkout.here("nightly")
    results = to or project.results
    if judge:
        files.require_room(results)
        detected = files.read(Candidates, from_) if from_ is not None else _detect(project)[0]
        _confirm(project, detected, results, budget_seconds(budget) or 0.0)
        return
    detected, undone, machines = _detect(project)
    results.mkdir(parents=True, exist_ok=True)  # even if empty: a workflow pushes it
    for record in undone:
        files.save(results, record)
    if output is not None:
        files.write(output, detected)
    counts = Counter(candidate.series.machine for candidate in detected.candidates)
    waiting = {name: n for name, n in counts.items() if name in machines}
    include = [{"machine": name, "runner": name, "candidates": n} for name, n in waiting.items()]
    matrix = json.dumps({"include": include}, separators=(",", ":"))
    actions.outputs({"matrix": matrix, "candidates": str(sum(waiting.values()))})
    lines = [f"closed: {record.id}: {record.note}" for record in undone]
    for candidate in detected.candidates:
        moved = ", ".join(map(str, candidate.packages)) or "the files of the same versions"
        series = f"{len(candidate.steps)} series on {candidate.series.machine}"
        lines.append(f"{candidate.id}: {series} moved with {moved}")
    lines.append(f"{len(detected.candidates)} candidates, {detected.known} judged already")
    write_summary("### Detection\n\n" + "\n".join(f"- {line}" for line in lines))
    for line in lines:
        Console().say(line)


def _detect(project: Checkout) -> tuple[Candidates, tuple[Change, ...], frozenset[str]]:
    """Return candidates, undone records, and active machines."""
    sources = reading.read(project.results)
    for problem in sources.problems:
        errors().say(f"note: {problem}")
    if not sources.tables:
        errors().say("note: there are no points against an anchor, and nothing else is searched")
    detected = candidates.detect(sources.tables, (*sources.changes, *sources.dismissed))
    return detected, confirm.close(sources.changes), candidates.present(sources.tables)


def _confirm(project: Checkout, detected: Candidates, results: Path, seconds: float) -> None:
    """Judge the candidates of this machine."""
    here, console, progress = machine.fingerprint().id, Console(), errors()
    own = [c for c in detected.candidates if c.series.machine == here]
    if others := {c.series.machine for c in detected.candidates} - {here}:
        progress.say(f"note: other candidates wait for {', '.join(sorted(others))}")
    clean_up(progress)
    reporter = Reporter(console)
    explain = partial(resolve_name("duetbench.cli.why:explain_comparison"), narrator=reporter)
    judge = partial(confirm.compare_stacks, project, reporter=reporter, explain=explain)
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


def _sentence(record: Change) -> str:
    if not record.confirmed:
        return f"{record.id}: not confirmed ({record.verdict}): {record.note}"
    causes = ", ".join(map(str, record.releases)) or record.unsettled or "not searched for"
    return (
        f"{record.id}: {record.verdict}: {record.series.case} {row(record.series.metric).title} "
        f"{change(record.ratio)} ({change(record.low)} to {change(record.high)}), and "
        f"{len(record.others)} more series; not measured: {len(record.unplayed)}; cause: {causes}"
    )
