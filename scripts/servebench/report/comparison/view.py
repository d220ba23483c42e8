"""A comparison as blocks that every format shows: headline, events, rows, next steps. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from servebench import units
from servebench.compare.model import Comparison, Event, SideRecord
from servebench.flags import FLAGS
from servebench.metrics import METRICS
from servebench.report import formats
from servebench.report.comparison import headline, rows, steps, words
from servebench.report.comparison.headline import Tone
from servebench.report.comparison.rows import Groups, Row

_INTERVAL: Final = (
    "each row's own and two-sided, good whenever measuring stopped. A verdict takes all of it to "
    "lie beyond the relevance floor, and 2.5 % false discoveries at most over all that was tested"
)
_INTERVAL_THEN: Final = (
    "each row's own and two-sided, good whenever measuring stopped. By the rule of that time a "
    "verdict asked on one side only, at 5 % false discoveries over all that was tested; where few "
    "rows were, the near end of an interval can lie within the relevance floor all the same"
)
_RATE: Final = 0.025
"""Up to this `Method.confirmation_rate` the interval of what is called lies beyond the floor."""

_SHARED: Final = (
    "read while both servers held the pages that they share, each half of them: changes are shown "
    "up to a tenth larger than they are"
)
_FLOOR: Final = "changes up to here are none, however surely they are seen"
_COULD_SEE: Final = (
    "the smallest change that would have been called four times in five, if nothing else had moved"
)
_SAMPLES: Final = (
    "usable duets (in process: pairs of processes) of the screening, + those of the confirmation, "
    "which then give verdict and figures"
)
_FIGURES: Final = "base's mean over launches with nothing beside them, and that times the ratio"

_NAMED: Final = 6  # cases that are named where all of them would be too many


@dataclass(frozen=True, slots=True)
class Count:
    """Instructions per request of a case's application, in words."""

    case: str
    base: str
    head: str
    change: str


@dataclass(frozen=True, slots=True)
class View:
    """A comparison, ready to be written in any format.

    Attributes:
        headline: The one sentence.
        tone: What it amounts to.
        facts: Names and values: what was compared, how much of it, on what.
        events: Sentences: many rows with one cause.
        groups: The rows, by what was said of them.
        unjudged: How many were not judged, and why → which.
        same: From which size on "no change" excludes one; empty where it is not said.
        legend: What the columns of the rows mean; empty where no row has a figure.
        counts: Instructions per request, the largest change first.
        because: How many were judged, and why → which.
        packages: Stack, package, and its version on both sides.
        flags: Validity flags of duets: name with number, and meaning.
        steps: What to do next.
        commands: What a command does, and the command.
        notes: What else a reader should know.
    """

    headline: str
    tone: Tone
    facts: tuple[tuple[str, str], ...]
    events: tuple[str, ...]
    groups: Groups
    unjudged: tuple[tuple[str, str], ...]
    same: str
    legend: tuple[tuple[str, str], ...]
    counts: tuple[Count, ...]
    because: tuple[tuple[str, str], ...]
    packages: tuple[tuple[str, str, str, str], ...]
    flags: tuple[tuple[str, str], ...]
    steps: tuple[str, ...]
    commands: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


def make_view(comparison: Comparison) -> View:
    """Arrange a comparison for reading."""
    found = rows.grouped(comparison)
    sentence = headline.headline(comparison, found)
    missing = tuple(f"{one.case}: {one.reason}" for one in comparison.missing)
    return View(
        headline=sentence,
        tone=headline.tone(comparison, found),
        facts=tuple(_facts(comparison, found)),
        events=tuple(_event(event) for event in comparison.events),
        groups=found,
        unjudged=_by_reason((row.why, row.case) for row in found.unjudged),
        same=_same(comparison, found),
        legend=tuple(_legend(comparison, found)),
        counts=_counts(comparison),
        because=_by_reason((case.because, case.case.id) for case in comparison.cases),
        packages=tuple(
            (change.stack, change.package, change.base or formats.MISSING,
             change.head or formats.MISSING)
            for change in comparison.packages
        ),
        flags=tuple(_flags(comparison)),
        steps=tuple(steps.steps(comparison, found)),
        commands=steps.commands(comparison, found),
        notes=(*(note for note in comparison.notes if note != sentence), *missing),
    )  # fmt: skip


def _facts(comparison: Comparison, found: Groups) -> Iterator[tuple[str, str]]:
    for name, side in (("base", comparison.base), ("head", comparison.head)):
        commit = f" ({side.commit[:12]})" if side.commit and side.commit not in side.label else ""
        yield name, f"{side.label}{commit}{' with uncommitted changes' if side.dirty else ''}"
    if comparison.cross:
        yield "kind", "two interpreters against each other: a choice, not a change"
    pythons = [_interpreters(side) for side in (comparison.base, comparison.head)]
    if any(pythons):
        same = pythons[0] == pythons[1]
        yield "interpreters", pythons[1] if same else " → ".join(one or "none" for one in pythons)
    yield "coverage", "; ".join(_coverage(comparison, found))
    used, unused = _duets(comparison)
    if unused:
        yield "duets", f"{used} usable, {unused} not: disturbed or failed"
    if comparison.noise is not None:
        label = words.title(rows.CPU)
        yield (
            "noise",
            (
                f"{label} of base against itself scatters by {words.size(comparison.noise)} from "
                "duet to duet (standard deviation)"
            ),
        )
    spent = formats.duration(comparison.wall_seconds)
    if comparison.budget_seconds is not None:
        spent += f" of {formats.duration(comparison.budget_seconds)}"
    yield "time", spent
    machine = comparison.machine
    virtual = f", virtual ({machine.virtual})" if machine.virtual else ""
    yield "machine", f"{machine.cpu}, {machine.cores} cores{virtual}"


