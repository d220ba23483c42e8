"""A table → data files for pages and tools: series, one metric across cases, nights. Pure.

A figure is an integer × 10^`exponent`, with the exponent chosen so that the year's median has five
digits: an error of at most 5·10⁻⁵ of the median, far below what any launch resolves. `low` and
`high` are distances from `mean` in steps ten times as coarse, rounded away from it. null: no
figure, and `status` says why. Every file is of one year; places are those of its nights file.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from duetbench.core.metrics import HEADLINES, METRICS
from duetbench.trend import table as series
from duetbench.trend.columns import TRACKS
from duetbench.trend.events import Events
from duetbench.trend.table import STATES, Table

FORMAT: Final = 2
"""Version of the data files; goes up with every change of what their bytes mean.

1: first published format (2026-11).
"""

PER_FILE: Final = 12
"""Series that share a file."""
COARSER: Final = 10
"""So many steps of the mean are one step of an interval's ends, which nobody reads as closely."""
LETTERS: Final = dict(zip(STATES, ".mdfn", strict=True))
"""One letter per state in `status`."""
INTERVALS: Final = {kind: track.interval for kind, track in TRACKS.items()}

COMPARED: Final = tuple(name for name in HEADLINES if METRICS[name].compared)
"""The metrics of server runs that have files across cases, the default first."""

_DIGITS: Final = 5
_MOST: Final = 2**53
"""Steps: above it JSON's readers do not tell whole numbers apart. Only what is 10¹¹ times as large
as its series is ever shown as less than it is."""
_TRANSLATION: Final = bytes.maketrans(bytes(range(len(STATES))), "".join(LETTERS.values()).encode())
_SAFE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
GUARD: Final = "inprocess/guard."
"""Cases of asv's suite that records versions, which are no figures for people."""
_DEFAULT_FLOOR: Final = 0.01
"""Relevance threshold of benchmarks inside the process, as in the report of a comparison."""

Block = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SeriesFile:
    """About a dozen series that share a file per year.

    Attributes:
        id: Folder of its files; depends on nothing but machine, kind, group and number.
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
        return slice(self.start, self.stop)


@dataclass(frozen=True, slots=True, eq=False)
class ScaledYear:
    """A year of a table as scaled integers.

    Attributes:
        exponent: Cases × metrics: a step is 10 to this power.
        mean: Cases × metrics × nights: steps; NaN: no figure.
        low: Coarser steps below the mean.
        high: Coarser steps above the mean.
    """

    table: Table
    year: Year
    exponent: npt.NDArray[np.int64]
    mean: Block
    low: Block
    high: Block
    launches: npt.NDArray[np.uint8]

    def columns(self, case: int, metric: int) -> dict[str, Any]:
        """The members of a series' object that are its figures."""
        place = case, metric
        return {
            "exponent": int(self.exponent[place]),
            "mean": _steps(self.mean[place]),
            "low": _steps(self.low[place]) if np.isfinite(self.low[place]).any() else None,
            "high": _steps(self.high[place]) if np.isfinite(self.high[place]).any() else None,
            "launches": _lengths(self.launches[place].tolist()),
        }

    def state(self, case: int) -> dict[str, Any]:
        """What became of a case: a letter per night, and sets of flags as run lengths."""
        table, span = self.table, self.year.span
        flags, inverse = np.unique(table.flags[span, case], return_inverse=True)
        return {
            "status": table.status[span, case].tobytes().translate(_TRANSLATION).decode(),
            "flag_sets": [list(table.flag_sets[code]) for code in flags.tolist()],
            "flags": _lengths(inverse.tolist()),
        }


def years(table: Table) -> tuple[Year, ...]:
    """The years of a table's nights (UTC), oldest first."""
    named = [datetime.fromtimestamp(night.time, UTC).year for night in table.nights]
    return tuple(
        Year(year, named.index(year), len(named) - named[::-1].index(year))
        for year in sorted(set(named))
    )


