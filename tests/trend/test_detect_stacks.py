"""Locks by date: committed, found again, and measured against each other."""

import hashlib
import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bare import QUIET
from duetbench.core.change import Cause
from duetbench.core.comparison import Duet
from duetbench.core.errors import HistoryError, UsageError
from duetbench.core.metrics import CPU
from duetbench.judge import causes, comparison
from duetbench.judge.pairs import Pair
from duetbench.judge.preparation import resolve
from fake_sessions import FakeInstruments, SilentReporter, note_sessions
from observatory.matrix.checkout import Checkout, lock_stacks
from observatory.store.change import Change, SeriesName, StackState, Step
from observatory.trend.confirm import compare_stacks, find_locks
from repos import borrow_cache, commit, keep, make_tiny, write
from synthetic import change_record
from tiny_index import Index

CASES = ["tiny/dependent/py3.14", "tiny/alone/py3.14"]
NOW = datetime(2026, 2, 21, tzinfo=UTC)


def lay_out(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    """Lay out a checkout of two cases, with a cache of its own."""
    borrow_cache(folder / "cache", patch)
    return make_tiny(folder / "tiny", patch)


def between(commits: Sequence[str], base: StackState, head: StackState) -> Change:
    """A candidate: both cases moved between two locks of the stack."""
    place: dict[str, Any] = {"before_run": "a-night", "after_run": "another"}
    series = (SeriesName(machine="m", case=case, metric=CPU) for case in CASES[::-1])
    steps = (Step(series=s, ratio=1.05, strength=9.0, nights=(9, 6), **place) for s in series)
    return change_record(
        steps=tuple(steps),
        base=base,
        head=head,
        base_commit=commits[0],
        head_commit=commits[1],
        when=NOW,
        **place,
    )


@pytest.mark.real
def test_both_stacks_are_found_and_measured_as_they_were(
    tmp_path: Path, beta_index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Locks of January and of mid-February, on the applications of now; by now there is a third."""
    tiny = lay_out(tmp_path, monkeypatch)
    assert beta_index.files
    lock_stacks(Checkout.here(), QUIET, as_of=date(2026, 1, 31))
    write(tiny, ".gitignore", "__pycache__/\n")
    commits, digests = [keep(tiny)], [Checkout.here().lock("one").digest]
    lock_stacks(Checkout.here(), QUIET, as_of=date(2026, 2, 20))
    commits.append(commit(tiny, "Locks"))
    digests.append(Checkout.here().lock("one").digest)
    lock_stacks(Checkout.here(), QUIET)
    commit(tiny, "Locks")
    candidate = between(commits, *(StackState(stack="one", digest=digest) for digest in digests))

    # By their digests, at the commit that was measured.
    before, after = find_locks(Checkout(tiny), candidate, QUIET)
    assert [hashlib.sha256(text.encode()).hexdigest() for text in (before, after)] == digests
    # One that is gone is resolved again, if it has a date.
    lost = StackState(stack="one", digest="0" * 64)
    with pytest.raises(HistoryError, match="the lock of the stack one"):
        find_locks(Checkout(tiny), between(commits, lost, candidate.head), QUIET)
    old, new = (lost.model_copy(update={"as_of": f"2026-{day}"}) for day in ("01-31", "02-20"))
    before, after = find_locks(Checkout(tiny), between(commits, old, new), QUIET)
    assert ("beta==1.0 " in before, "beta==1.5 " in after) == (True, True)

    sessions, reporter = note_sessions(monkeypatch), SilentReporter()
    actual = compare_stacks(Checkout(tiny, "nightly"), candidate, 90.0, reporter)
    (session,) = sessions
    assert session.extent.seconds == 90.0
    assert session.reporter is reporter
    sides = session.sides.base, session.sides.head
    for side, version, digest in zip(sides, ("1.0", "1.5"), digests, strict=True):
        stack = side.testbed.stacks["one"]
        assert (stack.packages["beta"], stack.digest) == (version, digest)
        python = side.testbed.pythons["one", "3.14"]
        assert list(python.parents[1].glob(f"lib/python*/site-packages/beta-{version}.dist-info"))
    assert [pair.case.id for pair in session.sides.pairs] == CASES
    assert session.sides.untouched == 0
    for problem in session.seen.reasons.values():  # what one request does was looked at
        assert "expected an application, found module" in problem
    assert actual.base.label == "one of a-night"
    assert Checkout.here().lock("one").packages["beta"] == "2.0"  # the checkout's own lock stays


class Ratios(FakeInstruments):
    """Instruments whose head takes as much longer as a version of `gamma` says."""

    def duets(self, pairs: Sequence[Pair], *, head_first: bool, order: int) -> tuple[Duet, ...]:
        (versions,) = ([p.testbed.stacks["one"].packages for p in pair.sides] for pair in pairs)
        assert all(item["wrap"][0] == item["core"][0] for item in versions)
        self.logs = [math.log(1.05) * (versions[0]["gamma"] != versions[1]["gamma"])]
        return super().duets(pairs, head_first=head_first, order=order)


@pytest.mark.real
def test_a_release_is_found_between_two_locks(
    tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three packages that moved, two only together; duets are made up.

    The locks between are resolved, and their sides really prepared.
    """
    root, locks = lay_out(tmp_path, monkeypatch), list[str]()
    ratios = Ratios(uncounted="not counted")
    file = root / "apps" / "pyproject.toml"
    file.write_text(file.read_text().replace('"alpha"', '"gamma", "wrap", "core"'))
    write(root, "apps/tiny/dependent.py", "import core, gamma, wrap\n\napp = core\n")
    monkeypatch.setattr(comparison, "Real", lambda: ratios)

    def find(base: str, head: str) -> Cause:
        case = "tiny/dependent/py3.14"
        here, sentence = Checkout(root), SilentReporter()
        return causes.search_locks(here, "one", (base, head), case, 6000.0, sentence, CPU)

    for version, day in (("1.0", date(2026, 1, 10)), ("2.0", date(2026, 2, 10))):
        for name in ("gamma", "core"):
            index.add(name, version, str(day))
        index.add("wrap", version, str(day), (f"core=={version}",))
        locks.append(resolve(Checkout(root), "one", day + timedelta(days=5)))
        write(root, "apps/stacks/one.txt", locks[-1])
    with pytest.raises(UsageError, match="same versions"):
        find(locks[0], locks[0])
    cause = find(*locks)
    assert [first for _, first in ratios.duet_log][:4] in ([True, False] * 2, [False, True] * 2)
    (share,) = cause.shares
    assert [(item.package, item.previous, item.version) for item in share.releases] == [
        ("gamma", "1.0", "2.0")
    ]
    assert share.interval.estimate == pytest.approx(1.05)
    assert (cause.suspects, cause.reason) == ((), "")
