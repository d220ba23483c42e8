"""Formats for people. Inside, everything is in SI units; this is the edge."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final

Formatter = Callable[[float], str]

_STEPS_S: Final = ((1.0, "s", 1.0), (1e-3, "ms", 1e3), (1e-6, "µs", 1e6))


def significant(value: float, digits: int = 3) -> str:
    """Format with `digits` significant digits, without exponent, with thousands separators."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    rounded = float(f"{value:.{digits - 1}e}")  # first: 99.97 becomes 100, which has no decimals
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{round(value, decimals):,.{decimals}f}"


def seconds(value: float) -> str:
    """Format a time in seconds with the unit that reads best."""
    for threshold, unit, factor in _STEPS_S:
        if abs(value) >= threshold:
            return f"{significant(value * factor)} {unit}"
    return f"{significant(value * 1e9)} ns"


def rate(value: float) -> str:
    """Format a rate in 1/s."""
    return f"{significant(value, 4 if value >= 1000 else 3)}/s"


def size(value: float) -> str:
    """Format bytes as MB (10⁶ bytes, as the published articles do)."""
    return f"{significant(value / 1e6)} MB"


def share(value: float) -> str:
    """Format a ratio as per cent."""
    return f"{significant(value * 100)} %"


def cores(value: float) -> str:
    """Format a number of cores."""
    return f"{value:.2f}"


def count(value: float) -> str:
    """Format a count."""
    return f"{value:,.0f}"


TIME: Final = re.compile(r"(?:(\d{1,4})h)?(?:(\d{1,6})m)?(?:(\d{1,8})s)?")
"""A time on a command line: 180s, 5m, 1h or 1h30m."""


def read_time(text: str) -> float | None:
    """Read a `TIME` in s; None: it is none."""
    found = TIME.fullmatch(text)
    hours, minutes, seconds = (int(part or 0) for part in found.groups()) if found else (0, 0, 0)
    return float(3600 * hours + 60 * minutes + seconds) if found and text else None
