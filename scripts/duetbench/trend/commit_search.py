"""Which commit did it: a search over a repository's own commits, by what shows it soonest.

Every look compares GOOD with a commit. What a request does is exact and takes seconds: the largest
difference is searched first, then what the commits found so far leave of any. Where GOOD and BAD do
the same, counts of instructions decide: rough ones, if these tell the change well. Where both
execute the same, duets decide.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

from duetbench.core.errors import DuetbenchError, UsageError
from duetbench.core.metrics import INSTRUCTIONS, METRICS
from duetbench.core.model import KEPT, TELLING
from duetbench.core.units import Interval
from duetbench.host import git
from duetbench.host.console import Console
from duetbench.judge import revisions
from duetbench.judge.comparison import Contrast, Extent, compare
from duetbench.judge.duet_loop import Reporter
from duetbench.project.project import Project
from duetbench.store.change import Commit, CommitCause, Trait
from duetbench.store.comparison import CaseComparison, Comparison, Judgement, weight

Means = float | Literal["effects", "rough", "counts"]
"""Seconds of load, or what shows without any."""

Look = Callable[[str, Means], Comparison]
"""Compares GOOD with a commit."""

COUNTS: Final[tuple[Means, ...]] = ("rough", "counts")
"""How instructions are counted: in half the time, and as well as possible."""

WELL: Final = 0.6
"""Least share of a change that its own interval holds if counts tell none of it from all of it."""

_NONE: Final = Interval(0.0, 0.0, 0.0)


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
) -> CommitCause | None:
    """Search the commits between GOOD and BAD on this machine, which nothing else may use.

    `select` is a glob over the ids of cases, `seconds` of load are used at most, or of starts if
    what changed is the `start` of servers. Raises as `list_commits` and `find`.
    """
    quiet = Reporter(Console(quiet=True))

    def look(commit: str, means: Means) -> Comparison:
        seconds = means if isinstance(means, float) else None
        extent = Extent(
            select=(select,),
            seconds=seconds,
            start=start,
            counts_only=means in COUNTS,
            rough=means == "rough",
            effects_only=means == "effects",
        )
        contrast = Contrast((ends[0], commit))
        return compare(project, contrast, extent, reporter if seconds else quiet)

    commits = list_commits(project.root, *ends)
    return find(commits, look, seconds, reporter.say, loaded=start)


def find(
    commits: Sequence[Commit],
    look: Look,
    seconds: float,
    say: Callable[[str], None],
    *,
    loaded: bool = False,
) -> CommitCause | None:
    """Find the commit behind the largest change between GOOD and the last of some commits.

    Of what a request does, it names others as well.

    Args:
        commits: All after GOOD, oldest first; the last is BAD.
        look: Compares GOOD with one of them.
        seconds: Of load, for the whole search, where nothing else tells anything.
        say: Gets a sentence per commit.
        loaded: Only load, or starts, can show the change.

    Returns:
        None if nothing differs that was looked at.

    Raises:
        DuetbenchError: GOOD and BAD themselves cannot be compared.
    """
    each = seconds / (3 + math.ceil(math.log2(len(commits))))
    means: Means = each
    trait = None
    if not loaded:
        if found := _find_effects(commits, look, say):
            return found
        say("a request does the same at both ends: counts of instructions decide")
        for means in COUNTS:
            counted = look(commits[-1].id, means)
            trait = _trait(counted)
            whole = _share(trait, counted) if trait else None
            if whole and whole.ends and whole.ends[0] > WELL:
                break
        unknown = next((case.no_count for case in counted.cases if case.no_count), "")
        why = f"no count ({unknown})" if unknown else "both execute the same instructions"
    if trait is None:
        if not loaded:
            say(f"{why}: duets decide, {each:.0f} s each")
        means = each
        trait = _trait(look(commits[-1].id, 2 * each))
    if trait is None:
        return None
    return _narrow(commits, trait, look, means, say, {-1: 0.0, len(commits) - 1: 1.0})


def _find_effects(
    commits: Sequence[Commit], look: Look, say: Callable[[str], None]
) -> CommitCause | None:
    """Find all commits that changed what a request does; None: it does the same at both ends.

    If these explain less than half of what it executes more, it is another commit's: counts decide.
    """
    seen: dict[tuple[str, Means], Comparison | DuetbenchError] = {}

    def once(commit: str, means: Means) -> Comparison:
        if (commit, means) not in seen:
            try:
                seen[commit, means] = look(commit, means)
            except DuetbenchError as problem:
                seen[commit, means] = problem
        if isinstance(found := seen[commit, means], DuetbenchError):
            raise found
        return found

    def share(trait: Trait, place: int) -> float:
        means: Means = "effects" if trait.effect else "rough"
        known = _share(trait, once(commits[place].id, means)) if place >= 0 else _NONE
        return known.estimate if known else math.nan

    traits = [*_effects(once(commits[-1].id, "effects"))]
    gaps, causes, counted = [(-1, len(commits) - 1)], list[CommitCause](), not traits
    while True:
        parts = [(abs(share(trait, gap[1]) - share(trait, gap[0])), trait, gap)
                 for trait in traits for gap in gaps if gap[0] < gap[1]]  # fmt: skip
        left = [part for part in parts if part[0] >= (part[1].rest if part[1].effect else 0.5)]
        if not left and not counted:
            counted = True
            whole = once(commits[-1].id, "rough")
            executed = _trait(whole)
            known = _share(executed, whole) if executed else None
            if executed and known and known.ends and known.ends[0] > WELL:
                traits.append(executed)
            continue
        if not left:
            break
        _, trait, gap = max(left, key=lambda part: part[0] * _size(part[1]))
        shares = {place: share(trait, place) for place in gap}
        means: Means = "effects" if trait.effect else "rough"
        cause = _narrow(commits, trait, once, means, say, shares)
        before, after = commits.index(cause.commits[0]) - 1, commits.index(cause.commits[-1])
        also = [
            other.between(share(other, before), share(other, after))
            for other in traits
            if (other.case == trait.case and trait.effect and other.effect)
            and other.metric != trait.metric
            and abs(share(other, after) - share(other, before)) >= other.rest
        ]
        causes.append(cause.model_copy(update={"also": tuple(also)}))
        gaps.remove(gap)
        gaps += [(gap[0], before), (after, gap[1])]
    causes.sort(key=lambda cause: -abs(cause.share) * _size(cause.trait))
    return causes[0].model_copy(update={"others": tuple(causes[1:])}) if causes else None


def _narrow(
    commits: Sequence[Commit],
    trait: Trait,
    look: Look,
    means: Means,
    say: Callable[[str], None],
    shares: dict[int, float],
) -> CommitCause:
    """Find which commits did most of a change between two places, whose shares of it are known."""
    good, bad = sorted(shares)
    low, high = shares[good], shares[bad]
    half = (low + high) / 2
    what = METRICS[trait.metric].noun if trait.metric in METRICS else trait.metric
    what = f"what a request does ({what})" if trait.effect else what
    say(f"{bad - good} commits: which of them changed {what} at {trait.case}?")
    skipped: dict[int, str] = {}
    while places := [at for at in range(good + 1, bad) if at not in skipped]:
        at = min(places, key=lambda place: abs(2 * place - good - bad))
        try:
            share = _share(trait, comparison := look(commits[at].id, means))
            # Other work may have left a count no time; a full one that is open stays so.
            if (means in COUNTS and share is None) or (means == "rough" and _is_open(share, half)):
                share = _share(trait, comparison := look(commits[at].id, "counts"))
            reason = "" if share else _reason(comparison, trait.case)
        except DuetbenchError as problem:
            share, reason = None, str(problem)
        if share and share.ends and _is_open(share, half):
            low, high = share.ends
            share, reason = None, f"undecided: {low:.0%} to {high:.0%} of the change"
        name = f"{commits[at].id[:10]} {commits[at].subject}"
        if share is None:
            skipped[at] = reason
            say(f"{name}: skipped ({reason})")
            continue
        shares[at] = share.estimate
        nearer = (share.estimate > half) is (high > low)
        good, bad = (good, at) if nearer else (at, bad)
        part = f"{share.estimate:.0%}".replace("-0%", "0%")
        say(f"{name}: {'as BAD' if bad == at else 'as GOOD'} ({part} of the change)")
    return CommitCause(
        trait=trait,
        commits=tuple(commits[good + 1 : bad + 1]),
        share=shares[bad] - shares[good],
        measured=tuple((commits[at], share) for at, share in sorted(shares.items()) if at >= 0),
        skipped=tuple((commits[at], reason) for at, reason in sorted(skipped.items())),
    )


def _effects(comparison: Comparison) -> Iterator[Trait]:
    """Yield what a request does otherwise, the most telling kind first."""
    for kind in (KEPT, *TELLING):
        for case in comparison.cases:
            effects = case.effects
            if effects is None or not (
                kind in effects.moved or (kind == KEPT and (effects.leaks or effects.repairs))
            ):
                continue
            old, new = (effects.figure(kind, side) for side in (0, 1))
            if old is not None and new is not None and old != new:
                yield Trait(case=case.case.id, metric=kind, effect=(old, new))


def _size(trait: Trait) -> float:
    """How large a change is: its logarithm; of an effect, as if a request had it once more."""
    good, bad = trait.effect or (0.0, trait.ratio - 1)
    return abs(math.log((bad + 1) / (good + 1)))


def _trait(comparison: Comparison) -> Trait | None:
    """The case with the largest change, in units of what is material, and the first such figure.

    Counts come first: they are exact, and take seconds. None: nothing changed.
    """
    best, found = 0.0, None
    for case in comparison.cases:
        moved = [row for row in _rows(case) if row[1].moved and row[1].interval]
        size = max((weight(row, comparison.method) for _, row in moved), default=0.0)
        if size > best and (ratio := moved[0][1].ratio):
            best, found = size, Trait(case=case.case.id, metric=moved[0][0], ratio=ratio)
    return found


def _share(trait: Trait, comparison: Comparison) -> Interval | None:
    """The share of the change that a commit has: 0 as GOOD, 1 as BAD; None: it has no figure.

    Shares are of logarithms, so that those of successive commits add up; of effects, of numbers. A
    case that the commit cannot affect is as GOOD has it.
    """
    entry = _entry(comparison, trait.case)
    if entry is None:
        return None if comparison.missing else _NONE
    if trait.effect is not None:
        good, bad = trait.effect
        figure = entry.effects.figure(trait.metric, 1) if entry.effects else None
        if figure is None:
            return None
        share = (figure - good) / (bad - good)
        return Interval(share, share, share)
    ratio = next((row.interval for name, row in _rows(entry) if name == trait.metric), None)
    if ratio is None or ratio.ends is None:
        return None
    whole = math.log(trait.ratio)
    low, high = sorted(math.log(end) / whole for end in ratio.ends)
    return Interval(math.log(ratio.estimate) / whole, low, high)


def _is_open(share: Interval | None, half: float) -> bool:
    """Whether nothing tells if a commit has more than half of the change."""
    if share is None or not share.ends:
        return share is None
    low, high = share.ends
    return low <= half <= high and low < high  # an exact half is known


def _rows(case: CaseComparison) -> Iterator[tuple[str, Judgement]]:
    """A case's judgements with their metrics: that of its count is `instructions`."""
    if case.count is not None:
        yield INSTRUCTIONS, case.count
    yield from ((row.metric, row) for row in case.judgements)


def _entry(comparison: Comparison, case: str) -> CaseComparison | None:
    return next((entry for entry in comparison.cases if entry.case.id == case), None)


def _reason(comparison: Comparison, case: str) -> str:
    """Why a comparison has no figure of a case."""
    entry = _entry(comparison, case)
    if entry is None:
        return next((m.reason for m in comparison.missing), "it does not have the case")
    failures = (words for duet in entry.duets for words in duet.failures("head"))
    unseen = next((note for note in comparison.notes if "not observed" in note), "")
    return unseen or entry.no_count or next(failures, "") or "nothing was measured"
