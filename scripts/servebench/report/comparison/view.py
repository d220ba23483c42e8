"""A comparison as blocks that every format shows: headline, events, rows, next steps. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from servebench.compare.model import CaseComparison, Comparison, Event, Judgement, Verdict
from servebench.flags import FLAGS
from servebench.metrics import METRICS
from servebench.report import formats
from servebench.report.comparison import words

Tone = Literal["worse", "better", "mixed", "same", "open", "void", "nothing"]

_MOVED: Final = (Verdict.SLOWER, Verdict.FASTER)
_MICRO_FLOOR: Final = 0.01  # relevance floor of in-process benchmarks
_OPEN: Final = (Verdict.NOT_COMPARABLE, Verdict.INCONCLUSIVE)


@dataclass(frozen=True, slots=True)
class Row:
    """One case and metric.

    Attributes:
        case: The case's id, or the in-process benchmark's name.
        metric: Key of the metric registry; empty for in-process benchmarks.
        label: What is measured, in words.
        judged: The judgement itself.
        verdict: The verdict in words, with its mark.
        change: Head against base, in per cent.
        interval: Its interval.
        detectable: Smallest change that would have been called.
        figures: Base → head in the metric's unit, from sequential launches; may be empty.
        duets: How many samples the verdict stands on.
    """

    case: str
    metric: str
    label: str
    judged: Judgement
    verdict: str
    change: str
    interval: str
    detectable: str
    figures: str
    duets: str


@dataclass(frozen=True, slots=True)
class View:
    """A comparison, ready to be written in any format."""

    headline: str
    tone: Tone
    facts: tuple[tuple[str, str], ...]
    events: tuple[str, ...]
    worse: tuple[Row, ...]
    better: tuple[Row, ...]
    undecided: tuple[Row, ...]
    unchanged: tuple[Row, ...]
    packages: tuple[tuple[str, str, str, str], ...]
    flags: tuple[tuple[str, str], ...]
    steps: tuple[str, ...]
    reproduce: tuple[str, ...]
    notes: tuple[str, ...]


def make_view(comparison: Comparison) -> View:
    """Arrange a comparison for reading."""
    rows = list(_rows(comparison))
    worse = _sorted(row for row in rows if row.judged.verdict is Verdict.SLOWER)
    better = _sorted(row for row in rows if row.judged.verdict is Verdict.FASTER)
    undecided = tuple(row for verdict in _OPEN for row in rows if row.judged.verdict is verdict)
    unchanged = tuple(row for row in rows if row.judged.verdict is Verdict.NO_CHANGE)
    tone = _tone(comparison, worse, better, undecided, unchanged)
    return View(
        headline=_headline(comparison, tone, worse, better, undecided, unchanged),
        tone=tone,
        facts=tuple(_facts(comparison, rows)),
        events=tuple(_event(event) for event in comparison.events),
        worse=worse,
        better=better,
        undecided=undecided,
        unchanged=unchanged,
        packages=tuple(
            (change.stack, change.package, change.base or formats.MISSING,
             change.head or formats.MISSING)
            for change in comparison.packages
        ),
        flags=tuple(_flags(comparison)),
        steps=tuple(_steps(comparison, worse, better, undecided)),
        reproduce=comparison.reproduce,
        notes=(*comparison.notes, *(f"{m.case}: {m.reason}" for m in comparison.missing)),
    )  # fmt: skip


def _rows(comparison: Comparison) -> Iterator[Row]:
    for case in comparison.cases:
        for judged in case.judgements:
            yield _row(
                case.case.id,
                judged.metric,
                words.title(judged.metric),
                judged,
                _absolute(case, judged),
            )
    for micro in comparison.micro:
        name = f"{micro.benchmark} [{micro.stack}, {micro.python}]"
        judged = micro.judgement
        yield Row(
            case=name, metric="", label="time in process", judged=judged,
            verdict=f"{words.MARKS[judged.verdict]} {judged.verdict.value}",
            change=words.percent(judged.ratio), interval=words.interval(judged),
            detectable=words.size(judged.detectable), figures="",
            duets=f"{len(micro.base)}+{len(micro.head)} processes",
        )  # fmt: skip


def _row(case: str, metric: str, label: str, judged: Judgement, figures: str) -> Row:
    return Row(
        case=case,
        metric=metric,
        label=label,
        judged=judged,
        verdict=words.verdict(metric, judged.verdict),
        change=words.percent(judged.ratio),
        interval=words.interval(judged),
        detectable=words.size(judged.detectable),
        figures=figures,
        duets=f"{judged.screened}+{judged.confirmed}" if judged.confirmed else f"{judged.screened}",
    )


def _absolute(case: CaseComparison, judged: Judgement) -> str:
    base = case.absolute_base.get(judged.metric)
    head = case.absolute_head.get(judged.metric)
    if base is None or head is None:
        return ""
    return f"{formats.figure(judged.metric, base)} → {formats.figure(judged.metric, head)}"


def _sorted(rows: Iterable[Row]) -> tuple[Row, ...]:
    """What is furthest beyond its relevance floor first: people read the top."""
    return tuple(sorted(rows, key=_weight, reverse=True))


def _weight(row: Row) -> float:
    floor = METRICS[row.metric].floor if row.metric else _MICRO_FLOOR
    return abs((row.judged.ratio or 1.0) - 1) / floor


def _tone(
    comparison: Comparison,
    worse: tuple[Row, ...],
    better: tuple[Row, ...],
    undecided: tuple[Row, ...],
    unchanged: tuple[Row, ...],
) -> Tone:
    if not comparison.planned and not comparison.micro:
        return "nothing"
    if worse and better:
        return "mixed"
    if worse or better:
        return "worse" if worse else "better"
    if any(row.judged.verdict is Verdict.NOT_COMPARABLE for row in undecided) or not (
        undecided or unchanged
    ):
        return "void"
    return "open" if undecided else "same"


def _headline(
    comparison: Comparison,
    tone: Tone,
    worse: tuple[Row, ...],
    better: tuple[Row, ...],
    undecided: tuple[Row, ...],
    unchanged: tuple[Row, ...],
) -> str:
    """One sentence: what happened, in how many cases, and what was judged at all."""
    if tone == "nothing":
        return "Nothing to judge: the change cannot have touched any measured case."
    judged = len({row.case for row in (*worse, *better, *unchanged)})
    total = comparison.planned + len(comparison.micro)
    parts = []
    for word, rows in (("worse", worse), ("better", better)):
        if rows:
            cases = len({row.case for row in rows})
            top = rows[0]
            parts.append(
                f"{word} in {cases} of {total} cases, most of all {top.label} of {top.case} "
                f"by {top.change} ({top.interval})"
            )
    broken = {row.case for row in undecided if row.judged.verdict is Verdict.NOT_COMPARABLE}
    if broken:
        parts.append(f"not comparable in {len(broken)} of {total} cases")
    if not worse and not better and unchanged:
        seen = [row.judged.detectable for row in unchanged if row.judged.detectable is not None]
        could = f"; changes from {words.size(max(seen))} on would have been seen" if seen else ""
        parts.append(f"no change in {len({row.case for row in unchanged})} of {total} cases{could}")
    waiting = {row.case for row in undecided} - broken
    if waiting:
        parts.append(f"{len(waiting)} with an open question")
    if judged < total and not broken and not waiting:
        parts.append(f"{total - judged} not judged")
    if not parts:
        parts.append(f"none of {total} cases could be judged")
    sentence = "; ".join(parts)
    prefix = "Partial: " if comparison.status == "partial" else ""
    return f"{prefix}{sentence[0].upper()}{sentence[1:]}."


def _facts(comparison: Comparison, rows: list[Row]) -> Iterator[tuple[str, str]]:
    for name, side in (("base", comparison.base), ("head", comparison.head)):
        commit = f" ({side.commit[:12]})" if side.commit and side.commit not in side.label else ""
        yield name, f"{side.label}{commit}{' with uncommitted changes' if side.dirty else ''}"
    if comparison.cross:
        yield "kind", "two interpreters against each other: a choice, not a change"
    judged = {row.case for row in rows if row.judged.verdict not in _OPEN}
    total = comparison.planned + len(comparison.micro)
    others = f"{comparison.untouched} others cannot have changed"
    yield "coverage", f"{len(judged)} of {total} cases judged; {others}"
    if comparison.noise is not None:
        yield "noise", f"{words.size(comparison.noise)} per duet of base against itself"
    spent = formats.duration(comparison.wall_seconds)
    if comparison.budget_seconds is not None:
        spent += f" of {formats.duration(comparison.budget_seconds)}"
    yield "time", spent
    yield "machine", f"{comparison.machine.cpu}, {comparison.machine.cores} cores"


def _event(event: Event) -> str:
    low, high = words.percent(event.low), words.percent(event.high)
    where = "on all cases" if event.factor == "machine" else f"on {event.factor} {event.value}"
    return (
        f"One event, not {len(event.cases)}: {words.title(event.metric)} "
        f"{words.verdict(event.metric, event.verdict)} {where}, by {words.percent(event.ratio)} "
        f"({low}…{high})."
    )


def _flags(comparison: Comparison) -> Iterator[tuple[str, str]]:
    counted: Counter[str] = Counter()
    for case in comparison.cases:
        for duet in case.duets:
            counted.update({flag.name for flag in (*duet.flags_base, *duet.flags_head)})
    for name, times in counted.most_common():
        kind = next(kind for flag, kind in FLAGS.items() if flag.value == name)
        yield f"{name} × {times}", kind.meaning


def _steps(
    comparison: Comparison,
    worse: tuple[Row, ...],
    better: tuple[Row, ...],
    undecided: tuple[Row, ...],
) -> Iterator[str]:
    if worse:
        yield (
            "Worse: reproduce the first row with the command below; compare the instruction "
            "counts to tell work that was added from work that waits."
        )
    if better and not worse:
        yield "Better: nothing to do; the next night takes it over as the new level."
    broken = [row for row in undecided if row.judged.verdict is Verdict.NOT_COMPARABLE]
    if broken:
        yield f"Not comparable: {broken[0].case}: {broken[0].judged.reason}"
    more = sum(case.seconds_to_decide or 0.0 for case in comparison.cases)
    if more:
        yield f"Inconclusive: about {formats.duration(more)} more would decide it; raise --budget."
