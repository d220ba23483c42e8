"""The page on which everything with a page of its own can be found by its name or id."""

from collections.abc import Iterator

from duetbench.project import names
from duetbench.show.change import describe
from duetbench.show.site.pages import addresses
from duetbench.show.site.pages.page import PageFile, render
from duetbench.show.site.pages.site import Site

Entry = tuple[str, str, str]
"""Name, id (empty: it has none beside the name) and address."""


def pages(site: Site) -> Iterator[PageFile]:
    """The page."""
    lists: dict[str, list[Entry]] = {
        "Packages": [(name, "", addresses.package(name)) for name in sorted(site.packages)],
        "Changes": [
            (f"{one.releases}: {one.sentence}".removeprefix(": "), record.id, address)
            for record in site.changes
            for one, address in ((describe(record), addresses.change(record.id)),)
        ],
        "Comparisons": [
            (f"{one.base.label} → {one.head.label}", one.id, addresses.comparison(one.id))
            for one in site.comparisons.values()
        ],
        "Experiments": [
            (names.experiment(name), name, addresses.experiment(name))
            for name in site.experiments()
        ],
        "Cases": [
            (str(names.name(case)), case, addresses.case(case)) for case in sorted(site.planned)
        ],
    }
    yield render(
        site,
        "find.html.j2",
        addresses.FIND,
        "Find",
        "Packages, changes, comparisons, experiments and cases, by name or id.",
        modules=("js/find.js",),
        lists={title: entries for title, entries in lists.items() if entries},
    )
