"""Which way of finding steps sees most, and is wrong least, in anchored series?

Made-up histories with known steps and standard errors go through each way, as a whole and point by
point as they come. What is printed stands in docs/method.md.

    .venv/bin/uv pip install --no-deps --target DIR apache-otava==0.8.0 ruptures==1.1.10
    PYTHONPATH=DIR .venv/bin/python tools/detection_study.py [--histories N] [--seed N]

The two packages are of use here alone: without them their columns are left out.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
from scipy import stats

from duetbench.core.metrics import METRICS
from duetbench.trend import levels
from duetbench.trend.steps import LEAST

Found = list[tuple[int, float]]
"""Places of the first points on another level, and the heights (logarithms)."""

Way = Callable[[np.ndarray, np.ndarray], Found]

ERRORS: Final = (0.003, 0.006)
"""Standard errors of closed loops."""

COUNTED: Final = (0.0003, 0.0003)
"""Those of counted instructions."""

DUETS: Final = 12
"""Of which a standard error is estimated: it scatters itself."""

FLOOR: Final = math.log1p(METRICS["server_cpu_per_request"].floor)
NEAR: Final = 2
"""Points that a step may be found away from where it is."""

SPIKE: Final = 15
"""One point in so many lies far away, where any does."""

LATER: Final = 30
"""Points after a step; what is not found by then is late."""


@dataclass(frozen=True)
class Kind:
    """A kind of history: `steps` are (place, relative height), `sign` turned at random.

    `extra` is scatter between points that their errors do not say, `drift` from first to last.
    """

    name: str
    points: int = 60
    steps: tuple[tuple[int, float], ...] = ()
    errors: tuple[float, float] = ERRORS
    extra: float = 0.0
    drift: float = 0.0
    spikes: bool = False
    gaps: bool = False

    def made(self, source: np.random.Generator) -> tuple[np.ndarray, np.ndarray, Found]:
        """Logarithms, their standard errors as estimated, and the steps that are in them."""
        errors = source.uniform(*self.errors, self.points)
        if self.gaps:
            errors = np.where(source.random(self.points) < 1 / 3, 2 * errors, errors)
        y = source.normal(0, np.hypot(errors, self.extra))
        y += self.drift * np.linspace(0, 1, self.points)
        sign = source.choice((-1, 1))
        truth = [(place, math.log1p(sign * height)) for place, height in self.steps]
        for place, height in truth:
            y[place:] += height
        if self.spikes:
            far = np.arange(SPIKE // 2, self.points, SPIKE)
            y[far] += source.choice((-1, 1), len(far)) * 0.05
        if self.errors != COUNTED:
            errors = errors * np.sqrt(source.chisquare(DUETS - 1, self.points) / (DUETS - 1))
            errors *= float(stats.t.ppf(0.975, DUETS - 1)) / 1.96  # as intervals are read
        if self.gaps:
            kept = source.random(self.points) > 0.3
            kept[[place for place, _ in truth]] = True
            truth = [(int(kept[:place].sum()), height) for place, height in truth]
            y, errors = y[kept], errors[kept]
        return y, errors, truth


def ours(y: np.ndarray, errors: np.ndarray, *, lone: bool = False) -> Found:
    """The project's own."""
    return [
        (one.start, one.log - before.log)
        for before, one in pairwise(levels.fitted(y.tolist(), errors.tolist(), lone=lone))
    ]


def asv(y: np.ndarray, errors: np.ndarray) -> Found:
    """Step detection of asv with weights, and some points on a level at least."""
    step_detect: Any = importlib.import_module("asv.step_detect")
    weights = np.median(errors) / errors
    pieces = step_detect.detect_steps(np.exp(y).tolist(), weights.tolist())
    return [
        (one[0], math.log(one[2] / before[2]))
        for before, one in pairwise(pieces)
        if min(one[1] - one[0], before[1] - before[0]) >= LEAST
    ]


def otava(y: np.ndarray, _: np.ndarray) -> Found:
    """E-divisive means with a t test, as Apache Otava has it (which an array confuses)."""
    analysis: Any = importlib.import_module("otava.analysis")
    found, _weak = analysis.compute_change_points(y.tolist())
    return _heights(y, [int(one.index) for one in found])


def pelt(y: np.ndarray, errors: np.ndarray) -> Found:
    """Least squares with the same price of a piece, from two points on, without a limit."""
    ruptures: Any = importlib.import_module("ruptures")
    if len(y) < 2 * 2:
        return []
    fitted = ruptures.Pelt(model="l2", min_size=2, jump=1).fit(y / np.median(errors))
    return _heights(y, fitted.predict(pen=levels.PRICE)[:-1])


def _heights(y: np.ndarray, places: Sequence[int]) -> Found:
    ends = [0, *places, len(y)]
    means = [float(y[start:end].mean()) for start, end in pairwise(ends)]
    return [(place, after - before)
            for place, (before, after) in zip(places, pairwise(means), strict=True)]  # fmt: skip


def ways() -> Iterator[tuple[str, Way]]:
    """All that are installed."""
    yield "ours", ours
    yield f"asv, {LEAST} points", asv
    for module, name, way in (("otava", "Otava", otava), ("ruptures", "ruptures", pelt)):
        if importlib.util.find_spec(module):
            yield name, way


def relevant(found: Found) -> Found:
    """Steps above the relevance floor."""
    return [one for one in found if abs(one[1]) > FLOOR]


