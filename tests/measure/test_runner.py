"""Every launch of a plan, in an order that can be repeated, saved after each; none is real."""

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rich.text import Text

from duetbench.core.errors import FlagName, NothingMeasuredError
from duetbench.core.model import Case, Commands, Flag, Launch, Plan, Run, RunStatus
from duetbench.host.console import Progress
from duetbench.host.signals import InterruptedRun
from duetbench.measure import runner
from duetbench.project.plan import launch_order
from duetbench.store import files, run_files
from duetbench.trend.summary import summarise
from observatory.show.run_text import as_markdown
from observatory.show.run_view import make_page
from observatory.trend import table
from synthetic import failed, make_case, make_run, ok

CASES = tuple(make_case(f"experiment/{name}") for name in "abc")
GOOD = None
BAD = (FlagName.WRONG_ANSWER, "left")


def make_plan(launches: int = 2, seed: int = 1, cases: tuple[Case, ...] = CASES) -> Plan:
    return Plan(profile="nightly", launches=launches, seed=seed, cases=cases)


def fresh(plan: Plan) -> Run:
    return make_run(
        (), status=RunStatus.PARTIAL, finished=None, launches=plan.launches, wall_seconds=0.0
    )


@dataclass
class Told(Progress):
    """What a person would see."""

    started: list[tuple[int | None, float]] = field(default_factory=list)
    work_: list[tuple[str, int]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    ended: int = 0

    def start(
        self, sentence: str, seconds: float, total: int | None = None, until: str = "left"
    ) -> None:
        assert sentence.startswith(f"{total} launches, about ")
        assert until == "left"
        self.started.append((total, seconds))

    def work(self, name: str, done: int, remaining: float) -> None:
        assert remaining >= 0
        self.work_.append((name, done))

    def say(self, sentence: str | Text) -> None:
        self.said.append(str(sentence))

    def end(self) -> None:
        self.ended += 1


def execute(
    plan: Plan,
    header: Run,
    flags: Callable[[Case], tuple[FlagName, str] | None],
    results: Path,
    told: Told,
    missing: Mapping[str, str] | None = None,
) -> tuple[Run, Path]:
    def perform(case: Case, number: int, order: int) -> Launch:
        launch = ok(case.id, number, {"throughput": 40.0})
        if wrong := flags(case):
            launch = failed(case.id, number, *wrong)
        return launch.model_copy(update={"order": order, "seconds": 3.0, "load_seconds": 2.0})

    return runner.execute(
        plan,
        header,
        perform=perform,
        commands=lambda case: Commands(server=f"serve {case.id}", load="load"),
        expected=lambda _case: 3.0,
        results=results,
        progress=told,
        missing=missing or {},
    )


def test_every_round_holds_every_case_once() -> None:
    """Interleaved: no case is launched a second time before all have been launched once."""
    plan = make_plan(launches=4)
    steps = launch_order(plan)
    assert len(steps) == 12
    for number in range(4):
        part = steps[3 * number : 3 * number + 3]
        assert {round_ for _, round_ in part} == {number}
        assert sorted(case.id for case, _ in part) == [case.id for case in CASES]


def test_the_order_is_random_and_can_be_repeated() -> None:
    """One seed, one order; rounds differ from each other, and seeds too."""
    cases = tuple(make_case(f"experiment/e{number}") for number in range(20))

    def order(seed: int) -> list[list[str]]:
        steps = launch_order(make_plan(3, seed, cases))
        return [[case.id for case, _ in steps[20 * r : 20 * r + 20]] for r in range(3)]

    assert order(1) == order(1)
    assert order(1) != order(2)
    assert len({tuple(round_) for round_ in order(1)}) == 3


def test_a_run_from_beginning_to_end(tmp_path: Path) -> None:
    """Done in sequence, saved after each launch, written once, and the partial file removed."""
    plan, told, saved = make_plan(), Told(), [0]

    def perform(_case: Case) -> tuple[FlagName, str] | None:
        partial = run_files.partials(tmp_path)
        known = [x for p in partial for r in files.read(Run, p).results for x in r.launches]
        assert len(known) == saved[0]
        saved[0] += 1
        return GOOD

    run, path = execute(plan, fresh(plan), perform, tmp_path, told)
    assert (files.read(Run, path).id, files.read(Run, path).results) == (run.id, run.results)
    assert run.status is RunStatus.COMPLETE
    assert run.finished is not None
    assert not run_files.partials(tmp_path)
    assert [result.case for result in run.results] == list(CASES)
    assert {r.commands.server for r in run.results if r.commands} == {
        f"serve {case.id}" for case in CASES
    }
    done = sorted((x for r in run.results for x in r.launches), key=lambda x: x.order)
    assert [(x.case, x.round) for x in done] == [
        (case.id, round_) for case, round_ in launch_order(plan)
    ]
    assert told.started == [(6, 18.0)]
    assert told.work_ == [(x.case, x.order) for x in done]
    assert [line.split()[4] for line in told.said] == [x.case for x in done]
    assert told.ended == 1


def test_a_case_without_its_interpreter_has_a_reason_and_no_launch(tmp_path: Path) -> None:
    """It is in the run, its page and its night, and nothing waits for it; others are launched."""
    plan, told, first = make_plan(), Told(), CASES[0].id
    run, path = execute(plan, fresh(plan), lambda _: GOOD, tmp_path, told, {first: "no 3.15-jit"})
    assert [(r.missing, len(r.launches)) for r in run.results] == [
        ("no 3.15-jit", 0), ("", 2), ("", 2),
    ]  # fmt: skip
    assert files.read(Run, path).results == run.results
    assert told.started == [(4, 12.0)]
    night = table.of_run(run)
    assert (night.cases[first].status, night.cases[first].reason) == ("not measured", "no 3.15-jit")
    text = as_markdown(make_page(summarise(run)))
    assert "- a: not measured: no 3.15-jit\n" in text
    everything = dict.fromkeys((case.id for case in CASES), "no")
    with pytest.raises(NothingMeasuredError):
        execute(plan, fresh(plan), lambda _: GOOD, tmp_path / "other", Told(), everything)


def test_nothing_usable_is_said_and_saved(tmp_path: Path) -> None:
    plan = make_plan()
    with pytest.raises(NothingMeasuredError, match="none of 6 launches") as caught:
        execute(plan, fresh(plan), lambda _case: BAD, tmp_path, Told())
    assert caught.value.exit_code == 3
    (path,) = run_files.runs(tmp_path)
    assert path.name in str(caught.value)
    assert all(
        x.flags == (Flag(name=BAD[0], detail=BAD[1]),)
        for r in files.read(Run, path).results
        for x in r.launches
    )


def test_an_interrupted_run_is_kept(tmp_path: Path) -> None:
    plan, told, calls = make_plan(), Told(), 0
    first_bad = launch_order(plan)[1]

    def perform(_case: Case) -> tuple[FlagName, str] | None:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise InterruptedRun(signal.SIGTERM)
        return BAD if calls == 2 else GOOD

    with pytest.raises(InterruptedRun):
        execute(plan, fresh(plan), perform, tmp_path, told)
    assert told.ended == 1
    (path,) = run_files.partials(tmp_path)
    partial = files.read(Run, path)
    assert partial.notes[0].startswith("interrupted by SIGTERM at ")
    before = {x.order: x for r in partial.results for x in r.launches}
    assert sorted(before) == [0, 1, 2]
    assert (before[1].case, before[1].round) == (first_bad[0].id, first_bad[1])
