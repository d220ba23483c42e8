"""How to read the site: what is measured, how it is judged, and how often that is wrong."""

from __future__ import annotations

from collections.abc import Iterator

from servebench.compare.selftest import scores
from servebench.core.flags import FLAGS
from servebench.report import selftest
from servebench.series.summary import CONFIDENCE, ENOUGH_LAUNCHES
from servebench.site.pages import addresses
from servebench.site.pages.page import Page, render
from servebench.site.pages.site import Site


def pages(site: Site) -> Iterator[Page]:
    """The page."""
    path = addresses.file(addresses.METHOD)
    yield Page(path, _html(site, path))


def _html(site: Site, path: str) -> str:
    trials = site.sources.trials
    ways = scores.rules(trials) if trials else ()
    sizes = [size for size, _ in ways[0].misses] if ways else []
    days = sorted(trial.started[:10] for trial in trials)
    return render(
        site,
        "method.html.j2",
        path=path,
        title="Method",
        description="How the figures are made and judged, and how often the judgement is wrong, "
        "as measured.",
        confidence=f"{100 * CONFIDENCE:g} %",
        enough=ENOUGH_LAUNCHES,
        trials=len(trials),
        machines=sorted({trial.machine for trial in trials}),
        days=(days[0], days[-1]) if days else None,
        alarms=selftest.sentence(trials),
        planted=selftest.planted(scores.plants(trials)),
        way_head=selftest.way_head(sizes),
        ways=[list(selftest.way_cells(way)) for way in ways] if sizes else [],
        fails=[(name, kind) for name, kind in FLAGS.items() if kind.severity == "fail"],
        warns=[(name, kind) for name, kind in FLAGS.items() if kind.severity == "warn"],
    )
