"""Real servers, each side alone: two threads without the GIL, and what a start takes."""

from pathlib import Path
from statistics import median
from typing import Final

import pytest

from bench import deployed
from comparing import judged
from duetbench.app.testbed import SideCase
from duetbench.core.comparison import SIDES, Duet
from duetbench.core.model import Expectation, Load, Verdict
from duetbench.host import command
from duetbench.judge import instruments
from duetbench.judge.pairs import CaseDuets, Mode, Pair
from repos import asgi, write
from synthetic import make_case, make_endpoint

APP: Final = """\
import time

began = time.process_time()
while time.process_time() - began < {burn}:
    pass
time.sleep({wait})
{more}
"""


def served(folder: Path, logs: Path, burn: float, wait: float, more: str = "") -> SideCase:
    """An application whose import computes for `burn` s, and then waits."""
    write(folder, "main.py", asgi(APP.format(burn=burn, wait=wait, more=more), 'body = b"ok"'))
    endpoint = make_endpoint(app="main:app", expect=Expectation(status=200, text="ok"))
    load = Load(connections=4, duration=1, timeout=10)
    case = make_case("app/get/py3.14/c4", endpoint=endpoint, load=load, slots=None)
    return deployed(case, folder, logs)


@pytest.mark.real
def test_a_start_has_what_its_import_takes(
    state_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """0.2 s of core time against 0.6, with 0.3 s of waiting and 30 MB; and one that fails."""
    monkeypatch.setattr(command, "free_gb", lambda _: 0.0)  # for no copies
    logs, real = tmp_path / "logs", instruments.Real()
    quick = served(tmp_path / "quick", logs, 0.2, 0.0)
    slow = served(tmp_path / "slow", logs, 0.6, 0.3, "KEPT = b'x' * 30_000_000")
    broken = served(tmp_path / "broken", logs, 0.0, 0.0, "raise RuntimeError('no such table')")

    def pair(base: SideCase, head: SideCase, *, head_first: bool) -> Duet:
        pairs = [Pair(base, head, start=True)]
        (actual,) = real.duets(pairs, head_first=head_first, order=0)
        return actual

    starts = [CaseDuets(slow.case, Mode.START) for _ in range(2)]
    for head_first in (False, True, False):
        actual = pair(quick, slow, head_first=head_first)
        assert (actual.failed, actual.alone) == ((), True), actual
        assert {*actual.head} == {"import_time", "pss_start", "start_cpu", "start_time"}
        few, many = actual.base, actual.head
        starts[0].add(actual)
        starts[1].add(actual.model_copy(update={"base": many, "head": few}))
        assert many["start_cpu"] - few["start_cpu"] == pytest.approx(0.4, rel=0.5)
        assert many["start_cpu"] > many["import_time"] >= 0.6
        assert many["start_time"] >= 0.6 + 0.3
        assert many["pss_start"] - few["pss_start"] == pytest.approx(30e6, rel=0.2)
    # A busy machine holds up any of them, but hardly all.
    ratios = (duet.head["import_time"] / duet.base["import_time"] for duet in starts[0].all)
    assert median(ratios) == pytest.approx(3, rel=0.25)
    quickest = [min(duet.metrics(side)["start_time"] for duet in starts[0].all) for side in SIDES]
    assert quickest == sorted(quickest)
    for duets, verdict in zip(starts, (Verdict.WORSE, Verdict.BETTER), strict=True):
        for subject in ("import_time", "pss_start"):
            assert judged(duets)[subject].verdict is verdict
    actual = pair(quick, broken, head_first=False)
    (words,) = actual.failures("head")
    assert (actual.base, actual.head, actual.failed) == ({}, {}, ("head",))
    assert "RuntimeError: no such table" in words
    assert not list((state_home / "duetbench" / "sessions").glob("*.json"))
