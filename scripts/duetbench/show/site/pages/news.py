"""What the first page says first: the news in a sentence, and where everything stands in a table.

Nothing is worked out here: sizes come from change records and stored comparisons, figures from the
newest night of one machine.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Final

from duetbench.project import names
from duetbench.project.names import CaseName
from duetbench.project.published import Headline
from duetbench.show import formats, rows
from duetbench.show.change import ChangeText, describe
from duetbench.show.site import overview
from duetbench.show.site.pages import addresses
from duetbench.show.site.pages.case import endpoint
from duetbench.show.site.pages.changes import listed
from duetbench.show.site.pages.site import Site
from duetbench.show.site.released import ReleasedPackage
from duetbench.store.comparison import Comparison
from duetbench.trend.table import STATES, Table

SHOWN: Final = {"server_cpu_per_request": "CPU/request", "pss_steady": "memory"}
"""The metrics of the table, with their headings."""
_VOID: Final = ("disturbed", "failed")  # why a case that was measured has no figure


@dataclass(frozen=True, slots=True)
class Lead:
    """What is told first, with its size and interval in the sentence.

    Attributes:
        what: The release, or what was compared: a link to the `address`.
        when: Since when it is so, or when it was compared.
        state: Of a change, whether it is open; of the others how they are known.
        others: So many more figures moved with it.
    """

    what: str
    address: str
    when: datetime | str
    sentence: str
    state: str
    verdict: str
    word: str
    name: CaseName
    others: int = 0


@dataclass(frozen=True, slots=True)
class News:
    """The news.

    Attributes:
        lead: The worst open change; if none is open, the newest; without any, the newest release
            that moved something by itself, or the newest comparison of stacks in which something
            moved.
        confirmed: Whether that is a change of the nightly trend.
        nights: In so many nights none was confirmed, if that is so.
        since: Start of the first of them, s since 1970.
    """

    lead: Lead | None
    confirmed: bool
    nights: int
    since: int


def news(site: Site) -> News:
    """What is to be said first."""
    still, over = listed(site.changes)
    longest = max(site.newest_tables, key=lambda table: len(table.nights), default=None)
    nights = longest.nights if longest else ()
    if record := next(iter((*still, *over)), None):
        return News(_changed(describe(record)), True, 0, 0)
    lead = _released(site.packages.values()) or _compared(site.comparisons.values())
    return News(lead, False, len(nights), nights[0].time if nights else 0)


def _changed(text: ChangeText) -> Lead:
    record = text.record
    return Lead(
        text.releases or "A release not known yet",
        addresses.change(record.id),
        record.when,
        text.sentence,
        record.status,
        record.verdict,
        text.word,
        text.name,
        len(record.others),
    )


def _released(packages: Iterable[ReleasedPackage]) -> Lead | None:
    """The newest release that moved something by itself, and what it moved most."""
    found = [
        (result.head.when, package.name, result)
        for package in packages
        for axis in package.axes
        for result in axis.results().values()
        if result.moved
    ]
    if not found:
        return None
    when, package, result = max(found, key=lambda one: one[:2])
    most = result.moved[0]
    return Lead(
        f"{package} {result.head.version}",
        addresses.release(package, result.head.version),
        when,
        _sentence(most.case, formats.moved(most.metric, most.ratio)),
        f"measured over {result.base.version}, alone",
        most.verdict or "",
        formats.worded(most.metric, most.verdict) if most.verdict else "",
        names.name(most.case),
        len(result.moved) - 1,
    )


def _compared(comparisons: Iterable[Comparison]) -> Lead | None:
    """The newest comparison of two stacks that moved something, and what it moved most."""
    for one in comparisons:
        found = rows.group_rows(one)
        worse, better = (
            [row for row in group if row.metric] for group in (found.worse, found.better)
        )
        moved = worse or better
        if one.cross or not one.packages or not moved:
            continue
        top, changed = moved[0], len({package.package for package in one.packages})
        return Lead(
            f"{one.base.label[:1].upper()}{one.base.label[1:]} → {one.head.label}",
            addresses.comparison(one.id),
            one.started,
            _sentence(top.case, top.moved),
            f"{formats.many(changed, 'package')} changed{' at once' * (changed > 1)}",
            top.judged.verdict,
            formats.worded(top.metric, top.judged.verdict),
            names.name(top.case),
            len(moved) - 1,
        )
    return None


def _sentence(case: str, moved: str) -> str:
    return f"{names.name(case).what} {moved}"


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """A case's figures, each with its interval or why it has none; empty: it was not measured."""

    case: str
    figures: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """What is served by which server, as each interpreter does it; None: not in that night.

    Attributes:
        first: The first of its cases, for what they have in common.
        endpoint: Experiment and endpoint, which may have a page.
    """

    first: CaseName
    endpoint: str
    cells: tuple[MatrixCell | None, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Endpoints × servers × interpreters of the newest night of one machine.

    `nights`: Up to how many stand together where one has too few launches for an interval.
    """

    nights: ClassVar[int] = overview.NIGHTS

    table: Table
    pythons: tuple[str, ...]
    titles: tuple[str, ...]
    rows: tuple[MatrixRow, ...]

    @property
    def run(self) -> str:
        """The night's run."""
        return self.table.nights[-1].run


def matrix(table: Table | None) -> Matrix | None:
    """The table of a machine; None where there is none, or no declared case in its newest night.

    Of cases that only workers, threads or the load tell apart the first declared one is shown:
    the others are on the endpoint's page.
    """
    if table is None:
        return None
    found = [one for case in table.nights[-1].cases if (one := names.name(case)).server]
    pythons = tuple(sorted({one.python for one in found}))
    rows: dict[tuple[str, str], tuple[CaseName, dict[str, MatrixCell]]] = {}
    for one in found:
        first, cells = rows.setdefault((one.what, one.server), (one, {}))
        if one.rest == first.rest:
            figures = tuple(_figure(table, one.id, metric) for metric in SHOWN)
            cells[one.python] = MatrixCell(one.id, figures)
    if not rows:
        return None
    shown = tuple(
        MatrixRow(first, endpoint(first.id), tuple(map(cells.get, pythons)))
        for first, cells in rows.values()
    )
    return Matrix(table, pythons, tuple(SHOWN.values()), shown)


def _figure(table: Table, case: str, metric: str) -> tuple[str, str]:
    found = overview.stated(
        table, Headline(name="cell", place=0, label="", case=case, metric=metric)
    )
    if found is None or found.night != len(table.nights) - 1:
        state = STATES[table.status[-1, table.cases.index(case)]]
        return "", state if state in _VOID else ""
    return found.figure, found.interval
