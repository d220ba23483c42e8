"""Side by side: servers, event loops and interpreters, from stored comparisons.

If a machine has several comparisons of the same two sides and cases, the newest counts.
"""

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from statistics import geometric_mean
from typing import Final

from duetbench.core.metrics import CPU
from duetbench.core.model import Case
from duetbench.core.units import Interval
from duetbench.project import case_names
from duetbench.project.case_names import CaseName
from duetbench.show import findings as words
from duetbench.show import formats
from duetbench.store.comparison import CaseComparison, Comparison, Finding, SideRecord

TITLE: Final = "Side by side"
COLUMNS: Final = ("CPU per request", "p99", "Memory under load")  # of a choice's figures

_COSTS: Final = {0: "CPU", 2: "memory"}
"""Places of the figures that an answer in words names."""
_KINDS: Final = {"server": "Servers", "loop": "Event loops", "interpreter": "Interpreters"}
_OTHERS: Final = "Other settings"
_NEUTRAL: Final = {"server": "", "loop": "", "workers": 1, "threads": None}
"""Neutral values of the fields that the sides of a case may differ in."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A metric of both sides, `78.7 µs → 91.7 µs`; `finding` is None if it was not judged."""

    sides: str
    finding: Finding | None

    def __str__(self) -> str:
        if self.finding is None:
            return f"{self.sides}, not judged"
        change, ends = self.sizes
        return f"{self.sides}, {self.finding.verdict.text} {change} ({ends})"

    @property
    def sizes(self) -> tuple[str, str]:
        """The change and its interval."""
        return words.sizes(self.finding) if self.finding else ("", "")


@dataclass(frozen=True, slots=True)
class Choice:
    """A case that both sides of a comparison served; `figures` are CPU, p99 and memory."""

    comparison: Comparison
    case: str
    name: str
    sides: str
    figures: tuple[Figure, ...]
    samples: str


def is_choice(comparison: Comparison) -> bool:
    """Whether it compares two settings, or two interpreters, under load."""
    return comparison.cross and not comparison.start and not comparison.counts_only


def choices(comparisons: Iterable[Comparison]) -> dict[tuple[str, str], tuple[Choice, ...]]:
    """Make the tables, of those comparisons that have a choice: kind and machine → rows."""
    titles = [*_KINDS.values(), _OTHERS]
    newest: dict[Hashable, tuple[tuple[int, str, str], Choice]] = {}
    for comparison in sorted(filter(is_choice, comparisons), key=lambda c: c.started, reverse=True):
        kind = _kind(comparison)
        title = _KINDS.get(kind, _OTHERS)
        place = titles.index(title), title, comparison.machine.id
        for case in (case for case in comparison.cases if case.duets):
            pair = frozenset(map(_side, (comparison.base, comparison.head)))
            key = (*place, pair, _question(case.case, _keys(comparison.head), kind))
            newest.setdefault(key, (place, _choice(comparison, case, kind)))
    ranked = sorted(newest.values(), key=lambda e: (e[0], e[1].name, e[1].comparison.head.label))
    by_place = groupby(ranked, key=itemgetter(0))
    return {place[1:]: tuple(choice for _, choice in entries) for place, entries in by_place}


def answer(rows: Iterable[Choice]) -> str:
    """Say what a choice costs: `16 % less to 3.7 % more CPU, 40 % to 66 % more memory`."""
    figures = [row.figures for row in rows]
    parts = (_costs([of[place] for of in figures], noun) for place, noun in _COSTS.items())
    return ", ".join(filter(None, parts)) or "no difference was seen"


def _costs(figures: Iterable[Figure], noun: str) -> str:
    """Write the least and the greatest change of a figure; empty if it nowhere moved."""
    rows = [figure.finding for figure in figures if figure.finding and figure.finding.moved]
    known = (ratio for row in rows if (ratio := row.interval))
    ratios = sorted(known, key=lambda ratio: ratio.estimate)
    if not ratios:
        return ""
    least, most = (more(ratio) for ratio in (ratios[0], ratios[-1]))
    if least == most:
        return f"{most} {noun}"
    if least.endswith(" more") and most.endswith(" more"):
        least = least.removesuffix(" more")
    elif most.endswith(" less"):
        least = least.removesuffix(" less")
    return f"{least} to {most} {noun}"


def more(ratio: Interval) -> str:
    """Write a change in words: `16 % less`, `2.4 times the`."""
    size = formats.change(ratio)
    if size.endswith("×"):
        return size.replace("×", " times the")
    return f"{size[1:]} {'more' if ratio.estimate >= 1 else 'less'}"


def _kind(comparison: Comparison) -> str:
    settings = {comparison.head.kind, *_keys(comparison.base), *_keys(comparison.head)}
    return next((kind for kind in _KINDS if kind in settings), "")


def _side(side: SideRecord) -> Hashable:
    """Return a key that is equal for sides that differ only in versions."""
    return frozenset(side.words) or side.label


def _keys(side: SideRecord) -> set[str]:
    return {word.partition("=")[0] for word in side.words}


def _question(case: Case, settings: Collection[str], kind: str) -> Hashable:
    """Return a key of what both sides serve, whichever is head."""
    update = {name: value for name, value in _NEUTRAL.items() if name in settings}
    return case.model_copy(update=update).setting, kind == "interpreter" or case.python


def _name(case: Case) -> CaseName:
    """Name a case, or the declared case that is served in another way here."""
    name = case_names.of(case)
    return name if name.known else case_names.name(case.id.rpartition("/")[0])


def _words(name: CaseName, kind: str) -> str:
    """Write a name without what the sides differ in."""
    server = {"server": "", "loop": name.server.partition(" with ")[0]}.get(kind, name.server)
    python = "" if kind == "interpreter" else name.python
    return ", ".join(filter(None, (name.what, server, python, name.rest)))


def _choice(comparison: Comparison, case: CaseComparison, kind: str) -> Choice:
    def figure(metric: str) -> Figure:
        finding = comparison.of(case.case.id, metric)
        finding = finding if finding and finding.ratio else None
        figures = words.figures(finding) if finding else ""
        return Figure(figures or _sides(case, metric, finding), finding)

    figures = tuple(map(figure, (CPU, f"{case.case.load.times}_p99", "pss_steady")))
    cpu = comparison.of(case.case.id, CPU)
    samples = f"{cpu.n}{' by turns' if cpu.alone else ''}" if cpu else "0"
    name, sides = _name(case.case), f"{comparison.base.label} → {comparison.head.label}"
    return Choice(comparison, name.id, _words(name, kind), sides, figures, samples)


def _sides(case: CaseComparison, metric: str, finding: Finding | None) -> str:
    """Write both sides' means over usable duets; head's is base's times the ratio shown."""
    pairs = [(duet.base.get(metric), duet.head.get(metric)) for duet in case.duets if duet.usable]
    figures = [(base, head) for base, head in pairs if base and head]
    if not figures:
        return formats.MISSING
    base, head = map(geometric_mean, zip(*figures, strict=True))
    if finding and finding.ratio:
        head = base * finding.ratio
    return " → ".join(formats.figure(metric, end) for end in (base, head))
