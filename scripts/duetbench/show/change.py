"""A change in words, and the commands that measure it again. Pure."""

import shlex
from dataclasses import dataclass
from datetime import UTC, datetime

from duetbench.core.metrics import METRICS
from duetbench.project import names
from duetbench.project.names import CaseName
from duetbench.show import formats
from duetbench.store.change import Cause, Change, Effect, Narrowed, Release, Share
from duetbench.store.points import INSTRUCTIONS


@dataclass(frozen=True, slots=True)
class ChangeText:
    """A change in words: `+3.10 %`, 95 % interval `+2.50…+3.70 %`, `granian 2.8.6 → 2.8.7`.

    `sentence` is all of it in plain words, with what is served for the case (see `CaseName.what`).
    `word` is the verdict's without its mark: memory gets larger, not slower. `cause` is empty while
    nobody knows which release did it.
    """

    record: Change
    name: CaseName
    sentence: str
    title: str
    word: str
    change: str
    interval: str
    cause: str

    @property
    def releases(self) -> str:
        """The releases that did it: `fastapi 0.163.1 → 0.163.2`; empty while nobody knows."""
        return ", ".join(map(_release, self.record.releases))


def describe(record: Change) -> ChangeText:
    """Put a change into words."""
    metric, word = record.series.metric, formats.worded(record.series.metric, record.verdict)
    parts, cause = record.parts, ""
    if len(parts) == 1:
        cause = release_names(parts[0])
    elif parts:
        cause = ", ".join(
            f"{release_names(share)}: {formats.percent(share.ratio)}" for share in parts
        )
    elif record.culprit is not None:
        cause = _release(record.culprit)
    change, interval = formats.percent(record.ratio), formats.ends(record.interval)
    name = names.name(record.series.case)
    sentence = f"{name.what} {formats.moved(metric, record.interval)}"
    return ChangeText(record, name, sentence, title(metric), word, change, interval, cause)


def release_names(share: Share) -> str:
    """Releases that moved as one: `pydantic 2.11.0 → 2.12.0 with pydantic-core 2.33.0 → 2.41.1`."""
    first, *others = map(_release, share.releases)
    return f"{first} with {', '.join(others)}" if others else first


def _release(release: Release) -> str:
    return f"{release.package} {release.previous or 'new'} → {release.version}"


def title(metric: str) -> str:
    """What is measured, in words; of a benchmark inside the process, with the unit of asv."""
    if metric == INSTRUCTIONS:
        return "instructions"
    return METRICS[metric].title if metric in METRICS else f"time in process ({metric})"


def cause_lines(cause: Cause) -> tuple[str, ...]:
    """Say what a search found, a sentence per line."""
    lines = [share_effect(share) for share in cause.shares]
    if cause.whole:
        lines.append(f"all that moved together: {_effect(cause.whole)}")
    if cause.rest:
        lines.append(f"all without what is named: {_effect(cause.rest)}")
    if cause.reason:
        subject = "what else did it is" if cause.shares else "the cause is"
        lines.append(f"{subject} among {', '.join(cause.suspects)}: {cause.reason}")
    return tuple(lines)


def share_effect(share: Share) -> str:
    """Say what releases that moved together do by themselves."""
    return f"{release_names(share)}: {_effect(share)} alone"


def narrowed_line(search: Narrowed) -> str:
    """Say what releases did that were compared with an anchor one by one."""
    steps = "; ".join(
        f"{release_names(step)} {formats.percent(step.ratio)} ({formats.ends(step.interval)})"
        for step in search.steps
    )
    left = "" if search.complete else "; others between these were not measured"
    where = f"{title(search.series.metric)} on {search.series.machine}"
    return f"Release by release, {where}: {steps}{left}"


def _effect(effect: Effect) -> str:
    within = formats.ends(effect.interval)
    return f"{formats.percent(effect.ratio)} ({within}, {effect.duets} duets)"


def commands(record: Change, before: int | None, after: int | None) -> tuple[tuple[str, str], ...]:
    """Make the commands that measure a change again, each with what it does.

    `before` and `after` are times (s since 1970) of the runs next to it, for records without dates.
    """
    options = ["--select", record.series.case] if record.series.metric in METRICS else []
    options += ["--profile", "nightly"]
    days = [
        state.as_of or (f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d}" if time else None)
        for state, time in ((record.base, before), (record.head, after))
    ]
    lines = []
    if days[0] and days[1] and days[0] != days[1]:
        dates = [word for day in days for word in ("--stack-as-of", day or "")]
        lines.append(("The stacks of both days, alive together", ["compare", *dates, *options]))
    if record.culprit is not None and record.culprit.previous:
        other = f"{record.culprit.package}=={record.culprit.previous}"
        words = ["compare", "--with", other, *options]
        lines.append(("The locks against the release before", words))
    narrowed = record.narrowed is not None and record.narrowed.complete
    # Only stacks of a date say which releases there were.
    if record.releases and not narrowed and record.base.as_of and record.head.as_of:
        span = ["--from", record.base.as_of, "--to", record.head.as_of]
        words = ["backfill", *span, "--releases", record.releases[0].package, *options]
        lines.append(("Each release that may lie between", words))
    return tuple((label, shlex.join(["duetbench", *words])) for label, words in lines)
