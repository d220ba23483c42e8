"""Which commit did it: a search over a repository's own commits, by what shows it soonest.

Every look compares GOOD with a commit. What a request does is exact and takes seconds. Between
commits at which it does the same, counts of instructions decide. If none of these shows anything
between GOOD and BAD, duets decide.

The largest change is searched first, then what is left before the commit found, and after it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal, NamedTuple

from duetbench.core.errors import CountError, DuetbenchError, UsageError
from duetbench.core.metrics import INSTRUCTIONS, METRICS
from duetbench.core.model import KEPT, TELLING
from duetbench.core.units import Interval
from duetbench.host import git
from duetbench.host.console import Console
from duetbench.judge import revisions
from duetbench.judge.comparison import Extent, compare
from duetbench.judge.duet_loop import Reporter
from duetbench.project.project import Project
from duetbench.project.setting import Contrast
from duetbench.store.change import Commit, CommitCause, Trait
from duetbench.store.comparison import CaseComparison, Comparison
from duetbench.trend.bisection import PRECISE, first_bad

Means = Literal["effects", "counts", "duets"]

Look = Callable[[str, Means], Comparison]
"""Compares GOOD with a commit, by one means."""

Place = tuple[str, str]
"""A case, and what differs there: a kind of effect, `instructions`, or a metric."""

REST: Final = 0.2
"""Share of a change from which on what is left of it is searched as well."""

REST_KEPT: Final = 0.4  # the same of bytes that a request keeps, which are rough


def list_commits(root: Path, good: str, bad: str) -> tuple[Commit, ...]:
    """List the commits after GOOD up to BAD, oldest first, of a branch merged only the merge.

    Raises UsageError if a name is no commit, or there is none between.
    """
    ends = [revisions.resolve(root, name).commit for name in (good, bad)]
    log = ["log", "--first-parent", "--reverse", "--format=%H %p%x00%s", f"{ends[0]}..{ends[1]}"]
    commits = []
    for line in git.ask(root, *log).splitlines():
        ids, _, subject = line.partition("\0")
        commit, *parents = ids.split()
        commits.append(Commit(id=commit, subject=subject, merge=len(parents) > 1))
    if not commits:
        raise UsageError(f"no commit is between {good} and {bad}: is {good} the earlier one?")
    return tuple(commits)


def search(
    project: Project,
    ends: tuple[str, str],
    select: str,
    seconds: float,
    reporter: Reporter,
    *,
    start: bool = False,
) -> tuple[CommitCause, ...]:
    """Search the commits between GOOD and BAD on this machine, which nothing else may use.

    `select` is a glob over the ids of cases, `seconds` of load are used at most, or of starts if
    what changed is the `start` of servers. Raises as `list_commits` and `find`.
    """
    commits = list_commits(project.root, *ends)
    quiet = Reporter(Console(quiet=True))
    each = seconds / (3 + math.ceil(math.log2(len(commits))))

    def look(commit: str, means: Means) -> Comparison:
        loaded = means == "duets"
        # BAD decides what is searched: it gets the time of two.
        budget = 2 * each if commit == commits[-1].id else each
        extent = Extent(
            select=(select,),
            seconds=budget if loaded else None,
            start=start,
            only="" if means == "duets" else means,
        )
        return compare(project, Contrast((ends[0], commit)), extent, reporter if loaded else quiet)

    return find(commits, look, reporter.say, loaded=start)


def find(
    commits: Sequence[Commit], look: Look, say: Callable[[str], None], *, loaded: bool = False
) -> tuple[CommitCause, ...]:
    """Find the commits behind what differs between GOOD and the last of some commits.

    Args:
        commits: All after GOOD, oldest first; the last is BAD.
        look: Compares GOOD with one of them.
        say: Gets a sentence per commit.
        loaded: Only load, or starts, can show the change.

    Returns:
        The largest change first; empty: nothing differs that was looked at. Of what only duets
        show, which take minutes, the largest change.

    Raises:
        DuetbenchError: GOOD and BAD themselves cannot be compared.
    """
    search = _Search(commits, cache(look), say)
    causes = [] if loaded else search.causes(-1, search.last, ("effects", "counts"))
    if not causes:
        if not loaded:
            failure = search.count_failure()
            why = f"no count ({failure})" if failure else "both execute the same instructions"
            say(f"what a request does shows nothing; {why}: duets decide")
        causes = search.causes(-1, search.last, ("duets",))
    return tuple(sorted(causes, key=lambda cause: -cause.traits[0].size))


class _Row(NamedTuple):
    """A figure of a commit, whether it differs from GOOD's, and that one.

    It is how often a request does something, or the log ratio to GOOD.
    """

    moved: bool
    good: float
    figure: Interval


@dataclass
class _Search:
    """A search among commits by their places in the list; GOOD's is -1."""

    commits: Sequence[Commit]
    look: Look
    say: Callable[[str], None]

    @property
    def last(self) -> int:
        """The place of BAD."""
        return len(self.commits) - 1

    def causes(self, good: int, bad: int, order: Sequence[Means]) -> list[CommitCause]:
        """Find what changed between two places, by the first means that shows anything there."""
        if good == bad or not order:
            return []
        means = order[0]
        traits = self._traits(good, bad, means)
        if not traits:
            return self.causes(good, bad, order[1:])
        place = max(traits, key=lambda place: traits[place].weight)
        found, skipped = self._narrow(good, bad, place, means)
        before, after = found[0] - 1, found[-1]
        first = _trait(place, means, *(self.figure(at, place, means) for at in (before, after)))
        also = self._traits(before, after, means)
        also.pop(place, None)
        cause = CommitCause(
            traits=(first, *(trait for (case, _), trait in also.items() if case == place[0])),
            commits=tuple(self.commits[at] for at in found),
            skipped=tuple((self.commits[at], skipped[at]) for at in found[:-1]),
        )
        parts = (good, before), (after, bad)
        if means != "duets":
            return [cause, *(one for part in parts for one in self.causes(*part, order))]
        for start, end in parts:
            if start < end and self._traits(start, end, means):
                names = [self.commits[at].id[:10] if at >= 0 else "GOOD" for at in (start, end)]
                self.say(f"it also changed between {' and '.join(names)}: search there as well")
        return [cause]

    def _narrow(
        self, good: int, bad: int, place: Place, means: Means
    ) -> tuple[Sequence[int], dict[int, str]]:
        """Find which commit did most of a change between two places, and which cannot tell."""
        case, name = place
        what = METRICS[name].noun if name in METRICS else name
        what = f"what a request does ({what})" if means == "effects" else what
        self.say(f"{bad - good} commits: which of them changed {what} at {case}?")
        ends = [self.figure(at, place, means).estimate for at in (good, bad)]
        skipped: dict[int, str] = {}

        def ask(at: int) -> bool | None:
            """Whether a commit has the larger part of what is left of the change."""
            title = f"{self.commits[at].id[:10]} {self.commits[at].subject}"
            try:
                figure = self.figure(at, place, means)
                _require_decided(figure, ends)
            except DuetbenchError as problem:
                skipped[at] = str(problem)
                self.say(f"{title}: skipped ({problem})")
                return None
            shows = abs(figure.estimate - ends[0]) > abs(ends[1] - figure.estimate)
            ends[1 if shows else 0] = figure.estimate
            self.say(f"{title}: {'has the change' if shows else 'not yet'}")
            return shows

        return first_bad(range(good + 1, bad + 1), ask), skipped

    def _traits(self, good: int, bad: int, means: Means) -> dict[Place, Trait]:
        """Return what differs between GOOD and BAD, and surely between two places as well."""
        traits = {}
        try:
            whole = _rows(self.comparison(self.last, means), means)
        except CountError:  # without Valgrind
            return {}
        for place in (place for place, row in whole.items() if row.moved):
            try:
                before, after = (self.figure(at, place, means) for at in (good, bad))
            except DuetbenchError:
                continue
            size, rest = abs(after.estimate - before.estimate), REST_KEPT if KEPT in place else REST
            least = rest * abs(whole[place].figure.estimate - whole[place].good)
            if size >= least and size > math.hypot(_half(before), _half(after)):
                traits[place] = _trait(place, means, before, after)
        return traits

    def comparison(self, at: int, means: Means) -> Comparison:
        return self.look(self.commits[at].id, means)

    def figure(self, at: int, place: Place, means: Means) -> Interval:
        """Return a figure of a commit; raises DuetbenchError if nothing tells it.

        A case that a commit cannot affect is as GOOD has it.
        """
        good = _rows(self.comparison(self.last, means), means)[place].good
        unchanged = Interval(good, good, good)
        if at < 0:
            return unchanged
        comparison = self.comparison(at, means)
        rows = _rows(comparison, means)
        if place in rows:
            return rows[place].figure
        case = next((case for case in comparison.cases if case.case.id == place[0]), None)
        if case is None and not comparison.missing:
            return unchanged
        raise DuetbenchError(_reason(comparison, case))

    def count_failure(self) -> str:
        """Return why a case of BAD was not counted; empty: all were."""
        try:
            findings = self.comparison(self.last, "counts").findings
        except CountError as problem:
            return str(problem)
        return next((row.why for row in findings if row.subject == INSTRUCTIONS and row.why), "")


