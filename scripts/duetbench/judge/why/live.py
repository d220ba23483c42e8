"""Which functions the CPU time of two loaded servers differs in, from launches of both by turns.

Samples are 10 to 100 times as noisy as counts. So the sample is the launch: a difference stands
with the interval that its launches give it, which holds for all functions at once.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from duetbench.host.progress import Narrator
from duetbench.judge.statistics import quantile
from duetbench.judge.why.naming import Name
from duetbench.measure import sampling
from duetbench.measure.duet import SideCase
from duetbench.measure.instructions.dumps import Code
from duetbench.store.attribution import APPLICATION, SYSTEM, Function, Sampled, SampledRow

LAUNCHES: Final = 6
"""Of each side, 15 to 20 seconds each with what perf has to read."""

SMALLEST: Final = 0.005
"""Share of the CPU time from which on a function is looked at."""

RATE: Final = 0.05
"""Error rate of all intervals together."""


def sampled(
    sides: tuple[SideCase, SideCase],
    named: tuple[Callable[[Code], Name], Callable[[Code], Name]],
    logs: Path,
    narrator: Narrator | None = None,
    *,
    launches: int = LAUNCHES,
) -> Sampled:
    """Launch both sides by turns, so many times each, and compare where their time is.

    CountError: nothing can be sampled here, or a launch failed.
    """
    logs.mkdir(parents=True, exist_ok=True)
    found: tuple[list[Mapping[Name, float]], list[Mapping[Name, float]]] = ([], [])
    for turn in range(launches):
        for place in (0, 1) if turn % 2 else (1, 0):
            if narrator:
                narrator.say(f"sampling {('base', 'head')[place]}, {turn + 1} of {launches} …")
            seen = sampling.sample(sides[place], logs / f"{turn:02}-{place}.log")
            sums: defaultdict[Name, float] = defaultdict(float)
            for code, seconds in seen.items():
                sums[_name(code, named[place])] += seconds
            found[place].append(sums)
    return compared(*found)


def _name(code: Code, named: Callable[[Code], Name]) -> Name:
    if code.name:
        return named(code)
    _, file, package = named(code)
    kernel = code.file.startswith("[")
    stem = file.rpartition("/")[2].partition(".")[0]
    # What lies in no folder of packages is the interpreter's, or the system's.
    owner = SYSTEM if package == APPLICATION else package
    return Name("the kernel" if kernel else stem, "" if kernel else file, owner)


def compared(base: Sequence[Mapping[Name, float]], head: Sequence[Mapping[Name, float]]) -> Sampled:
    """Compare CPU seconds per request by function, of launches in pairs."""
    totals = [statistics.fmean(sum(one.values()) for one in side) for side in (base, head)]
    pairs = list(zip(base, head, strict=True))
    names = {name for one in (*base, *head) for name in one}
    means = {
        name: tuple(statistics.fmean(one.get(name, 0.0) for one in side) for side in (base, head))
        for name in names
    }
    looked = sorted(name for name in names if max(means[name]) >= SMALLEST * max(totals))
    t = float(quantile(1 - RATE / 2 / max(1, len(looked)), len(pairs) - 1))
    rows = []
    for name in looked:
        moved = [other.get(name, 0.0) - one.get(name, 0.0) for one, other in pairs]
        mean, half = statistics.fmean(moved), t * statistics.stdev(moved) / math.sqrt(len(moved))
        rows.append(
            SampledRow(
                function=Function(name=name.name, file=name.file, package=name.package),
                base=means[name][0], head=means[name][1], low=mean - half, high=mean + half,
            )
        )  # fmt: skip
    rows.sort(key=lambda row: (not row.sure, -abs(row.head - row.base)))
    return Sampled(launches=len(pairs), base=totals[0], head=totals[1], rows=tuple(rows))
