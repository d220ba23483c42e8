"""Changes and quoted sizes in words: the same on every page, in the feed and in issues."""

import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from duetbench.app import case_names
from duetbench.core.change import Release
from duetbench.core.comparison import Attribution
from duetbench.core.metrics import INSTRUCTIONS, METRICS, row
from duetbench.core.units import Interval
from duetbench.report import formats
from duetbench.report.attribution import AttributionText
from observatory.store.change import Change, order
from observatory.trend.quotes import Key, Quote, quote_of, sides
from observatory.trend.releases import MEMORY

_ARTICLES: Final = ("A ", "An ", "The ")


def sentence(record: Change) -> str:
    """Put a change into words, with what is served for the case (see `CaseName.what`)."""
    # A size without an interval was counted, and cannot scatter.
    within = formats.within(record.interval) or "counted"
    what = case_names.name(record.series.case).what
    return f"{what} {formats.movement(record.series.metric, record.interval)} ({within})"


def cause(record: Change) -> str:
    """Name the releases behind a change, each with its share; empty while they are unknown."""
    several = len(record.shares) > 1
    names = (
        share.names + (f": {formats.change(share.interval)}" if several else "")
        for share in record.shares
    )
    return ", ".join(names) or str(record.culprit or "")


def commands(record: Change) -> tuple[tuple[str, str], ...]:
    """Return the commands that measure a change again, each with its purpose."""
    options = ["--select", record.series.case, "--profile", "nightly"]
    options += [] if record.why else ["--why"]
    base, head = record.base.as_of, record.head.as_of
    lines = []
    if base and head and base != head:
        words = ["compare", "--base", f"as-of={base}", "--head", f"as-of={head}", *options]
        lines.append(("The stacks of both days, measured together", words))
    if record.culprit is not None and record.culprit.previous:
        other = f"{record.culprit.package}=={record.culprit.previous}"
        words = ["compare", "--head", other, *options]
        lines.append(("The locks against the release before", words))
    return tuple((label, shlex.join(["observatory", *words])) for label, words in lines)


def counted(record: Attribution, releases: Collection[Release]) -> str | None:
    """Say which versions were counted: empty without releases; None: not those of a release.

    `Counted from fastapi 0.141.1 → 0.143.2, together with 14 other packages.`
    """
    moves = {move.package: move for move in record.packages}

    def is_inside(release: Release) -> bool:
        move = moves.get(release.package)
        return move is not None and (
            order(move.base or "") < order(release.version) <= order(move.head or "")
        )

    if not all(map(is_inside, releases)):
        return None
    named = {release.package for release in releases}
    own = [str(move) for move in record.packages if move.package in named]
    more = formats.quantity(len(record.packages) - len(own), "other package")
    others = f", together with {more}" if len(record.packages) > len(own) else ""
    return f"Counted from {', '.join(own)}{others}." if own else ""


def explanations(changes: Iterable[Change]) -> list[tuple[AttributionText, str]]:
    """Return the attributions of changes in words, and which versions were counted.

    One whose versions lack the change's releases is left out.
    """
    return [
        (AttributionText(change.why), versions)
        for change in changes
        if change.why and (versions := counted(change.why, change.releases)) is not None
    ]


def served(case: str) -> str:
    """Name what a case serves within a sentence: `a JSON response from FastAPI`."""
    what = case_names.name(case).what
    first = what.partition(" ")[0]
    lower = what.startswith(_ARTICLES) or (first.endswith("ing") and first[1:].islower())
    return what[:1].lower() + what[1:] if lower else what


def effect(metric: str, ratio: Interval, *, within: bool = False) -> str:
    """Say by how much a figure moved: `needs 20 % more CPU`, `within` its interval."""
    amount = formats.change(ratio).lstrip("+−").replace("×", " times")
    words = row(metric).effect(amount, rose=ratio.estimate >= 1).removesuffix(" per request")
    return f"{words} ({formats.within(ratio)})" if within else words


def size(quote: Quote) -> str:
    """Write a size in words, so that its sign needs no explanation: `20 % more CPU`."""
    return effect(quote.metric, quote.ratio).partition(" ")[2]


def finding(quote: Quote, *, within: bool = False) -> str:
    """Say what a release did: `fastapi 0.142.0 needs 20 % more CPU for a JSON response`."""
    words = effect(quote.metric, quote.ratio, within=within)
    link = " " if words.endswith("to start") else ": " if "to start (" in words else " for "
    also = f" with {', '.join(quote.together)}" if quote.together else ""
    # FastAPI's own release needs no "from FastAPI".
    own = rf" from {re.escape(quote.package)}\b"
    what = re.sub(own, "", served(quote.case), flags=re.IGNORECASE)
    return f"{quote.package} {quote.version}{also} {words}{link}{what}"


def finding_of(record: Change, quotes: Mapping[Key, Quote]) -> str:
    """Write a change as a finding: its release with the quoted size, if that is known."""
    quote = quote_of(record, quotes)
    return finding(quote, within=True) if quote else sentence(record)


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
    base, head = sides(quote)
    before = [f"--base {base}"] if quote.previous else []
    return [*before, f"--head {head}", "--app shop.main:app --path /items/7"]