def _rows(comparison: Comparison, means: Means) -> dict[Place, _Row]:
    """Return the figures of the commit that a comparison compares with GOOD."""
    rows = {}
    for case in comparison.cases:
        name, seen = case.case.id, case.effects
        if means == "effects" and seen:
            kept = seen.leaks or seen.repairs
            for kind in (KEPT, *TELLING):
                good, bad = seen.figure(kind, 0), seen.figure(kind, 1)
                moved = kept if kind == KEPT else kind in seen.moved
                if good is not None and bad is not None:
                    rows[name, kind] = _Row(moved, good, Interval(bad, bad, bad))
    for finding in comparison.findings:
        counted = finding.subject == INSTRUCTIONS
        if finding.exact or means != ("counts" if counted else "duets"):
            continue
        if finding.ratio and finding.low and finding.high:
            ratio, low, high = map(math.log, (finding.ratio, finding.low, finding.high))
            row = _Row(finding.moved, 0.0, Interval(ratio, low, high))
            rows[finding.case, finding.subject] = row
    return rows


def _trait(place: Place, means: Means, before: Interval, after: Interval) -> Trait:
    """Describe how a figure differs between two commits."""
    case, metric = place
    if means == "effects":
        return Trait(case=case, metric=metric, effect=(before.estimate, after.estimate))
    return Trait(case=case, metric=metric, ratio=math.exp(after.estimate - before.estimate))


def _require_decided(figure: Interval, ends: Sequence[float]) -> None:
    """Require that a figure is surely nearer to one of two ends, or precisely between them."""
    before, after = ends
    if not figure.excludes((before + after) / 2) and PRECISE * _half(figure) > abs(after - before):
        raise DuetbenchError("undecided")


def _half(figure: Interval) -> float:
    """Half the width of an interval."""
    low, high = figure.ends or (0.0, 0.0)
    return (high - low) / 2


def _reason(comparison: Comparison, case: CaseComparison | None) -> str:
    """Why a comparison has no figure of a case."""
    if case is None:
        return next((missing.reason for missing in comparison.missing), "")
    failures = (words for duet in case.duets for words in duet.failures("head"))
    unseen = next((note for note in comparison.notes if "not observed" in note), "")
    count = comparison.of(case.case.id, INSTRUCTIONS)
    uncounted = count.why if count else ""
    return unseen or uncounted or next(failures, "") or "nothing was measured"
