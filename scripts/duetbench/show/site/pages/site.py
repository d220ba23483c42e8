"""All that pages are made from, gathered once, and the file that a page becomes.

Every kind of page is a module with a function `pages(site) -> Iterator[PageFile]` and a template
`templates/<kind>.html.j2` that extends `base.html.j2`; `build.KINDS` lists them. Pages read nothing
but the site, and no clock: the same `results/` give the same bytes.
"""

import json
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeVar

from duetbench.core.metrics import METRICS
from duetbench.core.model import Verdict
from duetbench.project.published import Published, SuiteDeclaration, load_published, read_suites
from duetbench.show import addresses
from duetbench.show.change import AttributionText
from duetbench.show.page import reference_runs
from duetbench.show.site.words import filled
from duetbench.store import asv_results
from duetbench.store.asv_results import Snapshot
from duetbench.store.attribution import Attribution
from duetbench.store.change import Change
from duetbench.store.comparison import Comparison
from duetbench.store.packages import PackageRecord, VersionLinks
from duetbench.trend.reading import Sources
from duetbench.trend.releases import ReleaseAxis, axes, order
from duetbench.trend.summary import RunSummary
from duetbench.trend.table import KINDS, Events, Kind, Night, Table, events, tables

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_UNKNOWN_FLOOR: Final = 0.01  # relevance floor of benchmarks inside the process

