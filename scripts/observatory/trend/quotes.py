"""The one size that everything quotes for a release, and the measurements that it stands on. Pure.

A release has an effect on many cases, machines and metrics. All of them are true, and no reader
can choose. So one of them is quoted, wherever the release is named with a size.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from duetbench.core.metrics import CPU, row
from duetbench.core.model import Verdict
from duetbench.core.units import Interval
from duetbench.judge.statistics import direction
from observatory.store.change import Change
from observatory.trend.releases import MEMORY, START, ReleaseAxis, Result

_RANKS: Final = (CPU, "throughput", START, MEMORY)
"""Metrics that are quoted: what requests cost first."""

Key = tuple[str, str]
"""A package and its version."""


@dataclass(frozen=True, slots=True)
class Quote:
    """The size of a release that is quoted everywhere.

    Attributes:
        previous: The version that it is compared with; None: it is not known.
        when: Day of the release; without one, of the first night after it (`dated` is False).
        together: Releases that were measured with it, and only together: `starlette 0.52.1`.
    """

    package: str
    version: str
    previous: str | None
    when: datetime
    dated: bool
    machine: str
    case: str
    metric: str
    ratio: Interval
    verdict: Verdict
    together: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        return self.package, self.version

    @property
    def size(self) -> float:
        return abs(math.log(self.ratio.estimate))

    @property
    def reaches_limit(self) -> bool:
        """Whether the change is large enough to act on."""
        return self.size >= math.log1p(row(self.metric).limit)

    @property
    def rank(self) -> tuple[bool, int]:
        """Sorts the metrics of a release: what reaches its limit first, and of these, requests."""
        place = _RANKS.index(self.metric) if self.metric in _RANKS else len(_RANKS)
        return not self.reaches_limit, place

    @property
    def width(self) -> float:
        low, high = self.ratio.ends or (0.0, math.inf)
        return math.log(high / low) if low else math.inf


def quotes(
    effects: Mapping[ReleaseAxis, Mapping[str, Result]], changes: Iterable[Change]
) -> dict[Key, Quote]:
    """Decide the size of every release that moved something, the newest release first.

    It is measured alone. The largest effect on requests that reaches its limit counts, then that on
    starts, on memory. Of several machines, it is the one with the narrowest interval.
    """
    known: dict[Key, list[Quote]] = {}
    days = {
        (axis.package, release.version): release.when
        for axis in effects
        for release in axis.releases
    }
    for quote in (*_alone(effects), *_of_changes(changes, days)):
        known.setdefault(quote.key, []).append(quote)
    chosen = (_choose(candidates) for candidates in known.values())
    ordered = sorted(chosen, key=lambda quote: (quote.when, quote.size), reverse=True)
    return {quote.key: quote for quote in ordered}


def quote_of(record: Change, known: Mapping[Key, Quote]) -> Quote | None:
    """Return the quote of the release that a change names first; None: it is not known."""
    keys = ((release.package, release.version) for release in record.releases)
    return next((known[key] for key in keys if key in known), None)


def sides(quote: Quote) -> tuple[str, str]:
    """Return the labels of a comparison of a release alone with the one before it."""
    return f"{quote.package}=={quote.previous}", f"{quote.package}=={quote.version}"


def _choose(candidates: Sequence[Quote]) -> Quote:
    """Choose one of a release's measurements, by its narrowest interval on each case."""
    narrowest: dict[tuple[str, str], Quote] = {}
    for quote in candidates:
        other = narrowest.setdefault((quote.case, quote.metric), quote)
        if (len(quote.together), quote.width) < (len(other.together), other.width):
            narrowest[quote.case, quote.metric] = quote
    return min(narrowest.values(), key=lambda quote: (*quote.rank, -quote.size))


def _alone(effects: Mapping[ReleaseAxis, Mapping[str, Result]]) -> Iterator[Quote]:
    for axis, by_version in effects.items():
        for version, result in by_version.items():
            for effect in result.effects:
                quote = Quote(
                    axis.package, version, result.base.version, result.head.when, True,
                    axis.machine.id, effect.case, effect.metric, effect.ratio,
                    effect.verdict or Verdict.UNKNOWN,
                )  # fmt: skip
                # Pages of memory come and go.
                if effect.moved and (effect.metric != MEMORY or quote.reaches_limit):
                    yield quote


def _of_changes(changes: Iterable[Change], days: Mapping[Key, datetime]) -> Iterator[Quote]:
    """Quote what changes say of their releases."""
    for record in changes:
        on = record.series
        parts = [(share.releases, share.interval) for share in record.shares]
        whole = [((record.culprit,), record.interval)] if record.culprit else []
        for releases, ratio in parts or whole:
            for release in releases:
                key = (release.package, release.version)
                others = (other for other in releases if other != release)
                yield Quote(
                    *key, release.previous, days.get(key, record.when), key in days,
                    record.measured_on, on.case, on.metric, ratio,
                    direction(on.metric, math.log(ratio.estimate)),
                    tuple(f"{other.package} {other.version}" for other in others),
                )  # fmt: skip
