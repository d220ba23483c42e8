"""The first page: what happened last night, what is open, and where the experiments stand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from servebench.declare.suites import SHARED_PAGE
from servebench.report.change import told
from servebench.site.pages import addresses, headlines, status
from servebench.site.pages.changes import listed
from servebench.site.pages.experiment import questions
from servebench.site.pages.page import Page, render
from servebench.site.pages.site import Site

OPEN: Final = 8
"""So many open changes are shown here; all are on their own page."""
MACHINES: Final = 3
STALE: Final = 3 * 86_400
"""From so many seconds on the newest run is called stale: a night may be missed, two may not."""


def pages(site: Site) -> Iterator[Page]:
    """The first page."""
    path = addresses.file(addresses.FRONT)
    still, _ = listed(site.changes)
    newest = site.newest_tables
    yield Page(
        path,
        render(
            site,
            "front.html.j2",
            path=path,
            title="servebench",
            description="Nightly benchmarks of the Python web stack: what changed, by how much, "
            "and how sure that is.",
            states=[
                (table, found, status.sentence(found), status.still_open(found, table.machine))
                for table in newest[:MACHINES]
                for story in (site.events[table.machine, table.kind],)
                for found in (status.of_table(table, story, site.changes),)
            ],
            further=len(newest) - MACHINES,
            stale=STALE,
            night=next(iter(site.sources.night_records[-1:]), None),
            still=[told(record) for record in still[:OPEN]],
            open_changes=len(still),
            headlines=headlines.shown(newest),
            questions=[one for one in questions(site) if one.name != SHARED_PAGE],
            problems=site.sources.problems,
        ),
    )
