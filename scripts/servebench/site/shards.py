"""A table → data files: columns of scaled integers, one file per dozen series and year. Pure.

A figure is an integer × 10^`exponent`, with the exponent chosen so that the year's median has five
digits: an error of at most 5·10⁻⁵ of the median, far below what any launch resolves. `low` and
`high` are distances from `mean` in steps ten times as coarse, rounded away from it. Places are
those of the year's nights file, which says when each night was and what it ran with. null: no
figure, and `status` says why.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from servebench.metrics import METRICS
from servebench.site import history
from servebench.site.history import STATES, Table
from servebench.site.story import Story

FORMAT: Final = 1
"""Version of the data files; goes up with every change of their bytes, or old ones are kept.

1: first published format (2026-11).
"""

Steps = list[list[list[int | None]]]

PER_SHARD: Final = 12
COARSER: Final = 10
"""So many steps of the mean are one step of an interval's ends, which nobody reads as closely."""
LETTERS: Final = dict(zip(STATES, ".mdfn", strict=True))
"""One letter per state in `status`."""

INTERVALS: Final = {
    "load": "95 % interval of the mean over launches",
    "inprocess": "middle half of the samples, which are not independent",
}

_DIGITS: Final = 5
_SAFE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_TRANSLATION: Final = bytes.maketrans(bytes(range(len(STATES))), "".join(LETTERS.values()).encode())


@dataclass(frozen=True, slots=True)
class Shard:
    """About a dozen series that share files.

    Attributes:
        id: Folder of its files; depends on nothing but machine, kind, group and number.
        group: What the series have in common: a case, or a benchmark.
        series: Places (case, metric) in the table.
    """

    id: str
    group: str
    series: tuple[tuple[int, int], ...]


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


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """A year of a table, scaled; cases × metrics × nights.

    Attributes:
        table: Where it is from.
        year: Which one.
        exponent: Cases × metrics: a step is 10 to this power.
        mean: Steps.
        low: Coarser steps below the mean.
        high: Coarser steps above the mean.
        launches: How many each figure rests on.
    """

    table: Table
    year: Year
    exponent: npt.NDArray[np.int64]
    mean: Steps
    low: Steps
    high: Steps
    launches: npt.NDArray[np.uint8]


