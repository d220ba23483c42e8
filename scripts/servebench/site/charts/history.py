"""What a trend is drawn from: points over time, and what happened between them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from servebench.compare.model import Verdict
from servebench.site.charts.data import About, Quantity, Value, check_href

MOST: Final = 130
"""Marks for figures: a drawing has at most 500, and gaps, flags, bumps and changes need theirs."""


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """The figure of one run; without one, its value says why."""

    time: datetime
    run: str
    value: Value
    href: str = ""

    def __post_init__(self) -> None:
        _aware(self.time)
        check_href(self.href)


@dataclass(frozen=True, slots=True)
class Change:
    """A change point: from this run on, the series is elsewhere.

    Attributes:
        time: Time of the first run after it.
        verdict: Faster or slower; inconclusive where it is not confirmed.
        ratio: After over before, with its interval.
        label: What did it, if that is known: `granian 2.8.7`.
        href: Its page.
    """

    time: datetime
    verdict: Verdict
    ratio: Value
    label: str = ""
    href: str = ""

    def __post_init__(self) -> None:
        _aware(self.time)
        check_href(self.href)


@dataclass(frozen=True, slots=True)
class Event:
    """A stack bump, or a break after which figures cannot be compared with those before."""

    time: datetime
    label: str

    def __post_init__(self) -> None:
        _aware(self.time)


@dataclass(frozen=True, slots=True)
class Trend:
    """One series over time.

    Attributes:
        about: What it is.
        quantity: What was measured.
        points: In the order of time.
        changes: Change points.
        breaks: Where machine, interpreter build or case definition changed.
        bumps: Where the stack's lock changed.
        noise: Half the width of the A/A noise ribbon, relative to the figure; None: not known.
        most: Marks for figures that there is room for.
    """

    about: About
    quantity: Quantity
    points: tuple[TrendPoint, ...]
    changes: tuple[Change, ...] = ()
    breaks: tuple[Event, ...] = ()
    bumps: tuple[Event, ...] = ()
    noise: float | None = None
    most: int = 120

    def __post_init__(self) -> None:
        if not 1 <= self.most <= MOST:
            raise ValueError(f"{self.most} marks: expected 1 to {MOST}")
        times = [point.time for point in self.points]
        if times != sorted(times):
            raise ValueError("points: expected in the order of time")


def _aware(time: datetime) -> None:
    if time.tzinfo is None:
        raise ValueError(f"{time}: a time without a time zone; use UTC")
