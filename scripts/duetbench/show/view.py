"""A comparison as every format shows it, and how it ended as an exit code. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from duetbench.core import units
from duetbench.core.metrics import METRICS
from duetbench.core.model import Verdict
from duetbench.project import names
from duetbench.show import formats, rows
from duetbench.show.rows import Grid, Groups, ViewRow
from duetbench.store.comparison import Comparison, Event

_INTERVAL: Final = (
    "each row's own and two-sided, good whenever measuring stopped. A verdict takes all of it to "
    "lie beyond the relevance floor, and at most 5 % false discoveries over all that was tested, "
    "2.5 % on either side"
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
    "a change as large as this would have been seen in 4 of 5 comparisons, had nothing else moved"
)
_SAMPLES: Final = "usable duets (in process: counts, or pairs of processes)"
_FIGURES: Final = "base's mean over launches with nothing beside them, and that times the ratio"

UNDECIDED: Final = 3
"""Not all that was to be judged was judged; see `errors.EXIT_CODES`."""
_NAMED: Final = 6  # cases that are named where all of them would be too many


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a report, called `name` where it did not fit.

    `lines` are pairs of a name, which may be empty, and a sentence, above the `grid`. A folded
    block is closed until somebody opens it, and stands below the heading `under`.
    """

    name: str
    title: str = ""
    lines: tuple[tuple[str, str], ...] = ()
    grid: Grid | None = None
    kind: Literal["facts", "news", "list", "legend", "commands"] = "list"
    folded: bool = False
    under: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """A comparison, ready to be written in any format: blocks in the order of their importance."""

    headline: str
    groups: Groups
    blocks: tuple[Block, ...]


def make_view(comparison: Comparison) -> View:
    """Arrange a comparison for reading, without empty blocks."""
    groups = rows.group_rows(comparison)
    headline = rows.headline(comparison, groups)
    blocks = (*_open(comparison, groups), *_folded(comparison, groups, headline))
    filled = (block for block in blocks if block.lines or (block.grid and block.grid.rows))
    return View(headline, groups, tuple(filled))


def _open(comparison: Comparison, groups: Groups) -> Iterator[Block]:
    yield Block("facts", lines=tuple(_facts(comparison, groups)), kind="facts")
    yield Block("events", lines=_plain(map(_event, comparison.events)), kind="news")
    yield from _moved("Worse", groups.worse, len(comparison.events))
    yield from _moved("Better", groups.better, len(comparison.events))
    broken = tuple(dict.fromkeys((row.case, row.why) for row in groups.broken))
    yield Block("Not comparable", "Not comparable", broken)
    undecided = rows.table(groups.undecided, "verdict", "base → head")
    yield Block("Not decided", "Not decided", grid=undecided)
    unjudged = _by_reason((row.why, row.case) for row in groups.unjudged)
    yield Block("Not judged", "Not judged", unjudged)
    yield Block("Next", "Next", _plain(rows.steps(comparison, groups)))
    yield Block("legend", lines=tuple(_legend(comparison, groups)), kind="legend")


def _moved(title: str, moved: Sequence[ViewRow], events: int) -> Iterator[Block]:
    alone, together = (
        rows.table((row for row in moved if row.grouped is grouped), "why")
        for grouped in (False, True)
    )
    yield Block(title, title, grid=alone)
    count = formats.quantity(len(together.rows), "row")
    above = f"{count} of the event{'s' * (events != 1)} above"
    yield Block(title, above, grid=together, folded=True, under="" if alone.rows else title)


