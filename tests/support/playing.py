"""Stand-in for `duetbench anchor play` of a shard: its points, without a duet.

    python playing.py --plan NIGHT --plan-sha256 … --shard N … --results FOLDER

The first case of the shard has none.
"""

import sys
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from duetbench import __version__
from duetbench.host.machine import fingerprint
from duetbench.store import points
from duetbench.store.comparison import Missing
from duetbench.store.night import assignment
from duetbench.store.points import AnchoredPoint, CasePoints, Points


def main(words: list[str]) -> None:
    given = dict(pairwise(words))
    assigned = assignment(Path(given["--plan"]), int(given["--shard"]))
    assert assigned is not None
    lost, *played = assigned.plan.cases
    now = datetime.now(UTC)
    point = AnchoredPoint(
        metric="server_cpu_per_request", ratio=1.01, se=0.004, anchor=1e-4, duets=5
    )
    made = Points(
        id=f"{now:%Y%m%dT%H%M%SZ}-night-0a1b2c", anchor="first", origin="night", label="a night",
        when=now, started=now, seconds=60.0, duetbench=__version__, commit=assigned.commit,
        machine=fingerprint(), interpreters=(), stacks=(),
        cases=tuple(
            CasePoints(case=one.id, stack=one.stack, python=one.python, points=(point,))
            for one in played
        ),
        missing=(Missing(case=lost.id, reason="base: not_ready: 60 s"),),
    )  # fmt: skip
    points.save(Path(given["--results"]), made.model_copy(update=assigned.marks(made.id)))


main(sys.argv[1:])
