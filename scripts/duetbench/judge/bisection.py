"""Which of several in a row did it: one search, for commits and for packages.

Each question compares two states of the row, by what shows the change soonest: what a request does
is exact and takes seconds; where nothing shows there, counts of instructions; then duets. The
largest change is searched first, then what is left without what did it, until nothing is.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Final, Literal, TypeVar

from duetbench.core.change import Cause, Commit, Share
from duetbench.core.comparison import INSTRUCTIONS, Comparison, Finding, Release
from duetbench.core.effects import KEPT, TELLING
from duetbench.core.errors import CountError, DuetbenchError
from duetbench.core.metrics import METRICS
from duetbench.core.model import Verdict
from duetbench.core.text import short

Answer = Literal["yes", "no", "unknown"]

Means = Literal["effects", "counts", "duets"]

MEANS: Final[Sequence[Means]] = ("effects", "counts", "duets")
"""The soonest first."""

TIME_IS_UP: Final = "the time was up"

Item = TypeVar("Item")
State = frozenset[str]
"""The names of the commits or releases that it has."""


def first_bad(items: Sequence[Item], ask: Callable[[Item], Answer]) -> Sequence[Item]:
    """Find the first item that shows a change which the last one shows.

    What comes before the items does not show it. If the change comes and goes, it is one of the
    items at which it comes.

    Args:
        items: In order, at least one; the last one is not asked about.
        ask: Tells whether an item shows the change.

    Returns:
        The item found, after those directly before it of which nothing is known. Of n items, it
        takes at most log₂ n answers, rounded up, besides the unknown ones.
    """
    start, end = 0, len(items)
    unasked = [*range(end - 1)]
    while unasked:
        middle = unasked[len(unasked) // 2]
        answer = ask(items[middle])
        if answer == "yes":
            end = middle + 1
            unasked = [place for place in unasked if place < middle]
        elif answer == "no":
            start = middle + 1
            unasked = [place for place in unasked if place > middle]
        else:
            unasked.remove(middle)
    return items[start:end]


class StuckError(DuetbenchError):
    """A row cannot be searched any further; the message says why.

    `suspects` are names of what may have done it, if these are not all of the row.
    """

    def __init__(self, reason: str, suspects: Sequence[str] = ()) -> None:
        super().__init__(reason)
        self.suspects = suspects


class Search:
    """A search among commits or releases for what changed from a state without any to that of all.

    Args:
        items: By name, in order. Of commits a state has the first ones, of releases any. Those
            that are not told apart are called by the first.
        look: Compares two states by one means; if it takes minutes, the named case only. A
            DuetbenchError: nothing is known of them; a StuckError: nor of any other.
        say: Gets a sentence per answer.
    """

    def __init__(
        self,
        unit: Literal["commits", "releases"],
        items: Mapping[str, Commit | Release],
        look: Callable[[State, State, Means, str], Comparison],
        say: Callable[[str], None],
    ) -> None:
        self.unit, self.items, self.look, self.say = unit, items, cache(look), say
        self.shares: list[Share] = []
        self.seen = False  # whether anything shows the change

    def run(self, order: Sequence[Means] = MEANS) -> Cause:
        """Search by means in this order; duets only if no other shows anything, and then alone.

        Raises DuetbenchError if the states without any and with all cannot be compared.
        """
        reason, suspects = "", list[str]()
        rows = [(self._row(State()), order)]
        for row, means in rows:  # which a search extends by the rows that it leaves
            try:
                rows += self._search(row, means)
            except DuetbenchError as problem:
                if not (self.seen or isinstance(problem, StuckError)):
                    raise
                reason = short(str(problem))
                suspects += getattr(problem, "suspects", ()) or self._names(row[0], row[-1])
        shares = sorted(self.shares, key=lambda share: -_size(share.findings[0]))
        return Cause(shares=tuple(shares), suspects=tuple(suspects), reason=reason)

    def _row(self, base: State) -> Sequence[State]:
        """Return the states of base, and with ever more of the other items."""
        left = [name for name in self.items if name not in base]
        return [base.union(left[:number]) for number in range(len(left) + 1)]

    def _names(self, before: State, after: State) -> list[str]:
        """Name what differs between two states."""
        return [name for name in self.items if name in after - before]

    def _search(
        self, row: Sequence[State], order: Sequence[Means]
    ) -> Sequence[tuple[Sequence[State], Sequence[Means]]]:
        """Search a row by the first means that shows anything.

        Returns the rows that are left, with the means for them.
        """
        means, moved = self._first(row, order)
        if not moved:
            if self.seen or self.unit == "commits":
                return ()
            raise StuckError("measured again, the whole change is not seen")
        self.seen, whole = True, max(moved, key=_size)
        states, unknown = self._narrow(row, whole, means)
        start, end = row.index(states[0]) - 1, row.index(states[-1])
        if TIME_IS_UP in unknown:
            raise StuckError(TIME_IS_UP, self._names(row[start], row[end]))
        if self.unit == "commits":
            before, after, rests = row[start], row[end], [row[: start + 1], row[end:]]
        else:  # two may have an effect only together: each moves alone, then the others with it
            before, after = row[0], row[0] | (row[end] - row[start])
            rests = [self._row(after)]
        if unknown and (before, after) == (row[0], row[-1]):
            raise StuckError("nothing tells them apart")
        shown = self._look(before, after, means, whole)
        names = self._names(before, after)
        main = shown.of(whole.case, whole.subject)
        if main is None or not (main.base != main.head if main.exact else _changed(main)):
            raise StuckError(f"{names[0]} alone does not show the change")
        names += sorted({move.package for move in shown.packages} & self.items.keys() - {*names})
        named = [self.items[name] for name in names]
        fields = {self.unit: named, "skipped": unknown, "findings": (main,)}
        self.shares.append(Share.model_validate(fields))
        left = order[order.index(means) :]
        left = [each for each in left if (each == "duets") == (means == "duets")]
        return [(rest, left) for rest in rests if len(rest) > 1]

    def _first(
        self, row: Sequence[State], order: Sequence[Means]
    ) -> tuple[Means, Sequence[Finding]]:
        """Return what the first means shows that shows any change between the ends of a row."""
        failure = ""
        for means in order:
            if means == "duets" != order[0]:
                why = f"no count ({failure})" if failure else "both execute the same instructions"
                self.say(f"what a request does shows nothing; {why}: duets decide")
            try:
                comparison = self.look(row[0], row[-1], means, "")
            except CountError as problem:  # without Valgrind
                failure = str(problem)
                continue
            figures = [each for each in comparison.findings if means_of(each) == means]
            if moved := [each for each in figures if each.moved or _changed(each)]:
                return means, moved
            failure = _why(comparison, INSTRUCTIONS)
        return order[-1], ()

    def _narrow(
        self, row: Sequence[State], whole: Finding, means: Means
    ) -> tuple[Sequence[State], tuple[str, ...]]:
        """Find the states with most of a change, and why nothing is known of all but the last."""
        what = METRICS[whole.subject].noun if whole.subject in METRICS else whole.subject
        what = f"what a request does ({what})" if means == "effects" else what
        self.say(f"{len(row) - 1} {self.unit}: which of them changed {what} at {whole.case}?")
        before, after = 0.0, _amount(whole)
        unknown: dict[State, str] = {}

        def ask(state: State) -> Answer:
            """Whether a state has the larger part of what is left of the change."""
            nonlocal before, after
            name = ", ".join(self._names(row[row.index(state) - 1], state))
            try:
                comparison = self._look(row[0], state, means, whole)
                change = _change(comparison, whole, (before + after) / 2)
            except DuetbenchError as problem:
                if str(problem) not in unknown.values():
                    self.say(f"{name}: skipped ({problem})")
                unknown[state] = str(problem)
                return "unknown"
            has = abs(change - before) > abs(after - change)
            before, after = (before, change) if has else (change, after)
            self.say(f"{name}: {'has the change' if has else 'not yet'}")
            return "yes" if has else "no"

        states = first_bad(row[1:], ask)
        return states, tuple(unknown[state] for state in states[:-1])

    def _look(self, before: State, after: State, means: Means, whole: Finding) -> Comparison:
        return self.look(before, after, means, whole.case if means == "duets" else "")


def means_of(finding: Finding) -> Means | None:
    """Return the means that has a finding's figures; None: it is not searched."""
    if finding.exact:
        known = finding.base is not None and finding.head is not None
        return "effects" if known and finding.subject in (KEPT, *TELLING) else None
    if None in (finding.ratio, finding.low, finding.high):
        return None
    if finding.subject == INSTRUCTIONS:
        return "counts"
    return "duets" if finding.subject in METRICS else None


