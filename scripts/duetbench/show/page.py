"""A run as a page for people: facts, then per experiment its answer, tables and shapes. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from duetbench.core.model import Machine, RunStatus
from duetbench.project.published import FILE, Published
from duetbench.project.schema import FILE as EXPERIMENT
from duetbench.project.schema import read_toml
from duetbench.project.servers import SERVERS
from duetbench.show import claims, formats, tables
from duetbench.show.claims import Sentence, ShapeResult
from duetbench.show.tables import FigureTable
from duetbench.trend.summary import CaseSummary, RunSummary

MAIN_PACKAGES: Final = dict.fromkeys(
    (
        *("fastapi", "starlette", "flask", "pydantic", "pydantic-core"),
        *(package for server in SERVERS.values() for package in (server.name, *server.shown)),
    )
)

_SEVERAL: Final = "95 %, over the launches within this run; what differs between runs is not in it"
_ONE: Final = "none, so nothing is decided: one launch per case"


@dataclass(frozen=True, slots=True)
class About:
    """What a page says of an experiment besides figures: its declared question and deviations."""

    question: str
    deviations: tuple[str, ...] = ()
    url: str = ""
    """Of the article that it repeats, where one is declared."""


@dataclass(frozen=True, slots=True)
class Section:
    """One experiment of a run."""

    experiment: str
    question: str | None
    source: str | None
    tables: tuple[FigureTable, ...]
    shapes: tuple[ShapeResult, ...]
    notes: tuple[str, ...]
    deviations: tuple[str, ...]
    answers: tuple[Sentence, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunPage:
    """A run, ready to be written in any format."""

    title: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]


def read_about(root: Path) -> dict[str, About]:
    """Question and deviations of every experiment of a checkout; DeclarationError: a bad file."""
    found = {}
    for path in sorted((root / "apps").glob(f"*/{EXPERIMENT}")):
        table = read_toml(path, path.relative_to(root).as_posix())
        found[path.parent.name] = About(
            str(table.get("question", "")),
            tuple(table.get("deviations", ())),
            str(table.get("source", {}).get("url", "")),
        )
    return found


def narrowed(summary: RunSummary, globs: Sequence[str]) -> RunSummary:
    """The cases whose id matches one of the globs; all of them without globs."""
    if not globs:
        return summary
    chosen = tables.select(summary.cases.values(), globs)
    return RunSummary(run=summary.run, cases={case.id: case for case in chosen})


def make_page(
    summary: RunSummary,
    published: Mapping[str, Published],
    about: Mapping[str, About],
    select: Sequence[str] = (),
) -> RunPage:
    """Make the page of a run.

    `select` are globs over the ids of the cases that tables show; answers and shapes of their
    experiments draw on the whole run.
    """
    by_experiment: dict[str, list[CaseSummary]] = {}
    for case in narrowed(summary, select).cases.values():
        by_experiment.setdefault(case.case.experiment, []).append(case)
    names = sorted(by_experiment, key=lambda name: (name not in published, name))
    sections = tuple(
        make_section(summary, name, by_experiment[name], published.get(name), about.get(name))
        for name in names
    )
    run = summary.run
    title = f"Run {run.id}" + (" (partial)" if run.status is RunStatus.PARTIAL else "")
    return RunPage(title=title, facts=facts(summary), sections=sections)


def make_section(
    summary: RunSummary,
    experiment: str,
    cases: Sequence[CaseSummary],
    published: Published | None,
    about: About | None,
) -> Section:
    """Make the section of one experiment."""
    about = about or About("")
    published = published or Published(source="")
    file = f"apps/{experiment}/{FILE}"
    planned = {*summary.cases, *(result.case.id for result in summary.run.results)}
    return Section(
        experiment=experiment,
        question=about.question or None,
        source=published.source or None,
        answers=tuple(claims.fill(one, summary, published, file) for one in published.answers),
        tables=tables.experiment_tables(cases, published),
        shapes=claims.check_all(summary, published),
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
        f"{one.name} = {one.version} ({one.origin}, "
        f"{'free-threaded' if one.free_threaded else 'GIL'})"
        for one in run.interpreters
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
        "shapes": {
            one.experiment: [shape.model_dump(mode="json") for shape in one.shapes]
            for one in page.sections
        },
        "answers": {
            one.experiment: [sentence.text for sentence in one.answers] for one in page.sections
        },
    }
