"""The one sentence that people read: what moved, in how many cases, and what was judged at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from servebench.compare.model import Comparison
from servebench.report.comparison import words
from servebench.report.comparison.rows import CPU, Groups, Row

Tone = Literal["worse", "better", "mixed", "same", "open", "void", "nothing"]
"""What a comparison amounts to. `void`: no answer, or a side that does not work; `open`: an answer
for a part; `nothing`: the change can have touched nothing."""

NOTHING: Final = "Nothing to judge"
_LABELS: Final = 3  # metrics that are named


def tone(comparison: Comparison, found: Groups) -> Tone:
    """Say what a comparison amounts to. What was not judged is never clean."""
    if not _expected(comparison):
        # Cases that only one side has are no sign that nothing changed.
        return "void" if comparison.missing and not comparison.untouched else "nothing"
    if found.worse:
        return "mixed" if found.better else "worse"
    if found.broken or not found.judged:
        return "void"
    if found.better:
        return "better"
    return "open" if found.undecided or found.unjudged else "same"


def headline(comparison: Comparison, found: Groups) -> str:
    """Write the sentence."""
    if not _expected(comparison):
        told = (note for note in comparison.notes if note.startswith(NOTHING))
        return next(told, f"{NOTHING}: the change cannot have touched any measured case.")
    sentence = "; ".join(_parts(comparison, found))
    if comparison.cross:
        sentence = f"{comparison.head.label} against {comparison.base.label}: {sentence}"
    partial = "Partial: " if comparison.status == "partial" else ""
    return f"{partial}{sentence[0].upper()}{sentence[1:]}."


def _unheard(comparison: Comparison, found: Groups) -> int:
    """Cases that should have been judged and have no row at all."""
    return max(0, comparison.planned - len({row.case for row in found.all if row.metric}))


def _expected(comparison: Comparison) -> bool:
    return bool(comparison.planned or comparison.micro)


def _parts(comparison: Comparison, found: Groups) -> Iterator[str]:
    for word, rows in (("worse", found.worse), ("better", found.better)):
        if rows:
            top = rows[0]
            yield (
                f"{word} in {_where(rows, comparison)}, most of all {top.label} of {top.case} "
                f"by {top.change} ({top.interval})"
            )
    if found.broken:
        yield f"not comparable in {_where(found.broken, comparison)}"
    clean = _clean(found)
    if clean and not found.worse and not found.better:
        yield f"no change in {_where(clean, comparison)}{_could(clean)}"
    if found.undecided:
        labels = words.some(tuple(dict.fromkeys(row.label for row in found.undecided)), _LABELS)
        yield f"not decided in {_where(found.undecided, comparison)} ({labels})"
    lost = _unheard(comparison, found)
    if found.unjudged or lost:
        yield f"not judged in {_where(found.unjudged, comparison, more=lost)}"


def _where(rows: Sequence[Row], comparison: Comparison, *, more: int = 0) -> str:
    """`3 of 34 cases and 1 of 12 in-process benchmarks`."""
    cases = len({row.case for row in rows if row.metric}) + more
    inside = len({row.case for row in rows if not row.metric})
    parts = [f"{cases} of {comparison.planned} cases"] if cases else []
    parts += [f"{inside} of {len(comparison.micro)} in-process benchmarks"] if inside else []
    return " and ".join(parts)


def _clean(found: Groups) -> tuple[Row, ...]:
    """Rows of cases of which nothing else was said: one open metric is not 'no change'."""
    doubtful = {row.case for row in (*found.broken, *found.undecided, *found.unjudged)}
    return tuple(row for row in found.unchanged if row.case not in doubtful)


def _could(rows: Sequence[Row]) -> str:
    """The smallest change that all of these would have shown, in the metric that all cases have."""
    leading = [row for row in rows if row.metric == CPU] or list(rows)
    seen = [row.judged.detectable for row in leading if row.judged.detectable is not None]
    if not seen:
        return ""
    return f"; changes of {leading[0].label} from {words.size(max(seen))} on could have been seen"
