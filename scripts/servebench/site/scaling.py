"""A year of a table as columns of scaled integers, which all data files are cut from. Pure.

A figure is an integer × 10^`exponent`, with the exponent chosen so that the year's median has five
digits: an error of at most 5·10⁻⁵ of the median, far below what any launch resolves. `low` and
`high` are distances from `mean` in steps ten times as coarse, rounded away from it. null: no
figure, and `status` says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from servebench.site import arrays
from servebench.site.history import STATES, Table

Lists = list[list[str]]
"""Cases × metrics: a JSON list of a number per night, or null if no night has one."""

COARSER: Final = 10
"""So many steps of the mean are one step of an interval's ends, which nobody reads as closely."""
LETTERS: Final = dict(zip(STATES, ".mdfn", strict=True))
"""One letter per state in `status`."""

_DIGITS: Final = 5
_MOST: Final = 2**53
"""Steps: above it neither JSON's readers nor `arrays.lists` tell whole numbers apart. Only what is
100,000,000,000 times as large as its series is ever shown as less than it is."""
_TRANSLATION: Final = bytes.maketrans(bytes(range(len(STATES))), "".join(LETTERS.values()).encode())


@dataclass(frozen=True, slots=True)
class Year:
    """The nights of one year: `start` up to, not including, `stop`."""

    year: int
    start: int
    stop: int

    @property
    def span(self) -> slice:
        """Its nights in the blocks of a table."""
        return slice(self.start, self.stop)


@dataclass(frozen=True, slots=True)
class State:
    """What became of a case in the nights of a year, as its files say it.

    Attributes:
        status: A letter per night.
        flag_sets: Sets of flags' names.
        flags: Per night its place among the sets, as run lengths.
        reasons: By night: why there is no figure.
    """

    status: str
    flag_sets: list[tuple[str, ...]]
    flags: list[list[int]]
    reasons: dict[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """A year of a table, scaled.

    Attributes:
        table: Where it is from.
        year: Which one.
        exponent: Cases × metrics: a step is 10 to this power.
        mean: Steps.
        low: Coarser steps below the mean.
        high: Coarser steps above the mean.
        launches: Cases × metrics × nights: how many each figure rests on.
        states: Per case.
    """

    table: Table
    year: Year
    exponent: npt.NDArray[np.int64]
    mean: Lists
    low: Lists
    high: Lists
    launches: npt.NDArray[np.uint8]
    states: tuple[State, ...]

    def figures(self, case: int, metric: int) -> str:
        """The members of a series' object that are its figures, as JSON."""
        mean, low, high = (block[case][metric] for block in (self.mean, self.low, self.high))
        return f'"mean":{mean},"low":{low},"high":{high}'


def years(table: Table) -> tuple[Year, ...]:
    """The years of a table's nights (UTC), oldest first."""
    named = [datetime.fromtimestamp(night.time, UTC).year for night in table.nights]
    return tuple(
        Year(year, named.index(year), len(named) - named[::-1].index(year))
        for year in sorted(set(named))
    )


def columns(table: Table, year: Year) -> Columns:
    """Scale all figures of a year at once."""
    mean, low, high = (
        np.ascontiguousarray(block[year.span].transpose(1, 2, 0), dtype=np.float64)
        for block in (table.mean, table.low, table.high)
    )
    exponent = _exponents(mean)
    step = 10.0 ** exponent[..., np.newaxis]
    steps, lower, upper = (
        np.clip(np.rint(values / step), -_MOST, _MOST) for values in (mean, low, high)
    )
    return Columns(
        table=table,
        year=year,
        exponent=exponent,
        mean=_lists(steps),
        low=_lists(np.ceil((steps - lower) / COARSER), if_any=True),
        high=_lists(np.ceil((upper - steps) / COARSER), if_any=True),
        launches=np.ascontiguousarray(table.launches[year.span].transpose(1, 2, 0)),
        states=_states(table, year),
    )


def figures(entry: dict[str, Any]) -> Iterator[tuple[float | None, float | None, float | None]]:
    """Mean, low and high of each night of a series as it stands in a shard's file."""
    step = 10.0 ** entry["exponent"]
    nothing = [None] * len(entry["mean"])
    columns = (entry["mean"], entry["low"] or nothing, entry["high"] or nothing)
    for mean, below, above in zip(*columns, strict=True):
        yield (
            None if mean is None else mean * step,
            None if mean is None or below is None else (mean - COARSER * below) * step,
            None if mean is None or above is None else (mean + COARSER * above) * step,
        )


@lru_cache(maxsize=4096)
def lengths(values: bytes | tuple[int, ...]) -> list[list[int]]:
    """Run-length encoding: how often, and which value."""
    return [[len(list(same)), value] for value, same in groupby(values)]


def _states(table: Table, year: Year) -> tuple[State, ...]:
    reasons: dict[int, dict[str, str]] = {}
    for (night, case), reason in sorted(table.reasons.items()):
        if year.start <= night < year.stop:
            reasons.setdefault(case, {})[str(night - year.start)] = reason
    found = []
    for case in range(len(table.cases)):
        codes = table.status[year.span, case]
        flags, inverse = np.unique(table.flags[year.span, case], return_inverse=True)
        found.append(
            State(
                status=codes.tobytes().translate(_TRANSLATION).decode(),
                flag_sets=[table.flag_sets[code] for code in flags.tolist()],
                flags=lengths(tuple(inverse.tolist())),
                reasons=reasons.get(case, {}),
            )
        )
    return tuple(found)


def _exponents(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Of the steps in which each median has five digits; 0 if there is nothing to scale."""
    sizes = np.abs(values)
    sizes[sizes == 0] = np.nan
    medians = arrays.medians(sizes)
    found = np.floor(np.log10(np.where(np.isnan(medians), 10.0 ** (_DIGITS - 1), medians)))
    return found.astype(np.int64) + 1 - _DIGITS


def _lists(values: npt.NDArray[np.float64], *, if_any: bool = False) -> Lists:
    """Cases × metrics × nights as JSON; with `if_any` null for rows without a number."""
    cases, metrics, nights = values.shape
    rows = values.reshape(cases * metrics, nights)
    found = arrays.lists(rows)
    if if_any:
        for row in np.flatnonzero(np.isnan(rows).all(axis=-1)).tolist():
            found[row] = "null"
    return [found[case * metrics : (case + 1) * metrics] for case in range(cases)]
