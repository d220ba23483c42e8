"""Experiments: what is declared expands to, is told of mistakes, plans, answers, and reproduces."""

import fnmatch
import math
import re
import shlex
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from bench import PROJECT, Bench, all_cases, experiments
from duetbench.app.testbed import SideCase, assemble
from duetbench.core.errors import DeclarationError
from duetbench.core.metrics import METRICS
from duetbench.core.model import Case, Endpoint, Profile, Run, Status
from duetbench.host import result_files
from duetbench.judge.pairs import scales
from duetbench.load import verify
from duetbench.load.server import Serving
from duetbench.load.summary import summarise
from goldens import assert_golden, assert_said
from observatory.matrix.checkout import Checkout
from observatory.matrix.declared_interpreters import InterpreterSpec
from observatory.matrix.experiments import (
    PROFILES,
    Experiment,
    StackSpec,
    evaluate,
    load_experiments,
)
from observatory.matrix.published import load_published
from observatory.show import tables
from observatory.show.claims import check
from repos import write, write_all
from synthetic import make_run, steady_result

PYTHONS = {
    name: InterpreterSpec(version="3.14.7", free_threaded=name.endswith("t"))
    for name in ("3.14", "3.14t")
}
STACKS = {
    "current": StackSpec(interpreters=("3.14", "3.14t")),
    "old": StackSpec(interpreters=("3.14",)),
}
GOOD = (PROJECT / "tests/projects/naps/apps/naps/experiment.toml").read_text("utf-8")


def load_text(root: Path, text: str) -> Experiment:
    write(root, "apps/naps/experiment.toml", text)
    (experiment,) = load_experiments(root, PYTHONS, STACKS)
    return experiment


def declared(profile: Profile) -> dict[str, Case]:
    return {case.id: case for case in all_cases(profile)}


def test_each_mistake_names_file_key_found_and_allowed(tmp_path: Path) -> None:
    def mistaken(changes: str) -> str:
        text = GOOD
        for old, new in re.findall(r"^- (.*)\n\+ ?(.*)$", changes, re.MULTILINE):
            assert old in text
            text = text.replace(old, new)
        return load_text(tmp_path, text).name

    assert_said("mistakes", mistaken)


def test_formulas_are_arithmetic() -> None:
    def value(formula: str) -> str:
        try:
            return f"{evaluate(formula, {'c': 16}):g}"
        except ValueError as error:
            return str(error)

    assert_said("formulas", value)


def test_declared_experiments_have_the_ids_that_history_knows() -> None:
    """A changed id ends a series: whoever changes one changes this list, knowingly."""
    ids = {f"{profile} {case_id}" for profile in PROFILES for case_id in declared(profile)}
    assert_golden("case_ids.txt", "\n".join(sorted(ids)))


CEILINGS = {
    "asgi-wsgi/asgi-io/py3.14t/w2/c256": 25_600,
    "asgi-wsgi/wsgi-io/py3.14/w1/t64/c128": 6_400,
    "asgi-wsgi/wsgi-io/py3.14t/w2/t64/c256": 12_800,
    "gil-endpoints/sync_sleep/py3.14": 5 / 3,
    "await-patterns/sync_baseline/py3.14": 16 / 3,
    "await-patterns/async_dependent/py3.14": 100 / 3,
    "pydantic-v1-v2/pydantic-v1/py3.14/u200": 200,
}


def test_ceilings_are_those_worked_out_by_hand(tmp_path: Path) -> None:
    """Three slots of 0.4 s give 7.5/s; offered 8/s they stay the limit, offered 4/s they do not."""
    cases = declared("published")
    assert {name: cases[name].ceiling for name in CEILINGS} == pytest.approx(CEILINGS)
    text = GOOD.replace('rate = "c / 2"', 'rate = "c / workers / workers / 2"')
    paced = load_text(tmp_path, text).cases["quick"][2:4]
    assert [case.ceiling for case in paced] == pytest.approx([7.5, 4])


