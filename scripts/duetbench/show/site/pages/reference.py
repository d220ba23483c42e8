"""Pages to look things up in: the method, the glossary and the downloads."""

import re
from collections.abc import Iterator
from typing import Final

from markupsafe import Markup

from duetbench.core.flags import FlagName
from duetbench.core.interval import Interval
from duetbench.core.metrics import METRICS
from duetbench.host import paths
from duetbench.project.published import headlines
from duetbench.show.site.data_files import FORMAT, INTERVALS, LETTERS
from duetbench.show.site.pages import addresses, words
from duetbench.show.site.pages.page import PageFile, render
from duetbench.show.site.pages.site import Site
from duetbench.trend.points import coverage
from duetbench.trend.summary import ENOUGH_LAUNCHES


def method_pages(site: Site) -> Iterator[PageFile]:
    """How figures are made and judged."""
    yield render(
        site,
        "method.html.j2",
        addresses.METHOD,
        "Method",
        "How the figures are made and judged, and how often the judgement is wrong, as measured.",
        confidence=f"{100 * Interval.confidence:g} %",
        enough=ENOUGH_LAUNCHES,
        canary=coverage(site.sources.points),
        flags=tuple(FlagName),
    )


_LINK: Final = re.compile(r"\[([^\]]+)\]\(#([a-z-]+)\)")
_EMPHASIS: Final = re.compile(r"\*([^*]+)\*")


def glossary_pages(site: Site) -> Iterator[PageFile]:
    """The words of the site."""
    yield render(
        site,
        "glossary.html.j2",
        addresses.GLOSSARY,
        "Glossary",
        "The words of these pages, each in a few sentences.",
        entries=entries(),
    )


def entries() -> list[tuple[str, str, Markup]]:
    """Anchor, word and explanation; the anchors are those that the file has elsewhere too."""
    text = (paths.OWN / "docs/glossary.md").read_text("utf-8")
    found = (part.partition("\n") for part in text.split("\n## ")[1:])
    return [(word.lower().replace(" ", "-"), word, _marked(said)) for word, _, said in found]


def _marked(text: str) -> Markup:
    marked = str(words.prose(" ".join(text.split())))  # escapes
    marked = _LINK.sub(r'<a href="#\2">\1</a>', marked)
    return Markup(_EMPHASIS.sub(r"<em>\1</em>", marked))  # noqa: S704 - escaped above


SERIES: Final = {
    "case": "place in `cases`, which have id, status, flags and reasons night by night",
    "metric": "its name; of benchmarks inside the process their unit",
    "unit": "SI unit of the figures",
    "better": "lower, higher or neither",
    "exponent": "a step is 10 to this power of the unit",
    "mean": "steps, one per night of the year; null: no figure, and the status says why",
    "low": "ten steps each below the mean; null instead of the list: no night has an interval",
    "high": "ten steps each above the mean",
    "launches": "how many each figure rests on, as runs of [how often, which]",
}
"""Every key of a series in a shard's file."""


def data_pages(site: Site) -> Iterator[PageFile]:
    """The page of downloads."""
    yield render(
        site,
        "data.html.j2",
        addresses.DATA,
        "Data",
        "All figures as JSON, with their schema, and every raw file.",
        series=SERIES,
        letters=LETTERS,
        intervals=INTERVALS,
        format=FORMAT,
        example=_example(site),
        badges=[(one.name, one.label) for one in headlines()] + [("changes", "open regressions")],
        schemas=[one for one in site.downloads.items() if one[0].endswith("schema.json")],
        raw_asv=sum(address.startswith(addresses.RAW_ASV) for address in site.downloads),
        raw=len(site.runs),
        points=len(site.sources.points),
        metrics=list(METRICS.values()),
    )


def _example(site: Site) -> tuple[str, int] | None:
    """Address and size of a file of series."""
    by_shard = site.manifest.get("series", {})
    wanted = {headline.case for headline in headlines()}
    shards = (one for many in site.shards.values() for one in many if one.id in by_shard)
    _, shard = min(((one.group not in wanted, one.id) for one in shards), default=(True, ""))
    if not shard:
        return None
    year, (digest, size) = max(by_shard[shard].items())
    return f"series/{shard}/{year}-{digest}.json", int(size)
