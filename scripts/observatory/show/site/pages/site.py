"""The content of all pages, gathered once, and the file that a page becomes.

Every kind of page is a module with a function `pages(site) -> Iterator[PageFile]` and a template
`templates/<kind>.html.j2` that extends `base.html.j2`; `build.KINDS` lists them. Pages read only
the site, and no clock: the same `results/` give the same bytes.
"""

import os
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeVar

from duetbench.core.change import Release
from duetbench.core.comparison import Comparison
from duetbench.core.errors import HistoryError
from duetbench.host import git
from duetbench.load.summary import RunSummary
from duetbench.report.attribution import AttributionText
from observatory.matrix.published import Published, load_published, read_suites
from observatory.show import addresses, inprocess, quoting
from observatory.show.changes import between, contains
from observatory.show.claims import Evidence
from observatory.show.published_page import reference_runs
from observatory.show.run_view import Section
from observatory.show.site.words import fill
from observatory.store import asv_results
from observatory.store.change import Change, order
from observatory.trend.quotes import Key, Quote, quote_of, quotes
from observatory.trend.reading import Sources
from observatory.trend.releases import ReleaseAxis, Result, axes, judged
from observatory.trend.table import KINDS, Kind, Night, Table, tables

_REMOTE: Final = (
    r"(?:https://(?:[^@/]+@)?|git@)(?P<host>[\w.-]+)[/:](?P<name>[\w.-]+/[\w.-]+?)(?:\.git)?/?"
)
"""An address of git on a forge, without the credentials in it."""
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
W = TypeVar("W")

TableKey = tuple[str, Kind]
"""A machine's id and a kind of figures, which together have a table."""


_MONTH: Final = len("202611")  # begins the id of a run, and of points
_MONTHS: Final = 3  # whose raw files are not in an archive


