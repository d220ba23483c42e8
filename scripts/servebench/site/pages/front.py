"""The first page: what happened last night, what is open, and where the experiments stand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from servebench.core.metrics import METRICS
from servebench.core.units import count, significant
from servebench.declare.published import Headline, headlines
from servebench.declare.suites import SHARED_PAGE
from servebench.record.change import ChangeRecord
from servebench.record.comparison import Verdict
from servebench.report.change import told
from servebench.series.events import Events
from servebench.series.table import STATES, Table
from servebench.site import overview
from servebench.site.charts.trend import spark
from servebench.site.pages import addresses, words
from servebench.site.pages.changes import listed
from servebench.site.pages.experiment import questions
from servebench.site.pages.page import PageFile, render
from servebench.site.pages.site import Site

OPEN: Final = 8
"""So many open changes are shown here; all are on their own page."""
MACHINES: Final = 3
STALE: Final = 3 * 86_400
"""From so many seconds on the newest run is called stale: a night may be missed, two may not."""


def pages(site: Site) -> Iterator[PageFile]:
    """The first page."""
    still, _ = listed(site.changes)
    newest = site.newest_tables
    yield render(
        site,
        "front.html.j2",
        addresses.FRONT,
        "servebench",
        "Nightly benchmarks of the Python web stack: what changed, by how much, "
        "and how sure that is.",
        states=[
            (table, found, sentence(found), still_open(found, table.machine))
            for table in newest[:MACHINES]
            for story in (site.events[table.machine, table.kind],)
            for found in (night_status(table, story, site.changes),)
        ],
        further=len(newest) - MACHINES,
        stale=STALE,
        night=next(iter(site.sources.night_records[-1:]), None),
        still=[told(record) for record in still[:OPEN]],
        open_changes=len(still),
        headlines=headline_cards(newest),
        questions=[one for one in questions(site) if one.name != SHARED_PAGE],
        problems=site.sources.problems,
    )


NIGHTS: Final = 90
"""So many nights are sketched."""


@dataclass(frozen=True, slots=True)
class HeadlineCard:
    """A headline, ready to be written.

    Attributes:
        base: What the case's figure is divided by; None: nothing.
        machine: Where; empty: nowhere was anything measured.
        figure: With its unit; empty: the machine has none.
        firm: Whether it may stand large: it has an interval, and a narrow one.
        interval: `±1.2 %`, or why there is none.
        sketch: A sparkline of so many `nights`; empty for fewer than two.
        disturbed: Without a figure: whether there are some that may not be judged.
    """

    label: str
    case: str
    base: str | None
    metric: str
    machine: str
    figure: str = ""
    firm: bool = False
    interval: str = ""
    meaning: str = ""
    sketch: str = ""
    nights: int = 0
    run: str = ""
    disturbed: bool = False


def headline_cards(tables: Iterable[Table]) -> tuple[HeadlineCard, ...]:
    """All headlines, of one machine."""
    table = overview.speaker(tables)
    return tuple(_card(table, headline) for headline in headlines())


def judged_figures(table: Table, case: str, metric: str) -> npt.NDArray[np.float64] | None:
    """The figures of a series that may be judged, night by night (NaN: none); None: no series."""
    if case not in table.cases or metric not in table.metrics:
        return None
    row, column = table.place(case, metric)
    figures = table.mean[:, row, column].astype(np.float64)
    figures[table.status[:, row] != _MEASURED] = np.nan
    return figures


def _card(table: Table | None, headline: Headline) -> HeadlineCard:
    hollow = HeadlineCard(
        label=headline.label,
        case=headline.case,
        base=headline.base,
        metric=headline.metric,
        machine=table.machine if table else "",
        disturbed=table is not None and headline.case in table.cases,
    )
    found = None if table is None else overview.stated(table, headline)
    values = None if table is None else judged_figures(table, headline.case, headline.metric)
    if table is None or found is None or values is None:
        return hollow
    below = judged_figures(table, headline.base, headline.metric) if headline.base else None
    if below is not None:
        values = values / np.where(below > 0, below, np.nan)
    recent = [None if np.isnan(value) else float(value) for value in values[-NIGHTS:]]
    several = sum(value is not None for value in recent) > 1
    narrow = f"±{significant(100 * found.half, 2)} %" if found.half else ""
    return replace(
        hollow,
        figure=found.figure,
        firm=not (found.doubt or found.wide),
        interval=found.doubt or ("95 % interval" if found.wide else narrow),
        meaning=_meaning(headline),
        sketch=Markup(  # noqa: S704 - drawn by a template that escapes
            spark(f"{headline.label}: the last {words.many(len(recent), 'night')}", recent)
        )
        if several
        else "",
        nights=len(recent),
        run=table.nights[found.night].run,
        disturbed=False,
    )


def _meaning(headline: Headline) -> str:
    row = METRICS[headline.metric]
    if headline.base is None:
        return row.title
    better = {"higher": "above 1 is better", "lower": "below 1 is better"}.get(row.better, "")
    return f"ratio of {row.title}" + (f"; {better}" if better else "")


RECENT: Final = 7
"""A case that one of so many nights before measured, and the newest did not, is missing."""

_RELEASES: Final = 4  # so many are named
_FAILED, _DISTURBED, _MEASURED = map(STATES.index, ("failed", "disturbed", "measured"))


@dataclass(frozen=True, slots=True)
class NightStatus:
    """The newest night of a table; every case is in exactly one of its last five lists.

    Attributes:
        time: Its start, s since 1970.
        slower: Cases that a change made slower (or larger) from this night on.
        releases: What came in with it: `fastapi 0.163.2`.
        still: Changes that are open since before it.
        measured: Cases with a figure, and with one in some night before.
        disturbed: Cases of which nothing is decided: something else was measured with them.
        missing: Cases that the night did not come to, or that its plan no longer has.
    """

    run: str
    time: int
    nightly: bool
    slower: tuple[str, ...]
    faster: tuple[str, ...]
    releases: tuple[str, ...]
    still: tuple[ChangeRecord, ...]
    measured: tuple[str, ...]
    first: tuple[str, ...]
    disturbed: tuple[str, ...]
    failed: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def counts(self) -> tuple[tuple[str, str, int], ...]:
        """Class, words and number of what became of the cases, in the order of interest."""
        every = (
            ("same", "measured", self.measured),
            ("first", "measured for the first time", self.first),
            ("open", "disturbed, not judged", self.disturbed),
            ("open", "failed", self.failed),
            ("open", "missing", self.missing),
        )
        return tuple((kind, label, len(many)) for kind, label, many in every if many)

    @property
    def total(self) -> int:
        return sum(number for _, _, number in self.counts)


def night_status(table: Table, happened: Events, changes: Iterable[ChangeRecord]) -> NightStatus:
    """The status of a table's newest night."""
    newest, last = table.nights[-1], len(table.nights) - 1
    records = [
        record
        for record in changes
        if record.status == "open"
        and record.verdict in {Verdict.SLOWER, Verdict.FASTER}
        and _cases(record, table.machine)
    ]
    began = [record for record in records if record.when.timestamp() >= newest.time]
    before = (table.status[:-1] == _MEASURED).any(axis=0)
    recent = (table.status[-1 - RECENT :] > 0).any(axis=0)
    found: dict[str, list[str]] = {}
    for row in np.flatnonzero(recent).tolist():
        kind = _kind(int(table.status[-1, row]), measured_before=bool(before[row]))
        found.setdefault(kind, []).append(table.cases[row])
    slower, faster = (
        dict.fromkeys(
            case
            for record in began
            if record.verdict is verdict
            for case in _cases(record, table.machine)
        )
        for verdict in (Verdict.SLOWER, Verdict.FASTER)
    )
    releases = dict.fromkeys(
        f"{one.package} {one.head or 'gone'}"
        for bump in happened.bumps
        if bump.night == last
        for one in bump.packages
    )
    kinds = ("measured", "first", "disturbed", "failed", "missing")
    return NightStatus(
        newest.run,
        newest.time,
        newest.profile == "nightly",
        tuple(slower),
        tuple(faster),
        tuple(releases),
        tuple(record for record in records if record not in began),
        *(tuple(found.get(kind, ())) for kind in kinds),
    )


