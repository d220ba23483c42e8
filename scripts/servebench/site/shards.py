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
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from servebench.metrics import METRICS
from servebench.site import arrays, history
from servebench.site.history import STATES, Table
from servebench.site.story import Story

FORMAT: Final = 1
"""Version of the data files; goes up with every change of their bytes, or old ones are kept.

1: first published format (2026-11).
"""

Lists = list[list[str]]
"""Cases × metrics: a JSON list of a number per night, or null if no night has one."""

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


def named(table: Table, shard: Shard) -> str:
    """A digest of what a shard's series are called; the same in all years."""
    names = [(table.cases[case], table.metrics[metric]) for case, metric in shard.series]
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()


def made_from(shard: Shard, year: Year, names: str, nights: str) -> str:
    """A digest of all that a shard's file of a year depends on.

    Args:
        shard: Which one.
        year: Of the file.
        names: `named` of the shard.
        nights: A digest of the year's nights.
    """
    told = f"{FORMAT} {shard.id} {year.year} {names} {nights}"
    return hashlib.sha256(told.encode()).hexdigest()[:12]


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
        mean=_lists(steps),
        low=_lists(np.ceil((steps - lower) / COARSER), if_any=True),
        high=_lists(np.ceil((upper - steps) / COARSER), if_any=True),
        launches=np.ascontiguousarray(table.launches[year.span].transpose(1, 2, 0)),
        states=_states(table, year),
    )


def shard_file(scaled: Columns, shard: Shard) -> bytes:
    """The bytes of a shard's file of a year."""
    table, year = scaled.table, scaled.year
    cases = list(dict.fromkeys(case for case, _ in shard.series))
    told = {
        "format": FORMAT,
        "shard": shard.id,
        "machine": table.machine,
        "kind": table.kind,
        "group": shard.group,
        "year": year.year,
        "nights": year.stop - year.start,
        "interval": INTERVALS[table.kind],
        "cases": [_case(scaled, case) for case in cases],
    }
    series = (_series(scaled, cases, case, metric) for case, metric in shard.series)
    return extended(told, f'"series":[{",".join(series)}]').encode()


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
    return _json(document).encode()


def extended(document: dict[str, Any], members: str) -> str:
    """An object as JSON, with further members, which are JSON already, at its end."""
    return f"{_json(document)[:-1]},{members}}}"


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


def _case(scaled: Columns, case: int) -> dict[str, Any]:
    state = scaled.states[case]
    return {
        "id": scaled.table.cases[case],
        "status": state.status,
        "flag_sets": state.flag_sets,
        "flags": state.flags,
        "reasons": state.reasons,
    }


def _series(scaled: Columns, cases: list[int], case: int, metric: int) -> str:
    name = scaled.table.metrics[metric]
    row = METRICS.get(name)
    told = {
        "case": cases.index(case),
        "metric": name,
        "unit": row.unit if row else name,
        "better": row.better if row else "lower",
        "exponent": int(scaled.exponent[case, metric]),
    }
    launches = _json(lengths(scaled.launches[case, metric].tobytes()))
    return extended(told, f'{scaled.figures(case, metric)},"launches":{launches}')


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


def _json(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