def group(pairs: Iterable[tuple[K, V]]) -> dict[K, tuple[V, ...]]:
    """Collect the values of each key; keys and values keep their order."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return {key: tuple(values) for key, values in groups.items()}


@dataclass(frozen=True, slots=True)
class ExplanationText(AttributionText):
    """An attribution in words; `releases` are those behind the change that it explains."""

    releases: tuple[Release, ...] = ()

    @property
    def between(self) -> str:
        return between(self.record, self.releases)


def explanations(changes: Iterable[Change], cause: Key | None = None) -> list[ExplanationText]:
    """Return the attributions of changes, or of those that a release caused.

    An attribution of versions that lack the change's releases is left out.
    """
    return [
        ExplanationText(change.why, change.releases)
        for change in changes
        if change.why and contains(change.why, change.releases)
        if cause is None or change.blames(*cause)
    ]


@dataclass(frozen=True, slots=True)
class PageFile:
    """A page or a data file; `addresses.file` gives its path."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class ReleasedPackage:
    """A package whose releases were measured, or did something.

    Attributes:
        name: Its name in locks.
        locked: Stack → version, in the newest lock that was measured.
        versions: Versions with pages: those with a quoted size; oldest first.
    """

    name: str
    axes: tuple[ReleaseAxis, ...] = ()
    locked: Mapping[str, str] = field(default_factory=dict)
    versions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """The content of all pages.

    Attributes:
        root: The checkout.
        base: Address of the site, with a slash at its end; empty if unknown. Links are relative
            anyway.
        tables: All nights by machine and kind.
        nights: Every night by its run's id, also of profiles without a trend, and every stack
            that was measured against an anchor; oldest first.
        newest: The newest runs of each machine and profile, summarised.
        changes: Confirmed changes, newest first.
        comparisons: By id, newest first.
        experiments: The declared ones, then others that have cases, with their evidence.
        planned: All cases with a page: those that any night planned.
        packages: All packages with a page, by name.
        effects: What each release did, by axis and version.
        quotes: The size of each release that did something, newest first.
        raw: Addresses of the files of runs and points, or of the archives with them, by id.
        documented: Whether the site has the documentation, at `addresses.DOCS`.
        repository: Address of the repository that publishes it; empty if unknown.
        broken: Sentences on pages that could not be made so far.
    """

    root: Path
    base: str
    sources: Sources
    tables: Mapping[TableKey, Table]
    nights: Mapping[str, Night]
    newest: tuple[RunSummary, ...]
    changes: tuple[Change, ...]
    comparisons: Mapping[str, Comparison]
    published: Mapping[str, Published]
    experiments: Mapping[str, tuple[Evidence, Section]]
    planned: frozenset[str]
    packages: Mapping[str, ReleasedPackage]
    effects: Mapping[ReleaseAxis, Mapping[str, Result]]
    quotes: Mapping[Key, Quote]
    raw: Mapping[str, str]
    documented: bool = False
    repository: str = ""
    broken: list[str] = field(default_factory=list)

    @property
    def open_changes(self) -> tuple[Change, ...]:
        return tuple(record for record in self.changes if record.status == "open")

    @property
    def judged(self) -> frozenset[Key]:
        """Releases with a known effect: compared with the one before on a machine, or quoted."""
        compared = {(axis.package, version) for axis, on in self.effects.items() for version in on}
        return frozenset(compared | self.quotes.keys())

    def quote(self, record: Change) -> Quote | None:
        """Return the quoted size of the release that a change names first."""
        return quote_of(record, self.quotes)

    def story(self, record: Change) -> str:
        """Return where a change is told: by its release, or else by its case."""
        if quote := self.quote(record):
            return addresses.release(*quote.key)
        case = record.series.case
        return f"{addresses.case(case)}#{record.id}" if case in self.planned else addresses.PACKAGES

    def cases(self) -> dict[str, tuple[Table, ...]]:
        """Return each case of a trend with its tables, by kind (`KINDS`), longest first.

        A kind with only one point of a case comes last, as it has no line to show.
        """
        kinds = list(KINDS)
        lengths = {
            (case, table): table.length(case)
            for table in self.tables.values()
            for case in table.cases
        }
        series = {(case, table.kind) for (case, table), nights in lengths.items() if nights > 1}

        def place(entry: tuple[str, Table]) -> tuple[bool, int, int, str]:
            case, table = entry
            short = (case, table.kind) not in series
            return short, kinds.index(table.kind), -lengths[entry], table.machine

        return group(sorted(lengths, key=place))

    def changes_by_case(self) -> dict[str, tuple[Change, ...]]:
        """Return the changes that moved each case, newest first."""
        return group(
            (case, record)
            for record in self.changes
            for case in dict.fromkeys(series.case for series in record.all_series)
        )


def render(
    site: Site,
    template: str,
    address: str,
    title: str,
    description: str = "",
    *,
    root: str | None = None,
    **context: Any,
) -> PageFile:
    """Make the page of a template at an address.

    Besides `context` a template has `site`, `path`, `root` (see `addresses.root`), `at` (the
    addresses), `quoting`, and the functions and filters of `words`.
    """
    path = addresses.file(address)
    html = fill(
        template,
        site=site,
        path=path,
        root=addresses.root(path) if root is None else root,
        title=title,
        description=description,
        quoting=quoting,
        **context,
    )
    return PageFile(path, html)


def guard(
    site: Site, address: str, title: str, make: Callable[[], Iterable[PageFile]]
) -> Iterator[PageFile]:
    """Make the pages of one thing; if that fails in any way, make a page that says so.

    A file may be well-formed and make no sense: it must not stop the pages of others.
    """
    pages = spare(site.broken, title, lambda: [*make()], None)
    if pages is None:
        pages = [render(site, "missing.html.j2", address, title, reason=site.broken[-1])]
    yield from pages


def spare(broken: list[str], title: str, make: Callable[[], V], instead: W) -> V | W:
    """Make one thing of the site; if that fails in any way, say so, and return `instead`."""
    try:
        return make()
    except Exception as problem:
        broken.append(f"{title}: cannot be shown ({type(problem).__name__}: {problem!s:.200})")
        return instead