@pytest.mark.parametrize("profile", PROFILES)
def test_timeouts_outlast_the_queues(profile: Profile) -> None:
    for case in declared(profile).values():
        slots = (case.slots or case.load.connections) / case.workers
        turns = math.ceil(case.load.connections / slots)
        assert turns * case.endpoint.floor < case.load.timeout, case.id


def test_a_night_has_no_duets_of_what_computes_on_all_cores() -> None:
    """More threads without the GIL, and more workers; not those that wait, or that have the GIL."""
    ids = ["wsgi-cpu/py3.14t/w1/t2/c32", "asgi-cpu/py3.14/w2/c32", "asgi-cpu/py3.14t/w2/c32"]
    free = ("3.14t", "3.14t/open", "3.14t/granian", "3.15t")
    assert {case.id for case in Checkout.here("nightly").cases() if scales(case)} == {
        *(f"asgi-wsgi/{name}" for name in ids),
        *(f"contention/wsgi-{what}/py3.14t/t2" for what in ("shared", "private")),
        *(f"gil-endpoints/sync_cpu/py{name}" for name in free),
    }


EXPERIMENTS = {experiment.name: experiment for experiment in experiments()}
PUBLISHED = {name: each for name, each in load_published(PROJECT).items() if name in EXPERIMENTS}


def cases_of(experiment: str) -> dict[str, Case]:
    """Every case that the experiment has in any profile, by id."""
    cases = EXPERIMENTS[experiment].cases
    return {case.id: case for profile in PROFILES for case in cases[profile]}


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_every_name_is_a_case_and_every_case_is_in_a_table(name: str) -> None:
    """And the published profile measures every published row."""
    cases, source = cases_of(name), PUBLISHED[name]
    sides = {side for item in source.shapes for side in (item.numerator, item.denominator) if side}
    for short in (*source.cases, *source.figures, *sides):
        assert set(source.ids(short)) <= cases.keys(), short
    published = {case.id for case in EXPERIMENTS[name].cases["published"]}
    assert {PUBLISHED[name].ids(short)[0] for short in PUBLISHED[name].figures} <= published
    globs = [glob for layout in PUBLISHED[name].tables for glob in layout.select]
    shown = {glob: {*fnmatch.filter(cases, glob)} for glob in globs}
    assert all(shown.values()), shown
    assert set.union(*shown.values()) == {*cases}


@pytest.mark.parametrize("name", sorted(PUBLISHED))
@pytest.mark.parametrize("profile", PROFILES)
def test_shapes_and_tables_can_be_filled_from_any_profile(name: str, profile: Profile) -> None:
    """No row needs an id to be told apart; a run of the published profile has every shape."""
    figures = dict.fromkeys(METRICS, 1.0)
    results = (steady_result(c, figures) for c in EXPERIMENTS[name].cases[profile])
    run = summarise(make_run(results))
    for table in tables.of_cases(tuple(run.cases.values()), PUBLISHED[name]):
        assert len({row.keys for row in table.rows}) == len(table.rows), table.title
    answers = check(PUBLISHED[name], [run])
    if profile == "published":
        assert [answer.shape.statement for answer in answers if answer.ours is None] == []


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_the_published_figures_have_the_shape_that_is_expected(name: str) -> None:
    published, cases = PUBLISHED[name], cases_of(name)
    ids = [published.ids(short)[0] for short in published.figures]
    figures = (steady_result(cases[case], published.figures_of(case)) for case in ids)
    for actual in check(published, [summarise(make_run(figures))]):
        good = {"holds", "cannot be asked here", "not measured"}
        assert actual.verdict in good, actual.shape.statement
        if actual.ours is not None and actual.published is not None:
            assert actual.ours.estimate == pytest.approx(actual.published)


def test_a_wrong_declaration_is_refused_with_its_place(tmp_path: Path) -> None:
    write(tmp_path, "apps/x/experiment.toml", "")
    text = "source = 'a page'\n[figures]\n'x/y' = { speed = 1 }"
    write(tmp_path, "apps/x/published.toml", text)
    with pytest.raises(DeclarationError, match=r"x/published.toml.*unknown metric 'speed'; "):
        load_published(tmp_path)


# Every application is started and asked, so new ones are covered: in each environment, and behind
# each server, that any case names.


