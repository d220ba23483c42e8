"""One start: a server alone on the server cores, until its first right answer.

Nothing is loaded and nothing runs beside it, so that a minute has twenty pairs and more. Both sides
find their bytecode compiled, as a deployed application does. Core time includes what commands that
the application has waited for took.
"""

import time
from pathlib import Path
from typing import Final

from duetbench.app.testbed import SideCase
from duetbench.core.model import Launch
from duetbench.host.tree_usage import memory_of
from duetbench.load import verify
from duetbench.load.server import Serving

_POLL_SECONDS: Final = 0.002  # 0.4 % of half a second


def perform(side: SideCase, log: Path) -> Launch:
    """Start a side's server, whose output goes to `log`, and end it. Raises `InterruptedRun`."""
    figures: dict[str, float] = {}
    with Serving(side, log) as serving, serving.blamed():
        serving.start()
        serving.await_port(_POLL_SECONDS)
        serving.log_in()
        request, timeout = serving.request, serving.case.ready_timeout
        where = f"{request.method} {request.path}, the first request"
        with verify.connect(serving.port, timeout) as connection:
            verify.ask(connection, request, request.path, where, timeout)
        seconds = time.monotonic() - serving.session.started
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
    return serving.result(figures)
