"""Plans: what is selected, how often, how long it takes, and what the command says."""

import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from duetbench.core.model import Case, Load
from duetbench.host import files, paths
from duetbench.judge.duet_loop import duet_seconds
from duetbench.judge.pairs import server_of
from duetbench.load.loads import drain
from observatory.cli import app
from observatory.matrix.checkout import Checkout
from observatory.store.night import NightPlan
from observatory.trend.anchored import Effort
from synthetic import make_case


def case(connections: int = 10, rate: float | None = None, **more: Any) -> Case:
    """A case of an endpoint with this floor, or that takes so long; 10 s of load."""
    load = Load(connections=connections, rate=rate, duration=10, timeout=1000)
    endpoint = {"floor": 0.0} | {
        name: more.pop(name) for name in ("floor", "takes") if name in more
    }
    made = make_case("x/a", load=load, **{"slots": None, **more})
    return made.model_copy(update={"endpoint": made.endpoint.model_copy(update=endpoint)})


@pytest.mark.parametrize(
    ("item", "seconds"),
    [
        # 500 blocked connections at 80 per 15 s.
        (case(floor=15, slots=80, connections=500, workers=2), 7 * 15),
        (case(floor=3), 3),
        (case(), 0),
        (case(floor=3, connections=5, rate=10), 3),
        # 100 requests of 0.35 s, one at a time: 29 were answered in 10 s.
        (case(takes=0.35, slots=1, connections=100, rate=10), 72 * 0.35),
        # 30 in flight of 40 possible: the last one ends its 3 s later.
        (case(floor=3, slots=40, connections=100, rate=10), 3),
    ],
)
def test_drains_are_those_worked_out_by_hand(item: Case, seconds: float) -> None:
    """What is in flight at the deadline is still answered, and takes its time."""
    assert drain(item) == pytest.approx(seconds)


def test_the_nights_duets_fit_their_budget() -> None:
    """Nearly all cases get five duets; with more cases than that some have four."""
    nightly = Checkout.here("nightly").plan()
    servers = Counter(map(server_of, nightly.cases))
    costs = ((*duet_seconds(item), servers[server_of(item)]) for item in nightly.cases)
    seconds = [own + start / shared for start, own, shared in costs]
    shard = (paths.project_root() / ".github" / "workflows" / "shard.yml").read_text("utf-8")
    budget = 60 * int(re.findall(r"--budget (\d+)m --results", shard)[0])
    assert 0.8 * sum(Effort().least_of(each) * each for each in seconds) <= budget


def test_a_night_has_no_duets_of_what_computes_on_all_cores(tmp_path: Path) -> None:
    """More threads without the GIL, and more workers; not those that wait, or that have the GIL."""
    day = datetime.now(UTC).toordinal()
    CliRunner().invoke(app, ["plan", "--output", str(tmp_path / "night.json")])
    (shard,) = files.read(NightPlan, tmp_path / "night.json").shards
    assert shard.plan.seed in {day, day + 1}  # another order each night
    nightly = Checkout.here("nightly").cases()
    ids = ["wsgi-cpu/py3.14t/w1/t2/c32", "asgi-cpu/py3.14/w2/c32", "asgi-cpu/py3.14t/w2/c32"]
    free = ("3.14t", "3.14t/open", "3.14t/granian", "3.15t")
    assert {case.id for case in nightly if case.scales} == {
        *(f"asgi-wsgi/{name}" for name in ids),
        *(f"contention/wsgi-{what}/py3.14t/t2" for what in ("shared", "private")),
        *(f"gil-endpoints/sync_cpu/py{name}" for name in free),
    }
