"""The laws that the figures of a published row obey: ceilings, Little's law, counts.

Their margins are those by which our own launches are judged; beside them a figure is given what its
printed digits leave open. *Impossible* is what arithmetic excludes; *suspicious* is what it allows,
and what a reader should ask about.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from duetbench.core import units
from duetbench.measure.validity import (
    CEILING,
    CORES,
    FLOOR_SLACK,
    LITTLES_LAW,
    ROUNDING,
    TURNAROUND,
)
from duetbench.project.published_table import Figure, PublishedRow, percentile

Grade = Literal["impossible", "suspicious"]

COUNTED: Final = 0.01
"""By so much a rate may differ from answers over duration, since generators stop as they like; and
a mean from what percentiles leave to it, since these may be ends of a histogram's bins."""

IDLE: Final = 0.7
"""A server that waits for nothing, and uses less of the cores that its workers could, is not what
limited a closed loop."""

_STARVED: Final = 100
"""Times the mean from which on the longest answer tells of connections that were left waiting."""

_ONE: Final = Figure.exact(1)
_TIMES: Final = ("min", "mean", "max")


@dataclass(frozen=True, slots=True)
class Problem:
    """A law that some cells of a row break, and the arithmetic of it, in SI units.

    Attributes:
        law: Its name.
        verdict: Whether it cannot be, or wants an explanation.
        cells: The quantities that contradict each other.
        unit: Of the three figures.
        expected: What the law gives, a most or a least.
        found: What the cells say.
        limit: What would still have passed, with the law's margin and the printed digits.
        arithmetic: All of that in words, with the figures as they are printed.
        ask: What may be behind it, or what to ask whoever published it.
    """

    law: str
    verdict: Grade
    cells: tuple[str, ...]
    unit: str
    expected: float
    found: float
    limit: float
    arithmetic: str
    ask: str


@dataclass(frozen=True, slots=True)
class Law:
    """A law: what it needs (of each group one, or `least` of it), and what breaks it."""

    name: str
    needs: tuple[tuple[str, ...], ...]
    problems: Callable[[PublishedRow], Iterator[Problem]]
    least: int = 1
    zero: bool = False  # whether a wait of 0 tells anything

    def lacks(self, figures: Mapping[str, Figure]) -> str:
        """The columns that a row would still need; empty: it has all."""
        missing = []
        for group in self.needs:
            given = [n for n in figures if n in group or (_ANY in group and percentile(n))]
            if "wait" in given and not self.zero and figures["wait"].high <= 0:
                given.remove("wait")
            if len(given) < self.least:
                missing.append(f"{'another ' if given else ''}{' or '.join(group)}")
        return ", ".join(missing)


def _little(row: PublishedRow) -> Iterator[Problem]:
    """Requests in flight are rate × mean: as many as there are connections, in a closed loop."""
    figures = row.figures
    rate, mean, connections = figures["rate"], figures["mean"], figures["connections"]
    streams = figures.get("streams", _ONE)
    found, places, window = rate * mean, connections * streams, _window(row)
    # Requests that are under way when the time is up are in one of the figures and not the other.
    margin = max(LITTLES_LAW, mean.high / window if window else 0.0)
    most = places.high * (1 + margin)
    said = (
        f"{rate.text} × {mean.text} = {_plain(found.value)} requests in flight, on "
        f"{_product(connections, streams)} connections"
    )
    cells = ("rate", "mean", "connections")
    if found.low > most:
        times = round(found.value / places.value)
        several = times > 1 and abs(found.value / places.value / times - 1) <= LITTLES_LAW
        ask = f"with one at a time on each there are {_plain(places.value)} at most"
        if several:
            ask += f"; {times} at once (pipelining, HTTP/2) would explain it: --set streams={times}"
        if row.model != "closed":
            ask += "; or do times count from a schedule, and not from the send?"
        verdict: Grade = "suspicious" if several or row.model != "closed" else "impossible"
        yield Problem(
            "Little's law", verdict, cells, "requests", places.value, found.value, most, said, ask
        )
    pause = TURNAROUND / mean.low if mean.low > 0 else 1.0
    least = places.low * (1 - min(1.0, max(margin, pause)))
    if row.model == "closed" and found.high < least:
        longest = figures.get("max")
        starved = (
            f"; the longest answer took {longest.text}, so some connections got next to nothing"
            if longest and longest.value > _STARVED * mean.value
            else ""
        )
        yield Problem(
            "Little's law", "suspicious", cells, "requests", places.value, found.value, least, said,
            "a closed loop has as many in flight as it has connections: the others were idle, or "
            f"their waits are not in the mean (no answer, errors, time-outs){starved}",
        )  # fmt: skip


