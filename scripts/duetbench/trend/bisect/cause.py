"""Results of a search for the cause of a change, and how they enter the change's record."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from duetbench.store.change import SUSPECTS, Cause, Change, Effect, Share
from duetbench.store.comparison import PackageChange
from duetbench.trend.conclude import culprit

ONLY_CAME_OR_WENT: Final = "packages only came or went, which cannot be tried apart"
NOT_DECIDED: Final = "the duets did not decide"
ALONE_NOT_DECIDED: Final = "alone the duets did not decide"
NOT_AGAIN: Final = "played again, the whole change is not seen"
NOT_LOADED: Final = "the case loads none of them"
NOT_APART: Final = "no mixture that parts them can be installed"
NOT_PLAYED: Final = "they cannot be played apart"
TIME_IS_UP: Final = "the time was up"
NOT_ALONE: Final = "{} alone does not show the change"

Names = frozenset[str]
"""Packages that have moved in a mixture."""


@dataclass(frozen=True, slots=True)
class Part:
    """Packages that cannot be told apart, and what they do alone.

    `dragged` moved with them and does nothing by itself.
    """

    packages: Names
    dragged: Names
    effect: Effect


@dataclass(slots=True)
class Outcome:
    """Result of a search, as `Cause` has it, with packages instead of releases."""

    whole: Effect | None = None
    parts: list[Part] = field(default_factory=list)
    rest: Effect | None = None
    suspects: Names = frozenset()
    reason: str = ""


def blame(record: Change, cause: Cause) -> Change:
    """The record with its culprit, or with what is known of it, in place of an earlier search's."""
    note = SUSPECTS.sub("", record.note).strip()
    if cause.reason:
        which = "rest of the cause" if cause.shares else "cause"
        rest = f"The {which} is among {', '.join(cause.suspects)}: {cause.reason}."
        note = " ".join(filter(None, (note, rest)))
    release = cause.shares[0].releases[0] if cause.shares else None
    update = {"culprit": release, "shares": cause.shares, "narrowed": None, "note": note}
    return record.model_copy(update=update)


def cause_of(outcome: Outcome, packages: Sequence[PackageChange]) -> Cause:
    """Turn the packages of a result into releases, the largest share first.

    Packages that could not be told apart go by the shortest name, the one that the others extend:
    pydantic, and with it pydantic-core.
    """
    by_name = {move.package: move for move in packages}

    def share(part: Part) -> Share:
        names = sorted(part.packages, key=lambda name: (len(name), name))
        names += sorted(part.dragged)
        releases = [culprit((by_name[name],)) for name in names]
        return Share(releases=tuple(filter(None, releases)), **part.effect.model_dump())

    shares = sorted(map(share, outcome.parts), key=lambda one: -abs(math.log(one.ratio)))
    return Cause(
        whole=outcome.whole,
        shares=tuple(shares),
        rest=outcome.rest,
        suspects=tuple(sorted(outcome.suspects)),
        reason=outcome.reason,
    )
