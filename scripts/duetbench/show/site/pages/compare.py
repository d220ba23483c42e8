"""The compare page: a form of runs, stack states and interpreters; the browser does the rest.

Any two of years of nights may be asked for, so `static/js/comparing.js` makes the table, from the
data files of one metric across cases.
"""

from collections.abc import Iterator
from typing import Any, Final

from duetbench.show.site import data_files
from duetbench.show.site.data_files import folder_name
from duetbench.show.site.pages import addresses, words
from duetbench.show.site.pages.page import PageFile, render
from duetbench.show.site.pages.site import Site
from duetbench.trend.table import Table

CHOICES: Final = 60
"""Newest runs, and newest states of a stack, in the form; addresses can name all others."""

_KINDS: Final = {"load": "server runs", "inprocess": "benchmarks inside the process"}

Choices = tuple[tuple[str, str], ...]
"""Pairs of the word in the address and the label."""


def pages(site: Site) -> Iterator[PageFile]:
    """The one page."""
    yield render(
        site,
        "compare.html.j2",
        addresses.COMPARE,
        "Compare",
        "Two runs, stacks or interpreters, case by case, beside the noise.",
        modules=("js/compare.js",),
        **form(site),
    )


def form(site: Site) -> dict[str, Any]:
    """What can be chosen, of the newest nights.

    `tables`: The machines and kinds; the one that is shown first comes first. `a` and `b`: The
    sides if the address names none; empty: nothing can be compared yet.
    """
    inprocess = (table for table in site.tables.values() if table.kind == "inprocess")
    tables = (*site.newest_tables, *inprocess)
    names = {
        folder_name(metric): data_files.metric_title(metric)
        for table in tables
        for metric in data_files.compared_metrics(table)
    }
    a, b = _default(tables[0]) if tables else ("", "")
    labels = (
        (data_files.table_folder(one), f"{one.machine}: {_KINDS[one.kind]}") for one in tables
    )
    return {
        "tables": tuple(labels),
        "groups": tuple(group for table in tables for group in _groups(site, table)),
        "metrics": tuple(names.items()),
        "a": a,
        "b": b,
    }


def _default(table: Table) -> tuple[str, str]:
    """The newest night and the one before it; or the interpreters of the only one."""
    if len(table.nights) > 1:
        return table.nights[-2].run, table.nights[-1].run
    pythons = sorted(set(table.nights[-1].pythons))
    return (f"py:{pythons[0]}", f"py:{pythons[1]}") if len(pythons) > 1 else ("", "")


def _groups(site: Site, table: Table) -> Iterator[tuple[str, Choices]]:
    label = f"{table.machine}, {_KINDS[table.kind]}"
    newest = table.nights[-1]
    runs = (
        (night.run, f"{words.moment(night.time)} · {(night.commit or night.run)[:8]}")
        for night in table.nights[: -CHOICES - 1 : -1]
    )
    yield f"Runs on {label}", tuple(runs)
    yield f"Interpreters of the newest night, {label}", _several("py", newest.pythons)
    yield f"Stacks of the newest night, {label}", _several("stack", newest.stack_of)
    bumps = [one for one in site.events[table.machine, table.kind].bumps if one.packages]
    states = (
        (
            f"stack:{bump.stack}@{day}",
            f"{bump.stack} as on {day}: "
            + ", ".join(f"{one.package} {one.head or 'gone'}" for one in bump.packages[:3]),
        )
        for bump in bumps[: -CHOICES - 1 : -1]
        for day in (words.iso(table.nights[bump.night].time)[:10],)
    )
    yield f"States of a stack, {label}", tuple(states)


def _several(kind: str, names: tuple[str, ...]) -> Choices:
    found = sorted({name for name in names if name})
    return tuple((f"{kind}:{name}", name) for name in found) if len(found) > 1 else ()
