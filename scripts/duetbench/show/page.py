"""A run as a page for people: facts, then per experiment its answers and tables. Pure.

The layout of tables comes from `published.toml`. Cases that no declared table selects get a table
of their own, so that nothing measured is ever left out.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from string import ascii_lowercase
from typing import Any, Final

from duetbench.core.errors import RecordError
from duetbench.core.metrics import METRICS
from duetbench.core.model import Machine, RunStatus
from duetbench.project.published import KEYS, Published, TableLayout
from duetbench.project.schema import FILE as EXPERIMENT
from duetbench.project.schema import read_toml
from duetbench.project.servers import SERVERS
from duetbench.show import claims, formats
from duetbench.show.claims import Answer, Evidence
from duetbench.store import store
from duetbench.trend.summary import CaseSummary, RunSummary, summarise

MAIN_PACKAGES: Final = dict.fromkeys(
    (
        *("fastapi", "starlette", "flask", "pydantic", "pydantic-core"),
        *(package for server in SERVERS.values() for package in (server.name, *server.shown)),
    )
)

_SEVERAL: Final = "95 %, over the launches within this run; what differs between runs is not in it"
_ONE: Final = "none, so nothing is decided: one launch per case"


@dataclass(frozen=True, slots=True)
class Cell:
    """Our figure, its interval, and the published figure; each may be empty.

    `case` is the id of its case, if it has one. `bar` is what a chart shows of a speed-up:
    interpreter, speed-up, its ceiling, the published one.
    """

    ours: str
    interval: str = ""
    published: str = ""
    case: str = field(default="", compare=False)
    bar: tuple[str, float | None, float | None, float | None] | None = None


@dataclass(frozen=True, slots=True)
class FigureRow:
    """One row: its keys, its cells, and the letters of its notes, or a verdict with its `tone`."""

    keys: tuple[str, ...]
    cells: tuple[Cell, ...]
    marks: str = ""
    tone: str = ""

    @property
    def has_published(self) -> bool:
        return any(cell.published for cell in self.cells)


@dataclass(frozen=True, slots=True)
class FigureTable:
    """A table with its notes, ready to be written in any format."""

    title: str
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[FigureRow, ...]
    notes: tuple[str, ...] = ()
    marks: str = "flags"

    @property
    def marked(self) -> bool:
        return any(row.marks for row in self.rows)

    @property
    def sentences(self) -> bool:
        """Whether its rows are statements with verdicts, which may be broken anywhere."""
        return any(row.tone for row in self.rows)


def answer_table(answers: Iterable[Answer]) -> FigureTable:
    """The statements of an experiment with their verdicts."""
    return FigureTable(
        "Does the published shape hold here?",
        ("statement",),
        ("expected", "published", "ours"),
        tuple(
            FigureRow(
                (answer.statement,),
                (
                    Cell(answer.expected),
                    Cell(formats.ratio(answer.published)),
                    Cell(
                        formats.ratio(answer.ours.estimate if answer.ours else None),
                        formats.ratio_interval(answer.ours) if answer.ours else "",
                    ),
                ),
                ": ".join(filter(None, (answer.verdict, answer.reason))),
                answer.verdict,
            )
            for answer in answers
        ),
        marks="verdict",
    )


@dataclass(frozen=True, slots=True)
class About:
    """What a page says of an experiment besides figures: its declared question and deviations."""

    question: str
    deviations: tuple[str, ...] = ()
    url: str = ""
    """Of the article that it repeats, where one is declared."""


@dataclass(frozen=True, slots=True)
class Section:
    """One experiment, or one suite: of a run, or of all that is known of it."""

    experiment: str
    question: str = ""
    source: str = ""
    answers: tuple[Answer, ...] = ()
    tables: tuple[FigureTable, ...] = ()
    notes: tuple[str, ...] = ()
    deviations: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunPage:
    """A run, ready to be written in any format."""

    title: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]


def read_about(root: Path) -> dict[str, About]:
    """Question and deviations of every experiment of a checkout; DeclarationError: a bad file."""
    about = {}
    for path in sorted((root / "apps").glob(f"*/{EXPERIMENT}")):
        table = read_toml(path, path.relative_to(root).as_posix())
        about[path.parent.name] = About(
            str(table.get("question", "")),
            tuple(table.get("deviations", ())),
            str(table.get("source", {}).get("url", "")),
        )
    return about


def reference_runs(results: Path) -> list[RunSummary]:
    """Read the newest runs of each machine and profile, as far as they can be read."""
    summaries = []
    for path in store.recent(store.runs(results)):
        with suppress(RecordError):
            summaries.append(summarise(store.load(path)))
    return summaries


def narrowed(summary: RunSummary, globs: Sequence[str]) -> RunSummary:
    """The cases whose id matches one of the globs; all of them without globs."""
    if not globs:
        return summary
    chosen = select(summary.cases.values(), globs)
    return RunSummary(run=summary.run, cases={case.id: case for case in chosen})


def make_page(
    summary: RunSummary,
    published: Mapping[str, Published],
    about: Mapping[str, About],
    select: Sequence[str] = (),
    reference: Sequence[RunSummary] = (),
) -> RunPage:
    """Make the page of a run.

    `select` are globs over the ids of the cases that tables show; answers draw on the whole run,
    and name what runs of `reference` answer where it decides nothing.
    """
    by_experiment: dict[str, list[CaseSummary]] = {}
    for case in narrowed(summary, select).cases.values():
        by_experiment.setdefault(case.case.experiment, []).append(case)
    names = sorted(by_experiment, key=lambda name: (name not in published, name))
    sections = tuple(
        make_section(
            name,
            Evidence.of([summary], name),
            published.get(name),
            about.get(name),
            by_experiment[name],
            Evidence.of(reference, name),
        )
        for name in names
    )
    run = summary.run
    title = f"Run {run.id}" + (" (partial)" if run.status is RunStatus.PARTIAL else "")
    return RunPage(title=title, facts=facts(summary), sections=sections)


def make_section(
    experiment: str,
    evidence: Evidence,
    published: Published | None,
    about: About | None,
    cases: Sequence[CaseSummary] | None = None,
    reference: Evidence | None = None,
) -> Section:
    """Make the section of one experiment; tables show all cases of the evidence, or `cases`."""
    about = about or About("")
    published = published or Published(source="")
    planned = {result.case.id for run in evidence.runs for result in run.run.results}
    return Section(
        experiment=experiment,
        question=about.question,
        source=". ".join(filter(None, (published.source, published.setting))),
        answers=claims.check(evidence, published, reference),
        tables=experiment_tables([*evidence.cases.values()] if cases is None else cases, published),
        missing=tuple(
            case for name in published.figures if (case := published.ids(name)[0]) not in planned
        ),
        notes=published.notes,
        deviations=about.deviations,
    )


def facts(summary: RunSummary) -> tuple[tuple[str, str], ...]:
    """What, where, when and how completely: the head of every page."""
    run = summary.run
    measured, expected = summary.coverage
    whole = sum(case.status == "measured" for case in summary.cases.values())
    started = run.started[:16].replace("T", " ")
    origin = f" ({run.oha_origin})" if run.oha_origin else ""
    commit = f"{run.commit[:12]}{' with uncommitted changes' * run.dirty}" if run.commit else ""
    interpreters = (
        f"{interpreter.name} = {interpreter.version} ({interpreter.origin}, "
        f"{'free-threaded' if interpreter.free_threaded else 'GIL'})"
        for interpreter in run.interpreters
    )
    used = {case.case.stack for case in summary.cases.values()}
    stacks = []
    for stack in run.stacks:
        packages = (f"{n} {stack.packages[n]}" for n in MAIN_PACKAGES if n in stack.packages)
        if stack.name in used:
            stacks.append((f"stack {stack.name}", f"{stack.digest[:12]}: {', '.join(packages)}"))
    return (
        ("profile", f"{run.profile}, {run.launches} launch{'es' * (run.launches > 1)} per case"),
        ("intervals", _SEVERAL if run.launches > 1 else _ONE),
        ("measured", f"{started} UTC, in {formats.duration(run.wall_seconds)}"),
        ("coverage", f"{measured} of {expected} launches, {whole} of {len(summary.cases)} cases"),
        ("machine", describe_machine(run.machine)),
        ("commit", commit or "none: not measured in a git repository"),
        ("interpreters", ", ".join(interpreters)),
        *stacks,
        ("tools", f"duetbench {run.duetbench}, oha {run.oha}{origin}"),
        *(("note", note) for note in run.notes),
    )


def describe_machine(machine: Machine) -> str:
    """A machine in one line."""
    virtual = f", {machine.virtual}" if machine.virtual else ""
    server, client = (
        f"core{'s' * (len(cores) > 1)} {','.join(map(str, cores))}"
        for cores in (machine.server_cores, machine.client_cores)
    )
    split = f"server on {server}, generator on {client} where split"
    pinned = split if machine.pinned else "not pinned"
    return (
        f"{machine.id}: {machine.cpu}, {machine.cores} cores ({pinned}), "
        f"{machine.memory / 2**30:.1f} GiB, {machine.os}, Linux {machine.kernel}{virtual}, "
        f"governor {machine.governor or 'unknown'}"
    )


def as_json(
    summary: RunSummary, published: Mapping[str, Published], page: RunPage
) -> dict[str, Any]:
    """The summary for programs: SI units, intervals, flags, published figures."""
    measured, expected = summary.coverage
    cases = []
    for case in summary.cases.values():
        source = published.get(case.case.experiment)
        cases.append(
            {
                **case.model_dump(mode="json", exclude={"case"}),
                "id": case.id,
                "experiment": case.case.experiment,
                "published": source.figures_of(case.id) if source else {},
            }
        )
    return {
        "run": summary.run.model_dump(mode="json", exclude={"results"}),
        "coverage": {"measured": measured, "expected": expected},
        "cases": cases,
        "answers": {
            section.experiment: [asdict(answer) for answer in section.answers]
            for section in page.sections
        },
    }


_NO_DEFAULT: Final = ("id", "interface", "slots", "users", "floor")  # keys of declared tables alone


def experiment_tables(
    cases: Sequence[CaseSummary], published: Published | None
) -> tuple[FigureTable, ...]:
    """Make all tables of one experiment: the declared ones, then one of the remaining cases.

    A declared table whose cases others have shown already is left out: its comparison is not here.
    """
    tables = []
    covered: set[str] = set()
    for layout in published.tables if published else ():
        chosen = select(cases, layout.select, layout.but_not)
        if (ids := {case.id for case in chosen}) - covered:
            covered |= ids
            tables.append(_table(layout, chosen, published))
    if rest := [case for case in cases if case.id not in covered]:
        title = "Further cases" if tables else "All cases"
        tables.append(_table(_default_layout(rest, title), rest, published))
    return tuple(tables)


def select(
    cases: Iterable[CaseSummary], globs: Sequence[str], but_not: Sequence[str] = ()
) -> list[CaseSummary]:
    """Select the cases whose id matches one of the globs and none of `but_not`, in their order."""

    def matches(name: str, globs: Sequence[str]) -> bool:
        return any(fnmatchcase(name, glob) for glob in globs)

    return [case for case in cases if matches(case.id, globs) and not matches(case.id, but_not)]


def ordered(cases: Sequence[CaseSummary], keys: Sequence[str]) -> list[CaseSummary]:
    """Sort by the keys: numbers by size, names in the order of their first appearance."""
    places: dict[tuple[str, str], int] = {}
    for case in cases:
        for key in keys:
            places.setdefault((key, KEYS[key].text(case.case)), len(places))
    return sorted(
        cases,
        key=lambda case: tuple(
            (*KEYS[key].order(case.case), places[key, KEYS[key].text(case.case)]) for key in keys
        ),
    )


def _default_layout(cases: Sequence[CaseSummary], title: str) -> TableLayout:
    """Make a table for cases without a declared one, from the properties and figures they have."""
    keys = (
        name
        for name, key in KEYS.items()
        if name not in _NO_DEFAULT and len({key.text(case.case) for case in cases}) > 1
    )
    columns = (
        name
        for name, row in METRICS.items()
        if row.column and any(name in case.metrics for case in cases)
    )
    return TableLayout(
        title=title,
        select=("*",),
        keys=tuple(keys) or ("endpoint",),
        columns=tuple(columns) or ("throughput",),
    )


def _keys(case: CaseSummary, keys: Iterable[str]) -> tuple[str, ...]:
    return tuple(KEYS[key].text(case.case) for key in keys)


def _table(
    layout: TableLayout, cases: Sequence[CaseSummary], published: Published | None
) -> FigureTable:
    """Make the table of a layout; cases get their ids where the keys do not tell them apart."""
    keys = layout.keys
    if len({_keys(case, keys) for case in cases}) < len(cases):
        keys = (*keys, "id")
    cases = ordered(cases, keys)
    marks, notes = _notes(cases, keys)
    return FigureTable(
        layout.title,
        tuple(KEYS[key].title for key in keys),
        tuple(layout.headings.get(name, METRICS[name].title) for name in layout.columns),
        tuple(
            FigureRow(
                _keys(case, keys),
                tuple(
                    _cell(case, metric, published, first=place == 0)
                    for place, metric in enumerate(layout.columns)
                ),
                marks.get(case.id, ""),
            )
            for case in cases
        ),
        (layout.note, *notes) if layout.note else notes,
    )


def _cell(case: CaseSummary, metric: str, published: Published | None, *, first: bool) -> Cell:
    """Make the cell of one figure; the first cell of a case without figures says so."""
    figure = case.metrics.get(metric)
    ours = formats.figure(metric, figure.estimate if figure else None)
    if case.status != "measured" and first:
        ours = case.status
    theirs = published.figure(case.id, metric) if published else None
    return Cell(
        ours=ours,
        interval=formats.interval(metric, figure),
        published="" if theirs is None else formats.figure(metric, theirs),
        case=case.id,
    )


def _notes(
    cases: Sequence[CaseSummary], keys: Sequence[str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Make letters per case and the notes that they refer to: flags first, then failures."""
    marks: dict[str, str] = {}
    notes: list[str] = []
    everywhere: list[str] = []
    measured = sum(case.status == "measured" for case in cases)
    letters = iter(ascii_lowercase)
    for name in dict.fromkeys(flag.name for case in cases for flag in case.warnings):
        raised = {
            case.id: flag.detail for case in cases for flag in case.warnings if flag.name == name
        }
        example = next(iter(raised.values()))
        if len(raised) == measured > 1:
            everywhere.append(f"all rows: {name} — {name.meaning} ({example})")
            continue
        letter = next(letters)
        marks |= {case: marks.get(case, "") + letter for case in raised}
        notes.append(f"{letter}  {name} — {name.meaning} (for example: {example})")
    for case in cases:
        if case.failures:
            reasons = " | ".join(dict.fromkeys(failure.reason for failure in case.failures))
            failed = f"{len(case.failures)} of {case.expected} launches failed: {reasons}"
            notes.append(f"{' '.join(_keys(case, keys))}: {failed}")
    return marks, (*notes, *everywhere)
