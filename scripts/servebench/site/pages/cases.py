"""All cases by experiment: the way to a trend for those who do not come from a change."""

from __future__ import annotations

from collections.abc import Iterator

from servebench.site.pages import addresses
from servebench.site.pages.page import Page, render
from servebench.site.pages.site import Site

_INSIDE = "inprocess"


def pages(site: Site) -> Iterator[Page]:
    """The list."""
    path = addresses.file(addresses.CASES)
    yield Page(path, _html(site, path))


def groups(cases: frozenset[str]) -> dict[str, tuple[str, ...]]:
    """By experiment, and inside the process by suite; everything in the order of names."""
    found: dict[str, list[str]] = {}
    for case in sorted(cases, key=lambda case: (case.startswith(f"{_INSIDE}/"), case)):
        experiment = case.partition("/")[0]
        group = f"{_INSIDE}: {suite(case)}" if experiment == _INSIDE else experiment
        found.setdefault(group, []).append(case)
    return {group: tuple(many) for group, many in found.items()}


def suite(case: str) -> str:
    """The suite of a case inside the process: `gil` of `inprocess/gil.Cpu.time_tasks(…)/…`."""
    return case.partition("/")[2].partition(".")[0]


def _html(site: Site, path: str) -> str:
    return render(
        site,
        "cases.html.j2",
        path=path,
        title="Cases",
        description="Every case with a trend, by experiment.",
        groups=groups(site.planned),
        experiments=frozenset(site.experiments()),
    )
