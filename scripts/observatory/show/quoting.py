"""Changes and quoted sizes in words: the same on every page."""

import re
from collections.abc import Iterable
from typing import Final

from duetbench.app import case_names
from duetbench.core.comparison import INSTRUCTIONS, Finding
from duetbench.core.metrics import METRICS
from duetbench.core.units import Interval
from duetbench.report import changes, formats
from duetbench.report.attribution import AttributionText
from observatory.store.change import Change
from observatory.trend.releases import MEMORY, ReleaseEffect

_ARTICLES: Final = ("A ", "An ", "The ")


def sentence(record: Change) -> str:
    """Put a change into words, with what is served for the case (see `CaseName.what`)."""
    # A size without an interval was counted, and cannot scatter.
    within = changes.within(record.interval) or "counted"
    what = case_names.name(record.series.case).what
    return f"{what} {changes.movement(record.series.metric, record.interval)} ({within})"


def explanations(changes: Iterable[Change]) -> list[tuple[AttributionText, str]]:
    """Return the attributions of changes in words, and which versions were counted.

    `Counted from fastapi 0.141.1 → 0.143.2, together with 14 other packages.`
    """
    texts = []
    for change in changes:
        if why := change.why:
            named = {release.package for release in change.releases}
            own = ", ".join(str(move) for move in why.packages if move.package in named)
            others = sum(move.package not in named for move in why.packages)
            more = f", together with {formats.quantity(others, 'other package')}" * bool(others)
            texts.append((AttributionText(why), f"Counted from {own}{more}." if own else ""))
    return texts


def served(case: str) -> str:
    """Name what a case serves within a sentence: `a JSON response from FastAPI`."""
    what = case_names.name(case).what
    first = what.partition(" ")[0]
    lower = what.startswith(_ARTICLES) or (first.endswith("ing") and first[1:].islower())
    return what[:1].lower() + what[1:] if lower else what


def effect(metric: str, ratio: Interval, *, within: bool = False) -> str:
    """Say by how much a figure moved: `needs 20 % more CPU`, `within` its interval."""
    words = changes.movement(metric, ratio).removesuffix(" per request")
    return f"{words} ({changes.within(ratio)})" if within else words


def judged(finding: Finding) -> str:
    """Say what a finding of a metric moved by: `20 % more CPU`; or its verdict: `memory: same`."""
    if finding.moved and finding.interval:
        return effect(finding.subject, finding.interval).partition(" ")[2]
    return f"{METRICS[finding.subject].title}: {finding.verdict}"


def size(quote: ReleaseEffect) -> str:
    """Write a size in words, so that its sign needs no explanation: `20 % more CPU`."""
    return effect(quote.metric, quote.ratio).partition(" ")[2]


def finding(quote: ReleaseEffect, *, within: bool = False) -> str:
    """Say what a release did: `fastapi 0.142.0 needs 20 % more CPU for a JSON response`."""
    words = effect(quote.metric, quote.ratio, within=within)
    link = " " if words.endswith("to start") else ": " if "to start (" in words else " for "
    also = f" with {', '.join(quote.together)}" if quote.together else ""
    # FastAPI's own release needs no "from FastAPI".
    own = rf" from {re.escape(quote.package)}\b"
    what = re.sub(own, "", served(quote.case), flags=re.IGNORECASE)
    return f"{quote.package} {quote.version}{also} {words}{link}{what}"


def title(metric: str) -> str:
    """Name a metric, or instructions, which are counted."""
    if metric == INSTRUCTIONS:
        return "instructions, counted"
    return METRICS[metric].title if metric in METRICS else metric or "figure"


def place(quote: ReleaseEffect) -> str:
    """Say where it was measured: `CPU per request on Granian, Python 3.14, 128 connections`."""
    what = "memory" if quote.metric == MEMORY else title(quote.metric)
    return f"{what}: {case_names.name(quote.case)}"
