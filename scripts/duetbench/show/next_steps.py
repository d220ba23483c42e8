"""What to do next, if a comparison left something open. Pure."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

from duetbench.core import units
from duetbench.core.metrics import METRICS
from duetbench.core.text import TOO_SMALL
from duetbench.show import formats
from duetbench.show.conclusion import ViewRow, number_of, of_groups
from duetbench.store.comparison import Comparison


def next_steps(comparison: Comparison, rows: Sequence[ViewRow]) -> Iterator[str]:
    """Say what to do next."""
    yield from _growing(comparison)
    lacking: dict[str, list[ViewRow]] = {"time": [], "quiet": [], "nothing": []}
    for row in of_groups(rows, "undecided", "unjudged"):
        lacking[_lacks(comparison, row)].append(row)
    if too_small := [note for note in comparison.notes if note.startswith(TOO_SMALL)]:
        note = f"{too_small[0][0].upper()}{too_small[0][1:]}."
        yield note + _turn(comparison, lacking["time"])
    elif short_of_time := lacking["time"]:
        seconds = sufficient_budget(comparison, short_of_time)
        about = f" (about {units.write_time(seconds)})" if seconds else ""
        yield (
            f"Too little time for {number_of(short_of_time, comparison)}: a larger --budget{about} "
            f"or fewer cases (--select) would decide.{_turn(comparison, short_of_time)}"
        )
    if noisy := lacking["quiet"]:
        cases = {row.case for row in noisy}
        duets = (duet for case in comparison.cases if case.case.id in cases for duet in case.duets)
        flags = sorted({flag for duet in duets for flag in duet.disturbed})
        yield (
            f"Too few {sample_of(noisy)}s were usable in {number_of(noisy, comparison)}: "
            f"{', '.join(flags)}. Fix what these flags report; more time on this machine may not "
            "help."
        )
    if sampled := lacking["nothing"]:
        yield (
            "Not decided with all the samples that a comparison takes: "
            f"{number_of(sampled, comparison)}. Any change is too small or too unsteady for this "
            "machine; more time does not help."
        )


def _growing(comparison: Comparison) -> Iterator[str]:
    """Name sides that keep memory for every request, if only one of them was loaded alone."""
    for case in comparison.cases:
        leaks = any(growth.course == "constant" for growth in case.growth.values())
        if leaks and len({growth.curve is not None for growth in case.growth.values()}) > 1:
            yield (
                f"{case.case.id}: there was no time to load the other side alone: a larger "
                "--budget tells whether the change did it."
            )


def with_too_little_time(comparison: Comparison, rows: Sequence[ViewRow]) -> list[ViewRow]:
    """Return the rows that more time would decide."""
    open_rows = of_groups(rows, "undecided", "unjudged")
    return [row for row in open_rows if _lacks(comparison, row) == "time"]


def _lacks(comparison: Comparison, row: ViewRow) -> Literal["time", "quiet", "nothing"]:
    """Return what a row lacks for an answer."""
    if row.group == "unjudged":
        return "quiet" if row.judgement.excluded else "time"
    most = _parameter(comparison, "most")  # duets, after which no samples are added
    unlimited = comparison.budget_seconds is None and comparison.status == "complete"
    if unlimited or row.judgement.duets >= most:
        return "nothing"
    # A case is given up if too many of its duets were unusable.
    duets = next((case.duets for case in comparison.cases if case.case.id == row.case), ())
    return "quiet" if len(duets) >= most * _parameter(comparison, "patience") else "time"


def _parameter(comparison: Comparison, name: str, default: float = math.inf) -> float:
    """Read a parameter of the rule from a comparison's record."""
    return float(comparison.method.get(name, default))


_LARGER: Final = 1.25
"""Least ratio of a proposed budget to one that was too small."""


def sufficient_budget(comparison: Comparison, rows: Sequence[ViewRow]) -> float | None:
    """Estimate the budget that decides these rows, s; None without a duet that shows its time.

    Beyond the relevance threshold, a detectable change shrinks with the root of the samples. A row
    is decided as soon as its change is detectable, or would be if it were larger than the margin.
    """
    duets = [duet for case in comparison.cases for duet in case.duets]
    if not duets or not any(row.metric for row in rows):
        return None
    most = _parameter(comparison, "most", 60)
    usual, wanted = sum(duet.seconds for duet in duets) / len(duets), dict[str, float]()
    played = {case.case.id: case.duets for case in comparison.cases if case.duets}
    for row in rows:
        if not row.metric:
            continue  # instructions: they are counted once
        scale, judgement = METRICS[row.metric], row.judgement
        samples = _parameter(comparison, "fewest", 3)
        if judgement.ratio is not None and judgement.detectable is not None:
            floor, size = math.log1p(scale.floor), abs(math.log(judgement.ratio))
            gap = max(size - floor, math.log1p(scale.limit) - size)
            samples = judgement.duets * ((math.log1p(judgement.detectable) - floor) / gap) ** 2
        own = played.get(row.case, ())
        seconds = sum(duet.seconds for duet in own) / max(1, judgement.duets) if own else usual
        missing = max(1, math.ceil(min(samples, most)) - judgement.duets)
        wanted[row.case] = max(wanted.get(row.case, 0.0), seconds * missing)
    total = comparison.wall_seconds + sum(wanted.values())
    # The note of a budget that was too small knows its preparations.
    notes = (note for note in comparison.notes if note.startswith(TOO_SMALL))
    least = max((units.read_time(note.rpartition(" ")[2]) or 0.0 for note in notes), default=0.0)
    return max(total, least, _LARGER * (comparison.budget_seconds or 0.0))


def sample_of(rows: Iterable[ViewRow]) -> Literal["turn", "duet"]:
    """Name what rows are judged by: launches of each side alone, in turn, or duets."""
    return "turn" if {row.judgement.alone for row in rows if row.metric} == {True} else "duet"


def _turn(comparison: Comparison, rows: Sequence[ViewRow]) -> str:
    """Say how long turns take: two launches, one after the other, with a load each."""
    alone = {row.case for row in rows if row.judgement.alone}
    duets = (duet for case in comparison.cases if case.case.id in alone for duet in case.duets)
    longest = max((duet.seconds for duet in duets), default=0)
    took = f" took up to {formats.duration(longest)}, and" if longest else ""
    return f" A turn launches each side alone: it{took} is needed twice or more." if alone else ""
