"""Figures: their intervals, and their formats for people. Values are in SI units."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Final, Literal

Unit = Literal["s", "B", "1/s", "1"]
Formatter = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure in SI units, or a ratio, with its 95 % interval."""

    estimate: float
    low: float | None = None  # None, as `high`, if the scatter is unknown: of one sample
    high: float | None = None
    n: int = 1  # samples: launches, duets

    @property
    def ends(self) -> tuple[float, float] | None:
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def spread(self) -> float | None:
        """The longer half as a share of the figure; None without ends, or if it is zero."""
        if self.ends is None or self.estimate == 0:
            return None
        low, high = self.ends
        return max(high - self.estimate, self.estimate - low) / abs(self.estimate)

    def excludes(self, value: float) -> bool:
        """Whether the value lies outside; False without ends."""
        return self.ends is not None and not self.ends[0] <= value <= self.ends[1]


@cache
def student(freedom: float) -> float:
    """Standard errors on either side of a 95 % interval, by Student's t with `freedom` degrees."""
    from scipy import special  # noqa: PLC0415 - only readers of intervals wait for its import

    return float(special.stdtrit(freedom, 0.975))


@dataclass(frozen=True, slots=True)
class Format:
    """How to write the figures of one kind."""

    unit: Unit  # of the figures
    write: Formatter  # writes one figure, with its unit

    def __call__(self, value: float) -> str:
        return self.write(value)


def significant(value: float, digits: int = 3) -> str:
    """Format with `digits` significant digits, without exponent, with thousands separators."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    rounded = float(f"{value:.{digits - 1}e}")  # 99.97 becomes 100, which has no decimals
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{round(value, decimals):,.{decimals}f}"


def signed(value: float, form: str) -> str:
    """Format a number by `form`, such as `.1f`, with its sign; a minus is the typographic one."""
    return format(value, f"+{form}").replace("-", "−")


def rounded(value: float) -> float:
    """Round to six significant digits: a thousandth of any launch's noise, or less."""
    return float(f"{value:.6g}")


_SECONDS: Final = ((1.0, 1.0, "s"), (1e-3, 1e3, "ms"), (1e-6, 1e6, "µs"), (0.0, 1e9, "ns"))


def _seconds(value: float) -> str:
    factor, unit = next(step[1:] for step in _SECONDS if abs(value) >= step[0])
    return f"{significant(value * factor)} {unit}"


plain: Final = Format("1", significant)
seconds: Final = Format("s", _seconds)
rate: Final = Format("1/s", lambda value: f"{significant(value, 4 if value >= 1000 else 3)}/s")
# 10⁶ bytes, as the published articles do.
size: Final = Format("B", lambda value: f"{significant(value / 1e6)} MB")
share: Final = Format("1", lambda value: f"{significant(value * 100)} %")
cores: Final = Format("1", "{:.2f}".format)
count: Final = Format("1", "{:,.0f}".format)
octets: Final = Format("B", count.write)
whole: Final = Format("B", "{:,.0f} bytes".format)
about: Final = Format("B", lambda value: f"{significant(value / 1e3, 2)} kB")
times: Final = Format(
    "1", lambda value: f"{round(value, 2):,g}" if value < 100_000 else f"{value:,.0f}"
)

TIME: Final = re.compile(r"(?:(\d{1,4})h)?(?:(\d{1,6})m)?(?:(\d{1,8})s)?")
"""A time on a command line: 180s, 5m, 1h or 1h30m."""


def read_time(text: str) -> float | None:
    """Read a `TIME` in s; None if it is none."""
    match = TIME.fullmatch(text)
    hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (0, 0, 0)
    return float(3600 * hours + 60 * minutes + seconds) if match and text else None


SHARE: Final = re.compile(r"(\d{1,4}(?:\.\d{1,6})?) ?%")


def read_share(text: object) -> float:
    """Read a percentage, such as 2.5%; raises ValueError if it is none, or zero."""
    match = SHARE.fullmatch(text) if isinstance(text, str) else None
    if match is None or not float(match[1]):
        raise ValueError(f"expected a size such as 2.5%, found {text!r}")
    return float(match[1]) / 100


def utc_now() -> str:
    """The current time: UTC with seconds, ISO 8601."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