def sentence(status: NightStatus) -> str:
    """What the newest night brought, in words."""
    parts = [
        _part(len(many), label)
        for many, label in (
            (status.measured, "measured"),
            (status.first, "measured for the first time"),
            (status.disturbed, "disturbed and not judged"),
            (status.failed, "failed"),
            (status.missing, "missing"),
        )
        if many
    ]
    cases = f"Of {words.many(status.total, 'case')} {'; '.join(parts)}."
    if not status.measured:
        return f"{cases} There is nothing to compare with yet."
    moved = [
        f"{words.many(len(many), 'case')} {word}"
        for many, word in ((status.slower, "slower"), (status.faster, "faster"))
        if many
    ]
    news = f"{' and '.join(moved)} from here on" if moved else "nothing new"
    return (
        f"{'Newest night' if status.nightly else 'Newest run'}: {news} ({_came(status)}). {cases}"
    )


def still_open(status: NightStatus, machine: str) -> str:
    """What is open since before the night; empty if nothing is."""
    if not status.still:
        return ""
    cases = {case for record in status.still for case in _cases(record, machine)}
    since = words.day(min(record.when for record in status.still))
    return (
        f"Open since {since}: {words.many(len(status.still), 'change')}, "
        f"{words.many(len(cases), 'case')}."
    )


def _came(status: NightStatus) -> str:
    if not status.releases:
        return "no release came in"
    named, more = status.releases[:_RELEASES], status.releases[_RELEASES:]
    return f"{words.many(len(status.releases), 'release')} came in: {', '.join(named)}" + (
        f" and {len(more)} more" if more else ""
    )


def _part(number: int, label: str) -> str:
    plain = label in {"failed", "measured for the first time"}
    verb = "" if plain else "is " if number == 1 else "are "
    return f"{count(number)} {verb}{label}"


def _kind(code: int, *, measured_before: bool) -> str:
    if code == _MEASURED:
        return "measured" if measured_before else "first"
    return {_FAILED: "failed", _DISTURBED: "disturbed"}.get(code, "missing")


def _cases(record: ChangeRecord, machine: str) -> list[str]:
    return [one.case for one in (record.series, *record.others) if one.machine == machine]