def scaled(table: Table, year: Year) -> ScaledYear:
    """Scale all figures of a year at once."""
    mean, low, high = (
        block[year.span].transpose(1, 2, 0).astype(np.float64)
        for block in (table.mean, table.low, table.high)
    )
    exponent = _exponents(mean)
    step = 10.0 ** exponent[..., np.newaxis]
    steps, lower, upper = (
        np.clip(np.rint(values / step), -_MOST, _MOST) for values in (mean, low, high)
    )
    return ScaledYear(
        table=table,
        year=year,
        exponent=exponent,
        mean=steps,
        low=np.ceil((steps - lower) / COARSER),
        high=np.ceil((upper - steps) / COARSER),
        launches=table.launches[year.span].transpose(1, 2, 0),
    )


def series_files(table: Table) -> tuple[SeriesFile, ...]:
    """All files of series of a table, in the order of its cases."""
    by_group: dict[str, list[tuple[int, int]]] = {}
    for case, metric in series.series(table):
        by_group.setdefault(table.groups[case], []).append((case, metric))
    found: list[SeriesFile] = []
    for group, places in by_group.items():
        alone = len({case for case, _ in places}) == 1
        # The metrics of one case keep their file when another metric joins them.
        numbered = [(place[1] if alone else number, place) for number, place in enumerate(places)]
        for number, many in groupby(numbered, key=lambda entry: entry[0] // PER_FILE):
            name = "\0".join((table.machine, table.kind, group, str(number)))
            id_ = hashlib.sha256(name.encode()).hexdigest()[:10]
            found.append(SeriesFile(id_, group, tuple(place for _, place in many)))
    return tuple(found)


def series_document(year: ScaledYear, file: SeriesFile) -> dict[str, Any]:
    """A file of series, of one year."""
    table = year.table
    reasons: dict[int, dict[str, str]] = {}
    for (night, case), reason in sorted(table.reasons.items()):
        if year.year.start <= night < year.year.stop:
            reasons.setdefault(case, {})[str(night - year.year.start)] = reason
    cases = list(dict.fromkeys(case for case, _ in file.series))
    return {
        "format": FORMAT,
        "shard": file.id,
        "machine": table.machine,
        "kind": table.kind,
        "group": file.group,
        "year": year.year.year,
        "nights": year.year.stop - year.year.start,
        "interval": table.track.interval,
        "cases": [
            {"id": table.cases[case], **year.state(case), "reasons": reasons.get(case, {})}
            for case in cases
        ],
        "series": [
            {
                "case": cases.index(case),
                "metric": table.metrics[metric],
                **_unit(table, table.metrics[metric]),
                **year.columns(case, metric),
            }
            for case, metric in file.series
        ],
    }


def compared_metrics(table: Table) -> tuple[str, ...]:
    """The metrics of a table that can be compared across cases, the default first.

    Ratios to an anchor are compared by their trends only.
    """
    if table.track.ratio:
        return ()
    if found := tuple(name for name in COMPARED if name in table.metrics):
        return found
    cases = [row for row, case in enumerate(table.cases) if not case.startswith(GUARD)]
    there = ~np.isnan(table.mean[:, cases]).all(axis=(0, 1))
    names = (table.metrics[column] for column in np.flatnonzero(there).tolist())
    return tuple(sorted(names, key=lambda name: (name != "seconds", name)))


def metric_title(metric: str) -> str:
    """A metric in words; benchmarks have asv's units for metrics."""
    if metric in METRICS:
        return METRICS[metric].title
    return "time in process" if metric == "seconds" else metric


def across_document(year: ScaledYear, metric: str) -> dict[str, Any]:
    """One metric of all cases that have a figure in a year: what the compare page fetches.

    A file of series holds all metrics of a case; to compare a hundred cases a page would fetch a
    hundred of them.
    """
    table = year.table
    column = table.metrics.index(metric)
    there = ~np.isnan(year.mean[:, column]).all(axis=-1)
    row = METRICS.get(metric)
    ran = {
        case: (python, stack)
        for night in table.nights[year.year.span]
        for case, python, stack in zip(night.cases, night.pythons, night.stack_of, strict=True)
    }
    cases = ((place, table.cases[place]) for place in np.flatnonzero(there).tolist())
    return {
        "format": FORMAT,
        "machine": table.machine,
        "kind": table.kind,
        "metric": metric,
        "title": metric_title(metric),
        **_unit(table, metric),
        "formatter": getattr(row.format, "__name__", metric) if row else metric,
        "floor": row.floor if row else _DEFAULT_FLOOR,
        "year": year.year.year,
        "nights": year.year.stop - year.year.start,
        "interval": table.track.interval,
        "cases": [
            {
                "id": case,
                "python": ran[case][0],
                "stack": ran[case][1],
                **year.state(place),
                **year.columns(place, column),
            }
            for place, case in cases
        ],
    }


def nights_document(table: Table, year: Year, events: Events) -> dict[str, Any]:
    """What each night of a year was, and was measured with."""
    nights = table.nights[year.span]
    breaks: dict[tuple[int, str, str, str], list[str]] = {}
    for case, many in events.breaks.items():
        for one in many:
            if year.start <= one.night < year.stop:
                key = (one.night - year.start, one.what, one.before, one.after)
                breaks.setdefault(key, []).append(case)
    return {
        "format": FORMAT,
        "machine": table.machine,
        "kind": table.kind,
        "year": year.year,
        "run": [night.run for night in nights],
        "time": [night.time for night in nights],
        "commit": [night.commit for night in nights],
        "gaps": [one - year.start for one, _ in events.gaps if year.start <= one < year.stop],
        "breaks": [
            {"night": night, "what": what, "before": before, "after": after, "cases": cases}
            for (night, what, before, after), cases in breaks.items()
        ],
        "stacks": [
            {
                "night": bump.night - year.start,
                "stack": bump.stack,
                "packages": [[move.package, move.base, move.head] for move in bump.packages],
            }
            for bump in events.bumps
            if year.start <= bump.night < year.stop
        ],
    }


def table_folder(table: Table) -> str:
    """Folder of the files that are of a whole table."""
    return f"{folder_name(table.machine)}-{table.kind}"


def folder_name(text: str) -> str:
    """A name for a folder or file: the text if it can be one, otherwise a digest of it."""
    if _SAFE.fullmatch(text):
        return text
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def dense(document: Mapping[str, Any]) -> bytes:
    """Strict JSON without a space."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def medians(values: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Medians along the last axis, which is not empty, without regard to NaN; NaN: nothing else.

    The same as numpy's `nanmedian`, which takes several times as long for rows of a year's nights.
    """
    ordered = np.sort(values, axis=-1)  # NaN come last
    counts = np.count_nonzero(~np.isnan(values), axis=-1)[..., np.newaxis]
    lower = np.take_along_axis(ordered, np.maximum(counts - 1, 0) // 2, axis=-1)
    upper = np.take_along_axis(ordered, counts // 2, axis=-1)
    found: npt.NDArray[np.floating] = ((lower + upper) / 2)[..., 0]
    return found


def _unit(table: Table, metric: str) -> dict[str, str]:
    row = METRICS.get(metric)
    unit = "1" if table.track.ratio else row.unit if row else metric
    return {"unit": unit, "better": row.better if row else "lower"}


def _exponents(values: Block) -> npt.NDArray[np.int64]:
    """Of the steps in which each median has five digits; 0 if there is nothing to scale."""
    sizes = np.abs(values)
    sizes[sizes == 0] = np.nan
    middle = medians(sizes)
    found = np.floor(np.log10(np.where(np.isnan(middle), 10.0 ** (_DIGITS - 1), middle)))
    return found.astype(np.int64) + 1 - _DIGITS


def _steps(row: Block) -> list[int | None]:
    return [None if math.isnan(value) else int(value) for value in row.tolist()]


def _lengths(values: Sequence[int]) -> list[list[int]]:
    return [[len(list(same)), value] for value, same in groupby(values)]