def _amount(finding: Finding) -> float:
    """How much of something changed: times per request, or the logarithm of a ratio."""
    if finding.exact:
        return (finding.head or 0.0) - (finding.base or 0.0)
    return math.log(finding.ratio or 1.0)


def _size(finding: Finding) -> float:
    """How large a change is, so that those of one means can be compared."""
    if finding.exact:  # as if a request did it once more
        return abs(math.log(((finding.head or 0.0) + 1) / ((finding.base or 0.0) + 1)))
    return abs(_amount(finding)) / math.log1p(finding.limit or 1.0)


def _changed(finding: Finding) -> bool:
    """Whether a figure surely changed, at least by half of what somebody acts on."""
    sure = finding.interval is not None and finding.interval.excludes(1.0)
    return sure and abs(_amount(finding)) >= math.log1p(finding.limit) / 2


def _change(comparison: Comparison, whole: Finding, middle: float) -> float:
    """Return how much of a whole change a comparison has; raises DuetbenchError if unknown.

    A case that the states cannot affect has none of it. What is not decided is known if it surely
    lies on one side of the middle.
    """
    finding = comparison.of(whole.case, whole.subject)
    case = next((each for each in comparison.cases if each.case.id == whole.case), None)
    if finding is None and (case.effects and whole.exact if case else not comparison.missing):
        return 0.0
    if finding is None or means_of(finding) != means_of(whole):
        raise DuetbenchError(_why(comparison, whole.subject) or _why(comparison) or "not measured")
    sure = finding.interval is not None and finding.interval.excludes(math.exp(middle))
    if finding.verdict is Verdict.UNKNOWN and not sure:
        raise DuetbenchError("undecided")
    return _amount(finding)


def _why(comparison: Comparison, subject: str = "") -> str:
    """Say why there is no figure, of a subject or of any."""
    reasons = [each.why for each in comparison.findings if subject in ("", each.subject)]
    missing = [each.reason for each in comparison.missing]
    return next(filter(None, reasons if subject else (*reasons, *missing, *comparison.notes)), "")
