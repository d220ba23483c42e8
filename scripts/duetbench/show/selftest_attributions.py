"""The self-test of attributions in words: how often the function that was changed is named."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Final

from duetbench.judge.selftest import scores
from duetbench.judge.selftest.scores import Rate
from duetbench.show import formats
from duetbench.store.attribution_trial import FIRST, AttributionTrial


@dataclass(frozen=True, slots=True)
class NamingScore:
    """How one interpreter's trials went; None: there is none of that kind.

    Attributes:
        found: Planted changes whose function was among the first rows, or that cost nothing and
            named none.
        small: The same of those of at most a hundredth of the instructions.
        false: Pairs without a change in which a function was named.
        seconds: Median of what one took.
    """

    python: str
    found: Rate | None
    small: Rate | None
    false: Rate | None
    seconds: float


TOLD: Final = (
    "Attributions (`duetbench why`) of changes whose function is known, and of pairs without a "
    f"change. Right is that the function stands among the first {FIRST} rows, or, of what costs "
    "nothing, that none is named. None was left out."
)

SMALL: Final = 0.01
"""Share of the instructions up to which a change is a small one."""


def naming(trials: Sequence[AttributionTrial]) -> tuple[NamingScore, ...]:
    """Score trials of the present method by interpreter."""
    present, _ = by_method(trials)
    return tuple(
        _score(python, [one for one in present if one.python == python])
        for python in sorted({one.python for one in present})
    )


def by_method(
    trials: Sequence[AttributionTrial],
) -> tuple[list[AttributionTrial], list[AttributionTrial]]:
    """Trials of as many runs and the threshold that the newest one has, and those before."""
    groups: defaultdict[bool, list[AttributionTrial]] = defaultdict(list)
    newest = max(trials, key=lambda one: one.started, default=None)
    for one in trials:
        groups[newest is not None and _way(one) == _way(newest)].append(one)
    return groups[True], groups[False]


def _way(one: AttributionTrial) -> tuple[int, float]:
    return one.runs, one.threshold


def _score(python: str, trials: Sequence[AttributionTrial]) -> NamingScore:
    planted = [one for one in trials if not one.unchanged]
    small = [one for one in planted if abs(size(one)) <= SMALL]
    same = [one for one in trials if one.unchanged]
    return NamingScore(
        python,
        _rate(sum(one.right for one in planted), planted),
        _rate(sum(one.right for one in small), small),
        _rate(sum(not one.right for one in same), same),
        median(one.seconds for one in trials),
    )


def _rate(hits: int, of: Collection[AttributionTrial]) -> Rate | None:
    return scores.rate(hits, len(of)) if of else None


def size(trial: AttributionTrial) -> float:
    """Growth of the instructions per request, relative."""
    return trial.totals.head / trial.totals.base - 1


def sentences(trials: Sequence[AttributionTrial]) -> str:
    """What the trials say, in one sentence for each interpreter; empty without any."""
    said = list(map(_sentence, naming(trials)))
    if before := by_method(trials)[1]:
        right = sum(one.right for one in before)
        said.append(f"{right} of {len(before)} tries of a coarser method before were right.")
    return " ".join(said)


def _sentence(one: NamingScore) -> str:
    said = []
    if one.found:
        few = f", and of those of at most 1 % {_of(one.small)}" if one.small else ""
        said.append(f"{_of(one.found)} planted changes were told right ({_ends(one.found)}){few}")
    if one.false:
        said.append(
            f"{_of(one.false)} pairs without a change named a function ({_ends(one.false)})"
        )
    return f"On {one.python} {'; '.join(said)}; one took {formats.duration(one.seconds)} (median)."


def _of(rate: Rate) -> str:
    return f"{rate.hits} of {rate.of}"


def _ends(rate: Rate) -> str:
    return f"95 % interval {100 * rate.low:.0f}…{100 * rate.high:.0f} %"


def table(
    trials: Sequence[AttributionTrial],
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Headings and rows: one row per change that was planted, all its tries in it."""
    pythons = sorted({one.python for one in trials})
    head: tuple[str, ...] = ("planted", "one of these has to be named")
    for python in pythons:
        head += (f"instructions, {python}", f"its row, {python}")
    names = {one.plant: one for one in trials}
    return head, tuple(
        (one.told, _names(one), *_cells(name, pythons, trials)) for name, one in names.items()
    )


def _names(one: AttributionTrial) -> str:
    return ", ".join(one.functions) or "none"


def _cells(plant: str, pythons: Sequence[str], trials: Sequence[AttributionTrial]) -> Iterator[str]:
    for python in pythons:
        tries = [one for one in trials if (one.plant, one.python) == (plant, python)]
        yield "; ".join(f"{100 * size(one):+.2f} %" for one in tries) or formats.MISSING
        yield "; ".join(map(_row, tries)) or formats.MISSING


def _row(one: AttributionTrial) -> str:
    if one.functions:
        return str(one.place) if one.place else f"not among the first {FIRST}"
    return one.rows[0].function.name if one.named else "none"


def answer(one: AttributionTrial) -> str:
    """What one trial said, and whether that is right, in a line."""
    named = ", ".join(f"{row.function.name} {100 * row.share:+.0f} %" for row in one.rows)
    verdict = "right" if one.right else f"wrong, expected {' or '.join(one.functions) or 'none'}"
    return f"{100 * size(one):+.2f} % instructions; {named or 'no function'}: {verdict}"


def as_json(trials: Sequence[AttributionTrial]) -> list[dict[str, Any]]:
    """The scores for programs; shares are relative, times in seconds."""
    return [asdict(one) for one in naming(trials)]