def gather(
    root: Path,
    results: Path,
    sources: Sources,
    *,
    base: str = "",
    documented: bool = False,
) -> Site:
    """Gather a `Site`; raises DeclarationError if a declaration of the checkout is wrong."""
    broken: list[str] = []
    known = {(table.machine, table.kind): table for table in _tables(sources, broken)}
    # The id of a run begins with its time.
    nights = {night.run: night for night in sorted(sources.nights, key=lambda night: night.run)}
    changes = sorted(sources.changes, key=lambda change: (change.when, change.id), reverse=True)
    planned = frozenset(chain.from_iterable(night.cases for night in nights.values()))
    newest = tuple(s for s in reference_runs(results) if s.run.id in sources.runs)
    published, suites = load_published(root), read_suites(root)
    inside = spare(broken, "asv's results", partial(asv_results.read, results / "asv", []), ())
    declared = inprocess.names(published, suites)
    of_runs = {case.partition("/")[0] for summary in newest for case in summary.cases}
    found = {
        name: spare(
            broken,
            name,
            partial(
                inprocess.experiment,
                *(name, newest, inside, published, suites, sources.comparisons),
            ),
            (Evidence(), Section(name)),
        )
        for name in (*declared, *sorted(of_runs - {*declared}))
    }
    none: Released = {}, {}, {}
    released = spare(broken, "Releases", lambda: _released(sources, changes), none)
    return Site(
        root=root,
        base=base,
        sources=sources,
        tables=known,
        nights=nights,
        newest=newest,
        changes=tuple(changes),
        comparisons={record.id: record for record in reversed(sources.comparisons)},
        published=published,
        experiments=found,
        planned=planned,
        packages=released[0],
        effects=released[1],
        quotes=released[2],
        raw=raw_files(sources),
        documented=documented,
        repository=repository(os.environ, _remote(root)),
        broken=broken,
    )


def _remote(root: Path) -> str | None:
    try:
        return git.ask_or_none(root, "remote", "get-url", "origin")
    except HistoryError:
        return None


def repository(environment: Mapping[str, str], remote: str | None) -> str:
    """Return the address of the repository whose workflow builds the site, or of a `remote`.

    Empty if neither is a repository on the web.
    """
    if name := environment.get("GITHUB_REPOSITORY"):
        return f"{environment.get('GITHUB_SERVER_URL', 'https://github.com')}/{name}"
    known = re.fullmatch(_REMOTE, remote or "")
    return f"https://{known['host']}/{known['name']}" if known else ""


def raw_files(sources: Sources) -> dict[str, str]:
    """Return the addresses of the files of runs and points, or of the archives with them, by id.

    A machine's newest months have files of their own.
    """
    paths = {record.id: Path(record.path) for record in sources.points} | sources.runs
    raw = {}
    for (kind, machine), names in group(
        (path.parts[-4:-2], n) for n, path in paths.items()
    ).items():
        own = sorted({name[:_MONTH] for name in names})[-_MONTHS:]
        for name in names:
            month, folder = name[:_MONTH], f"{kind}/"
            archive = addresses.raw(folder, f"{machine}-{month}", "zip")
            raw[name] = addresses.raw(folder, name) if month in own else archive
    return raw


def _tables(sources: Sources, broken: list[str]) -> Iterator[Table]:
    """Return the tables, without those of a machine that has impossible nights."""
    for machine, nights in sorted(
        group((night.machine, night) for night in sources.nights).items()
    ):
        yield from spare(broken, f"Nights of {machine}", partial(tables, nights), ())


Released = tuple[dict[str, ReleasedPackage], dict[ReleaseAxis, dict[str, Result]], dict[Key, Quote]]
"""Packages by name, the effects of their releases by axis and version, and the sizes of these."""


def _released(sources: Sources, changes: Iterable[Change]) -> Released:
    axes_of = axes(sources.points)
    effects = judged(axis for of_package in axes_of.values() for axis in of_package)
    quoted = quotes(effects, changes)
    stacks: dict[str, Mapping[str, str]] = {}
    for night in sorted(sources.nights, key=lambda night: night.time):
        stacks |= night.packages
    versions = group(quoted)
    packages = {
        name: ReleasedPackage(
            name,
            axes_of.get(name, ()),
            {stack: lock[name] for stack, lock in sorted(stacks.items()) if name in lock},
            tuple(sorted(versions.get(name, ()), key=order)),
        )
        for name in sorted({*axes_of, *versions})
    }
    return packages, effects, quoted
