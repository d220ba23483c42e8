"""A change in words, the commands that measure it again, and the code behind it."""

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from rich.console import Console
from rich.text import Text

from duetbench.core import units
from duetbench.core.metrics import METRICS
from duetbench.core.text import short
from duetbench.core.units import Interval
from duetbench.project import case_names
from duetbench.project.case_names import CaseName
from duetbench.show import effects, formats
from duetbench.store.attribution import (
    APPLICATION,
    IMPORT_OF,
    PYTHON,
    Attribution,
    Function,
    Node,
    PackageTotal,
    Row,
)
from duetbench.store.change import (
    Cause,
    Change,
    CommitCause,
    Effect,
    Narrowed,
    Release,
    Share,
    order,
)


@dataclass(frozen=True, slots=True)
class ChangeText:
    """A change in words: `+3.10 %`, 95 % interval `+2.50…+3.70 %`, `granian 2.8.6 → 2.8.7`.

    `sentence` is all of it in plain words, with what is served for the case (see `CaseName.what`).
    `word` is the verdict's without its mark: memory gets larger, not slower. `cause` is empty while
    the release behind it is unknown.
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
        """The releases behind it, each package's in order: `pydantic 2.14.1 → 2.14.2 → 2.14.3`.

        Empty while they are unknown. The package with the largest share comes first.
        """
        chains = {release.package: "" for release in self.record.releases}
        for release in sorted(self.record.releases, key=lambda release: order(release.version)):
            chain = chains[release.package]
            follows = chain.endswith(f" {release.previous}")
            more = f" → {release.version}" if follows else f", {_release(release)}"
            chains[release.package] = f"{chain}{more}".removeprefix(", ")
        return ", ".join(chains.values())

    @property
    def release(self) -> str:
        """The first of them, for narrow places: `fastapi 0.142.0 and 1 more`."""
        first, *others = self.record.releases or (None,)
        more = f" and {len(others)} more" if others else ""
        return f"{first.package} {first.version}{more}" if first else ""


def describe(record: Change) -> ChangeText:
    """Put a change into words."""
    metric = record.series.metric
    known = metric if metric in METRICS else ""
    word = formats.verdict(known, record.verdict).partition(" ")[2]
    several = len(record.parts) > 1
    cause = ", ".join(
        release_names(share) + (f": {formats.change(share.interval)}" if several else "")
        for share in record.parts
    )
    if not cause and record.culprit:
        cause = _release(record.culprit)
    change, interval = formats.change(record.interval), formats.ends(record.interval)
    name = case_names.name(record.series.case)
    sentence = f"{name.what} {formats.effect(metric, record.interval)}"
    return ChangeText(
        record, name, sentence, formats.series_title(metric), word, change, interval, cause
    )


def release_names(share: Share) -> str:
    """Name releases that moved as one: `pydantic 2.11.0 → 2.12.0 with pydantic-core …`."""
    first, *others = map(_release, share.releases)
    return f"{first} with {', '.join(others)}" if others else first


def _release(release: Release) -> str:
    return f"{release.package} {release.previous or 'new'} → {release.version}"


def cause_lines(cause: Cause) -> tuple[str, ...]:
    """Describe the result of a search, one sentence per line."""
    lines = [share_effect(share) for share in cause.shares]
    if cause.whole:
        lines.append(f"all packages that moved, together: {_effect(cause.whole)}")
    if cause.rest:
        lines.append(f"all others together: {_effect(cause.rest)}")
    if cause.reason:
        subject = "the rest of the cause is" if cause.shares else "the cause is"
        lines.append(f"{subject} among {', '.join(cause.suspects)}: {cause.reason}")
    return tuple(lines)


def commit_lines(cause: CommitCause | None, good: str, bad: str) -> tuple[str, ...]:
    """Describe the result of a search among commits, one sentence per line."""
    if cause is None:
        return (f"between {good} and {bad} nothing was detected that a commit could have done",)
    causes = (cause, *cause.others)
    lines = [line for each in causes for line in _named(each)]
    skipped = {commit.id: reason for each in causes for commit, reason in each.skipped}
    lines += [f"skipped: {commit[:10]}: {reason}" for commit, reason in skipped.items()]
    last = cause.commits[-1].id[:10]
    if len(cause.commits) == 1 and cause.commits[0].merge:
        lines.append(f"it merges a branch; its commits: duetbench bisect {last}^1 {last}^2")
    lines.append(f"next: duetbench why {last}~1 {last}")
    return tuple(lines)


def _named(cause: CommitCause) -> Iterator[str]:
    """Name commits, with what they changed, and whether others changed it as well."""
    if cause.effect is not None:
        both = ((cause.trait.metric, cause.effect), *((t.metric, t.effect) for t in cause.also))
        what = ", ".join(effects.change(kind, *ends) for kind, ends in both if ends)
    else:
        ratio = cause.trait.ratio ** min(cause.share, 1)
        what = f"{formats.percent(ratio)} {formats.series_title(cause.trait.metric)}"
    what = f"{cause.trait.case}: {what}"
    names = [f"{commit.id[:10]} {commit.subject}" for commit in cause.commits]
    if len(names) == 1:
        yield f"{names[0]}: {what}"
    else:
        yield f"one of {len(names)} commits: {what}"
        yield from (f"  {name}" for name in names)
    if not cause.is_all:
        yield f"that is {cause.share:.0%} of the change; other commits did the rest"


def share_effect(share: Share) -> str:
    """Describe the effect of releases that moved together."""
    return f"{release_names(share)}: {_effect(share)} alone"


def narrowed_line(search: Narrowed) -> str:
    """Describe the effects of releases that were compared with an anchor one by one."""
    steps = "; ".join(
        f"{release_names(step)} {formats.change(step.interval)} ({formats.ends(step.interval)})"
        for step in search.steps
    )
    left = "" if search.complete else "; others between these were not measured"
    where = f"{formats.series_title(search.series.metric)} on {search.series.machine}"
    return f"Release by release, {where}: {steps}{left}"


def _effect(effect: Effect) -> str:
    within = formats.ends(effect.interval)
    return f"{formats.change(effect.interval)} ({within}, {effect.duets} duets)"


def commands(record: Change) -> tuple[tuple[str, str], ...]:
    """Return the commands that measure a change again, each with its purpose."""
    options = ["--select", record.series.case] if record.series.metric in METRICS else []
    options += ["--profile", "nightly"]
    base, head = record.base.as_of, record.head.as_of
    lines = []
    if base and head and base != head:
        words = ["compare", "--stack-as-of", base, "--stack-as-of", head, *options]
        lines.append(("The stacks of both days, measured together", words))
    if record.culprit is not None and record.culprit.previous:
        other = f"{record.culprit.package}=={record.culprit.previous}"
        words = ["compare", "--with", other, *options]
        lines.append(("The locks against the release before", words))
    return tuple((label, shlex.join(["duetbench", *words])) for label, words in lines)


FIRST: Final = 3
"""Rows shown in narrow places; compiled code is shown only for these."""

GREY: Final = 0.002
"""Share of all instructions below which a function of the tree counts as unmoved."""

_MODULES: Final = 12  # modules and packages of a start shown on a terminal
_NATIVE: Final = 3  # compiled functions named per row
_LONGEST: Final = 150  # characters of a cell in issues and comments
HEAD: Final = ("share", "of all", "entries", "function", "where", "package", "called by")
_ALIGN: Final = ("---:", "---:", "---:", "---", "---", "---", "---")


class RowText(NamedTuple):
    """A row in words: `50 %` of the change, `+8.0 %` of all instructions of the base.

    `share` is a dash if the whole change is within the difference of equal sides.
    """

    share: str
    of_all: str
    entries: str
    function: str
    where: str
    package: str
    caller: str
    native: tuple[str, ...]
    row: Row

    @property
    def cells(self) -> tuple[str, ...]:
        return tuple(cell for cell in self if isinstance(cell, str))


def contains(record: Attribution, releases: Iterable[Release]) -> bool:
    """Whether each of these releases lies between the versions that were counted."""
    moves = {move.package: move for move in record.packages}
    return all(
        (move := moves.get(release.package)) is not None
        and order(move.base or "") < order(release.version) <= order(move.head or "")
        for release in releases
    )


@dataclass(frozen=True, slots=True)
class AttributionText:
    """An attribution in words that claim no more than its counts show.

    `releases`: Those behind the change that it explains, which its versions contain.
    """

    record: Attribution
    releases: tuple[Release, ...] = ()

    @property
    def unit(self) -> str:
        """What functions are ranked by."""
        return "core time" if self.record.unit == "seconds" else "instructions"

    def write(self, figure: float) -> str:
        return (units.seconds if self.record.unit == "seconds" else units.count)(figure)

    @property
    def headline(self) -> str:
        record, totals = self.record, self.record.totals
        name = record.asked or case_names.name(record.case).what
        if totals is None:
            return f"{name} {self._timed}."
        ratio = totals.head / totals.base
        per = "" if name.startswith(IMPORT_OF) else " per request"
        if abs(ratio - 1) <= totals.spread:
            repeat = formats.size(totals.spread)
            return f"{name}: instructions{per} did not move (counts repeat within {repeat})."
        scatter = Interval(ratio, ratio * (1 - totals.spread), ratio * (1 + totals.spread))
        return (
            f"{name} executes {formats.change(scatter).lstrip('+−')} "
            f"{'more' if ratio > 1 else 'fewer'} instructions{per} "
            f"({formats.within(scatter)}, as far as counts repeat): "
            f"{units.count(totals.base)} → {units.count(totals.head)}."
        )

    @property
    def _timed(self) -> str:
        seen = self.record.counted
        return (
            f"takes {self.write(seen.base)} → {self.write(seen.head)} of core time, by a profiler "
            f"({of_all(self.record, seen.base, seen.head)})"
        )

    @property
    def cause(self) -> str:
        """The profiled time, if any; then the function with the largest share, or none."""
        timed = self.record.unit == "seconds" and self.record.totals
        return f"It {self._timed}. {self._named}" if timed else self._named

    @property
    def _named(self) -> str:
        if not (rows := self.rows):
            least = formats.size(self.record.threshold)
            return f"No function is named: none moved by {least} of all {self.unit} or more."
        first = rows[0]
        where = f"{first.function}, {first.where}, {first.package}"
        if first.share == formats.MISSING:
            return f"The largest move is in {where}: {first.of_all} of all {self.unit}."
        return f"The first row has {first.share} (±{self._doubt} %) of the change: {where}."

    @property
    def between(self) -> str:
        """Which versions were counted, if these contain the releases; otherwise empty.

        `Counted between fastapi 0.141.1 and 0.143.2, which contain 0.142.0; in this count,
        unlike the size above, 14 other packages moved, too.`
        """
        if not self.releases or not contains(self.record, self.releases):
            return ""
        moves = {move.package: move for move in self.record.packages}
        sides = []
        for package in dict.fromkeys(release.package for release in self.releases):
            own = [release for release in self.releases if release.package == package]
            move = moves.pop(package)
            side = f"{package} {move.base or '(none)'} and {move.head}"
            if [(release.previous, release.version) for release in own] != [(move.base, move.head)]:
                versions = sorted((release.version for release in own), key=order)
                side += f", which contain {' and '.join(versions)}"
            sides.append(side)
        more = formats.quantity(len(moves), "other package")
        others = f"; in this count, unlike the size above, {more} moved, too" if moves else ""
        return f"Counted between {', and between '.join(sides)}{others}."

    @property
    def scatter(self) -> str:
        """How precise the figures of rows are."""
        share = f", or {self._doubt} % of the change" if self._doubt else ""
        scatter = f"Equal sides differed by up to {formats.size(self.record.threshold)}"
        return f"{scatter} of all{share}: rows are no more precise than that."

    @property
    def _doubt(self) -> str:
        """The threshold in per cent of the change; empty if the change is smaller than it."""
        change = abs(self.record.counted.head - self.record.counted.base)
        least = self.record.threshold * self.record.counted.base
        return units.significant(100 * least / change, 1) if change and change >= least else ""

    @property
    def rows(self) -> tuple[RowText, ...]:
        """The rows that moved by more than equal sides differ."""
        rows = (row for row in self.record.rows if self._moved(row.base, row.head))
        return tuple(map(self._row, rows))

    def _moved(self, base: float, head: float) -> bool:
        least = self.record.threshold * self.record.counted.base
        return head != base and abs(head - base) >= least

    def _row(self, row: Row) -> RowText:
        share = f"{'−' if row.share < 0 else ''}{abs(100 * row.share):.0f} %"
        native = (code for code in row.native[:_NATIVE] if code.base != code.head)
        return RowText(
            share if self._doubt else formats.MISSING,
            of_all(self.record, row.base, row.head),
            " → ".join(map(_entries, row.entries)) if row.entries else "",
            row.function.name + {"came": " (new)", "went": " (gone)", "both": ""}[row.state],
            place(row.function),
            self._package(row.function.package),
            row.caller.name if row.caller else "",
            tuple(f"{code.symbol} {of_all(self.record, code.base, code.head)}" for code in native),
            row,
        )

    def _package(self, package: str) -> str:
        if package == PYTHON:
            return f"Python {self.record.python}"
        moves = (str(move) for move in self.record.packages if move.package == package)
        return package if package == APPLICATION else next(moves, package)

    @property
    def by_package(self) -> tuple[tuple[str, str, str, str], ...]:
        """Own figures of each package on both sides, and their change beyond the threshold."""

        def place(part: PackageTotal) -> tuple[float, str]:
            return -abs(part.head - part.base), part.package

        return tuple(
            (
                self._package(part.package),
                self.write(part.base),
                self.write(part.head),
                of_all(self.record, part.base, part.head)
                if self._moved(part.base, part.head)
                else formats.MISSING,
            )
            for part in sorted(self.record.own, key=place)
        )

    @property
    def imports(self) -> tuple[tuple[str, str, str, str], ...]:
        """Import times of modules and packages on both sides, and how they moved."""
        return tuple(
            (
                f"{one.module} ({one.package})" if one.module else f"all of {one.package}",
                units.seconds(one.base) if one.base else formats.MISSING,
                units.seconds(one.head) if one.head else formats.MISSING,
                f"{'+' if one.moved > 0 else '−'}"
                + " ±".join(map(units.seconds, (abs(one.moved), one.error))),
            )
            for one in self.record.imports
        )


def _entries(figure: float) -> str:
    return units.count(figure) if figure == round(figure) else units.significant(figure)


def place(function: Function) -> str:
    """Return `fastapi/routing.py:412`; for compiled code its file alone."""
    return f"{function.file}:{function.line}" if function.line else function.file


def brief(record: Attribution, releases: tuple[Release, ...] = ()) -> str:
    """Write an attribution's sentences and first rows as Markdown for issues and comments."""
    text = AttributionText(record, releases)
    sentences = f"{text.headline} {text.cause} {text.between}".rstrip()
    parts = [f"**Which code it is**: {formats.escape(short(sentences, _LONGEST * len(HEAD)))}"]
    if rows := text.rows[:FIRST]:
        cells = ([short(cell, _LONGEST) for cell in row.cells] for row in rows)
        parts.append(formats.grid(HEAD, _ALIGN, cells))
        parts.append(f"{text.scatter} It explains, and is never a verdict.")
    return "\n\n".join(parts)


