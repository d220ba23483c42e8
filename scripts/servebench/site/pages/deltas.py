"""Two figures, what they differ by, and what they differ by when nothing changed. Pure.

The arithmetic of `static/js/deltas.js`, on the same columns (`site/across.py`): the compare page
says the same with its script and without it. Logarithms, because differences are relative.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from servebench.compare.statistics import adjusted
from servebench.site.scaling import COARSER, LETTERS
from servebench.summary import too_few

_FEW: Final = 8  # fewer neighbours say nothing about noise
_SPREAD: Final = 1.96  # 95 % of a normal distribution
_MAD: Final = 1.4826  # from a median absolute deviation to a standard deviation
_LEAST: Final = 1e-9  # of a floor, so that nothing is divided by zero
_EFFICIENT: Final = (
    3  # a median absolute deviation of so many says as much as one squared deviation
)
_ERRORS: Final = 0.05  # share of the rows called different that may be so by chance
_WHY: Final = {
    LETTERS["absent"]: "was not planned",
    LETTERS["failed"]: "failed",
    LETTERS["not measured"]: "the run ended before it",
    LETTERS["measured"]: "has no such figure",
    LETTERS["disturbed"]: "has no such figure",
}

Entry = Mapping[str, Any]
"""One case in a file of one metric, as `across.across_file` writes it."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of one side, SI unit; without one, `why` says why.

    Attributes:
        mean: The figure.
        low: Lower end of its interval; None together with `high`.
        high: Upper end.
        freedom: Degrees of freedom of its interval.
        judged: Whether anything may be said of it.
        why: Why not.
    """

    mean: float | None
    low: float | None = None
    high: float | None = None
    freedom: int = 0
    judged: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class Delta:
    """B over A with its interval, if both figures have one."""

    ratio: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Noise:
    """What two nights differ by: `half`, as a logarithm, known from so many pairs of nights."""

    half: float
    pairs: int


@dataclass(frozen=True, slots=True)
class Beyond:
    """A change beside the noise.

    Attributes:
        floor: What counts as noise, as a logarithm.
        factor: How many times the floor the change is.
        known: Whether the floor is that of measured noise.
    """

    floor: float
    factor: float
    known: bool


def figure(entry: Entry, night: int, *, samples: bool = False) -> Figure:
    """The figure of one night.

    Args:
        entry: The case.
        night: Its place in the year.
        samples: Whether the ends are those of the samples rather than of the mean.
    """
    letter, steps = entry["status"][night], entry["mean"][night]
    if steps is None:
        return Figure(None, why=_WHY[letter])
    step = 10.0 ** entry["exponent"]
    below, above = (
        None if samples or entry[end] is None else entry[end][night] for end in ("low", "high")
    )
    launches = next(value for value, upto in _expanded(entry["launches"]) if night < upto)
    why = ", ".join(_flags(entry, night)) or "disturbed"
    if letter == LETTERS["measured"]:
        why = "" if samples else too_few(launches)
        why = why or ("no interval" if below is None or above is None else "")
    return Figure(
        mean=steps * step,
        low=None if below is None else (steps - COARSER * below) * step,
        high=None if above is None else (steps + COARSER * above) * step,
        freedom=max(0, launches - 1),
        judged=not why,
        why=why,
    )


def delta(a: Figure, b: Figure) -> Delta | None:
    """B over A; None: one has no figure, or none that can be divided.

    The intervals are taken as independent and symmetric on the logarithmic scale, as in
    `overview.ratio`.
    """
    if a.mean is None or b.mean is None or a.mean <= 0 or b.mean <= 0:
        return None
    ratio = b.mean / a.mean
    halves = list(_halves(a, b))
    if len(halves) < 2:
        return Delta(ratio)
    factor = math.exp(math.hypot(*halves))
    return Delta(ratio, ratio / factor, ratio * factor)


def noise(values: Sequence[float | None], edges: Collection[int]) -> Noise | None:
    """What two nights differ by in 19 of 20 cases though nothing changed, as a logarithm.

    From the differences of neighbouring nights (von Neumann, Annals of Mathematical Statistics 12
    (1941) 367), by their median, so that a change does not count as noise.

    Args:
        values: One per night; None: none, or none that is judged.
        edges: Nights before which the circumstances changed.

    Returns:
        None where too few nights tell.
    """
    steps: list[float] = []
    before: float | None = None
    for night, value in enumerate(values):
        if night in edges:
            before = None
        if value is None or value <= 0:
            continue
        if before is not None:
            steps.append(abs(math.log(value / before)))
        before = value
    if len(steps) < _FEW:
        return None
    return Noise(_SPREAD * _MAD * statistics.median(steps), len(steps))


def judged(entry: Entry) -> list[float | None]:
    """The judged figures of a case by night, in steps: of one scale, so good enough for ratios."""
    good = LETTERS["measured"]
    return [
        value if letter == good else None
        for value, letter in zip(entry["mean"], entry["status"], strict=True)
    ]


def beyond(change: Delta, noisy: Noise | None, relevant: float) -> Beyond:
    """How many times the noise a change is.

    The floor is what nights differ by, or where that is not known half the change's own interval;
    never less than what is relevant.

    Args:
        change: B over A.
        noisy: As `noise` gives it.
        relevant: As a share.
    """
    half = _own_half(change) if noisy is None else noisy.half
    floor = max(half, math.log1p(relevant), _LEAST)
    return Beyond(floor, abs(math.log(change.ratio)) / floor, known=noisy is not None)


def chance(change: Delta, freedom: int, noisy: Noise | None) -> float:
    """How often a change as large as this one would be seen though nothing changed.

    An interval that holds "no change" settles it. Otherwise: by what nights differ by, or where
    that is not known by the interval itself.

    Args:
        change: With its interval.
        freedom: Of the side that has fewer degrees of it.
        noisy: As `noise` gives it.
    """
    from scipy import special  # noqa: PLC0415 - only the build of this one page waits for it

    size, half = abs(math.log(change.ratio)), _own_half(change)
    if size <= half or freedom < 1:
        return 1.0
    if noisy is None:
        t = float(special.stdtrit(freedom, 0.975)) * size / max(half, _LEAST)
    else:
        freedom = noisy.pairs // _EFFICIENT
        t = _SPREAD * size / max(noisy.half, _LEAST)
    return 2 * float(special.stdtr(freedom, -t))


def called(chances: Sequence[float]) -> list[bool]:
    """Which of many changes are called one: at most one in twenty of these is one by chance.

    By the procedure of Benjamini and Hochberg.
    """
    return [one <= _ERRORS for one in adjusted(chances)]


def _own_half(change: Delta) -> float:
    if change.low is None or change.high is None:
        return 0.0
    return math.log(change.high / change.low) / 2


def _expanded(runs: Iterable[Sequence[int]]) -> Iterator[tuple[int, int]]:
    """Of run lengths: each value, and the place before which it ends."""
    upto = 0
    for count, value in runs:
        upto += count
        yield value, upto


def _halves(*figures: Figure) -> Iterator[float]:
    """Half the width of each interval there is, as a logarithm."""
    for one in figures:
        if one.low is not None and one.high is not None and one.low > 0:
            yield math.log(one.high / one.low) / 2


def _flags(entry: Entry, night: int) -> list[str]:
    codes = (code for code, upto in _expanded(entry["flags"]) if night < upto)
    names: list[str] = entry["flag_sets"][next(codes)]
    return names
