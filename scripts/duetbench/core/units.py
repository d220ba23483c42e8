"""Formats for people. Inside, everything is in SI units; this is the edge."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

Formatter = Callable[[float], str]
Ladder = tuple[tuple[float, float, str], ...]
"""Units of an axis: from which figure on, what an SI figure is multiplied by, and its name."""

PLAIN: Final[Ladder] = ((0.0, 1.0, ""),)


@dataclass(frozen=True, slots=True)
class Format:
    """How figures of one kind are written.

    Attributes:
        name: As `formats.js` calls it.
        write: Writes one figure, with its unit.
        ladder: Units of an axis.
    """

    name: str
    write: Formatter
    ladder: Ladder = PLAIN

    def __call__(self, value: float) -> str:
        return self.write(value)


def significant(value: float, digits: int = 3) -> str:
    """Format with `digits` significant digits, without exponent, with thousands separators."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    rounded = float(f"{value:.{digits - 1}e}")  # first: 99.97 becomes 100, which has no decimals
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{round(value, decimals):,.{decimals}f}"


_SECONDS: Final[Ladder] = ((1.0, 1.0, "s"), (1e-3, 1e3, "ms"), (1e-6, 1e6, "µs"), (0.0, 1e9, "ns"))


def _seconds(value: float) -> str:
    factor, unit = next(step[1:] for step in _SECONDS if abs(value) >= step[0])
    return f"{significant(value * factor)} {unit}"


plain: Final = Format("significant", significant)
seconds: Final = Format("seconds", _seconds, _SECONDS)
rate: Final = Format(
    "rate", lambda value: f"{significant(value, 4 if value >= 1000 else 3)}/s", ((0.0, 1.0, "1/s"),)
)
# 10⁶ bytes, as the published articles do.
size: Final = Format("size", lambda value: f"{significant(value / 1e6)} MB", ((0.0, 1e-6, "MB"),))
share: Final = Format("share", lambda value: f"{significant(value * 100)} %", ((0.0, 100.0, "%"),))
cores: Final = Format("cores", lambda value: f"{value:.2f}", ((0.0, 1.0, "cores"),))
count: Final = Format("count", lambda value: f"{value:,.0f}")

TIME: Final = re.compile(r"(?:(\d{1,4})h)?(?:(\d{1,6})m)?(?:(\d{1,8})s)?")
"""A time on a command line: 180s, 5m, 1h or 1h30m."""


def read_time(text: str) -> float | None:
    """Read a `TIME` in s; None: it is none."""
    match = TIME.fullmatch(text)
    hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (0, 0, 0)
    return float(3600 * hours + 60 * minutes + seconds) if match and text else None


def utc_now() -> str:
    """Tell the time: UTC with seconds, ISO 8601."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
