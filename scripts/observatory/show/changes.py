"""Changes of trends in words, and the commands that measure them again."""

import shlex
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from duetbench.app import case_names
from duetbench.app.case_names import CaseName
from duetbench.core.change import Release
from duetbench.core.comparison import Attribution
from duetbench.core.metrics import row
from duetbench.report import formats
from observatory.store.change import Change, order


def contains(record: Attribution, releases: Iterable[Release]) -> bool:
    """Whether each of these releases lies between the versions that were counted."""
    moves = {move.package: move for move in record.packages}
    return all(
        (move := moves.get(release.package)) is not None
        and order(move.base or "") < order(release.version) <= order(move.head or "")
        for release in releases
    )


def between(record: Attribution, releases: Collection[Release]) -> str:
    """Which versions were counted, if these contain the releases; otherwise empty.

    `Counted from fastapi 0.141.1 → 0.143.2, together with 14 other packages.`
    """
    if not releases or not contains(record, releases):
        return ""
    named = {release.package for release in releases}
    own = [str(move) for move in record.packages if move.package in named]
    more = formats.quantity(len(record.packages) - len(own), "other package")
    others = f", together with {more}" if len(record.packages) > len(own) else ""
    return f"Counted from {', '.join(own)}{others}."


@dataclass(frozen=True, slots=True)
class ChangeText:
    """A change in words: `+3.10 %`, 95 % interval `+2.50…+3.70 %`, `granian 2.8.6 → 2.8.7`.

    `sentence` is all of it in plain words, with what is served for the case (see `CaseName.what`).
    `cause` is empty while the release behind it is unknown.
    """

    record: Change
    name: CaseName
    sentence: str
    title: str
    change: str
    interval: str
    cause: str


def describe(record: Change) -> ChangeText:
    """Put a change into words."""
    metric = record.series.metric
    several = len(record.shares) > 1
    cause = ", ".join(
        share.names + (f": {formats.change(share.interval)}" if several else "")
        for share in record.shares
    )
    if not cause and record.culprit:
        cause = str(record.culprit)
    change, interval = formats.change(record.interval), formats.ends(record.interval)
    name = case_names.name(record.series.case)
    # A size without an interval was counted, and cannot scatter.
    within = formats.within(record.interval) or "counted"
    sentence = f"{name.what} {formats.movement(metric, record.interval)} ({within})"
    return ChangeText(record, name, sentence, row(metric).title, change, interval, cause)


def commands(record: Change) -> tuple[tuple[str, str], ...]:
    """Return the commands that measure a change again, each with its purpose."""
    options = ["--select", record.series.case, "--profile", "nightly"]
    options += [] if record.why else ["--why"]
    base, head = record.base.as_of, record.head.as_of
    lines = []
    if base and head and base != head:
        words = ["compare", "--base", f"as-of={base}", "--head", f"as-of={head}", *options]
        lines.append(("The stacks of both days, measured together", words))
    if record.culprit is not None and record.culprit.previous:
        other = f"{record.culprit.package}=={record.culprit.previous}"
        words = ["compare", "--head", other, *options]
        lines.append(("The locks against the release before", words))
    return tuple((label, shlex.join(["observatory", *words])) for label, words in lines)