def print_attribution(console: Console, record: Attribution) -> None:
    """Print an attribution: a line per row, compiled code below the first rows."""
    text = AttributionText(record)
    console.print(Text(text.headline, style="bold"), soft_wrap=True)
    took = f"{record.case}, Python {record.python}, in {formats.duration(record.seconds)}"
    console.print(Text(f"  {took}\n  {text.cause}"), soft_wrap=True)
    if rows := text.rows:
        cells = [
            (
                "",
                *row[:3],
                f"{row.function}  {row.where} ({row.package}), called by {row.caller or '—'}",
            )
            for row in rows
        ]
        console.print()
        formats.print_rows(console, ("", *HEAD[:4]), cells)
        console.print(Text(f"  {text.scatter}", style="dim"), soft_wrap=True)
    native = [f"{row.function}: {', '.join(row.native)}" for row in text.rows if row.native]
    own = [f"{p}: {b} → {h} ({c})" for p, b, h, c in text.by_package if c != formats.MISSING]
    modules = [f"{p}: {b} → {h} ({c})" for p, b, h, c in text.imports[:_MODULES]]
    for title, lines in (
        ("compiled code below the first rows", native[:FIRST]),
        (f"own {text.unit} by package", own),
        ("import time by module, without what it imports (-X importtime)", modules),
        ("it cannot see", record.notes),
    ):
        if lines:
            console.print(Text(f"\n  {title}", style="bold"))
            console.print(Text("\n".join(f"    {line}" for line in lines)), soft_wrap=True)


def own_counts(node: Node) -> tuple[float, float]:
    """Return the instructions of base and head in a node itself, without those below it."""
    base = node.base - sum(child.base for child in node.below)
    return max(0.0, base), max(0.0, node.head - sum(child.head for child in node.below))


def of_all(record: Attribution, base: float, head: float) -> str:
    """Return a change as a signed share of all that the base has: `+8.0 %`."""
    if base == head:
        return "0 %"
    change = 100 * (head - base) / record.counted.base
    return f"{'+' if change > 0 else '−'}{units.significant(abs(change), 2)} %"
