"""A quoted size in words: the same on every page, in the feed, in issues and in the README."""

import re
from collections.abc import Mapping
from typing import Final

from duetbench.app import case_names
from duetbench.core.metrics import INSTRUCTIONS, METRICS, row
from duetbench.core.units import Interval
from duetbench.report import formats
from observatory.show.changes import describe
from observatory.store.change import Change
from observatory.trend.quotes import Key, Quote, quote_of
from observatory.trend.releases import MEMORY

_ARTICLES: Final = ("A ", "An ", "The ")


def amount(ratio: Interval) -> str:
    """Write a size without its sign: `20 %`, or `2.3 times`."""
    return formats.change(ratio).lstrip("+−").replace("×", " times")


def served(case: str) -> str:
    """Name what a case serves within a sentence: `a JSON response from FastAPI`."""
    what = case_names.name(case).what
    first = what.partition(" ")[0]
    lower = what.startswith(_ARTICLES) or (first.endswith("ing") and first[1:].islower())
    return what[:1].lower() + what[1:] if lower else what


def effect(metric: str, ratio: Interval, *, within: bool = False) -> str:
    """Say by how much a figure moved: `needs 20 % more CPU`, `within` its interval."""
    words = row(metric).effect(amount(ratio), rose=ratio.estimate >= 1)
    words = words.removesuffix(" per request")
    return f"{words} ({formats.within(ratio)})" if within else words


def size(quote: Quote) -> str:
    """Write a size in words, so that its sign needs no explanation: `20 % more CPU`."""
    return effect(quote.metric, quote.ratio).partition(" ")[2]


def finding(quote: Quote, *, within: bool = False) -> str:
    """Say what a release did: `fastapi 0.142.0 needs 20 % more CPU for a JSON response`."""
    words = effect(quote.metric, quote.ratio, within=within)
    link = " " if words.endswith("to start") else " for "
    if within and "to start (" in words:
        link = ": "
    also = f" with {', '.join(quote.together)}" if quote.together else ""
    # FastAPI's own release needs no "from FastAPI".
    what = re.sub(
        rf" from {re.escape(quote.package)}\b", "", served(quote.case), flags=re.IGNORECASE
    )
    return f"{quote.package} {quote.version}{also} {words}{link}{what}"


def finding_of(record: Change, quotes: Mapping[Key, Quote]) -> str:
    """Write a change as a finding: its release with the quoted size, if that is known."""
    quote = quote_of(record, quotes)
    return finding(quote, within=True) if quote else describe(record).sentence


def title(metric: str) -> str:
    """Name a metric, or instructions, which are counted."""
    if metric == INSTRUCTIONS:
        return "instructions, counted"
    return METRICS[metric].title if metric in METRICS else metric or "figure"


def place(quote: Quote) -> str:
    """Say where it was measured: `CPU per request on Granian, Python 3.14, 128 connections`."""
    what = "memory" if quote.metric == MEMORY else title(quote.metric)
    return f"{what}: {case_names.name(quote.case)}"


def affected(quote: Quote) -> list[str]:
    """Make the lines of arguments that show what a release does to a reader's own application."""
    base = [f"--base {quote.package}=={quote.previous}"] if quote.previous else []
    return [
        *base,
        f"--head {quote.package}=={quote.version}",
        "--app shop.main:app --path /items/7",
    ]
