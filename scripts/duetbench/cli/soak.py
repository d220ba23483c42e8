"""`duetbench soak`: does a server's memory grow for good?"""

from collections.abc import Sequence
from typing import Annotated, Final

from cyclopts import Parameter

from duetbench.app import case_names
from duetbench.app.deployment import deployed
from duetbench.app.testbed import SideCase, assemble
from duetbench.cli.options import (
    DECLARED,
    JsonOption,
    SelectOption,
    TargetOptions,
    WaitOption,
    budget_seconds,
    machine,
    repository,
    with_options,
)
from duetbench.core import units
from duetbench.core.errors import NothingMeasuredError, UsageError
from duetbench.host import paths
from duetbench.host.console import Console, Progress, duration, print_json
from duetbench.load import soak
from duetbench.load.soak import Course, Curve

_SENTENCES: Final[dict[Course, str]] = {
    "constant": "constant: it leaks, and keeps {} for every request",
    "fills": "fills: a pool fills or is emptied again, which is no leak; so far {} per request",
    "none": "no leak: {} per request",
    "undecided": "undecided: {} per request so far; a longer --for may decide",
}


def soak_command(
    *,
    time: Annotated[str, Parameter("--for", metavar="TIME")] = "2m",
    select: SelectOption = (),
    as_json: JsonOption = False,
    wait: WaitOption = None,
    application: TargetOptions = DECLARED,
) -> int:
    """Load one server for a long time: does its memory grow for good?

    $ duetbench soak --app shop.main:app --path /items/7
    $ duetbench soak --app shop.main:app --path /items/7 --for 10m --json

    Requests come in bursts, with the case's connections and no pause. After each burst, while no
    request is running, anonymous memory (without files) is read. The soak ends early if the server
    takes half of the free memory. Exit code 0: no leak was seen. 1: it leaks. 3: undecided.

    Args:
        time: Duration of the load: 90s, 10m or 1h.
    """
    console = Console(stderr=as_json)
    seconds = budget_seconds(time, "--for") or 0.0
    progress = Progress(console)
    project = with_options(repository(console), application.read())
    with machine(wait, console), deployed(project, progress) as subject:
        cases = case_names.select(subject.cases(), select)
        if len(cases) != 1:
            ids = ", ".join(case.id for case in cases[:3])
            raise UsageError(f"--select: expected one case, found {len(cases)}: {ids}")
        case, logs = cases[0], paths.state_dir() / "logs"
        side = SideCase(case, assemble(subject, cases, logs, progress))
        log = logs / "soak.log"
        log.unlink(missing_ok=True)

        def look(spent: float, curve: Curve) -> None:
            held, answered = units.size(curve.memory[-1]), units.count(curve.requests[-1])
            progress.work(
                f"{held}, {answered} requests", len(curve.requests), max(0, seconds - spent)
            )

        try:
            progress.start(f"{case.id}: a soak of {duration(seconds)}", seconds)
            curve = soak.perform(side, log, seconds, look)
        finally:
            progress.end()
    if len(curve.requests) < 2:
        raise NothingMeasuredError(f"{case.id}: no burst was answered: {curve.problem}")
    if curve.problem:
        console.say(f"note: it ended early: {curve.problem}")
    judgement = soak.of_curve(curve)
    ends = " → ".join(units.size(curve.memory[index]) for index in (0, -1))
    console.say(f"memory  {_draw(curve.memory)}  {ends}")
    sentence = _SENTENCES[judgement.course].format(judgement.words)
    console.say(f"{sentence} ({units.count(judgement.requests)} requests)")
    if as_json:
        print_json({"case": case.id, **judgement.model_dump(mode="json")})
    return {"constant": 1, "undecided": 3}.get(judgement.course, 0)


def _draw(memory: Sequence[int]) -> str:
    """Draw amounts as blocks; less than a megabyte does not fill their height."""
    low, span = min(memory), max(1e6, max(memory) - min(memory))
    return "".join("▁▂▃▄▅▆▇█"[int(7 * (value - low) / span)] for value in memory)
