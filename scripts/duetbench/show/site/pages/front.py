"""The first page: what happened last night, what is open, and where the experiments stand."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from duetbench.core.metrics import METRICS
from duetbench.core.units import count
from duetbench.project.published import Headline, headlines
from duetbench.project.suites import SHARED_PAGE
from duetbench.show import formats
from duetbench.show.change import describe
from duetbench.show.site import overview
from duetbench.show.site.charts.trend import spark
from duetbench.show.site.overview import Stated
from duetbench.show.site.pages import addresses, words
from duetbench.show.site.pages.changes import listed
from duetbench.show.site.pages.experiment import questions
from duetbench.show.site.pages.news import matrix, news
from duetbench.show.site.pages.page import PageFile, render
from duetbench.show.site.pages.site import Site, grouped
from duetbench.store.change import Change
from duetbench.store.comparison import Verdict
from duetbench.trend.events import Events
from duetbench.trend.table import STATES, Table

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
        "duetbench",
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
        news=news(site),
        matrix=matrix(overview.speaker(newest)),
        still=[describe(record) for record in still[:OPEN]],
        open_changes=len(still),
        headlines=headline_cards(newest),
        questions=[one for one in questions(site) if one.name != SHARED_PAGE],
        problems=site.sources.problems,
    )


NIGHTS: Final = 90
"""So many nights are sketched."""


@dataclass(frozen=True, slots=True)
class HeadlineCard:
    """A headline of a machine, whose id is empty where nothing was measured anywhere.

    Attributes:
        disturbed: Whether there are figures, but none that may be judged.
        stated: Its newest figure; None: the machine has none.
        sketch: A sparkline of so many `nights`; empty for fewer than two.
    """

    headline: Headline
    machine: str
    disturbed: bool = False
    stated: Stated | None = None
    meaning: str = ""
    sketch: str = ""
    nights: int = 0
    run: str = ""


def headline_cards(tables: Iterable[Table]) -> tuple[HeadlineCard, ...]:
    """All headlines, of one machine."""
    table = overview.speaker(tables)
    if table is None:
        return tuple(HeadlineCard(headline, "") for headline in headlines())
    return tuple(_card(table, headline) for headline in headlines())


def _card(table: Table, headline: Headline) -> HeadlineCard:
    found = overview.stated(table, headline)
    if found is None:
        return HeadlineCard(headline, table.machine, disturbed=headline.case in table.cases)
    values = _judged(table, headline.case, headline.metric)
    if headline.base:
        below = _judged(table, headline.base, headline.metric)
        values = values / np.where(below > 0, below, np.nan)
    recent = [None if np.isnan(value) else float(value) for value in values[-NIGHTS:]]
    drawn = ""
    if sum(value is not None for value in recent) > 1:
        drawn = spark(f"{headline.label}: the last {words.many(len(recent), 'night')}", recent)
    row = METRICS[headline.metric]
    better = {"higher": "; above 1 is better", "lower": "; below 1 is better"}.get(row.better, "")
    return HeadlineCard(
        headline,
        table.machine,
        stated=found,
        meaning=(f"ratio of {row.title}{better}" if headline.base else row.title)
        + (f"; launches of {found.nights} nights" if found.nights > 1 else ""),
        sketch=Markup(drawn),  # noqa: S704 - drawn by a template that escapes
        nights=len(recent),
        run=table.nights[found.night].run,
    )


def _judged(table: Table, case: str, metric: str) -> npt.NDArray[np.float64]:
    """The figures of a series that may be judged, night by night; NaN: none."""
    row, column = table.place(case, metric)
    figures = table.mean[:, row, column].astype(np.float64)
    figures[table.status[:, row] != _MEASURED] = np.nan
    return figures


RECENT: Final = 7
"""A case that one of so many nights before measured, and the newest did not, is missing."""

_RELEASES: Final = 4  # so many are named
_MEASURED: Final = STATES.index("measured")
_OUTCOMES: Final = (
    ("measured", "same", "measured", True),
    ("first", "first", "measured for the first time", False),
    ("disturbed", "open", "disturbed, not judged", True),
    ("failed", "open", "failed", False),
    ("missing", "open", "missing", True),
)
"""What became of a case: its class, its words, and whether these need `is`; of interest first."""


@dataclass(frozen=True, slots=True)
class NightStatus:
    """The newest night of a table.

    Attributes:
        time: Its start, s since 1970.
        slower: Cases that a change made slower (or larger) from this night on.
        releases: What came in with it: `fastapi 0.163.2`.
        still: Changes that are open since before it.
        cases: By what became of them, as in `_OUTCOMES`; every case is in one of these. `measured`
            have a figure in some night before too, and `missing` are those that the night did not
            come to, or that its plan no longer has.
    """

    run: str
    time: int
    nightly: bool
    slower: tuple[str, ...]
    faster: tuple[str, ...]
    releases: tuple[str, ...]
    still: tuple[Change, ...]
    cases: Mapping[str, tuple[str, ...]]

    @property
    def counts(self) -> tuple[tuple[str, str, int], ...]:
        """Class, words and number of what became of the cases, in the order of interest."""
        return tuple(
            (kind, label, len(self.cases[outcome]))
            for outcome, kind, label, _ in _OUTCOMES
            if outcome in self.cases
        )


def night_status(table: Table, happened: Events, changes: Iterable[Change]) -> NightStatus:
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
    recent = np.flatnonzero((table.status[-1 - RECENT :] > 0).any(axis=0)).tolist()
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
    return NightStatus(
        newest.run,
        newest.time,
        newest.profile == "nightly",
        tuple(slower),
        tuple(faster),
        tuple(releases),
        tuple(record for record in records if record not in began),
        grouped(
            (_outcome(STATES[table.status[-1, row]], before[row]), table.cases[row])
            for row in recent
        ),
    )


def sentence(status: NightStatus) -> str:
    """What the newest night brought, in words."""
    known = {label: be for _, _, label, be in _OUTCOMES}
    parts = [
        f"{count(number)} {('is ' if number == 1 else 'are ') if known[label] else ''}"
        f"{label.replace(', ', ' and ')}"
        for _, label, number in status.counts
    ]
    total = sum(number for _, _, number in status.counts)
    cases = f"Of {words.many(total, 'case')} {'; '.join(parts)}."
    if "measured" not in status.cases:
        return f"{cases} There is nothing to compare with yet."
    moved = [
        f"{words.many(len(many), 'case')} {word}"
        for many, word in ((status.slower, "slower"), (status.faster, "faster"))
        if many
    ]
    news = f"{' and '.join(moved)} from here on" if moved else "nothing new"
    came = "no release came in"
    if status.releases:
        came = f"{words.many(len(status.releases), 'release')} came in: "
        came += formats.some(status.releases, _RELEASES)
    return f"{'Newest night' if status.nightly else 'Newest run'}: {news} ({came}). {cases}"


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


def _outcome(status: str, measured_before: bool) -> str:
    if status == "measured":
        return "measured" if measured_before else "first"
    return status if status in {"failed", "disturbed"} else "missing"


def _cases(record: Change, machine: str) -> list[str]:
    return [one.case for one in (record.series, *record.others) if one.machine == machine]
