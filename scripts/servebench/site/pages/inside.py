"""The answer of the experiment inside the process, from the nights' columns. Pure.

asv's own files have more (`inprocess.readings`), but they take asv to read, and half a second: the
first page is made at every build.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from servebench.inprocess.declared import Declared
from servebench.inprocess.readings import Reading, Snapshot
from servebench.series.columns import RunColumns
from servebench.site.charts import speedups
from servebench.site.pages.answers import Answer
from servebench.site.pages.site import Site

_FOLDER: Final = "inprocess/"


def answer(site: Site) -> Answer | None:
    """The experiment's answer from the newest commit that was measured; None: there is none."""
    if site.inside is None:
        return None
    of_asv = [night for night in site.nights.values() if not night.header.track.served]
    for night in sorted(of_asv, key=_newest_first, reverse=True):
        found = snapshot(night, site.inside)
        if found.has(*site.inside.benchmarks):
            header = night.header
            text = speedups.answer(found, site.inside)
            return Answer(text, header.run, header.profile, header.machine, ()) if text else None
    return None


def snapshot(night: RunColumns, declared: Declared) -> Snapshot:
    """The medians of the experiment's benchmarks as readings, without samples."""
    header = night.header
    return Snapshot(
        machine=header.machine,
        cores=None,
        described=header.fingerprint,
        commit=header.commit or "",
        committed=1000 * header.time,
        started=0,
        readings=tuple(_readings(night, declared.benchmarks)),
    )


def _newest_first(night: RunColumns) -> tuple[int, str]:
    return night.header.time, night.header.run


def _readings(night: RunColumns, benchmarks: tuple[str, ...]) -> Iterator[Reading]:
    header = night.header
    columns = zip(header.cases, header.groups, header.pythons, header.stack_of, strict=True)
    for place, (case, group, python, stack) in enumerate(columns):
        benchmark = group.removeprefix(_FOLDER)
        if benchmark not in benchmarks:
            continue
        figures = zip(header.metrics, night.mean[place].tolist(), strict=True)
        # A benchmark has one unit.
        unit, value = next(
            ((unit, value) for unit, value in figures if not math.isnan(value)), ("", None)
        )
        params = case.removeprefix(group).removesuffix(f"/py{python}/{stack}")
        yield Reading(
            benchmark=benchmark,
            params=tuple(_params(params)),
            python=python,
            stack=stack,
            unit=unit,
            status="failed" if value is None else "measured",
            value=value,
        )


def _params(text: str) -> Iterator[tuple[str, str]]:
    """Of `(mode=threads, tasks=4)`: the pairs that `Reading.case` wrote."""
    for pair in text.removeprefix("(").removesuffix(")").split(", "):
        name, _, value = pair.partition("=")
        if name:
            yield name, value
