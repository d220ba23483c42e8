"""Which commit did it: a search over a repository's own commits, by what shows it soonest.

Every look compares GOOD with a commit. What a request does is exact and takes seconds. Between
commits at which it does the same, counts of instructions decide. If none of these shows anything
between GOOD and BAD, duets decide.

The largest change is searched first, then what is left before the commit found, and after it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Final, Literal, NamedTuple

from duetbench.core.errors import CountError, DuetbenchError, UsageError
from duetbench.core.metrics import INSTRUCTIONS, METRICS
from duetbench.core.model import KEPT, TELLING
from duetbench.core.units import Interval
from duetbench.host import git
from duetbench.host.console import Console
from duetbench.judge import revisions
from duetbench.judge.comparison import compare
from duetbench.judge.duet_loop import Reporter
from duetbench.judge.session import Extent
from duetbench.project.setting import Contrast
from duetbench.project.subject import Subject
from duetbench.store.change import Commit, CommitCause, Trait
from duetbench.store.comparison import Comparison
from duetbench.trend.bisection import half, largest

Means = Literal["effects", "counts", "duets"]

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
    project: Subject,
    ends: tuple[str, str],
    select: str,
    seconds: float,
    reporter: Reporter,
    *,
    start: bool = False,
) -> tuple[CommitCause, ...]:
    """Search the commits between GOOD and BAD on this machine, which nothing else may use.

    `select` is a glob over the ids of cases, `seconds` of load are used at most, or of starts if
    what changed is the `start` of servers. Raises as `list_commits` and `CommitSearch.run`.
    """
    commits = list_commits(project.root, *ends)
    quiet = Reporter(Console(quiet=True))
    each = seconds / (3 + math.ceil(math.log2(len(commits))))

    def look(commit: str, means: Means) -> Comparison:
        contrast, cases = Contrast((ends[0], commit)), (select,)
        if means != "duets":
            return compare(project, contrast, Extent(cases, only=means), quiet)
        # BAD decides what is searched: it gets the time of two.
        budget = 2 * each if commit == commits[-1].id else each
        return compare(project, contrast, Extent(cases, budget, start=start), reporter)

    return CommitSearch(commits, look, reporter.say).run(loaded=start)


class _Row(NamedTuple):
    """A figure of a commit, whether it differs from GOOD's, and that one.

    It is how often a request does something, or the log ratio to GOOD.
    """

    moved: bool
    good: float
    figure: Interval


@dataclass
class CommitSearch:
    """A search for the commits behind what differs between GOOD and the last of some commits.

    Attributes:
        commits: All after GOOD, oldest first; the last is BAD. GOOD's place among them is -1.
        look: Compares GOOD with one of them, by one means.
        say: Gets a sentence per commit.
    """

    commits: Sequence[Commit]
    look: Callable[[str, Means], Comparison]
    say: Callable[[str], None]

    def __post_init__(self) -> None:
        self.look = cache(self.look)

    def run(self, *, loaded: bool = False) -> tuple[CommitCause, ...]:
        """Search; `loaded`: only load, or starts, can show the change.

        Returns:
            The largest change first; empty: nothing differs that was looked at. Of what only duets
            show, which take minutes, the largest change.

        Raises:
            DuetbenchError: GOOD and BAD themselves cannot be compared.
        """
        last = len(self.commits) - 1
        causes = [] if loaded else self._causes(-1, last, ("effects", "counts"))
        if not causes and not loaded:
            failure = self._count_failure()
            why = f"no count ({failure})" if failure else "both execute the same instructions"
            self.say(f"what a request does shows nothing; {why}: duets decide")
        causes = causes or self._causes(-1, last, ("duets",))
        return tuple(sorted(causes, key=lambda cause: -cause.traits[0].size))

    def _causes(self, good: int, bad: int, order: Sequence[Means]) -> list[CommitCause]:
        """Find what changed between two places, by the first means that shows anything there."""
        if good == bad or not order:
            return []
        means = order[0]
        traits = self._traits(good, bad, means)
        if not traits:
            return self._causes(good, bad, order[1:])
        cause, before, after = self._largest(good, bad, means, traits)
        parts = (good, before), (after, bad)
        if means != "duets":
            return [cause, *(one for part in parts for one in self._causes(*part, order))]
        for start, end in parts:
            if start < end and self._traits(start, end, means):
                names = [self.commits[at].id[:10] if at >= 0 else "GOOD" for at in (start, end)]
                self.say(f"it also changed between {' and '.join(names)}: search there as well")
        return [cause]

    def _largest(
        self, good: int, bad: int, means: Means, traits: dict[Place, Trait]
    ) -> tuple[CommitCause, int, int]:
        """Find the cause of the largest trait between two places, and the places around it."""
        place = max(traits, key=lambda place: traits[place].weight)
        case, name = place
        what = METRICS[name].noun if name in METRICS else name
        what = f"what a request does ({what})" if means == "effects" else what
        self.say(f"{bad - good} commits: which of them changed {what} at {case}?")

        def say(at: int, answer: str) -> None:
            self.say(f"{self.commits[at].id[:10]} {self.commits[at].subject}: {answer}")

        figure = partial(self._figure, place=place, means=means)
        ends = figure(good).estimate, figure(bad).estimate
        row = range(good + 1, bad + 1)
        found, skipped = largest(row, ends, lambda at: [figure(at)], say)
        before, after = found[0] - 1, found[-1]
        changed = {place: self._trait(before, after, place, means)}
        changed |= self._traits(before, after, means)
        cause = CommitCause(
            traits=tuple(trait for of, trait in changed.items() if of[0] == case),
            commits=tuple(self.commits[at] for at in found),
            skipped=tuple((self.commits[at], skipped[at]) for at in found[:-1]),
        )
        return cause, before, after

    def _traits(self, good: int, bad: int, means: Means) -> dict[Place, Trait]:
        """Return what differs between GOOD and BAD, and surely between two places as well."""
        traits = {}
        try:
            whole = self._rows(len(self.commits) - 1, means)
        except CountError:  # without Valgrind
            return {}
        for place in (place for place, row in whole.items() if row.moved):
            try:
                before, after = (self._figure(at, place, means) for at in (good, bad))
            except DuetbenchError:
                continue
            size, rest = abs(after.estimate - before.estimate), REST_KEPT if KEPT in place else REST
            least = rest * abs(whole[place].figure.estimate - whole[place].good)
            if size >= least and size > math.hypot(half(before), half(after)):
                traits[place] = self._trait(good, bad, place, means)
        return traits

    def _trait(self, good: int, bad: int, place: Place, means: Means) -> Trait:
        """Describe how a figure differs between two places."""
        before, after = (self._figure(at, place, means).estimate for at in (good, bad))
        if means == "effects":
            return Trait(case=place[0], metric=place[1], effect=(before, after))
        return Trait(case=place[0], metric=place[1], ratio=math.exp(after - before))

    def _figure(self, at: int, place: Place, means: Means) -> Interval:
        """Return a figure of a commit; raises DuetbenchError if nothing tells it.

        A case that a commit cannot affect is as GOOD has it.
        """
        good = self._rows(len(self.commits) - 1, means)[place].good
        if at >= 0:
            rows = self._rows(at, means)
            if place in rows:
                return rows[place].figure
            comparison = self.look(self.commits[at].id, means)
            if comparison.missing or any(case.case.id == place[0] for case in comparison.cases):
                raise DuetbenchError(_reason(comparison, place[0]))
        return Interval(good, good, good)

    def _rows(self, at: int, means: Means) -> dict[Place, _Row]:
        """Return the figures of a commit."""
        comparison, rows = self.look(self.commits[at].id, means), {}
        for case in comparison.cases:
            name, seen = case.case.id, case.effects
            if means != "effects" or not seen:
                continue
            for kind in (KEPT, *TELLING):
                good, bad = seen.figure(kind, 0), seen.figure(kind, 1)
                moved = (seen.leaks or seen.repairs) if kind == KEPT else kind in seen.moved
                if good is not None and bad is not None:
                    rows[name, kind] = _Row(moved, good, Interval(bad, bad, bad))
        for finding in comparison.findings:
            counted = finding.subject == INSTRUCTIONS
            if finding.exact or means != ("counts" if counted else "duets"):
                continue
            if finding.ratio and finding.low and finding.high:
                ratio, low, high = map(math.log, (finding.ratio, finding.low, finding.high))
                figure = Interval(ratio, low, high)
                rows[finding.case, finding.subject] = _Row(finding.moved, 0.0, figure)
        return rows

    def _count_failure(self) -> str:
        """Return why a case of BAD was not counted; empty: all were."""
        try:
            findings = self.look(self.commits[-1].id, "counts").findings
        except CountError as problem:
            return str(problem)
        return next((row.why for row in findings if row.subject == INSTRUCTIONS and row.why), "")


def _reason(comparison: Comparison, name: str) -> str:
    """Why a comparison has no figure of a case."""
    if all(case.case.id != name for case in comparison.cases):
        return comparison.missing[0].reason
    whys = {row.subject: row.why for row in comparison.findings if row.case == name and row.why}
    unseen = next((note for note in comparison.notes if "not observed" in note), "")
    return unseen or whys.get(INSTRUCTIONS) or next(iter(whys.values()), "nothing was measured")