def _folded(comparison: Comparison, groups: Groups, headline: str) -> Iterator[Block]:
    same = _sizes(comparison, groups.unchanged, "tolerance")
    excluded = f"'No change' is said where a change as large as this is excluded: {same}."
    yield Block(
        "No change",
        f"No change: {formats.quantity(len(groups.unchanged), 'row')}",
        _plain([excluded] if same else []),
        rows.table(groups.unchanged, "verdict", "base → head", "why"),
        "news",
        folded=True,
    )
    counts = Grid(("case", "base", "head", "change"), _counts(comparison), ("case",))
    title = f"Instructions per request, without a server: {len(counts.rows)}"
    yield Block("Instructions", title, grid=counts, folded=True)
    head = ("stack", "package", "base", "head")
    packages = [
        (item.stack, item.package, item.base or formats.MISSING, item.head or formats.MISSING)
        for item in comparison.packages
    ]
    title = f"Packages that differ: {len(packages)}"
    yield Block("Packages", title, grid=Grid(head, packages, head), folded=True)
    called = tuple(
        (case.case.id, str(name))
        for case in comparison.cases
        if (name := names.of(case.case)).known
    )
    notes = [note for note in comparison.notes if note != headline]
    notes += [f"{missing.case}: {missing.reason}" for missing in comparison.missing]
    because = _by_reason((case.because, case.case.id) for case in comparison.cases)
    yield Block("Cases", "What these cases are", called, folded=True)
    yield Block("Reasons", "Why these were judged", because, folded=True)
    yield Block("Flags", "Validity flags", tuple(_flags(comparison)), folded=True)
    yield Block("Notes", "Notes", _plain(notes), folded=True)
    again = rows.commands(comparison, groups)
    yield Block("Commands", "Reproduce", again, kind="commands", folded=True)


def _plain(lines: Iterable[str]) -> tuple[tuple[str, str], ...]:
    return tuple(("", line) for line in lines)


def exit_code(comparison: Comparison, *, lenient: bool = False) -> int:
    """Say how a comparison ended: 0, 1 or 3 of `errors.EXIT_CODES`.

    1: something got slower, or head breaks it; of two interpreters none counts as slower. 3:
    something that was to be judged was not; if `lenient`, only where nothing was judged. In-process
    benchmarks without time do not count beside cases, whose duets judge the same change.
    """
    cases = [judgement for case in comparison.cases for judgement in case.judgements]
    every = (*cases, *(micro.judgement for micro in comparison.micro))
    for judgement in every:
        # The change is not to blame where base fails as well (see `samples.broken`).
        broken = judgement.reason.startswith("head: ") and "; base: " not in judgement.reason
        slower = judgement.verdict is Verdict.SLOWER and not comparison.cross
        if slower or (judgement.verdict is Verdict.NOT_COMPARABLE and broken):
            return 1
    undecided = {Verdict.INCONCLUSIVE, Verdict.NOT_COMPARABLE}
    doubtful = any(judgement.verdict in undecided for judgement in cases) or any(
        micro.judgement.verdict in undecided and (micro.base or not comparison.planned)
        for micro in comparison.micro
    )
    unheard = comparison.planned > sum(bool(case.judgements) for case in comparison.cases)
    expected = comparison.planned or comparison.micro or comparison.untouched
    # Cases that only one side has do not show that nothing changed.
    apart = bool(comparison.missing) and not expected
    if not (doubtful or unheard or apart or comparison.status == "partial"):
        return 0
    judged = any(judgement.verdict not in undecided for judgement in every)
    return 0 if lenient and judged else UNDECIDED


def _facts(comparison: Comparison, groups: Groups) -> Iterator[tuple[str, str]]:
    for name, side in (("base", comparison.base), ("head", comparison.head)):
        commit = f" ({side.commit[:12]})" if side.commit and side.commit not in side.label else ""
        yield name, f"{side.label}{commit}{' with uncommitted changes' if side.dirty else ''}"
    if comparison.cross:
        yield "kind", "two interpreters against each other: a choice, not a change"
    pythons = [
        ", ".join(f"{i.version}{' free-threaded' * i.free_threaded}" for i in side.interpreters)
        for side in (comparison.base, comparison.head)
    ]
    if any(pythons):
        yield "interpreters", " → ".join(versions or "none" for versions in dict.fromkeys(pythons))
    yield "coverage", "; ".join(_coverage(comparison, groups))
    # All judgements of a case have the same numbers.
    first = [case.judgements[0] for case in comparison.cases if case.judgements]
    if unused := sum(judgement.excluded for judgement in first):
        used = sum(judgement.duets for judgement in first)
        yield "duets", f"{used} usable, {unused} not: disturbed or failed"
    if noisy := sum(duet.kept for case in comparison.cases for duet in case.duets):
        yield "noise of the machine", f"in {noisy} of the duets used: it was there most of the time"
    if comparison.noise is not None:
        label = formats.title(rows.CPU)
        scatter = f"{label} of base against itself scatters by {formats.size(comparison.noise)}"
        yield "noise", f"{scatter} from duet to duet (standard deviation)"
    spent = formats.duration(comparison.wall_seconds)
    if comparison.budget_seconds is not None:
        spent += f" of {formats.duration(comparison.budget_seconds)}"
    yield "time", spent
    machine = comparison.machine
    virtual = f", virtual ({machine.virtual})" if machine.virtual else ""
    yield "machine", f"{machine.cpu}, {machine.cores} cores{virtual}"


