"""A change in words, and the commands that measure it again. Pure."""

import shlex
from dataclasses import dataclass
from datetime import UTC, datetime

from servebench.core.metrics import METRICS
from servebench.record.change import ChangeRecord
from servebench.report import formats


@dataclass(frozen=True, slots=True)
class ChangeText:
    """A change in words: `+3.10 %`, of 95 % `+2.50…+3.70 %`, `granian 2.8.6 → 2.8.7`.

    `word` is the verdict's without its mark: memory gets larger, not slower. `cause` is empty while
    nobody knows which release did it.
    """

    record: ChangeRecord
    title: str
    word: str
    change: str
    interval: str
    cause: str


def told(record: ChangeRecord) -> ChangeText:
    """Put a change into words."""
    metric, culprit = record.series.metric, record.culprit
    word, cause = record.verdict.value, ""
    if metric in METRICS:
        word = formats.verdict(metric, record.verdict).partition(" ")[2]
    if culprit is not None:
        cause = f"{culprit.package} {culprit.previous or 'new'} → {culprit.version}"
    change, interval = formats.percent(record.ratio), formats.ends(record.low, record.high)
    return ChangeText(record, title(metric), word, change, interval, cause)


def title(metric: str) -> str:
    """What is measured, in words; of a benchmark inside the process, with the unit of asv."""
    return METRICS[metric].title if metric in METRICS else f"time in process ({metric})"


def commands(
    record: ChangeRecord, before: int | None, after: int | None
) -> tuple[tuple[str, str], ...]:
    """What measures a change again: pairs of words and command.

    `before` and `after` are times (s since 1970) of the runs next to it, for records without dates.
    """
    options = ["--select", record.series.case] if record.series.metric in METRICS else []
    options += ["--profile", "nightly"]
    days = [
        state.as_of or (f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d}" if time else None)
        for state, time in ((record.base, before), (record.head, after))
    ]
    found = []
    if days[0] and days[1] and days[0] != days[1]:
        dates = [word for day in days for word in ("--stack-as-of", day or "")]
        found.append(("The stacks of both days, alive together", [*dates, *options]))
    if record.culprit is not None and record.culprit.previous:
        other = f"{record.culprit.package}=={record.culprit.previous}"
        found.append(("The locks against the release before", ["--with", other, *options]))
    return tuple(
        (label, shlex.join(["servebench", "compare", *options])) for label, options in found
    )
