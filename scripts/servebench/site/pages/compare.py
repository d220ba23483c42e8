"""The compare page: two runs, stacks or interpreters, chosen and compared in the browser.

Any two of years of nights may be asked for, so that the table is made by the page's script from the
data files (`across`). Here stand the form with what can be chosen, how to read the table, and for
browsers that run no script the table that the page begins with (`compared`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final

from servebench.site import across
from servebench.site.history import Table
from servebench.site.pages import addresses, words
from servebench.site.pages.compared import compared
from servebench.site.pages.page import Page, digest, render
from servebench.site.pages.site import Site
from servebench.site.shards import folder_name

CHOICES: Final = 60
"""Newest runs, and newest states of a stack, in the form; addresses can name all others."""

_KINDS: Final = {"load": "server runs", "inprocess": "benchmarks inside the process"}


@dataclass(frozen=True, slots=True)
class Group:
    """Choices of one kind: pairs of the word in the address and what it says."""

    label: str
    choices: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Form:
    """What can be chosen.

    Attributes:
        tables: Pairs of name and label, the one that is shown first comes first.
        groups: Choices for a side.
        metrics: Pairs of name and title.
        a: The first side if the address names none; empty: nothing can be compared yet.
        b: The second one.
    """

    tables: tuple[tuple[str, str], ...]
    groups: tuple[Group, ...]
    metrics: tuple[tuple[str, str], ...]
    a: str
    b: str


def pages(site: Site) -> Iterator[Page]:
    """The one page."""
    path = addresses.file(addresses.COMPARE)
    first = next(iter(_tables(site)), None)
    form = make_form(site)
    # What is compared without a script rests on all nights of its table: noise, and what happened.
    inputs = digest([site.static, repr(form), *(first.sources if first else ())])
    yield Page(path, partial(_page, site, path, form, first), inputs)


def make_form(site: Site) -> Form:
    """What can be chosen, of the newest nights."""
    tables = _tables(site)
    names = {
        folder_name(metric): across.title(metric)
        for table in tables
        for metric in across.metrics(table)
    }
    a, b = _default(tables[0]) if tables else ("", "")
    return Form(
        tables=tuple((_name(table), f"{table.machine}: {_KINDS[table.kind]}") for table in tables),
        groups=tuple(group for table in tables for group in _groups(site, table)),
        metrics=tuple(names.items()),
        a=a,
        b=b,
    )


def _tables(site: Site) -> tuple[Table, ...]:
    """All that can be compared; what the page begins with comes first."""
    inside = (table for table in site.tables.values() if table.kind != "load")
    return (*site.newest_tables, *inside)


def _name(table: Table) -> str:
    """The table's name in addresses: the folder of its nights."""
    return f"{folder_name(table.machine)}-{table.kind}"


def _default(table: Table) -> tuple[str, str]:
    """The newest night and the one before it; or the interpreters of the only one."""
    if len(table.nights) > 1:
        return table.nights[-2].run, table.nights[-1].run
    pythons = sorted(set(table.nights[-1].pythons))
    return (f"py:{pythons[0]}", f"py:{pythons[1]}") if len(pythons) > 1 else ("", "")


def _groups(site: Site, table: Table) -> Iterator[Group]:
    label = f"{table.machine}, {_KINDS[table.kind]}"
    yield Group(
        f"Runs on {label}",
        tuple(
            (night.run, f"{words.moment(night.time)} · {(night.commit or night.run)[:8]}")
            for night in table.nights[: -CHOICES - 1 : -1]
        ),
    )
    newest = table.nights[-1]
    yield _others("Interpreters", "py", newest.pythons, label)
    yield _others("Stacks", "stack", newest.stack_of, label)
    bumps = [one for one in site.stories[table.machine, table.kind].bumps if one.packages]
    states = tuple(
        (
            f"stack:{bump.stack}@{_day(table.nights[bump.night].time)}",
            f"{bump.stack} as on {_day(table.nights[bump.night].time)}: "
            + ", ".join(f"{one.package} {one.head or 'gone'}" for one in bump.packages[:3]),
        )
        for bump in bumps[: -CHOICES - 1 : -1]
    )
    yield Group(f"States of a stack, {label}", states)


def _others(title: str, word: str, names: tuple[str, ...], label: str) -> Group:
    """What one night has several of; one alone cannot be compared with anything."""
    found = sorted({name for name in names if name})
    many = tuple((f"{word}:{name}", name) for name in found) if len(found) > 1 else ()
    return Group(f"{title} of the newest night, {label}", many)


def _day(time: int) -> str:
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d}"


def _page(site: Site, path: str, form: Form, table: Table | None) -> str:
    shown = None
    if table is not None and form.a:
        happened = site.stories[table.machine, table.kind]
        shown = compared(table, happened, form.a, form.b)
    return render(
        site,
        "compare.html.j2",
        path=path,
        title="Compare",
        description="Two runs, stacks or interpreters, case by case, beside the noise.",
        modules=("js/compare.js",),
        form=form,
        compared=shown,
    )