Trended = tuple[str, Kind]
"""A machine's id and a kind of figures: what has a table of its own."""


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, tuple[V, ...]]:
    """What stands with each key; keys and values stay in their order."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return {key: tuple(values) for key, values in groups.items()}


CARD_SIZE: Final = (1200, 630)
"""Pixels of a card, as networks ask for them."""


@dataclass(frozen=True, slots=True)
class Card:
    """What is shown of a page where somebody posts its address: a picture of what moved.

    Attributes:
        page: Address of the page that it stands beside; others may show it too.
        what: What moved; `variant` says how it is served.
        figure: By how much, `verdict` what that means, `sure` how sure it is; `tone` of `TONES`.
        release: Which release did it.
        values: The series; None where there is no figure.
        step: Place of the first value after the step; 0: there is none.
    """

    page: str
    when: str
    what: str
    variant: str
    figure: str
    verdict: str
    tone: str
    sure: str
    release: str
    values: Sequence[float | None] = ()
    step: int = 0

    @property
    def text(self) -> str:
        """All of it, for those who do not see it."""
        return f"{self.what}: {self.figure}, {self.verdict}. {self.sure}. {self.release}."


@dataclass(frozen=True, slots=True)
class PageFile:
    """A page, or data beside it; its path is as `addresses.file` gives it."""

    path: str
    text: str
    card: Card | None = None


@dataclass(frozen=True, slots=True)
class ReleasedPackage:
    """What is known of a package under test.

    Attributes:
        name: As locks have it.
        locked: Stack → version, in the newest lock that was measured.
        changes: Whose locks differ in it, or that it is named as the cause of; newest first.
        versions: Those with pages of their own: measured, or the cause of a change; the oldest
            first.
        about: Links of its versions, where its metadata were read.
    """

    name: str
    axes: tuple[ReleaseAxis, ...] = ()
    locked: Mapping[str, str] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    versions: tuple[str, ...] = ()
    about: PackageRecord | None = None

    def links(self, version: str = "") -> VersionLinks:
        """Where a version leads, or the newest one that is known; and how tags are named."""
        versions = self.about.versions if self.about else {}
        if not versions:
            return VersionLinks()
        newest = sorted(versions, key=order)
        links = versions.get(version) or versions[newest[-1]]
        tags = (versions[number].tag for number in newest[::-1] if versions[number].tag is not None)
        tag = links.tag if links.tag is not None else next(tags, None)
        return links.model_copy(update={"tag": tag})


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """What is shown.

    Attributes:
        base: Address of the site with a slash at its end; empty: not known. Links are relative
            anyway.
        tables: All nights by machine and kind.
        nights: Every night by its run's id, also of profiles that have no trend, and every stack
            that was measured against an anchor; oldest first.
        newest: The newest runs of each machine and profile, read and summarised.
        changes: Confirmed ones, newest first.
        comparisons: By id, newest first.
        attributions: By id, newest first.
        snapshots: What asv measured, the newest commit first.
        downloads: Further files, by address: what they are.
        planned: Every case with a page: those that any night planned.
        packages: What is known of every package under test, by name.
        points: Ids of all files of anchored points.
        documented: Whether the documentation stands beside it, at `addresses.DOCS`.
        broken: Pages that could not be made so far, in sentences.
    """

    base: str
    sources: Sources
    tables: Mapping[Trended, Table]
    events: Mapping[Trended, Events]
    nights: Mapping[str, Night]
    newest: tuple[RunSummary, ...]
    changes: tuple[Change, ...]
    comparisons: Mapping[str, Comparison]
    attributions: Mapping[str, Attribution]
    published: Mapping[str, Published]
    suites: tuple[SuiteDeclaration, ...]
    snapshots: tuple[Snapshot, ...]
    downloads: Mapping[str, str]
    planned: frozenset[str]
    packages: Mapping[str, ReleasedPackage]
    points: frozenset[str]
    documented: bool = False
    broken: list[str] = field(default_factory=list)

    @property
    def pictured(self) -> bool:
        """Whether pages have cards: whoever shows these wants an address, and Pillow draws them."""
        return bool(self.base) and find_spec("PIL") is not None

    @property
    def runs(self) -> Mapping[str, Path]:
        """Run id → its file, oldest first. Nights that were made up have none."""
        return self.sources.runs

    @property
    def open_changes(self) -> tuple[Change, ...]:
        """Worse before better, and what is furthest beyond its relevance floor first."""
        ongoing = (record for record in self.changes if record.status == "open")
        return tuple(sorted(ongoing, key=_weight, reverse=True))

    @property
    def closed_changes(self) -> tuple[Change, ...]:
        """The newest first."""
        return tuple(record for record in self.changes if record.status == "closed")

    @property
    def choices(self) -> tuple[Comparison, ...]:
        """Comparisons of two settings, or two interpreters, under load; the newest first."""
        every = (one for one in self.comparisons.values() if one.cross)
        return tuple(one for one in every if not one.start and not one.counts_only)

    def explanations(
        self,
        changes: Iterable[Change],
        comparison: str = "",
        release: tuple[str, str] | None = None,
    ) -> list[AttributionText]:
        """Attributions of these changes, of a comparison, or of a release alone; newest first."""
        explained = {record.id for record in changes}
        return [
            AttributionText(record)
            for record in self.attributions.values()
            if record.change in explained
            or (comparison and record.comparison == comparison)
            or {(move.package, move.head) for move in record.packages} == {release}
        ]

    def files_of(self, run: str) -> list[str]:
        """Addresses of the raw files of a night; one that was made up has none."""
        if run in self.runs:
            return [addresses.run_file(run)]
        anchored = run in self.nights and self.nights[run].ratio
        return [addresses.points_file(run)] if anchored and run in self.points else []

    @property
    def newest_tables(self) -> tuple[Table, ...]:
        of_runs = (table for table in self.tables.values() if not table.ratio)
        return tuple(sorted(of_runs, key=lambda table: (-table.nights[-1].time, table.machine)))

    def cases(self) -> dict[str, tuple[Table, ...]]:
        """Every case of a trend and the tables that have it, by kind (`KINDS`), longest first.

        A kind of which a case has no more than a point comes last: there is no line to be seen.
        """
        kinds = list(KINDS)
        lengths = {
            (case, table): table.length(case)
            for table in self.tables.values()
            for case in table.cases
        }
        series = {(case, table.kind) for (case, table), nights in lengths.items() if nights > 1}

        def place(one: tuple[str, Table]) -> tuple[bool, int, int, str]:
            case, table = one
            alone = (case, table.kind) not in series
            return alone, kinds.index(table.kind), -lengths[one], table.machine

        return grouped(sorted(lengths, key=place))

    def changes_by_case(self) -> dict[str, tuple[Change, ...]]:
        """The changes that moved each case, newest first."""
        return grouped(
            (case, record)
            for record in self.changes
            for case in dict.fromkeys(series.case for series in record.moved)
        )

    def experiments(self) -> tuple[str, ...]:
        """Names of the experiments: those that are declared, then others that have cases."""
        measured = {case.partition("/")[0] for table in self.newest_tables for case in table.cases}
        declared = {*self.published, *(suite.page for suite in self.suites if suite.source)}
        return (*sorted(declared), *sorted(measured - declared))


def render(
    site: Site,
    template: str,
    address: str,
    title: str,
    description: str = "",
    *,
    root: str | None = None,
    card: Card | None = None,
    **context: Any,
) -> PageFile:
    """Make the page of a template at an address.

    Besides `context` a template has `site`, `path`, `root` (see `addresses.root`), `at` (the
    addresses), and the functions and filters of `words`.
    """
    path = addresses.file(address)
    card = card if site.pictured else None
    html = filled(
        template,
        site=site,
        path=path,
        root=addresses.root(path) if root is None else root,
        title=title,
        description=description,
        card=card,
        card_size=CARD_SIZE,
        **context,
    )
    return PageFile(path, html, card)


def barred(
    site: Site, address: str, title: str, make: Callable[[], Iterable[PageFile]]
) -> Iterator[PageFile]:
    """Make the pages of one thing; where that fails, whatever goes wrong, a page that says so.

    What a file says may be of the right types, and make no sense: all others do.
    """
    try:
        yield from [*make()]
    except Exception as problem:
        site.broken.append(f"{title}: cannot be shown ({type(problem).__name__}: {problem!s:.200})")
        yield render(site, "missing.html.j2", address, title, reason=site.broken[-1])


def json_file(address: str, document: Mapping[str, Any]) -> PageFile:
    """Make a file of strict JSON without a space."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return PageFile(addresses.file(address), text)