def shards(table: Table) -> tuple[Shard, ...]:
    """All shards of a table, in the order of its cases."""
    by_group: dict[str, list[tuple[int, int]]] = {}
    for case, metric in history.series(table):
        by_group.setdefault(table.groups[case], []).append((case, metric))
    found: list[Shard] = []
    for group, places in by_group.items():
        alone = len({case for case, _ in places}) == 1
        # The metrics of one case keep their file when another metric joins them.
        numbered = [(place[1] if alone else number, place) for number, place in enumerate(places)]
        for number, many in groupby(numbered, key=lambda entry: entry[0] // PER_SHARD):
            name = "\0".join((table.machine, table.kind, group, str(number)))
            id_ = hashlib.sha256(name.encode()).hexdigest()[:10]
            found.append(Shard(id_, group, tuple(place for _, place in many)))
    return tuple(found)


def years(table: Table) -> tuple[Year, ...]:
    """The years of a table's nights (UTC), oldest first."""
    named = [datetime.fromtimestamp(night.time, UTC).year for night in table.nights]
    return tuple(
        Year(year, named.index(year), len(named) - named[::-1].index(year))
        for year in sorted(set(named))
    )


def folder_name(text: str) -> str:
    """A name for a folder or file: the text if it can be one, otherwise a digest of it."""
    if _SAFE.fullmatch(text):
        return text
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def made_from(table: Table, shard: Shard, year: Year) -> str:
    """A digest of all that a shard's file of a year depends on."""
    names = [(table.cases[case], table.metrics[metric]) for case, metric in shard.series]
    told = json.dumps([FORMAT, shard.id, year.year, names, _sources(table, year)])
    return hashlib.sha256(told.encode()).hexdigest()[:12]


@lru_cache(maxsize=32)
def _sources(table: Table, year: Year) -> str:
    """A digest of a year's nights: hundreds of shards are made from the same."""
    return hashlib.sha256("\0".join(table.sources[year.span]).encode()).hexdigest()


def columns(table: Table, year: Year) -> Columns:
    """Scale all figures of a year at once."""
    mean, low, high = (
        np.ascontiguousarray(block[year.span].transpose(1, 2, 0), dtype=np.float64)
        for block in (table.mean, table.low, table.high)
    )
    exponent = _exponents(mean)
    step = 10.0 ** exponent[..., np.newaxis]
    steps, lower, upper = (np.rint(values / step) for values in (mean, low, high))
    return Columns(
        table=table,
        year=year,
        exponent=exponent,
        mean=_integers(steps),
        low=_integers(np.ceil((steps - lower) / COARSER)),
        high=_integers(np.ceil((upper - steps) / COARSER)),
        launches=np.ascontiguousarray(table.launches[year.span].transpose(1, 2, 0)),
    )


def shard_file(scaled: Columns, shard: Shard) -> bytes:
    """The bytes of a shard's file of a year."""
    table, year = scaled.table, scaled.year
    cases = list(dict.fromkeys(case for case, _ in shard.series))
    return dense(
        {
            "format": FORMAT,
            "shard": shard.id,
            "machine": table.machine,
            "kind": table.kind,
            "group": shard.group,
            "year": year.year,
            "nights": year.stop - year.start,
            "interval": INTERVALS[table.kind],
            "cases": [_case(table, case, year) for case in cases],
            "series": [
                {"case": cases.index(case), **_series(scaled, case, metric)}
                for case, metric in shard.series
            ],
        }
    )


def nights_file(table: Table, year: Year, happened: Story) -> bytes:
    """The bytes of the file that says what each night of a year was measured with."""
    nights = table.nights[year.span]
    breaks: dict[tuple[int, str, str, str], list[str]] = {}
    for case, many in happened.breaks.items():
        for one in many:
            if year.start <= one.night < year.stop:
                key = (one.night - year.start, one.what, one.before, one.after)
                breaks.setdefault(key, []).append(case)
    return dense(
        {
            "format": FORMAT,
            "machine": table.machine,
            "kind": table.kind,
            "year": year.year,
            "run": [night.run for night in nights],
            "time": [night.time for night in nights],
            "commit": [night.commit for night in nights],
            "gaps": [one - year.start for one, _ in happened.gaps if year.start <= one < year.stop],
            "breaks": [
                {"night": night, "what": what, "before": before, "after": after, "cases": cases}
                for (night, what, before, after), cases in breaks.items()
            ],
            "stacks": [
                {
                    "night": bump.night - year.start,
                    "stack": bump.stack,
                    "packages": [
                        [change.package, change.base, change.head] for change in bump.packages
                    ],
                }
                for bump in happened.bumps
                if year.start <= bump.night < year.stop
            ],
        }
    )


def dense(document: Any) -> bytes:
    """Strict JSON without a space."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


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


def _case(table: Table, case: int, year: Year) -> dict[str, Any]:
    codes = table.status[year.span, case]
    flags, inverse = np.unique(table.flags[year.span, case], return_inverse=True)
    reasons = {
        str(place): table.reasons[year.start + place, case]
        for place in range(year.stop - year.start)
        if (year.start + place, case) in table.reasons
    }
    return {
        "id": table.cases[case],
        "status": codes.tobytes().translate(_TRANSLATION).decode(),
        "flag_sets": [table.flag_sets[code] for code in flags.tolist()],
        "flags": lengths(tuple(inverse.tolist())),
        "reasons": reasons,
    }


def _series(scaled: Columns, case: int, metric: int) -> dict[str, Any]:
    name = scaled.table.metrics[metric]
    row = METRICS.get(name)
    return {
        "metric": name,
        "unit": row.unit if row else name,
        "better": row.better if row else "lower",
        "exponent": int(scaled.exponent[case, metric]),
        "mean": scaled.mean[case][metric],
        "low": _if_any(scaled.low[case][metric]),
        "high": _if_any(scaled.high[case][metric]),
        "launches": lengths(scaled.launches[case, metric].tobytes()),
    }


def _exponents(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Of the steps in which each median has five digits; 0 if there is nothing to scale."""
    sizes = np.abs(values)
    sizes[sizes == 0] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # numpy's, of series without a figure
        medians = np.nanmedian(sizes, axis=-1)
    found = np.floor(np.log10(np.where(np.isnan(medians), 10.0 ** (_DIGITS - 1), medians)))
    return found.astype(np.int64) + 1 - _DIGITS


def _integers(values: npt.NDArray[np.float64]) -> Steps:
    """Cases × metrics × nights as lists; None: no figure."""
    gaps = np.isnan(values)
    found: Steps = np.where(gaps, 0.0, values).astype(np.int64).tolist()
    for case, metric, night in np.argwhere(gaps).tolist():
        found[case][metric][night] = None
    return found


def _if_any(values: list[int | None]) -> list[int | None] | None:
    """None if no night has an interval."""
    return values if any(value is not None for value in values) else None