def _ceiling(row: PublishedRow) -> Iterator[Problem]:
    """A place that is busy for `wait` serves 1 / wait requests per second, and no more."""
    figures = row.figures
    rate, wait, streams = figures["rate"], figures["wait"], figures.get("streams", _ONE)
    limits: list[tuple[Grade, Figure, str, tuple[str, ...]]] = []
    if connections := figures.get("connections"):
        many = f"{_product(connections, streams)} connections"
        limits.append(("impossible", connections * streams, many, ("connections",)))
    if slots := figures.get("slots"):
        limits.append(("impossible", slots, f"{slots.text} at once", ("slots",)))
    elif (workers := figures.get("workers")) and (threads := figures.get("threads")):
        # Threads that hand their waits to an event loop serve more than one at a time.
        many = f"{workers.text} workers × {threads.text} threads"
        limits.append(("suspicious", workers * threads, many, ("workers", "threads")))
    window = _window(row)
    # What is in service when the time is up may be answered, and counted, after it.
    margin = max(CEILING - 1, wait.high / window if window else 0.0)
    for verdict, places, many, cells in sorted(limits, key=lambda one: (one[0], one[1].value)):
        most = places / wait
        limit = most.high * (1 + margin)
        if rate.low > limit:
            yield Problem(
                "ceiling", verdict, ("rate", "wait", *cells), "1/s", most.value, rate.value, limit,
                f"{many}, {wait.text} each: {units.rate(most.value)} at most, printed is "
                f"{rate.text}",
                "so many requests cannot have waited: did the handler run, were the answers right?"
                if verdict == "impossible"
                else "cannot be where a thread serves one request at a time; where it serves "
                "several (an event loop, greenlets) it can: --set slots=N",
            )  # fmt: skip
            return


def _offered(row: PublishedRow) -> Iterator[Problem]:
    rate, offered = row.figures["rate"], row.figures["offered"]
    window = _window(row)
    # n ticks span n - 1 intervals.
    limit = offered.high * CEILING + (1 / window if window else 0.0)
    if rate.low > limit:
        yield Problem(
            "offered load", "impossible", ("rate", "offered"), "1/s", offered.value, rate.value,
            limit, f"{offered.text} were offered, {rate.text} answered",
            "more answers than requests",
        )  # fmt: skip


def _floor(row: PublishedRow) -> Iterator[Problem]:
    """No answer is there before its handler has waited."""
    wait = row.figures["wait"]
    limit = wait.low - FLOOR_SLACK
    below = [(name, found) for name, found in _ordered(row) if found.high < limit]
    for name, found in below[-1:]:
        yield Problem(
            "floor", "impossible", (*(one for one, _ in below), "wait"), "s", wait.value,
            found.value, limit, f"every answer waits {wait.text}, the {_called(name)} is "
            f"{found.text}", "such answers have not waited: errors, or another handler?",
        )  # fmt: skip


def _order(row: PublishedRow) -> Iterator[Problem]:
    """Percentiles rise, between the shortest and the longest; so does the mean lie."""
    times = dict(_ordered(row))
    ends = [(name, times[name]) for name in _TIMES if name in times]
    for (low, below), (high, above) in (
        *pairwise([(name, one) for name, one in times.items() if name != "mean"]), *pairwise(ends)
    ):  # fmt: skip
        limit = above.high * (1 + ROUNDING)
        if below.low > limit:
            yield Problem(
                "order", "impossible", (low, high), "s", above.value, below.value, limit,
                f"the {_called(low)}, {below.text}, is above the {_called(high)}, {above.text}",
                "are columns or units mixed up?",
            )  # fmt: skip


