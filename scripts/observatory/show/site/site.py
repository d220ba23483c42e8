"""The content of all pages, and the files that they become.

Every kind of page is a function of `pages`, and a template in `templates/`. Pages read only the
site, and no clock: the same `results/` give the same bytes.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeVar

from duetbench.core.comparison import Comparison
from duetbench.core.model import Run
from duetbench.host import result_files
from duetbench.load.summary import RunSummary, summarise
from observatory.matrix.published import Published, load_published
from observatory.show import addresses, experiments
from observatory.show.experiments import Section
from observatory.show.site.words import fill
from observatory.store import asv_results, kinds
from observatory.store.change import Change
from observatory.store.points import Points
from observatory.trend.candidates import close
from observatory.trend.releases import Key, ReleaseEffect, Result, judged, quotes
from observatory.trend.table import Table, tables

V = TypeVar("V")
W = TypeVar("W")
Context = Mapping[str, Any]

_RECENT: Final = 8  # runs of a machine and profile that statements use


@dataclass(frozen=True, slots=True)
class Page:
    """A page or the search's index at an address, and the function that makes its text.

    `title` names it in a sentence on its failure.
    """

    address: str
    title: str
    make: Callable[[], str]


@dataclass(frozen=True, eq=False)  # without slots, since it keeps what it has computed
class Site:
    """The content of all pages.

    A file that cannot be read is named among the problems, and the rest is read: the history is
    never rewritten, so a bad file stays.

    Attributes:
        root: The checkout.
        output: The folder of the site, in which the documentation and asv's site may be.
        broken: Sentences on pages and files that could not be made, or read, so far.
    """

    root: Path
    results: Path
    output: Path = Path()
    broken: list[str] = field(default_factory=list)

    @property
    def problems(self) -> tuple[str, ...]:
        """What is broken, for readers: they do not know the folders of this machine."""
        return tuple(problem.replace(f"{self.results}/", "") for problem in self.broken)

    def spare(self, title: str, make: Callable[[], V], instead: W) -> V | W:
        """Make one thing of the site; if that fails in any way, say so, and return `instead`.

        A file may be well-formed and make no sense: it must not stop the pages of others.
        """
        try:
            return make()
        except Exception as problem:
            reason = f"{type(problem).__name__}: {problem!s:.200}"
            self.broken.append(f"{title}: cannot be shown ({reason})")
            return instead

    def page(
        self, address: str, title: str, template: str, context: Callable[[], Context] = dict
    ) -> Page:
        """Return the page of a template; its context may set another title, and a description.

        Templates also have `site`, `path`, `root` (see `addresses.root`), and the names and filters
        of `words`.
        """
        path = addresses.file(address)
        usual = {"site": self, "path": path, "root": addresses.root(path)}
        usual |= {"title": title, "description": ""}
        return Page(address, title, lambda: fill(f"{template}.html.j2", **{**usual, **context()}))

    @cached_property
    def documented(self) -> Path | None:
        """The index of the documentation's own search; None: the site has no documentation."""
        index = self.output / addresses.DOCS / "searchindex.js"
        return index if index.is_file() else None

    @cached_property
    def with_asv(self) -> bool:
        """Whether asv's own site is beside."""
        return (self.output / addresses.ASV).is_dir()

    @cached_property
    def repository(self) -> str:
        """Address of the repository whose workflow builds the site; empty if none does."""
        name, server = map(os.environ.get, ("GITHUB_REPOSITORY", "GITHUB_SERVER_URL"))
        return f"{server or 'https://github.com'}/{name}" if name else ""

    @cached_property
    def published(self) -> Mapping[str, Published]:
        return load_published(self.root)

    @cached_property
    def points(self) -> Sequence[Points]:
        return kinds.read_all(Points, self.results, self.broken)

    @cached_property
    def tables(self) -> Sequence[Table]:
        """Points of each machine: of dated stacks, and of the releases of packages."""
        return tables(self.points)

    @cached_property
    def runs(self) -> Sequence[RunSummary]:
        """The newest of each machine and profile, oldest first."""
        groups = defaultdict[tuple[str, str], list[Path]](list)
        for path in result_files.runs(self.results):
            groups[path.parent.parent.name, path.name.split("-")[1]].append(path)
        recent = chain.from_iterable(group[-_RECENT:] for group in groups.values())
        read = kinds.read_all(Run, self.results, self.broken, recent)
        return [summarise(run) for run in sorted(read, key=lambda run: run.started)]

    @cached_property
    def changes(self) -> Sequence[Change]:
        """Confirmed changes, newest first; those that were undone are closed."""
        known = kinds.read_all(Change, self.results, self.broken)
        confirmed = (change for change in known if change.confirmed)
        return close(sorted(confirmed, key=lambda change: (change.when, change.id)))[::-1]

    @cached_property
    def comparisons(self) -> dict[str, Comparison]:
        """By id, newest first."""
        known = kinds.read_all(Comparison, self.results, self.broken)
        ordered = sorted(known, key=lambda each: (each.started, each.id), reverse=True)
        return {record.id: record for record in ordered}

    @cached_property
    def experiments(self) -> Mapping[str, Section]:
        """The declared ones, then others that have cases."""
        declared, inside = sorted(self.published), asv_results.read(self.results, [])
        measured = {case.case.experiment for run in self.runs for case in run.cases.values()}
        rest = (self.runs, self.published, inside, [*reversed(self.comparisons.values())])
        return {
            name: self.spare(name, partial(experiments.experiment, name, *rest), Section(name))
            for name in (*declared, *sorted(measured - {*declared}))
        }

    @cached_property
    def effects(self) -> Mapping[Table, Mapping[str, Result]]:
        """What each release did, by table and version."""
        return self.spare("Releases", lambda: judged(self.tables), {})

    @cached_property
    def quotes(self) -> Mapping[Key, ReleaseEffect]:
        """The size of each release that did something, newest first."""
        return self.spare("Releases", lambda: quotes(self.effects, self.changes), {})

    @cached_property
    def packages(self) -> tuple[str, ...]:
        """All packages with a page: those whose releases were measured, or did something."""
        quoted = {package for package, _ in self.quotes}
        return tuple(sorted(quoted | {table.package for table in self.effects}))

    @cached_property
    def judged(self) -> frozenset[Key]:
        """Releases with a known effect: compared with the one before on a machine, or quoted."""
        compared = {(table.package, key) for table, on in self.effects.items() for key in on}
        return frozenset(compared | self.quotes.keys())

    @cached_property
    def files(self) -> Mapping[str, tuple[str, Path]]:
        """The address and the file of every run, point, change and comparison, by id."""
        stored = (
            (addresses.POINTS, self.points),
            (addresses.CHANGES, self.changes),
            (addresses.COMPARISONS, self.comparisons.values()),
        )
        files = {path.stem: (addresses.RUNS, path) for path in result_files.runs(self.results)}
        files |= {r.id: (folder, self.results / r.path) for folder, known in stored for r in known}
        return {name: (addresses.raw(at, name), path) for name, (at, path) in files.items()}

    def quote(self, record: Change) -> ReleaseEffect | None:
        """Return the quoted size of the release that a change names first; None: it has none."""
        keys = ((release.package, release.version) for release in record.releases)
        return next((self.quotes[key] for key in keys if key in self.quotes), None)

    def story(self, record: Change) -> str:
        """Return where a change is told: by its release, or else by its case."""
        if quote := self.quote(record):
            return addresses.release(*quote.key)
        case = record.series.case
        return f"{addresses.case(case)}#{record.id}" if case in self.cases else addresses.PACKAGES

    @cached_property
    def cases(self) -> Mapping[str, Sequence[Table]]:
        """Each case of a trend with the tables that have it, that with most nights first."""
        tables = defaultdict[str, list[Table]](list)
        for table in self.tables:
            for case in () if table.package else table.cases:
                tables[case].append(table)
        for case, own in tables.items():
            own.sort(key=lambda table: (-table.length(case), table.machine.id))
        return dict(sorted(tables.items()))

    @cached_property
    def changes_by_case(self) -> Mapping[str, Sequence[Change]]:
        """The changes that moved each case, newest first."""
        changes = defaultdict[str, list[Change]](list)
        for record in self.changes:
            for case in {series.case for series in record.all_series}:
                changes[case].append(record)
        return changes
