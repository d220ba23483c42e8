"""`observatory detect` and `confirm`: series that moved for good, and duets of their stacks."""

import json
from pathlib import Path
from typing import Annotated

from duetbench.ci import actions
from duetbench.cli.options import budget_option, budget_seconds, clean_up
from duetbench.host import files, machine, result_files
from duetbench.host.console import Console, errors
from duetbench.judge.duet_loop import Reporter
from duetbench.report.cause import cause_lines
from observatory.cli.options import OUTPUT, ResultsOption, report
from observatory.matrix.checkout import Checkout
from observatory.show import quoting
from observatory.store import kinds
from observatory.store.change import Candidates, Change
from observatory.store.points import Points
from observatory.trend import candidates, confirm
from observatory.trend.table import tables


def detect_command(*, output: Annotated[Path, OUTPUT], results: ResultsOption = None) -> None:
    """Find series that moved for good when a stack changed.

    $ observatory detect --output candidates.json

    Searches each machine's ratios to the anchor in the results. Steps near a change of their stack
    are candidates: one per change of a stack.

    Args:
        output: Write the candidates.
    """
    results = results or Checkout.here().results
    problems = list[str]()
    every = tables(kinds.read_all(Points, results, problems))
    dated = [table for table in every if not table.package]
    known = kinds.read_all(Change, results, problems)
    for problem in problems:
        errors().say(f"note: {problem}")
    detected = candidates.detect(dated, known)
    files.write(output, detected)
    machines = sorted({candidate.series.machine for candidate in detected.candidates})
    actions.outputs({"machines": json.dumps(machines)})
    lines = list[str]()
    for candidate in detected.candidates:
        moved = ", ".join(map(str, candidate.packages)) or "the files of the same versions"
        series = f"{len(candidate.steps)} series on {candidate.series.machine}"
        lines.append(f"{candidate.id}: {series} moved with {moved}")
    lines.append(f"{len(detected.candidates)} candidates")
    report(lines, "### Detection")


def confirm_command(
    file: Path,
    /,
    *,
    budget: Annotated[str, budget_option("Time for measuring")] = "30m",
    results: ResultsOption = None,
) -> int:
    """Judge this machine's candidates by duets, and search for the releases behind them.

    $ observatory confirm candidates.json --budget 30m

    Measures the stacks before and after each candidate together. Half of the time is for the
    search. Each becomes changes/<id>.json in the results, with its comparison.

    Exit code 0: done. 1: a candidate could not be judged, with the reason.

    Args:
        file: Candidates, of `observatory detect`.
    """
    project, here = Checkout.here("nightly"), machine.fingerprint().id
    results, console, progress = results or project.results, Console(), errors()
    files.require_room(results)
    detected = result_files.read(Candidates, file).candidates
    own = [candidate for candidate in detected if candidate.series.machine == here]
    clean_up(progress)
    seconds, reporter = budget_seconds(budget) or 0.0, Reporter(console)
    judged, left = confirm.confirm(project, own, seconds, results, reporter)
    lines = [_sentence(record) for record in judged]
    report(lines if own else [f"no candidate on this machine ({here})"], "### Changes")
    for name, reason in left.items():
        progress.say(f"{name}: not judged: {reason}")
    return 1 if left else 0


def _sentence(record: Change) -> str:
    causes = "; ".join(cause_lines(record.cause)) or "not searched for"
    said = f"{quoting.sentence(record)}; cause: {causes}" if record.confirmed else record.note
    return f"{record.id}: {record.status}: {said}"
