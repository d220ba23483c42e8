"""Which commit did it: a search over a repository's own commits, by what shows it soonest.

Every look compares GOOD with a commit. What a request does is exact and takes seconds. Where GOOD
and BAD do the same, counts of instructions decide: rough ones, if these tell the change well.
Where both execute the same, duets decide.
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
    means: Means = each if loaded else "effects"
    trait = None if loaded else _effect(look(commits[-1].id, means))
    if trait is None and not loaded:
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
    what = METRICS[trait.metric].noun if trait.metric in METRICS else trait.metric
    what = "what a request does" if trait.effect else what
    say(f"{len(commits)} commits: which of them changed {what} at {trait.case}?")
    shares: dict[int, float] = {-1: 0.0, len(commits) - 1: 1.0}
    skipped: dict[int, str] = {}
    good, bad = -1, len(commits) - 1
    while places := [at for at in range(good + 1, bad) if at not in skipped]:
        at = min(places, key=lambda place: abs(2 * place - good - bad))
        try:
            share = _share(trait, comparison := look(commits[at].id, means))
            # Other work may have left a count no time; a full one that is open stays so.
            if (means in COUNTS and share is None) or (means == "rough" and _is_open(share)):
                share = _share(trait, comparison := look(commits[at].id, "counts"))
            reason = "" if share else _reason(comparison, trait.case)
        except DuetbenchError as problem:
            share, reason = None, str(problem)
        if share and share.ends and _is_open(share):
            low, high = share.ends
            share, reason = None, f"undecided: {low:.0%} to {high:.0%} of the change"
        name = f"{commits[at].id[:10]} {commits[at].subject}"
        if share is None:
            skipped[at] = reason
            say(f"{name}: skipped ({reason})")
            continue
        shares[at] = share.estimate
        good, bad = (good, at) if share.estimate > 0.5 else (at, bad)
        part = f"{share.estimate:.0%}".replace("-0%", "0%")
        say(f"{name}: {'as BAD' if bad == at else 'as GOOD'} ({part} of the change)")
    return CommitCause(
        trait=trait,
        commits=tuple(commits[good + 1 : bad + 1]),
        share=shares[bad] - shares[good],
        measured=tuple((commits[at], share) for at, share in sorted(shares.items()) if at >= 0),
        skipped=tuple((commits[at], reason) for at, reason in sorted(skipped.items())),
    )


def _effect(comparison: Comparison) -> Trait | None:
    """The most telling effect that differs, and its case; None: a request does the same."""
    for kind in (KEPT, *TELLING):
        for case in comparison.cases:
            effects = case.effects
            if effects is None or not (
                kind in effects.moved or (kind == KEPT and (effects.leaks or effects.repairs))
            ):
                continue
            old, new = (effects.figure(kind, side) for side in (0, 1))
            if old is not None and new is not None and old != new:
                return Trait(case=case.case.id, metric=kind, effect=(old, new))
    return None


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


def _is_open(share: Interval | None) -> bool:
    """Whether nothing tells if a commit has most of the change."""
    return share is None or bool(share.ends and share.ends[0] <= 0.5 <= share.ends[1])


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
