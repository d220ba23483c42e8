"""A table → one metric of all cases, a file per year: what the compare page fetches. Pure.

A shard holds all metrics of a case; to compare a hundred cases a page would fetch a hundred shards.
Here it is the other way round, for the few metrics that comparisons are made of. Figures and places
are those of the shards (`shards`): the same steps, the same nights.
"""

from __future__ import annotations

import json
from typing import Final

import numpy as np

from servebench.metrics import HEADLINES, METRICS
from servebench.site.history import Table
from servebench.site.scaling import Columns, Year, lengths
from servebench.site.shards import FORMAT, INTERVALS, extended, folder_name

COMPARED: Final = tuple(name for name in HEADLINES if METRICS[name].compared)
"""The metrics of server runs that have such files, the default first."""

_GUARD: Final = "inprocess/guard."
"""asv's suite that records versions: they are no figures."""
_DEFAULT_FLOOR: Final = 0.01
"""Relevance floor of benchmarks inside the process, as in the report of a comparison."""


def metrics(table: Table) -> tuple[str, ...]:
    """The metrics of a table that can be compared across cases, the default first."""
    if table.kind == "load":
        return tuple(name for name in COMPARED if name in table.metrics)
    cases = [row for row, case in enumerate(table.cases) if not case.startswith(_GUARD)]
    there = ~np.isnan(table.mean[:, cases]).all(axis=(0, 1))
    found = (table.metrics[column] for column in np.flatnonzero(there).tolist())
    return tuple(sorted(found, key=lambda name: (name != "seconds", name)))


def title(metric: str) -> str:
    """A metric in words; benchmarks have asv's units for metrics."""
    if metric in METRICS:
        return METRICS[metric].title
    return "time in process" if metric == "seconds" else metric


def folder(table: Table, metric: str) -> str:
    """Folder of the files of a metric."""
    return f"{folder_name(table.machine)}-{table.kind}/{folder_name(metric)}"


def across_file(scaled: Columns, metric: str) -> bytes:
    """The bytes of a metric's file of a year: only cases that have a figure in that year."""
    table, year = scaled.table, scaled.year
    column = table.metrics.index(metric)
    there = ~np.isnan(table.mean[year.span, :, column]).all(axis=0)
    row = METRICS.get(metric)
    newest = _newest(table, year)
    told = {
        "format": FORMAT,
        "machine": table.machine,
        "kind": table.kind,
        "metric": metric,
        "title": title(metric),
        "unit": row.unit if row else metric,
        "formatter": getattr(row.format, "__name__", metric) if row else metric,
        "better": row.better if row else "lower",
        "floor": row.floor if row else _DEFAULT_FLOOR,
        "year": year.year,
        "nights": year.stop - year.start,
        "interval": INTERVALS[table.kind],
    }
    cases = (
        _case(scaled, case, column, newest.get(table.cases[case], ("", "")))
        for case in np.flatnonzero(there).tolist()
    )
    return extended(told, f'"cases":[{",".join(cases)}]').encode()


def _newest(table: Table, year: Year) -> dict[str, tuple[str, str]]:
    """Interpreter and stack of each case, as of the newest night of the year that planned it."""
    found: dict[str, tuple[str, str]] = {}
    before: tuple[object, ...] = ()
    for night in table.nights[year.span]:
        now = (night.cases, night.pythons, night.stack_of)
        if now != before:  # hardly ever
            found |= {
                case: (python, stack)
                for case, python, stack in zip(*now, strict=True)
            }  # fmt: skip
            before = now
    return found


def _case(scaled: Columns, case: int, column: int, ran: tuple[str, str]) -> str:
    state = scaled.states[case]
    told = {
        "id": scaled.table.cases[case],
        "python": ran[0],
        "stack": ran[1],
        "status": state.status,
        "flag_sets": state.flag_sets,
        "flags": state.flags,
        "exponent": int(scaled.exponent[case, column]),
    }
    launches = json.dumps(lengths(scaled.launches[case, column].tobytes()), separators=(",", ":"))
    return extended(told, f'{scaled.figures(case, column)},"launches":{launches}')