def _interpreters(side: SideRecord) -> str:
    """`3.14.7, 3.14.7 free-threaded`."""
    return ", ".join(
        f"{one.version}{' free-threaded' if one.free_threaded else ''}" for one in side.interpreters
    )


def _coverage(comparison: Comparison, found: Groups) -> Iterator[str]:
    answered = {(row.case, bool(row.metric)) for row in found.judged}
    waiting = (*found.broken, *found.undecided, *found.unjudged)
    judged = answered - {(row.case, bool(row.metric)) for row in waiting}
    cases = sum(is_case for _, is_case in judged)
    if comparison.planned or not comparison.micro:
        # Memory that did not move says nothing of a CPU time that is open.
        partly = len(answered - judged)
        more = f", {partly} more in part" if partly else ""
        yield f"{cases} of {comparison.planned} cases judged{more}"
    if comparison.micro:
        inside = f"{len(judged) - cases} of {len(comparison.micro)} in-process benchmarks"
        yield inside if comparison.planned else f"{inside} judged"
    yield f"{comparison.untouched} others cannot have changed"
    if comparison.missing:
        yield f"{len(comparison.missing)} without counterpart"


def _duets(comparison: Comparison) -> tuple[int, int]:
    """Usable duets, and others; all judgements of a case tell the same numbers."""
    used = unused = 0
    for case in comparison.cases:
        for one in case.judgements[:1]:
            used += one.screened + one.confirmed
            unused += one.excluded
    return used, unused


def _event(event: Event) -> str:
    shared = (
        "with nothing in common but the machine"
        if event.factor == "machine"
        else f"that share the {event.factor} {event.value}"
    )
    return (
        f"One event: {len(event.cases)} cases {shared} moved alike: {words.title(event.metric)} "
        f"{words.verdict(event.metric, event.verdict)}, {words.percent(event.ratio)} "
        f"({words.ends(event.low, event.high)})."
    )


def _legend(comparison: Comparison, found: Groups) -> Iterator[tuple[str, str]]:
    """What the columns mean, and from which change on one is called; nothing without rows."""
    shown = (*found.worse, *found.better, *found.undecided, *found.unchanged)
    if not shown:
        return
    rate = comparison.method.get("confirmation_rate")
    looser = isinstance(rate, float) and rate > _RATE
    yield "95 % interval", _INTERVAL_THEN if looser else _INTERVAL
    floors = _sizes(
        shown,
        {name: kind.floor for name, kind in METRICS.items()},
        comparison.method.get("inprocess_floor"),
    )
    if floors:
        yield "relevance floor", f"{_FLOOR}: {floors}"
    yield "could see", _COULD_SEE
    yield "samples", _SAMPLES
    if any(row.figures for row in found.all):
        yield "base → head", _FIGURES
    if comparison.method.get("memory") is None:
        for label in dict.fromkeys(row.label for row in shown if row.metric == "pss_steady"):
            yield label, _SHARED


def _same(comparison: Comparison, found: Groups) -> str:
    """From which change on "no change" excludes one, by metric."""
    told = _sizes(
        found.unchanged,
        {name: kind.tolerance for name, kind in METRICS.items()},
        comparison.method.get("inprocess_tolerance"),
    )
    if not told:
        return ""
    return f"'No change' is said where a change as large as this is excluded: {told}."


def _sizes(shown: Sequence[Row], sizes: Mapping[str, float], inside: object) -> str:
    """`CPU/request 0.2 %, time in process 1 %`: each metric's size once, if it is known."""
    told = {
        row.label: size
        for row in shown
        if isinstance(size := sizes[row.metric] if row.metric else inside, float)
    }
    return ", ".join(f"{label} {100 * size:g} %" for label, size in told.items())


def _counts(comparison: Comparison) -> tuple[Count, ...]:
    found = []
    for case in comparison.cases:
        ratio = steps.change(case.instructions) if case.instructions is not None else None
        if case.instructions is not None and ratio is not None:
            base, head = (units.count(one) for one in (case.instructions.base,
                                                       case.instructions.head))  # fmt: skip
            found.append((abs(ratio - 1), Count(case.case.id, base, head, words.percent(ratio))))
    found.sort(key=lambda one: -one[0])
    return tuple(one for _, one in found)


def _by_reason(pairs: Iterator[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """How many have a reason → some of them; in their first order."""
    found: dict[str, dict[str, None]] = {}
    for reason, name in pairs:
        found.setdefault(reason, {})[name] = None
    return tuple(
        (f"{len(names)} × {reason}", words.some(tuple(names), _NAMED))
        for reason, names in found.items()
    )


def _flags(comparison: Comparison) -> Iterator[tuple[str, str]]:
    counted: Counter[str] = Counter()
    for case in comparison.cases:
        for duet in case.duets:
            counted.update({flag.name for flag in (*duet.flags_base, *duet.flags_head)})
    for name, times in counted.most_common():
        kind = next(kind for flag, kind in FLAGS.items() if flag.value == name)
        yield f"{name} in {words.many(times, 'duet')}", kind.meaning
