"""The one size that everything quotes for a release, and the measurements that it stands on. Pure.

A release has an effect on many cases, machines and metrics. All of them are true, and no reader
can choose. So one of them is quoted, wherever the release is named with a size.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from duetbench.judge.statistics import direction
from observatory.store.change import Change
from observatory.trend.releases import MEMORY, Key, ReleaseEffect, Result
from observatory.trend.table import Table


def quotes(
    effects: Mapping[Table, Mapping[str, Result]], changes: Iterable[Change]
) -> dict[Key, ReleaseEffect]:
    """Decide the size of every release that moved something, the newest release first.

    It is measured alone. The largest effect on requests that reaches its limit counts, then that on
    starts, on memory. Of several machines, it is the one with the narrowest interval.
    """
    known: dict[Key, list[ReleaseEffect]] = {}
    days = {
        (table.package, release.version): release.when
        for table in effects
        for release in table.files
    }
    alone = (
        effect
        for by_version in effects.values()
        for result in by_version.values()
        for effect in result.effects
        # Pages of memory come and go.
        if effect.moved and (effect.metric != MEMORY or effect.reaches_limit)
    )
    for quote in (*alone, *_of_changes(changes, days)):
        known.setdefault(quote.key, []).append(quote)
    chosen = (_choose(candidates) for candidates in known.values())
    ordered = sorted(chosen, key=lambda quote: (quote.when, quote.size), reverse=True)
    return {quote.key: quote for quote in ordered}


def quote_of(record: Change, known: Mapping[Key, ReleaseEffect]) -> ReleaseEffect | None:
    """Return the quote of the release that a change names first; None: it is not known."""
    keys = ((release.package, release.version) for release in record.releases)
    return next((known[key] for key in keys if key in known), None)


def sides(quote: ReleaseEffect) -> tuple[str, str]:
    """Return the labels of a comparison of a release alone with the one before it."""
    return f"{quote.package}=={quote.previous}", f"{quote.package}=={quote.version}"


def _choose(candidates: Sequence[ReleaseEffect]) -> ReleaseEffect:
    """Choose one of a release's measurements, by its narrowest interval on each case."""
    narrowest: dict[tuple[str, str], ReleaseEffect] = {}
    for quote in candidates:
        other = narrowest.setdefault((quote.case, quote.metric), quote)
        if (len(quote.together), quote.width) < (len(other.together), other.width):
            narrowest[quote.case, quote.metric] = quote
    return min(narrowest.values(), key=lambda quote: (*quote.rank, -quote.size))


def _of_changes(changes: Iterable[Change], days: Mapping[Key, datetime]) -> Iterator[ReleaseEffect]:
    """Quote what changes say of their releases."""
    for record in changes:
        on = record.series
        parts = [(share.releases, share.interval) for share in record.shares]
        whole = [((record.culprit,), record.interval)] if record.culprit else []
        for releases, ratio in parts or whole:
            for release in releases:
                key = (release.package, release.version)
                others = (other for other in releases if other != release)
                yield ReleaseEffect(
                    *key, release.previous, days.get(key, record.when), record.measured_on,
                    on.case, on.metric, ratio, direction(on.metric, math.log(ratio.estimate)),
                    dated=key in days,
                    together=tuple(f"{other.package} {other.version}" for other in others),
                )  # fmt: skip
