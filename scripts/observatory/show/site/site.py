"""The content of all pages, and the files that they become.

Every kind of page is a function of `pages`, and a template in `templates/`. Pages read only the
site, and no clock: the same `results/` give the same bytes.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from duetbench.core.comparison import Comparison
from duetbench.host import result_files
from observatory.matrix.published import Published, load_published, read_suites
from observatory.show import addresses, experiments
from observatory.show.experiments import Section
from observatory.show.site.words import fill
from observatory.store import asv_results
from observatory.store.change import Change
from observatory.trend.reading import Sources
from observatory.trend.releases import Key, ReleaseEffect, Result, judged, quote_of, quotes
from observatory.trend.table import Table

V = TypeVar("V")
W = TypeVar("W")
Context = Mapping[str, Any]


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

    Attributes:
        root: The checkout.
        output: The folder of the site, in which the documentation and asv's site may be.
        broken: Sentences on pages and files that could not be made so far.
    """

    root: Path
    results: Path
    sources: Sources
    output: Path = Path()
    broken: list[str] = field(default_factory=list)

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
    def changes(self) -> tuple[Change, ...]:
        """Confirmed changes, newest first."""
        return tuple(change for change in reversed(self.sources.changes) if change.confirmed)

    @cached_property
    def comparisons(self) -> Mapping[str, Comparison]:
        """By id, newest first."""
        return {record.id: record for record in reversed(self.sources.comparisons)}

    @cached_property
    def experiments(self) -> Mapping[str, Section]:
        """The declared ones, then others that have cases."""
        suites, inside = read_suites(self.root), asv_results.read(self.results / "asv", [])
        declared = sorted({*self.published, *(suite.page for suite in suites if suite.page)})
        runs = self.sources.runs
        measured = {case.case.experiment for run in runs for case in run.cases.values()}
        rest = (runs, self.published, suites, inside, self.sources.comparisons)
        return {
            name: self.spare(name, partial(experiments.experiment, name, *rest), Section(name))
            for name in (*declared, *sorted(measured - {*declared}))
        }

    @cached_property
    def effects(self) -> Mapping[Table, Mapping[str, Result]]:
        """What each release did, by table and version."""
        return self.spare("Releases", lambda: judged(self.sources.releases), {})

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
        of, raw = self.sources, addresses.raw
        files = {p.stem: (raw(addresses.RUNS, p.stem), p) for p in result_files.runs(self.results)}
        for folder, records in (
            (addresses.POINTS, of.points),
            (addresses.CHANGES, self.changes),
            (addresses.COMPARISONS, of.comparisons),
        ):
            files |= {
                record.id: (raw(folder, record.id), self.results / record.path)
                for record in records
            }
        return files

    def quote(self, record: Change) -> ReleaseEffect | None:
        """Return the quoted size of the release that a change names first."""
        return quote_of(record, self.quotes)

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
        for table in self.sources.tables:
            for case in table.cases:
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