def _coverage(comparison: Comparison, groups: Groups) -> Iterator[str]:
    answered = {(row.case, bool(row.metric)) for row in groups.judged}
    waiting = (*groups.broken, *groups.undecided, *groups.unjudged)
    judged = answered - {(row.case, bool(row.metric)) for row in waiting}
    cases = sum(is_case for _, is_case in judged)
    if comparison.planned or not comparison.micro:
        # A case whose memory did not move and whose CPU time is open is judged in part.
        partly = len(answered - judged)
        more = f", {partly} more in part" if partly else ""
        yield f"{cases} of {comparison.planned} cases judged{more}"
    if comparison.micro:
        inside = f"{len(judged) - cases} of {len(comparison.micro)} in-process benchmarks"
        yield inside if comparison.planned else f"{inside} judged"
    yield f"{comparison.untouched} others cannot have changed"
    if comparison.missing:
        yield f"{len(comparison.missing)} without counterpart"


def _event(event: Event) -> str:
    shared = (
        "with nothing in common but the machine"
        if event.factor == "machine"
        else f"that share the {event.factor} {event.value}"
    )
    return (
        f"One event: {len(event.cases)} cases {shared} moved alike: {formats.title(event.metric)} "
        f"{formats.verdict(event.metric, event.verdict)}, {formats.percent(event.ratio)} "
        f"({formats.ends(event.interval)})."
    )


def _legend(comparison: Comparison, groups: Groups) -> Iterator[tuple[str, str]]:
    judged = (*groups.worse, *groups.better, *groups.undecided, *groups.unchanged)
    if not judged:
        return
    rate = comparison.method.get("confirmation_rate")
    looser = isinstance(rate, float) and rate > _RATE
    yield "95 % interval", _INTERVAL_THEN if looser else _INTERVAL
    if floors := _sizes(comparison, judged, "floor"):
        yield "relevance floor", f"{_FLOOR}: {floors}"
    yield "could see", _COULD_SEE
    yield "samples", _SAMPLES
    if any(row.figures for row in groups.all):
        yield "base → head", _FIGURES
    if comparison.method.get("memory") is None:
        for label in dict.fromkeys(row.label for row in judged if row.metric == "pss_steady"):
            yield label, _SHARED


def _sizes(
    comparison: Comparison, judged: Sequence[ViewRow], kind: Literal["floor", "tolerance"]
) -> str:
    """`CPU/request 0.2 %, time in process 1 %`: each metric's size once, if it is known."""
    inside = comparison.method.get(f"inprocess_{kind}")
    sizes = {
        row.label: size
        for row in judged
        if isinstance(size := getattr(METRICS[row.metric], kind) if row.metric else inside, float)
    }
    return ", ".join(f"{label} {100 * size:g} %" for label, size in sizes.items())


def _counts(comparison: Comparison) -> list[tuple[str, str, str, str]]:
    """Instructions per request, the largest change first."""
    changes = [
        (ratio, (case.case.id, units.count(counted.base), units.count(counted.head)))
        for case in comparison.cases
        if (counted := case.instructions) and (ratio := counted.ratio) is not None
    ]
    changes.sort(key=lambda change: -abs(change[0] - 1))
    return [(*row, formats.percent(ratio)) for ratio, row in changes]


def _by_reason(pairs: Iterator[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Count names by their reason, and name some of them."""
    names_of: dict[str, dict[str, None]] = {}
    for reason, name in pairs:
        names_of.setdefault(reason, {})[name] = None
    return tuple(
        (f"{len(names)} × {reason}", formats.some(tuple(names), _NAMED))
        for reason, names in names_of.items()
    )


def _flags(comparison: Comparison) -> Iterator[tuple[str, str]]:
    counted = Counter(
        name
        for case in comparison.cases
        for duet in case.duets
        for name in {flag.name: None for flag in (*duet.flags_base, *duet.flags_head)}
    )
    for name, times in counted.most_common():
        yield f"{name} in {formats.quantity(times, 'duet')}", name.meaning
