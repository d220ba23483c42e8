"""Fewer marks than data, without hiding any: what stands close together becomes one mark. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from servebench.site.charts.data import Value

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Bin:
    """Neighbouring figures that share a mark.

    Attributes:
        start: Time of the first, s since 1970.
        end: Time of the last.
        at: Where the mark stands: time of the median figure; of an even number the middle of both.
        index: Place of the median figure among all points; of an even number of the lower one.
        mean: The median figure.
        low: Lowest end of their intervals.
        high: Highest end of their intervals.
        size: How many they are.
    """

    start: float
    end: float
    at: float
    index: int
    mean: float
    low: float
    high: float
    size: int


def binned(points: Sequence[tuple[int, float, Value]], most: int) -> list[Bin]:
    """At most about `most` bins of equally many figures each.

    Args:
        points: Index, time and value, in the order of time; every value has a figure.
        most: How many marks there is room for.
    """
    size = max(1, math.ceil(len(points) / max(1, most)))
    return [_bin(points[first : first + size]) for first in range(0, len(points), size)]


def _bin(points: Sequence[tuple[int, float, Value]]) -> Bin:
    figures = sorted(
        (value.mean, index, at) for index, at, value in points if value.mean is not None
    )
    lower, upper = figures[(len(figures) - 1) // 2], figures[len(figures) // 2]
    return Bin(
        start=points[0][1],
        end=points[-1][1],
        at=(lower[2] + upper[2]) / 2,
        index=lower[1],
        mean=(lower[0] + upper[0]) / 2,
        low=min(_end(value.low, value.mean) for *_, value in points),
        high=max(_end(value.high, value.mean) for *_, value in points),
        size=len(points),
    )


def _end(end: float | None, mean: float | None) -> float:
    if end is not None:
        return end
    return math.nan if mean is None else mean


def clustered(items: Iterable[T], at: Callable[[T], float], distance: float) -> list[list[T]]:
    """Items in the order of time, together while they are nearer than `distance` to the first."""
    found: list[list[T]] = []
    for item in sorted(items, key=at):
        if found and at(item) - at(found[-1][0]) < distance:
            found[-1].append(item)
        else:
            found.append([item])
    return found


def pieces(times: Sequence[float], cuts: Sequence[float]) -> Iterator[slice]:
    """Slices of the ordered times between the cuts; a cut belongs to what follows it."""
    begin = 0
    for cut in sorted(cuts):
        end = next((i for i in range(begin, len(times)) if times[i] >= cut), len(times))
        if end > begin:
            yield slice(begin, end)
        begin = end
    if begin < len(times):
        yield slice(begin, len(times))
