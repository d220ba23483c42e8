"""Searches for the release behind a change, by duets of mixed locks of both stacks. Pure.

The packages that moved are put in a row. A stack with half of them moved shows the change or does
not, and the search continues in the half that holds it: n packages take about log₂ n answers. Each
answer is a sequential test (Wald's) of "none of it" against "all of it", after every duet: a large
change takes few duets. An effect between both is a third answer: several releases contribute.

Fresh duets measure the last candidate alone, since two releases may have an effect only together.
Its effect alone is its share. If all other packages together still move the figure, the search
continues among them, on a stack in which the culprits so far have moved.

Pins move packages, and some drag others along: what counts is the content of the mixed lock.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, Protocol

from duetbench.core.errors import SetupError
from duetbench.judge import statistics
from duetbench.store.change import SUSPECTS, Cause, Change, Effect, Release, Share

Names = frozenset[str]
"""Packages that have moved in a mixed lock."""

TIME_IS_UP: Final = "the time was up"
NOT_DECIDED: Final = "the duets did not decide"

ERROR: Final = 0.01
"""Largest rate at which a search may take a wrong turn; a wrong name takes two errors."""

LEAST: Final = 4  # duets before any decision: each side was started first in two of them

MOST: Final = 100  # duets after which a question stays open

SHARE: Final = 8  # fewest duets of a release alone, and of the whole: they measure its size

SURE: Final = 5.0
"""Standard errors from which on a change is precise enough to be searched for."""

FROM: Final = 0.01
"""Log ratio of the smallest change that is searched for; a smaller remainder counts as none."""

SMALLER: Final = (1.0, 0.6)
"""Shares of the change to search for: that of one release; then, if it does not show the change
alone, that of the largest of several."""

SCATTER: Final = (0.014, 4)
"""Standard deviation of a duet's log ratio before the first duet, and its weight in duets."""

_APART: Final = 3.5  # standard errors that make two sizes different ones
_FAILURES: Final = 6  # mixed locks that cannot be installed, after which no other is tried
_WILD: Final = 2.0  # standard deviations outside of both ends at which a duet's weight is limited


class TimeIsUpError(Exception):
    """There is no time for another duet."""


class Measurer(Protocol):
    """Seam between the search and everything that is measured."""

    def resolve(self, names: Names) -> Names:
        """Return which packages move where these do; SetupError if there is no such stack."""

    def duet(self, purpose: str, base: Names, head: Names) -> float | None:
        """Run another duet for a purpose: log(head / base); None: it was not usable.

        Raises:
            TimeIsUpError: There is no time for it.
            SetupError: It cannot run.
        """


class Answer(Enum):
    """The part of a change that a mixed lock shows."""

    NONE = "none of it"
    ALL = "all of it"
    PART = "part of it"
    OPEN = "not decided"


class _StuckError(Exception):
    """The search cannot go on: among which packages, and why."""