@cache
def arrangements() -> dict[tuple[str, ...], list[Case]]:
    """Cases by what is started for them; among equal endpoints the one that waits least.

    Every application in each environment that set-up makes, behind each server with its loop.
    """
    by_start: dict[tuple[str, ...], dict[str, Case]] = {}
    usual = Checkout.here().declared.usual
    for case in (case for case in all_cases() if case.python in usual):
        program, environment = (case.experiment, case.endpoint.app), (case.stack, case.python)
        endpoints = by_start.setdefault((*program, *environment, case.server, case.loop), {})
        other = endpoints.get(case.endpoint.name)
        if other is None or _effort(case) < _effort(other):
            endpoints[case.endpoint.name] = case
    return {key: list(endpoints.values()) for key, endpoints in by_start.items()}


def _params() -> Iterator[object]:
    """Yield the arrangements: all but the first of each application are for a thorough look."""
    seen = set[tuple[str, ...]]()
    for key in arrangements():
        marks = [pytest.mark.thorough] * (key[:2] in seen)
        yield pytest.param(key, marks=marks, id=" ".join(key))
        seen.add(key[:2])


def _effort(case: Case) -> tuple[float, int, int]:
    return case.endpoint.floor, case.workers, -(case.threads or 0)


def unloaded(case: Case) -> list[Endpoint]:
    """The endpoints of the case's application that no case loads."""
    experiment = EXPERIMENTS[case.experiment]
    loaded = {name for block in experiment.declaration.cases for name in block.endpoint}
    return [
        experiment._endpoint(name, table.model_copy(update={"floor": "0"}), {})
        for name, table in experiment.declaration.endpoints.items()
        if name not in loaded and table.app == case.endpoint.app
    ]


@pytest.mark.real
@pytest.mark.parametrize("arrangement", list(_params()))
def test_every_app_answers_as_declared_wherever_a_case_runs_it(
    arrangement: tuple[str, ...], tmp_path: Path, state_home: Path
) -> None:
    """Status, content type, body and floor; and the process is what the case names."""
    cases = arrangements()[arrangement]
    # One server for all endpoints: their variables are put together, and must not contradict.
    merged = {name: value for case in cases for name, value in case.env.items()}
    assert all(case.env.items() <= merged.items() for case in cases)
    first = cases[0].model_copy(update={"env": merged})
    side = SideCase(first, assemble(Checkout.here(), cases, state_home / "logs"))
    with Serving(side, tmp_path / "server.log") as server:
        server.start()
        server.meet()
        for endpoint in (*(case.endpoint for case in cases), *unloaded(first)):
            verify.verify(server.workspace.fill_in(endpoint), server.port, repeats=1)
        server.stop()
    assert not server.flags


_PAGE: Final = PROJECT / "docs" / "observatory" / "maintaining.md"
_FENCE: Final = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BLOCKS: Final = _FENCE.findall(_PAGE.read_text("utf-8"))
_FILES: Final = {name: text for _, name, text in _BLOCKS if name}


@pytest.mark.real
def test_the_example_is_planned_measured_and_shown(bench: Bench) -> None:
    root = bench.folder / "checkout"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PROJECT / "apps", root / "apps", ignore=ignored)
    shutil.copy(PROJECT / "pyproject.toml", root)
    (root / "results").mkdir()
    write_all(root, _FILES)
    bench.patch.setenv("DUETBENCH_ROOT", str(root))
    (console,) = [text for kind, _, text in _BLOCKS if kind == "console"]
    heard = []
    for line in console.splitlines():
        program, *words = shlex.split(line.removeprefix("$ "))
        heard.append(bench.done(*([program] if program == "observatory" else []), *words))
    assert "echo" in heard[0]
    assert "echo/py3.14t" in heard[1]
    run = result_files.read(Run, result_files.runs(root / "results")[-1])
    assert [result.case.id for result in run.results] == ["echo/echo/py3.14", "echo/echo/py3.14t"]
    for result in run.results:
        (launch,) = result.launches
        assert launch.status is Status.OK, launch.flags
        assert launch.metrics["requests"] > 100
