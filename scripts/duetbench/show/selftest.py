"""The self-test's results as Markdown: error rates, power, bias; other ways on the same data."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, Final

from duetbench.core.metrics import METRICS
from duetbench.judge.selftest import scores
from duetbench.judge.selftest.scores import PlantScore, Rate, RuleScore
from duetbench.show import formats, selftest_attributions
from duetbench.show.markdown import escape, grid
from duetbench.store.attribution_trial import AttributionTrial
from duetbench.store.comparison import Verdict
from duetbench.store.trial import CPU_METRIC, Offset, Trial

KINDS: Final = {
    "busy": "handler computes longer",
    "cache": "handler waits for memory",
    "dependency": "framework computes longer",
    "memory": "process holds more",
    "queue": "fewer requests at once",
    "wait": "handler sleeps longer",
}

BEFORE: Final = (
    "These comparisons screened and confirmed in two stages, or both of their sides were one "
    "installation. They say little about the present method, and are counted apart."
)

_PLANT: Final = ("planted", "size", "case")
_FOUND_HEAD: Final = (
    *_PLANT, "found", "95 % interval", "called the opposite", "duets", "take",
)  # fmt: skip
_SIZE_HEAD: Final = (
    *_PLANT, "all tries together", "reported, mean", "spread", "minus the other tries, mean",
    "worst", "minus what instructions predict, mean", "worst", "minus sequential launches, mean",
)  # fmt: skip
_AGAIN_HEAD: Final = (
    "planted", "size", "pairs", "called by both", "by one", "by neither", "agreement",
)  # fmt: skip
_OFFSETS_HEAD: Final = (
    "case", "against the original", "duets", "mean", "least", "most", "scatter of their means",
    "expected of launches alone", "of an installation", "95 % bound",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlantTable:
    """A table of what was planted: its first columns say what, how much, and in which case."""

    title: str
    told: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def way_head(sizes: Sequence[float]) -> tuple[str, ...]:
    """Headings of `way_cells`, for these planted sizes."""
    misses = (f"misses of {100 * size:g} %" for size in sizes)
    return ("way", "false alarms per comparison", "per case", *misses, "minutes per case")


def page(
    trials: Sequence[Trial],
    offsets: Sequence[Offset] = (),
    attributions: Sequence[AttributionTrial] = (),
) -> str:
    """The whole page."""
    return "\n\n".join(_parts(trials, offsets, attributions)) + "\n"


def as_json(
    trials: Sequence[Trial],
    offsets: Sequence[Offset] = (),
    attributions: Sequence[AttributionTrial] = (),
) -> dict[str, Any]:
    """What the page says, for programs: shares and sizes are relative, times in seconds."""

    def told(some: Sequence[Trial]) -> dict[str, Any]:
        alarms = scores.false_verdicts(some)
        return {
            "trials": len(some),
            "false_verdicts": None
            if alarms is None
            else {"comparisons": asdict(alarms[0]), "cases": asdict(alarms[1])},
            "planted": [asdict(one) for one in scores.plants(some)],
            "again": [asdict(one) for one in scores.agreements(some)],
            "ways": [asdict(way) for way in scores.rules(some)] if some else [],
        }

    now, before = scores.by_method(trials)
    found = [asdict(one) for one in scores.scatters(offsets)]
    named = selftest_attributions.as_json(attributions)
    return {**told(now), "installations": found, "attributions": named, "before": told(before)}


def running(trials: Sequence[Trial]) -> str:
    """How many comparisons of the present method were wrong where nothing had changed."""
    rates = scores.false_verdicts(scores.by_method(trials)[0])
    if rates is None:
        return "No comparison of the stack with itself has been made with this method yet."
    return (
        f"{rates[0].hits} of {rates[0].of} comparisons of two installations of one stack gave a "
        f"false verdict: at most {100 * rates[0].high:.1f} % do (95 %)."
    )


def sentence(trials: Sequence[Trial]) -> str:
    """False verdicts in one sentence; empty without A/A comparisons."""
    rates = scores.false_verdicts(trials)
    if rates is None:
        return ""
    whole, cases = rates
    # How much those comparisons could have got wrong: what they never asked is no evidence.
    said = [one for trial in trials if trial.kind == "aa" for one in trial.said]
    cpu = [one for one in said if one.metric == CPU_METRIC and one.duets]
    waiting = sum(one.verdict is Verdict.INCONCLUSIVE for one in cpu)
    return (
        f"{whole.hits} of {whole.of} comparisons of a stack with itself gave a false verdict "
        f"(95 % interval {_ends(whole)}), in {cases.hits} of {cases.of} measured cases "
        f"({_ends(cases)}, as if the cases of one comparison were independent). "
        f"{waiting} of {len(cpu)} judgements of CPU per request stayed inconclusive: a bias that "
        "only many duets show would not have been seen."
    )


def _read(trials: Sequence[Trial]) -> Iterator[str]:
    planted = [
        trial for trial in trials
        if trial.kind in {"busy", "cache", "dependency"} and trial.instructions is not None
    ]  # fmt: skip
    floor = METRICS[CPU_METRIC].floor
    counted = sum(abs((trial.instructions or 1) - 1) > floor for trial in planted)
    if planted:
        rest = "was not tried" if counted == len(planted) else "only the others show"
        yield (
            f"In {counted} of {len(planted)} tries with a CPU plant that was counted the "
            f"instructions had moved: how well one that costs none is found {rest}."
        )
    called = [
        (one, 1 + METRICS[one.metric].floor)
        for trial in trials
        for one in trial.said
        if one.case == trial.planted and one.metric in scores.JUDGED_BY.get(trial.kind, ())
        if one.verdict is Verdict.SLOWER and one.low is not None and one.high is not None
    ]
    within = sum((one.low or 0) <= edge and (one.high or 0) >= 1 / edge for one, edge in called)
    if within:
        yield (
            f"Tries are judged by the rule of their day. In {within} of the {len(called)} that "
            "were called the 95 % interval reaches into the relevance floor, since verdicts asked "
            "on one side only; now they take the whole interval, and more duets where that is open."
        )
    if any(trial.kind == "memory" and trial.memory is None for trial in trials):
        yield (
            "Memory of tries that do not say otherwise was read while both servers held the pages "
            "that they share, each half of them: its sizes are about a tenth too large, in all "
            "tries alike."
        )


def _parts(
    trials: Sequence[Trial], offsets: Sequence[Offset], attributions: Sequence[AttributionTrial]
) -> Iterator[str]:
    yield "# How well the instrument sees"
    now, before = scores.by_method(trials)
    if now:
        yield from _about(now)
    else:
        yield "No trial of this method has been made yet: `duetbench selftest aa` makes the first."
    yield from _installations(offsets)
    if attributions:
        head, rows = selftest_attributions.table(attributions)
        yield "## Which function did it"
        yield selftest_attributions.TOLD
        yield selftest_attributions.sentences(attributions)
        aligned = ["---", "---", *["---:"] * (len(head) - 2)]
        yield grid(head, aligned, [list(row) for row in rows])
    if before:
        yield "# The method before"
        yield BEFORE
        yield from _about(before)


def _about(trials: Sequence[Trial]) -> Iterator[str]:
    machines = ", ".join(sorted({trial.machine for trial in trials}))
    days = sorted({trial.started[:10] for trial in trials})
    yield (
        f"{len(trials)} comparison{'s' * (len(trials) > 1)} whose right answer was known, on "
        f"{escape(machines)}, "
        f"{days[0]}{f' to {days[-1]}' if days[-1] != days[0] else ''}. None was left out."
    )
    if text := sentence(trials):
        yield "## Nothing changed"
        yield text
    if tables := planted(scores.plants(trials)):
        yield "## Something was planted"
        yield from _read(trials)
    for table in tables:
        yield f"### {table.title}"
        yield table.told
        aligned = ["---", "---:", "---", *["---:"] * (len(table.head) - 3)]
        yield grid(table.head, aligned, [list(row) for row in table.rows])
    if pairs := scores.agreements(trials):
        yield "## Made twice"
        yield (
            "The same comparison with other copies. Called: said to be slower or faster; by both: "
            "in the same direction. The last column is what both called, of all that either did."
        )
        rows = [
            [
                KINDS.get(one.kind, "nothing"), _size(one.kind, one.size), str(one.pairs),
                str(one.both), str(one.one), str(one.neither), _percent(one.jaccard, sign=""),
            ]
            for one in pairs
        ]  # fmt: skip
        yield grid(_AGAIN_HEAD, ["---", *["---:"] * (len(_AGAIN_HEAD) - 1)], rows)
    ways = scores.rules(trials)
    sizes = [size for size, _ in ways[0].misses]
    if sizes:
        yield "## Other ways of judging, on the same launches"
        yield grid(
            way_head(sizes),
            ["---", *["---:"] * (3 + len(sizes))],
            [list(way_cells(way)) for way in ways],
        )  # fmt: skip


def _installations(offsets: Sequence[Offset]) -> Iterator[str]:
    rows = [
        [
            one.case, f"{len(one.offsets)} × itself" if one.same else f"{len(one.offsets)} copies",
            str(one.duets),
            *(_percent(math.expm1(f(one.offsets))) for f in (fmean, min, max)),
            *(_percent(x, sign="") for x in (one.between, one.expected, one.tau, one.bound)),
        ]
        for one in scores.scatters(offsets)
    ]  # fmt: skip
    if rows:
        yield "## Between installations"
        yield (
            "CPU per request of copies of one installation, against the original, by duets. What "
            "stays the same in all launches of an installation is averaged out by no duet: its "
            "standard deviation is what the copies scatter by, less what launches alone would make "
            "of it. Copies differ in inodes and places; some in the length of their paths, the "
            "size of the environment, and whether the interpreter was copied. Where the original "
            "was held against itself, only the machine can make its groups of duets differ."
        )
        yield grid(_OFFSETS_HEAD, ["---", "---", *["---:"] * (len(_OFFSETS_HEAD) - 2)], rows)


def planted(found: Sequence[PlantScore]) -> tuple[PlantTable, ...]:
    """What was found of plants, and which size was reported; a table that has no rows is none."""
    tables = (
        PlantTable(
            "Was it found?",
            "Each try is a whole comparison; so many duets, which take so long, are its mean.",
            _FOUND_HEAD,
            tuple(
                (
                    *_plant(one), _of(one.rate), _ends(one.rate), str(one.wrong),
                    f"{one.duets:.0f}", formats.duration(one.seconds),
                )
                for one in found
            ),
        ),
        PlantTable(
            "Which size was reported?",
            "By the tries that said that it moved. All tries together: the mean over every duet of "
            "every try, found or not, the best that is known of what was planted; what one try "
            "reports minus what the others measured is the instrument's own error. What "
            "instructions predict is the growth of the application's count, times the "
            "application's share of the CPU: the difference to it is the plant's as well, whose "
            "instructions are cheaper or dearer than the application's. Of sequential launches "
            "there are two of each side and try, which scatter by several per cent. Where tries "
            "find nothing, those that do report too much: only what looks large is called.",
            _SIZE_HEAD,
            tuple(
                (
                    *_plant(one), _percent(one.pooled), _percent(one.reported),
                    _percent(one.spread, sign=""),
                    *(
                        _percent(share, " points")
                        for share in (one.apart, one.apart_worst, one.error, one.worst, one.bias)
                    ),
                )
                for one in found
                if one.reported is not None
            ),
        ),
    )  # fmt: skip
    return tuple(table for table in tables if table.rows)


def _plant(one: PlantScore) -> tuple[str, ...]:
    return KINDS[one.kind], _size(one.kind, one.size), one.case


def _size(kind: str, size: float) -> str:
    return f"{size:g} at once" if kind == "queue" else f"{100 * size:g} %"


def way_cells(way: RuleScore) -> tuple[str, ...]:
    """Cells for `way_head`."""
    rates = (way.alarms, way.case_alarms, *(rate for _, rate in way.misses))
    return (way.name, *map(_of, rates), f"{way.minutes:.1f}")


def _of(rate: Rate | None) -> str:
    return formats.MISSING if rate is None else f"{rate.hits} of {rate.of}"


def _ends(rate: Rate) -> str:
    return f"{100 * rate.low:.1f}…{100 * rate.high:.1f} %"


def _percent(value: float | None, unit: str = " %", *, sign: str = "+") -> str:
    return formats.MISSING if value is None else f"{100 * value:{sign}.2f}{unit}"
