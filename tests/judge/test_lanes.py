"""Pairs side by side, simulated: machines with more cores than there are, and duets that sleep."""

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import pytest

from bench import lives
from comparing import busy
from duetbench.core.model import Case
from duetbench.host import topology
from duetbench.host.signals import InterruptedRun, interruptible
from duetbench.host.topology import Physical
from duetbench.judge.session import InterruptedComparison
from duetbench.measure.testbed import SideCase
from duetbench.project import tools
from duetbench.store.comparison import Comparison, Duet
from fake_sessions import SECONDS, FakeInstruments, SilentReporter, compared_by
from serverlings import PATIENCE, launch, said

EIGHT: Final = [Physical((n,)) for n in range(8)]
SIXTEEN: Final = [Physical((n, n + 16), n // 8) for n in range(16)]

pytestmark = pytest.mark.usefixtures("state_home")


@pytest.fixture(autouse=True)
def _versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "oha_version", lambda _: "1.16.0")


@pytest.fixture(autouse=True)
def _handler() -> Iterator[None]:
    """After an interrupt further ones are ignored; here others follow."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@dataclass
class Sleeping(FakeInstruments):
    """Instruments that note when they play a duet, and on which cores.

    The n-th duet of a case with this side first is always the same one. Duets that are announced
    together begin together, however late the machine starts their threads.
    """

    told: SilentReporter = field(default_factory=SilentReporter)
    spans: list[tuple[float, float, frozenset[int]]] = field(default_factory=list)
    loaded: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _numbers: Counter[tuple[str, bool]] = field(default_factory=Counter)
    _active: int = 0

    def duets(
        self, pairs: Sequence[tuple[SideCase, SideCase]], *, head_first: bool, order: int
    ) -> tuple[Duet, ...]:
        first = pairs[0][1]
        on = {*first.testbed.server_cores(first.case), *first.testbed.client_cores(first.case)}
        with self._lock:
            self._active += 1
            started, began = self.now, time.monotonic()
            drawn = []
            for name in (head.case.id for _, head in pairs):
                source = random.Random(f"{name} {head_first} {self._numbers[name, head_first]}")
                drawn.append(self.draw(name, order, head_first, source))
                self._numbers[name, head_first] += 1
        self.told.meeting.wait(PATIENCE)
        time.sleep(0.01)  # whatever begins too early meets this duet
        with self._lock:
            self.spans.append((began, time.monotonic(), frozenset(on)))
            before, self.now = self.now, max(self.now, started + SECONDS * len(pairs))
            self.loaded += self.now - before
            self._active -= 1
        return tuple(drawn)


def cases(servers: int, each: int = 1) -> list[Case]:
    return [busy(f"x{n}/e{m}/py3.14") for n in range(servers) for m in range(each)]


def verdicts(found: Comparison) -> dict[tuple[str, str], str]:
    return {
        (case.case.id, one.metric): one.verdict for case in found.cases for one in case.judgements
    }


def simultaneous(fake: Sleeping) -> list[tuple[frozenset[int], frozenset[int]]]:
    """The cores of each two duets that overlap in time."""
    return [
        (one[2], other[2])
        for one, other in combinations(fake.spans, 2)
        if one[0] < other[1] and other[0] < one[1]
    ]


@pytest.mark.parametrize(
    ("cores", "servers", "each", "share"),
    [
        pytest.param(SIXTEEN, 4, 1, 0.6, id="16, hyper-threads, two nodes; four servers"),
        pytest.param(EIGHT, 3, 2, 0.65, id="8; three servers of two cases each"),
        pytest.param(EIGHT, 1, 1, 0.7, id="8; one case, whose next look may be one duet away"),
    ],
)
def test_two_pairs_side_by_side_say_the_same_in_half_the_time(
    cores: list[Physical], servers: int, each: int, share: float, tmp_path: Path
) -> None:
    every = cases(servers, each)
    slower = {every[0].id: 0.03}
    lanes = topology.plan(cores)
    owners = {thread: number for number, core in enumerate(cores) for thread in core.threads}
    serial, beside = Sleeping(slower), Sleeping(slower)
    before = compared_by(serial, every, tmp_path / "serial", None)
    after = compared_by(beside, every, tmp_path / "beside", None, beside.told, lanes=lanes)

    assert not simultaneous(serial)
    met = simultaneous(beside)
    assert met
    for one, other in met:
        assert not {owners[core] for core in one} & {owners[core] for core in other}

    assert verdicts(after) == verdicts(before)
    assert "slower" in verdicts(after).values()
    for old, new in zip(before.cases, after.cases, strict=True):
        assert old.case.id == new.case.id
        for duet, same in zip(old.duets, new.duets, strict=False):
            assert (duet.head_first, duet.base) == (same.head_first, same.base)
            assert duet.head == same.head
        if servers == each == 1:
            assert new.judgements == old.judgements
        assert not any(duet.server_cores for duet in old.duets)
        places = {(duet.server_cores, duet.client_cores) for duet in new.duets}
        assert places <= {(lane.server, lane.client) for lane in lanes}
    assert [duet.order for duet in beside.told.duets] == [*range(len(beside.told.duets))]
    assert sum("side by side" in note for note in after.notes) == 1
    assert not any("side by side" in note for note in before.notes)

    duets = [sum(len(case.duets) for case in found.cases) for found in (before, after)]
    assert beside.loaded * duets[0] <= share * serial.loaded * duets[1] * (1 + 1e-9)


def test_what_may_compute_on_several_cores_has_the_machine(tmp_path: Path) -> None:
    """Two workers: nothing beside them, on all cores; the others have a lane each."""
    wide, fake = busy("wide/e/py3.14", workers=2), Sleeping()
    every = [*cases(2), wide]
    found = compared_by(fake, every, tmp_path, None, fake.told, lanes=topology.plan(EIGHT))
    alone = frozenset({0, 1})  # all that the made-up machine has
    assert {alone} < {cores for _, _, cores in fake.spans}
    assert not any(alone in both for both in simultaneous(fake))
    for case in found.cases:
        assert any(duet.server_cores for duet in case.duets) is (case.case.id != wide.id)


def test_launches_alone_find_the_machine_quiet(tmp_path: Path) -> None:
    """Servers that turn out to compute in several threads take turns, after both lanes."""

    class Threads(Sleeping):
        def draw(self, *args: Any, **more: Any) -> Duet:
            duet = super().draw(*args, **more)
            used = {"server_cores": 1.5, "threads_computing": 3.0}
            return duet.model_copy(update={"base": duet.base | used, "head": duet.head | used})

        def launch(self, part: SideCase) -> Any:
            assert not self._active
            assert part.testbed.lane is None
            return super().launch(part)

    fake = Threads()
    found = compared_by(fake, cases(2), tmp_path, 600, fake.told, lanes=topology.plan(EIGHT))
    assert fake.launches
    assert all(duet.alone and duet.server_cores for case in found.cases for duet in case.duets)
    assert len(simultaneous(fake)) == 1  # the first duets of both, which tell


@pytest.mark.parametrize(
    ("how", "failing"), [("signal", 0), ("interruption", 1), ("mistake", 0), ("mistake", 1)]
)
def test_one_lane_that_fails_ends_the_comparison(how: str, failing: int, tmp_path: Path) -> None:
    """The other lane waits for a process for ever, which is ended; what was found is saved."""
    lanes = topology.plan(EIGHT)
    meeting = threading.Barrier(2)
    waiting: list[bool] = []

    class Waiting(Sleeping):
        def duets(
            self, pairs: Sequence[tuple[SideCase, SideCase]], *, head_first: bool, order: int
        ) -> tuple[Duet, ...]:
            lane = pairs[0][0].testbed.lane
            if order == 0:
                return super().duets(pairs, head_first=head_first, order=order)
            if lane == lanes[failing]:
                meeting.wait(PATIENCE)
                if how == "signal":
                    os.kill(os.getpid(), signal.SIGINT)
                    return super().duets(pairs, head_first=head_first, order=order)
                raise OSError("full") if how == "mistake" else InterruptedRun(signal.SIGINT)
            with launch(tmp_path, "obedient") as session:
                said(session, "ready")
                meeting.wait(PATIENCE)
                session.wait(PATIENCE)
                waiting.append(lives(session.pid))
            return super().duets(pairs, head_first=head_first, order=order)

    logs = tmp_path / "found"
    with interruptible(), pytest.raises((InterruptedComparison, OSError)) as raised:
        compared_by(Waiting(), cases(2), logs, None, lanes=lanes)
    assert waiting == [False]
    if how == "mistake":
        assert str(raised.value) == "full"
        return
    assert isinstance(raised.value, InterruptedComparison)
    partial = raised.value.comparison
    assert partial.status == "partial"
    assert [len(case.duets) for case in partial.cases] == [1, 1]
    assert len(list(logs.iterdir())) == 1