def gather(
    root: Path,
    results: Path,
    sources: Sources,
    *,
    base: str = "",
    downloads: Mapping[str, str],
    documented: bool = False,
) -> Site:
    """Gather what a `Site` has; DeclarationError: a declaration of the checkout is wrong."""
    wrong: list[str] = []
    snapshots = asv_results.read(results / "asv", wrong)
    wrong = [problem.replace(f"{results}/", "") for problem in wrong]
    sources = replace(sources, problems=(*sources.problems, *wrong))
    every = {(table.machine, table.kind): table for table in tables(sources.nights)}
    # Runs are named by when they were made.
    nights = {night.run: night for night in sorted(sources.nights, key=lambda one: one.run)}
    changes = sorted(sources.changes, key=lambda one: (one.when, one.id), reverse=True)
    return Site(
        base=base,
        sources=sources,
        tables=every,
        events={key: events(table) for key, table in every.items()},
        nights=nights,
        newest=tuple(one for one in reference_runs(results) if one.run.id in sources.runs),
        changes=tuple(changes),
        comparisons={one.id: one for one in reversed(sources.comparisons)},
        attributions={one.id: one for one in reversed(sources.attributions)},
        published=load_published(root),
        suites=read_suites(root),
        snapshots=snapshots,
        downloads=downloads,
        planned=frozenset(chain.from_iterable(night.cases for night in nights.values())),
        packages=_packages(sources, nights.values(), changes),
        points=frozenset(point.id for point in sources.points),
        documented=documented,
    )


def _weight(record: Change) -> tuple[bool, float]:
    row = METRICS.get(record.series.metric)
    floor = (row.floor if row else 0) or _UNKNOWN_FLOOR
    return record.verdict is Verdict.SLOWER, abs(math.log(record.ratio)) / floor


def _packages(
    sources: Sources, nights: Iterable[Night], changes: Iterable[Change]
) -> dict[str, ReleasedPackage]:
    """All packages that locks have had, or that were measured or named, by name."""
    measured = axes(sources.points)
    stacks: dict[str, Mapping[str, str]] = {}
    names = {*measured, *(one.package for each in sources.comparisons for one in each.packages)}
    for night in sorted(nights, key=lambda night: night.time):
        stacks |= night.packages
        names.update(*night.packages.values())
    mentions = grouped(
        (name, record)
        for record in changes
        for name in {move.package for move in record.packages}
        | {cause.package for cause in record.releases}
    )
    versions = grouped(
        (package, release.version)
        for package, measured_on in measured.items()
        for axis in measured_on
        for release in axis.releases
    )
    caused = grouped(
        (cause.package, cause.version) for record in changes for cause in record.releases
    )
    metadata = {record.id: record for record in sources.packages}
    return {
        name: ReleasedPackage(
            name,
            measured.get(name, ()),
            {stack: lock[name] for stack, lock in sorted(stacks.items()) if name in lock},
            mentions.get(name, ()),
            tuple(sorted({*versions.get(name, ()), *caused.get(name, ())}, key=order)),
            metadata.get(name),
        )
        for name in sorted({*names, *mentions})
    }
