"""A table → data files: one file per dozen series and year. Pure.

Figures are columns of scaled integers (`scaling`). Places are those of the year's nights file
(`nights_file`), which says when each night was and what it ran with.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from servebench.metrics import METRICS
from servebench.site import history
from servebench.site.history import Table
from servebench.site.scaling import Columns, Year, lengths

FORMAT: Final = 2
"""Version of the data files; goes up with every change of their bytes, or old ones are kept.

1: first published format (2026-11).
"""

PER_SHARD: Final = 12

INTERVALS: Final = {
    "load": "95 % interval of the mean over launches",
    "inprocess": "middle half of the samples, which are not independent",
}

_SAFE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


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


def dense(document: Any) -> bytes:
    """Strict JSON without a space."""
    return _json(document).encode()


def extended(document: dict[str, Any], members: str) -> str:
    """An object as JSON, with further members, which are JSON already, at its end."""
    return f"{_json(document)[:-1]},{members}}}"


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


def _json(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