def _mean(row: PublishedRow) -> Iterator[Problem]:
    """A mean is no less, and no more, than what percentiles leave to it.

    1 % of the answers are at the p99 or above: they alone make a mean of 1 % of the p99.
    """
    mean = row.figures["mean"]
    known = [(q, name, f) for name, f in _ordered(row) if (q := percentile(name)) is not None]
    many = _answers(row)
    # Of few answers, a percentile is one of two neighbours, or between.
    blur = 1 / many if many else 0.0
    verdict: Grade = "impossible" if many else "suspicious"
    shortest, longest = row.figures.get("min"), row.figures.get("max")
    below = [(0.0, shortest.low if shortest else 0.0), *((q + blur, f.low) for q, _, f in known)]
    least = sum(max(0.0, after - q) * v for (q, v), (after, _) in pairwise([*below, (1.0, 0.0)]))
    names = ", ".join(f"{name} {figure.text}" for _, name, figure in known)
    cells = ("mean", *(name for _, name, _ in known))
    if mean.high < least * (1 - COUNTED):
        yield Problem(
            "mean and percentiles", verdict, cells, "s", least, mean.value, least * (1 - COUNTED),
            f"{names}: their answers alone make a mean of {units.seconds(least)}, printed is "
            f"{mean.text}",
            "do they belong to the same answers?",
        )  # fmt: skip
    if longest is None:
        return
    above = [*((q - blur, f.high) for q, _, f in known), (1.0, longest.high)]
    ends = pairwise([(0.0, 0.0), *above])
    most = sum(max(0.0, q - before) * value for (before, _), (q, value) in ends)
    if mean.low > most * (1 + COUNTED):
        yield Problem(
            "mean and percentiles", verdict, (*cells, "max"), "s", most, mean.value,
            most * (1 + COUNTED),
            f"{names}, max {longest.text}: a mean of {units.seconds(most)} at most, printed is "
            f"{mean.text}",
            "do they belong to the same answers?",
        )  # fmt: skip


def _counts(row: PublishedRow) -> Iterator[Problem]:
    """What is part of something is no more than it."""
    parts = (("answered", "sent"), ("good", "answered"), ("good", "sent"), ("errors", "sent"))
    for part, whole in parts:
        found, most = row.figures.get(part), row.figures.get(whole)
        if found and most and found.low > most.high:
            yield Problem(
                "counts", "impossible", (part, whole), "requests", most.value, found.value,
                most.high, f"{found.text} {part} of {most.text} {whole}", "is a column mixed up?",
            )  # fmt: skip


def _counted(row: PublishedRow) -> Iterator[Problem]:
    """Answers over duration are the rate, of all answers or of the good ones."""
    rate, duration = row.figures["rate"], row.figures["duration"]
    if duration.low <= 0:
        return
    names = [name for name in ("answered", "good") if name in row.figures]
    rates = {name: row.figures[name] / duration for name in names}
    name = min(names, key=lambda one: abs(rates[one].value - rate.value))
    expected = rates[name]
    said = (
        f"{row.figures[name].text} {name} in {duration.text} are {units.rate(expected.value)}, "
        f"printed is {rate.text}"
    )
    most, least = expected.high * (1 + COUNTED), expected.low * (1 - COUNTED)
    cells = (name, "duration", "rate")
    if rate.low > most:
        sure = rate.low > expected.high * (1 + LITTLES_LAW)
        verdict: Grade = "impossible" if sure else "suspicious"
        yield Problem(
            "rate and count", verdict, cells, "1/s", expected.value, rate.value, most, said,
            "does the rate count what was never answered (errors, requests that were broken off), "
            "or was the duration another?",
        )  # fmt: skip
    elif rate.high < least:
        yield Problem(
            "rate and count", "suspicious", cells, "1/s", expected.value, rate.value, least, said,
            "did it take longer than it says, or are some answers not in the rate?",
        )  # fmt: skip