def right(one: tuple[int, float], truth: Found) -> bool:
    """Whether a step is one of those that are there."""
    return any(abs(one[0] - place) <= NEAR and one[1] * height > 0 for place, height in truth)


def seen(way: Way, kind: Kind, histories: int, seed: int) -> str:
    """Of steps: the share found in the whole history, how many of all found are right, the delay.

    The delay is from the last step on: median and 90th percentile of points until it is found.
    """
    source = np.random.default_rng(seed)
    hits = found_ = right_ = there = 0
    delays: list[float] = []
    for _ in range(histories):
        y, errors, truth = kind.made(source)
        found = relevant(way(y, errors))
        found_ += len(found)
        right_ += sum(right(one, truth) for one in found)
        there += len(truth)
        hits += sum(any(right(one, [step]) for one in found) for step in truth)
        last = truth[-1]
        for points in range(last[0] + 1, min(len(y), last[0] + LATER) + 1):
            if any(right(one, [last]) for one in relevant(way(y[:points], errors[:points]))):
                delays.append(points - last[0])
                break
        else:
            delays.append(math.inf)
    usual, most = np.percentile(delays, (50, 90), method="higher")
    precision = f"{right_ / found_:.0%}" if found_ else "none"
    return f"{hits / there:.0%}, {precision}, {_points(usual)} ({_points(most)})"


def _points(count: float) -> str:
    return f"{count:.0f}" if math.isfinite(count) else f"> {LATER}"


def false(way: Way, kind: Kind, histories: int, seed: int, *, coming: bool) -> str:
    """Steps per history where there is none, or the share with one at any time as points come."""
    source = np.random.default_rng(seed)
    count = 0
    for _ in range(histories):
        y, errors, _truth = kind.made(source)
        lengths = range(4, len(y) + 1) if coming else (len(y),)
        found = (relevant(way(y[:points], errors[:points])) for points in lengths)
        count += any(found) if coming else len(next(found))
    return f"{count / histories:.0%}" if coming else f"{count / histories:.2f}"


def alternating(way: Way, histories: int, seed: int) -> str:
    """Steps per history of two machines, 0.5 % apart, taking turns in blocks of ten points."""
    source = np.random.default_rng(seed)
    together = apart = 0
    for _ in range(histories):
        y, errors, _truth = Kind("").made(source)
        first = np.arange(len(y)) // 10 % 2 == 0
        together += len(relevant(way(y + 0.005 * first, errors)))
        apart += sum(len(relevant(way(y[one], errors[one]))) for one in (first, ~first))
    return f"{together / histories:.2f}, {apart / histories:.2f}"


STEPS: Final = (
    *(Kind(f"{size:.1%}".replace(".0", ""), steps=((30, size),))
      for size in (0.005, 0.01, 0.02, 0.05, 0.2)),
    Kind("two of 2%, up and down", steps=((20, 0.02), (30, -0.02))),
    Kind("2%, scatter of 0.3% beside", steps=((30, 0.02),), extra=0.003),
    Kind("2%, outliers", steps=((30, 0.02),), spikes=True),
    Kind("2%, gaps, some errors doubled", steps=((30, 0.02),), gaps=True),
    *(Kind(f"instructions, {size:.1%}".replace(".0", ""), steps=((30, size),), errors=COUNTED)
      for size in (0.005, 0.02)),
)  # fmt: skip

NONE: Final = (
    *(Kind(f"{points} points", points) for points in (12, 60, 200)),
    Kind("scatter of 0.3% beside", extra=0.003),
    Kind("outliers", spikes=True),
    Kind("gaps, some errors doubled", gaps=True),
    Kind("instructions", errors=COUNTED),
    Kind("a drift of 1%", drift=0.01),
    Kind("a drift of 3%", drift=0.03),
)


def tell(line: str) -> None:
    """Print a line now: the rest takes minutes."""
    sys.stdout.write(line.replace("%", " %") + "\n")
    sys.stdout.flush()


def main() -> None:
    """Print both tables."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--histories", type=int, default=60, help="Of each kind.")
    arguments.add_argument("--seed", type=int, default=1)
    asked = arguments.parse_args()
    count, seed = asked.histories, asked.seed
    there = list(ways())
    head = " | ".join(name for name, _ in there)

    def row(name: str, cell: Callable[[Way], str], kind: Kind | None = None) -> None:
        exact = kind is not None and kind.errors == COUNTED
        every = [partial(ours, lone=True) if exact and way is ours else way for _, way in there]
        tell(f"| {name} | {' | '.join(map(cell, every))} |")

    tell(f"| step after 30 points | {head} |\n|---|{'---|' * len(there)}")
    for kind in STEPS:
        row(kind.name, lambda way, kind=kind: seen(way, kind, count, seed), kind)
    tell(f"\n| no step | {head} |\n|---|{'---|' * len(there)}")
    for kind in NONE:
        row(kind.name, lambda way, kind=kind: false(way, kind, count, seed, coming=False), kind)
    row("two machines in turn: as one, each alone", lambda way: alternating(way, count, seed))
    for kind in (NONE[1], NONE[3], NONE[4], NONE[6]):
        # A quarter of them is enough to tell the others apart, which take their time.
        row(
            f"{kind.name}, at any time",
            lambda way, kind=kind: false(
                way, kind, count if "ours" in repr(way) else count // 4, seed, coming=True
            ),
            kind,
        )


if __name__ == "__main__":
    main()