class Search:
    """A search among releases by package; `expected` is the log ratio of the change, if known."""

    def __init__(
        self,
        releases: Mapping[str, Release],
        measurer: Measurer,
        log: Callable[[str], None] = lambda _: None,
        expected: float | None = None,
    ) -> None:
        self.releases, self.measurer, self.log, self.expected = releases, measurer, log, expected
        self.row = tuple(releases)
        self.whole: Effect | None = None
        self.rest: Effect | None = None
        self.shares: list[Share] = []
        self.suspects: Names = frozenset()
        self._samples: list[list[float]] = []
        self._failed: set[Names] = set()
        self._limit = math.log((math.ceil(math.log2(max(1, len(self.row)))) + 2) / ERROR)

    def run(self) -> Cause:
        """Search; an InterruptedRun of the measurer passes through."""
        row, base, left, reason = frozenset(self.row), Names(), self.row, ""
        try:
            while left:
                changed, effect = self._size("rest" if base else "whole", base, row)
                if base:
                    self.rest = effect
                else:
                    self.whole = effect
                self._say(f"all without {', '.join(sorted(base))}" if base else "all of them")
                if not changed:
                    if not base:
                        self.suspects = row
                        unseen = "measured again, the whole change is not seen"
                        reason = NOT_DECIDED if changed is None else unseen
                    break  # `rest` has the largest effect that may remain
                base |= self._culprit(base, left, effect)
                self.suspects = frozenset()
                left = tuple(name for name in self.row if name not in base)
        except _StuckError as stuck:
            packages, reason = stuck.args
            self.suspects = frozenset(packages)
        except TimeIsUpError:
            self.suspects, reason = self.suspects or frozenset(left), TIME_IS_UP
        except SetupError as problem:
            if self.whole is None:
                raise
            self.log(str(problem))
            self.suspects = self.suspects or frozenset(left)
            reason = "no duets can measure them apart"
        return Cause(
            whole=self.whole,
            shares=tuple(sorted(self.shares, key=lambda share: -abs(math.log(share.ratio)))),
            rest=self.rest,
            suspects=tuple(sorted(self.suspects)),
            reason=reason,
        )

    def _culprit(self, base: Names, rest: Sequence[str], effect: Effect) -> Names:
        """Narrow down, measure the last candidate alone, twice if need be; return what moved."""
        size, error = self._latest()
        for smaller in SMALLER:
            left = self._narrow(base, tuple(rest), smaller * size, error)
            if len(left) == len(self.row):
                return self._name(left, frozenset(left), effect)
            real = self.measurer.resolve(base | frozenset(left)) - base
            answer = self._ask("alone", base, base | real, smaller * size, error, least=SHARE)
            self._say(f"{', '.join(sorted(real))} alone: {answer.value}")
            if answer is Answer.OPEN:
                raise _StuckError(left, "alone the duets did not decide")
            if answer is not Answer.NONE:
                return self._name(left, real | frozenset(left), self._effect())
        raise _StuckError(rest, f"{min(left, key=len)} alone does not show the change")

    def _name(self, left: Sequence[str], real: Names, effect: Effect) -> Names:
        """Name packages that could not be separated, and after them those that moved with them.

        The shortest name comes first, the one that the others extend: pydantic, then pydantic-core.
        """
        names = sorted(left, key=lambda name: (len(name), name)) + sorted(real.difference(left))
        releases = tuple(self.releases[name] for name in names)
        self.shares.append(Share(releases=releases, **effect.model_dump()))
        return real

    def _narrow(
        self, base: Names, left: tuple[str, ...], size: float, se: float
    ) -> tuple[str, ...]:
        """Halve the packages until they cannot be separated."""
        while (half := self._half(base, left)) is not None:
            try:
                answer = self._ask("half", base, base | half, size, se)
            except SetupError as problem:
                self.log(f"cannot be measured: {', '.join(sorted(half))} moved: {problem}")
                self._failed.add(base | half)
                continue
            self._say(f"{', '.join(sorted(half))}: {answer.value}")
            if answer is Answer.OPEN:
                raise _StuckError(left, NOT_DECIDED)
            mean, error = self._latest()
            # If both halves have an effect, the larger part comes first.
            larger = abs(mean) >= abs(size - mean)
            inside = answer is Answer.ALL or (answer is Answer.PART and larger)
            remaining = mean if inside else size - mean
            if abs(remaining - size) > _APART * math.hypot(error, se):
                size, se = remaining, error if inside else math.hypot(error, se)
            left = tuple(name for name in left if (name in half) is inside)
            self.suspects = frozenset(left)  # for a search that runs out of time
        return left

    def _half(self, base: Names, left: Sequence[str]) -> Names | None:
        """Return packages that move with about half of the row; None: all or none of them do."""
        failed = 0
        for part in _halves(left):
            try:
                real = self.measurer.resolve(base | part) - base
            except SetupError as problem:
                self.log(f"cannot be installed: {', '.join(sorted(part))} moved: {problem}")
                failed += 1
                if failed == _FAILURES:
                    break
            else:
                if base | real in self._failed:
                    failed += 1
                elif not real.issuperset(left):
                    return real
        if failed and len(left) == len(self.row):
            raise _StuckError(left, "no mixed lock separates them")
        if len(left) > 1:
            self.log(f"taken as one, since no mixed lock separates them: {', '.join(left)}")
        return None

    def _size(self, purpose: str, base: Names, head: Names) -> tuple[bool | None, Effect]:
        """Return whether there is a change (None: not decided), and its size."""
        halves = [abs(math.log(share.ratio)) / 2 for share in self.shares]
        # The earlier measurement was selected for its size, so the true size may be half of it.
        least = max(FROM, *halves) if halves else max(FROM, abs(self.expected or 0.0) / 2)
        for mean, sd, n in self._run_duets(purpose, base, head):
            if n >= SHARE and abs(mean) >= SURE * sd / math.sqrt(n):
                return True, self._effect()
            if n >= LEAST and least * (least / 2 - abs(mean)) * n / sd**2 >= self._limit:
                return False, self._effect()
        moved = abs(mean) >= _APART * sd / math.sqrt(n)
        return moved or None, self._effect()

    def _ask(
        self, purpose: str, base: Names, head: Names, size: float, se: float, least: int = LEAST
    ) -> Answer:
        """Ask how much of a change of `size` (log, with its standard error) a mixed lock shows."""
        for mean, sd, n in self._run_duets(purpose, base, head):
            ends = min(0.0, size) - _WILD * sd, max(0.0, size) + _WILD * sd
            tamed = sum(min(max(log, ends[0]), ends[1]) for log in self._samples[-1])
            ratio = size * (tamed - n * size / 2) / sd**2
            error = sd / math.sqrt(n)
            if n >= least and abs(ratio) >= self._limit:
                return Answer.ALL if ratio > 0 else Answer.NONE
            between = min(abs(mean) / error, abs(mean - size) / math.hypot(error, se))
            if n >= SHARE and between > _APART:
                return Answer.PART
        return Answer.OPEN

    def _run_duets(
        self, purpose: str, base: Names, head: Names
    ) -> Iterator[tuple[float, float, int]]:
        """Run duets; yield after each the mean, pooled standard deviation and number so far."""
        logs: list[float] = []
        self._samples.append(logs)
        for _ in range(2 * MOST):
            log = self.measurer.duet(purpose, base, head)
            if log is not None:
                logs.append(log)
                yield sum(logs) / len(logs), self._scatter(), len(logs)
            if len(logs) == MOST:
                return
        if not logs:
            raise SetupError("no duet was usable")

    def _scatter(self) -> float:
        """Return the standard deviation of a duet, pooled over all questions so far."""
        sd, weight = SCATTER
        squares, freedom = weight * sd**2, float(weight)
        for logs in filter(None, self._samples):
            mean = sum(logs) / len(logs)
            squares += sum((log - mean) ** 2 for log in logs)
            freedom += len(logs) - 1
        return math.sqrt(squares / freedom)

    def _say(self, what: str) -> None:
        """Log the result of the latest question's duets."""
        effect = self._effect()
        mean, low, high = (f"{ratio - 1:+.1%}" for ratio in (effect.ratio, effect.low, effect.high))
        self.log(f"{what}: {mean} ({low} to {high}, {effect.duets} duets)")

    def _latest(self) -> tuple[float, float]:
        """Return the mean of the latest question's duets, and its standard error."""
        logs = self._samples[-1]
        return sum(logs) / len(logs), self._scatter() / math.sqrt(len(logs))

    def _effect(self) -> Effect:
        """Return the effect by the duets of the latest question."""
        (mean, _), n = self._latest(), len(self._samples[-1])
        low, high = statistics.interval(statistics.Sample(n, mean, self._scatter(), n - 1), 0.05)
        return Effect(ratio=math.exp(mean), low=math.exp(low), high=math.exp(high), duets=n)


def _halves(row: Sequence[str]) -> Iterator[Names]:
    """Yield beginnings and ends of a row, those nearest to its half first."""
    for cut in sorted(range(1, len(row)), key=lambda cut: abs(2 * cut - len(row))):
        yield frozenset(row[:cut])
        yield frozenset(row[cut:])


def blame(record: Change, cause: Cause) -> Change:
    """Return the record with its culprit or suspects, which replace those of an earlier search."""
    note = SUSPECTS.sub("", record.note).strip()
    if cause.reason:
        which = "rest of the cause" if cause.shares else "cause"
        rest = f"The {which} is among {', '.join(cause.suspects)}: {cause.reason}."
        note = " ".join(filter(None, (note, rest)))
    release = cause.shares[0].releases[0] if cause.shares else None
    update = {"culprit": release, "shares": cause.shares, "narrowed": None, "note": note}
    return record.model_copy(update=update)
