"""The causes of a change in words: releases and commits."""

import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from duetbench.core.change import Cause, Share
from duetbench.core.comparison import INSTRUCTIONS, Finding
from duetbench.core.comparison import row as row_of
from duetbench.core.effects import KEPT
from duetbench.core.text import some
from duetbench.core.units import Interval
from duetbench.report import changes

_SUSPECTS: Final = 20  # named


def cause_lines(cause: Cause) -> tuple[str, ...]:
    """Describe the result of a search among packages, one sentence per line."""
    lines = (f"{share.names}: {_change(share.findings[0])} alone" for share in cause.shares)
    return (*lines, *_suspects(cause))


def commit_lines(cause: Cause, good: str, bad: str, options: Sequence[str] = ()) -> tuple[str, ...]:
    """Describe the result of a search among commits; `options` are the search's own."""
    if not (cause.shares or cause.reason):
        return (f"between {good} and {bad} nothing was detected that a commit could have done",)
    lines = [*(line for share in cause.shares for line in _commits(share)), *_suspects(cause)]
    if cause.shares:
        last = cause.shares[0].commits[-1].id[:10]
        verb = "compare" if "--tests" in options else "why"
        lines.append(f"next: duetbench {verb} {last}~1 {last} {shlex.join(options)}".rstrip())
    return tuple(lines)


def _suspects(cause: Cause) -> Iterator[str]:
    if cause.reason:
        subject = "the rest of the cause is" if cause.shares else "the cause is"
        yield f"{subject} among {some(cause.suspects, _SUSPECTS)}: {cause.reason}"


def _commits(share: Share) -> Iterator[str]:
    """Name commits, with what they changed, and why they were not told apart."""
    n = len(share.commits)
    who = str(share.commits[0]) if n == 1 else f"one of {n} commits"
    yield f"{who}: {share.findings[0].case}: {_change(share.findings[0])}"
    yield from (f"  {commit}" for commit in share.commits if n > 1)
    for commit, reason in zip(share.commits, share.skipped, strict=False):
        yield f"skipped: {commit.id[:10]}: {reason}"


def _change(finding: Finding) -> str:
    """Describe what changed; of duets, how much."""
    if finding.exact:
        of, suffix = row_of(finding.subject), " for every request" * (finding.subject == KEPT)
        name = KEPT if suffix else of.noun
        return f"{name}{suffix} {of.format(finding.base or 0.0)} → {of.format(finding.head or 0.0)}"
    size = f"{changes.change(finding.interval or Interval(1.0))} {row_of(finding.subject).title}"
    sure = [changes.ends(finding.interval), f"{finding.n} duets" if finding.n > 1 else ""]
    known = ", ".join(filter(None, sure)) if finding.subject != INSTRUCTIONS else ""
    return f"{size} ({known})" if known else size
