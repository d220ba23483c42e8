"""One pair of starts: each side's server alone on the server cores; the sample is a ratio.

A start ends with the first right answer. Nothing is loaded and nothing runs beside it, so that a
minute has twenty pairs and more. Both sides find their bytecode compiled, as a deployed application
does. Core time includes what commands that the application has waited for took.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from duetbench.app.testbed import SideCase
from duetbench.core.comparison import SIDES, Duet, SideName
from duetbench.core.errors import LaunchError
from duetbench.core.model import Flag
from duetbench.core.units import utc_now
from duetbench.host.tree_usage import memory_of
from duetbench.load import verify
from duetbench.load.server import Serving

_POLL_SECONDS: Final = 0.002  # 0.4 % of half a second


def perform(
    base: SideCase,
    head: SideCase,
    log: Callable[[SideName], Path],
    *,
    head_first: bool,
    order: int = 0,
) -> Duet:
    """Start base and head, one after the other; output of a side's server goes to `log(side)`.

    InterruptedRun leaves nothing running.
    """
    began, started = time.monotonic(), utc_now()
    sides: dict[SideName, SideCase] = {"base": base, "head": head}
    flags: dict[SideName, tuple[Flag, ...]] = {}
    figures: dict[SideName, dict[str, float]] = {}
    for side in sorted(sides, reverse=head_first):
        flags[side], figures[side] = _start(sides[side], log(side))
    void = any(flag.kind == "void" for side in SIDES for flag in flags[side])
    return Duet(
        case=head.case.id,
        order=order,
        head_first=head_first,
        started=started,
        seconds=time.monotonic() - began,
        load_seconds=0.0,
        flags_base=flags["base"],
        flags_head=flags["head"],
        alone=() if void else tuple(sorted(figures["head"])),
        base={} if void else figures["base"],
        head={} if void else figures["head"],
    )


def _start(side: SideCase, log: Path) -> tuple[tuple[Flag, ...], dict[str, float]]:
    """Start a side's server, and end it; what failed, and the figures if nothing did."""
    figures: dict[str, float] = {}
    with Serving(side.case, side.testbed, log) as serving, serving.blamed():
        serving.start()
        serving.await_port(_POLL_SECONDS)
        seconds = _first_answer(serving)
        if serving.case.workers > 1:  # the others may still start
            serving.meet()
        tree, memory = serving.edge(), memory_of(serving.session.members)
        serving.meet()
        figures = {
            "start_cpu": sum(process.cpu + process.children for process in tree.processes),
            "start_time": seconds,
            "import_time": serving.import_time,
        }
        if memory.pss is not None:
            figures["pss_start"] = memory.pss
    return tuple(serving.flags), figures


def _first_answer(serving: Serving) -> float:
    """Ask until there is an answer, which must be right; s since the start of the server."""
    timeout = serving.case.ready_timeout
    deadline = time.monotonic() + timeout
    while True:
        try:
            serving.log_in()
            request = serving.request
            where = f"{request.method} {request.path}, the first request"
            verify.ask(request, request.path, serving.port, where, timeout=timeout)
        except LaunchError as problem:
            refused = isinstance(problem.__cause__, ConnectionError)
            if not refused or time.monotonic() > deadline:
                raise
            serving.require_running()
            time.sleep(_POLL_SECONDS)
        else:
            return time.monotonic() - serving.session.started