def _cpu(row: PublishedRow) -> Iterator[Problem]:
    cpu, cores = row.figures["cpu"], row.figures["cores"]
    limit = cores.high * CORES
    if cpu.low > limit:
        yield Problem(
            "cores", "impossible", ("cpu", "cores"), "cores", cores.value, cpu.value, limit,
            f"{cpu.text} on {cores.text} cores",
            "is 100 % one core, or all of them?",
        )  # fmt: skip


def _idle(row: PublishedRow) -> Iterator[Problem]:
    """Something limits a closed loop; where nothing waits, that should be the server's cores."""
    figures = row.figures
    cpu, workers = figures["cpu"], figures["workers"]
    could = min(workers.value, figures["cores"].value) if "cores" in figures else workers.value
    if row.model == "closed" and figures["wait"].high <= 0 and cpu.high < could * IDLE:
        yield Problem(
            "busy server", "suspicious", ("cpu", "workers", "wait"), "cores", could, cpu.value,
            could * IDLE,
            f"{workers.text} worker{'s' * (workers.value != 1)} without a wait, in a closed loop, "
            f"used {cpu.text}",
            "what was the limit: the generator, a lock? Or how was CPU counted? The rate may not "
            "be the server's",
        )  # fmt: skip


_ANY: Final = "a percentile"
_ALL_TIMES: Final = ("min", "mean", _ANY, "max")

LAWS: Final = (
    Law("Little's law", (("rate",), ("mean",), ("connections",)), _little),
    Law("ceiling", (("rate",), ("wait",), ("connections", "slots")), _ceiling),
    Law("offered load", (("rate",), ("offered",)), _offered),
    Law("floor", (_ALL_TIMES, ("wait",)), _floor),
    Law("order", (_ALL_TIMES,), _order, least=2),
    Law("mean and percentiles", ((_ANY,), ("mean",)), _mean),
    Law("counts", (("sent", "answered", "good", "errors"),), _counts, least=2),
    Law("rate and count", (("rate",), ("duration",), ("answered", "good")), _counted),
    Law("cores", (("cpu",), ("cores",)), _cpu),
    Law("busy server", (("cpu",), ("workers",), ("wait",)), _idle, zero=True),
)
"""To add a law, add a row: its name, the columns it needs, and what it finds."""


def _ordered(row: PublishedRow) -> list[tuple[str, Figure]]:
    """The times of a row from the shortest to the longest as they should be; the mean is second."""

    def place(name: str) -> float:
        return {"min": -2.0, "mean": -1.0, "max": 2.0}.get(name, percentile(name) or 0.0)

    names = (n for n in row.figures if n in _TIMES or percentile(n) is not None)
    return [(name, row.figures[name]) for name in sorted(names, key=place)]


def _window(row: PublishedRow) -> float | None:
    """How long the load took, in s: as told, or answers over rate."""
    duration, rate = row.figures.get("duration"), row.figures.get("rate")
    if duration is not None:
        return duration.value or None
    answered = row.figures.get("answered") or row.figures.get("good")
    return answered.value / rate.value if answered and rate and rate.value > 0 else None


def _answers(row: PublishedRow) -> float | None:
    """How many answers there were, as told, or rate times duration."""
    answered = row.figures.get("answered") or row.figures.get("good")
    if answered is not None:
        return answered.value or None
    rate, duration = row.figures.get("rate"), row.figures.get("duration")
    return (rate * duration).value or None if rate and duration else None


def _called(name: str) -> str:
    return {"min": "shortest answer", "max": "longest answer", "p50": "median"}.get(name, name)


def _product(connections: Figure, streams: Figure) -> str:
    return connections.text + (f" × {streams.text}" if streams.value != 1 else "")


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value.is_integer() else units.significant(value, 4)
