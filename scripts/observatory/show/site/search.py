"""What the search of every page finds."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from duetbench.app import case_names
from duetbench.core.errors import FlagName
from duetbench.core.metrics import METRICS
from observatory.matrix import titles
from observatory.show import addresses, quoting
from observatory.show.site.site import Site

Entry = tuple[str, str, str]
"""Title, address, and kind."""

_REFERENCE: Final = f"{addresses.DOCS}reference/"


def index(site: Site) -> str:
    """Write title, address and kind of each page that has a name, and of each word."""
    entries = [*_pages(site)]
    if site.documented:
        entries += _headings(site.documented)
        flags = (f"{flag.value}: {flag.meaning}" for flag in FlagName)
        entries += [(flag, f"{_REFERENCE}#validity-flags", "word") for flag in flags]
        metrics = (f"{metric.title} ({metric.name})" for metric in METRICS.values())
        entries += [(metric, f"{_REFERENCE}#metrics", "word") for metric in metrics]
    return json.dumps(entries, separators=(",", ":"), ensure_ascii=False)


def _pages(site: Site) -> Iterator[Entry]:
    for quote in site.quotes.values():
        yield quoting.finding(quote), addresses.release(*quote.key), "release"
    for name in site.packages:
        yield name, addresses.package(name), "package"
    for name in site.experiments:
        yield titles.experiment(name), addresses.experiment(name), "experiment"
    for case in site.cases:
        yield str(case_names.name(case)), addresses.case(case), "case"
    for address, title in addresses.NAVIGATION:
        if address != addresses.DOCS:
            yield title, address, "page"


def _headings(file: Path) -> Iterator[Entry]:
    """Return the headings of the documentation, from the index of its own search.

    Those of glossaries are words.
    """
    text = file.read_text("utf-8")
    known = json.loads(text[text.index("(") + 1 : text.rindex(")")])
    for heading, places in known["alltitles"].items():
        for page, anchor in places:
            name = known["docnames"][page]
            folder = name.removesuffix("index").rstrip("/")
            address = f"{addresses.DOCS}{folder}/" if folder else addresses.DOCS
            if anchor is None:
                yield heading, address, "docs"
            elif name.endswith("glossary"):
                yield heading, f"{address}#{anchor}", "word"
            else:
                yield f"{heading} ({known['titles'][page]})", f"{address}#{anchor}", "docs"
