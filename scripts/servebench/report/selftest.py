"""The self-test's results as Markdown: error rates, power, bias; other ways on the same data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

from servebench.compare import scores
from servebench.compare.scores import Contest, Found, Rate
from servebench.compare.trials import Trial
from servebench.report import formats
from servebench.report.markdown import escape, grid

KINDS: Final = {
    "busy": "handler computes longer",
    "dependency": "framework computes longer",
    "memory": "process holds more",
    "queue": "fewer requests at once",
}

PLANTED_HEAD: Final = (
    "planted", "size", "case", "found", "95 % interval", "called the opposite",
    "reported, where found", "spread", "minus what instructions predict, mean", "worst",
    "minus sequential launches, mean", "screening", "confirmation",
)  # fmt: skip


def way_head(sizes: Sequence[float]) -> tuple[str, ...]:
    """Headings of `way_cells`, for these planted sizes."""
    misses = (f"misses of {100 * size:g} %" for size in sizes)
    return ("way", "false alarms per comparison", "per case", *misses, "minutes per case")


def page(trials: Sequence[Trial]) -> str:
    """The whole page."""
    return "\n\n".join(_parts(trials)) + "\n"


def as_json(trials: Sequence[Trial]) -> dict[str, Any]:
    """What the page says, for programs: shares and sizes are relative, times in seconds."""
    alarms = scores.false_verdicts(trials)
    return {
        "trials": len(trials),
        "false_verdicts": None
        if alarms is None
        else {"comparisons": asdict(alarms[0]), "cases": asdict(alarms[1])},
        "planted": [asdict(one) for one in scores.found(trials)],
        "ways": [asdict(way) for way in scores.contest(trials)] if trials else [],
    }


def sentence(trials: Sequence[Trial]) -> str:
    """False verdicts in one sentence; empty without A/A comparisons."""
    rates = scores.false_verdicts(trials)
    if rates is None:
        return ""
    whole, cases = rates
    return (
        f"{whole.hits} of {whole.of} comparisons of a stack with itself gave a false verdict "
        f"(95 % interval {_ends(whole)}), in {cases.hits} of {cases.of} measured cases "
        f"({_ends(cases)})."
    )


def _parts(trials: Sequence[Trial]) -> Iterator[str]:
    yield "# How well the instrument sees"
    if not trials:
        yield "No trial has been made yet: `servebench selftest aa` makes the first."
        return
    machines = ", ".join(sorted({trial.machine for trial in trials}))
    days = sorted({trial.started[:10] for trial in trials})
    yield (
        f"{len(trials)} comparisons whose right answer was known, on {escape(machines)}, "
        f"{days[0]}{f' to {days[-1]}' if days[-1] != days[0] else ''}. None was left out."
    )
    if text := sentence(trials):
        yield "## Nothing changed"
        yield text
    found = scores.found(trials)
    if found:
        yield "## Something was planted"
        yield grid(
            PLANTED_HEAD,
            ["---", "---:", "---", *["---:"] * 10],
            [list(planted_cells(one)) for one in found],
        )  # fmt: skip
    ways = scores.contest(trials)
    sizes = [size for size, _ in ways[0].misses]
    if sizes:
        yield "## Other ways of judging, on the same launches"
        yield grid(
            way_head(sizes),
            ["---", *["---:"] * (3 + len(sizes))],
            [list(way_cells(way)) for way in ways],
        )  # fmt: skip


def planted_cells(one: Found) -> Iterator[str]:
    """Cells for `PLANTED_HEAD`."""
    yield KINDS[one.kind]
    yield f"{one.size:g} at once" if one.kind == "queue" else f"{100 * one.size:g} %"
    yield one.case
    yield f"{one.rate.hits} of {one.rate.of}"
    yield _ends(one.rate)
    yield str(one.wrong)
    yield _percent(one.reported)
    yield _percent(one.spread, sign=False)
    yield _points(one.error)
    yield _points(one.worst)
    yield _points(one.bias)
    yield formats.duration(one.screening)
    yield formats.duration(one.confirmation)


def way_cells(way: Contest) -> Iterator[str]:
    """Cells for `way_head`."""
    yield way.name
    for rate in (way.alarms, way.case_alarms):
        yield formats.MISSING if rate is None else f"{rate.hits} of {rate.of}"
    for _, rate in way.misses:
        yield f"{rate.hits} of {rate.of}"
    yield f"{way.minutes:.1f}"


def _ends(rate: Rate) -> str:
    return f"{100 * rate.low:.1f}…{100 * rate.high:.1f} %"


def _percent(value: float | None, *, sign: bool = True) -> str:
    if value is None:
        return formats.MISSING
    return f"{100 * value:{'+' if sign else ''}.2f} %"


def _points(value: float | None) -> str:
    return formats.MISSING if value is None else f"{100 * value:+.2f} points"
