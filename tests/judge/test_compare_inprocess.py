"""In-process benchmarks in a comparison: which ones, how they are judged, and real processes."""

import itertools
import json
import math
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import pytest

from bench import declared
from comparing import busy
from duetbench.core.errors import CountError
from duetbench.core.model import Case
from duetbench.host import paths
from duetbench.judge import dependencies, inprocess, processes, session
from duetbench.judge.affected import Affected
from duetbench.judge.builder import Question
from duetbench.judge.decide import SequentialTest, judge
from duetbench.judge.pairs import Pair
from duetbench.judge.processes import InprocessComparison, RealProcesses
from duetbench.judge.samples import ProcessPair, ProcessPairs, ProcessReading
from duetbench.judge.sides import Side
from duetbench.judge.statistics import Method
from duetbench.measure import testbed
from duetbench.project import tools
from duetbench.project.project import Project
from duetbench.show.view import exit_code, make_view
from duetbench.store import comparison_store
from duetbench.store.comparison import Comparison, SideRecord, Verdict
from fake_sessions import (
    FakeInstruments,
    FakeProcesses,
    SilentReporter,
    of_benchmarks,
    pair,
    readings,
    side,
    target,
)

ROOT = paths.project_root()
GOOD = ProcessReading(2e-4, "1")


def chosen(*pairs: Pair, reason: str = "fastapi 1 → 2", **changed: str) -> list[str]:
    found = inprocess.targets(pairs, lambda _pair: reason, ("handlers", "pydantic_models"), changed)
    return [f"{one.name} {one.head.stack} {one.python}" for one in found]


def test_an_endpoint_is_compared_once_per_interpreter_and_stack() -> None:
    assert chosen(
        pair("one/a/py3.14/granian"),
        pair("one/a/py3.14/uvicorn"),
        pair("one/a/py3.14t"),
        pair("one/slow/py3.14", takes=0.35),
    ) == [
        "handlers.Cpu.time_request('one/a') current 3.14",
        "handlers.Cpu.time_request('one/a') current 3.14t",
    ]


def test_the_models_are_compared_with_their_experiment() -> None:
    place = "pydantic-v2 3.14"
    assert chosen(pair("pydantic-v1-v2/services/py3.14", stack="pydantic-v2")) == [
        f"handlers.Cpu.time_request('pydantic-v1-v2/services') {place}",
        f"pydantic_models.Validate.time_valid(20, 'python') {place}",
        f"pydantic_models.Validate.time_valid(20, 'json') {place}",
        f"pydantic_models.Serialise.time_serialised(20, 'json') {place}",
    ]


def test_what_is_not_touched_is_not_compared() -> None:
    assert chosen(pair("one/a"), reason="") == []
    assert (
        inprocess.targets([pair("one/a")], lambda _pair: "a reason", ("pydantic_models",), {}) == ()
    )
    assert inprocess.available([ROOT, ROOT]) == {"handlers", "pydantic_models"}
    assert inprocess.available([ROOT, ROOT / "apps"]) == frozenset()


def test_a_changed_suite_is_compared_by_itself() -> None:
    names = chosen(pair("one/a"), reason="", handlers="benchmarks/_drivers.py")
    assert names == [
        "handlers.Cpu.time_request('driver/asgi') current 3.14",
        "handlers.Cpu.time_request('driver/wsgi') current 3.14",
        "handlers.Cpu.time_request('one/a') current 3.14",
    ]


@pytest.mark.parametrize(
    ("path", "suites"),
    [
        ("benchmarks/_drivers.py", {"handlers"}),
        ("benchmarks/pydantic_models.py", {"pydantic_models"}),
        ("benchmarks/_project.py", {"handlers", "pydantic_models"}),
        ("benchmarks/__init__.py", {"handlers", "pydantic_models"}),
        ("benchmarks/gil.py", set()),
        ("apps/other.py", set()),
    ],
)
def test_a_suite_changes_with_what_it_imports(path: str, suites: set[str]) -> None:
    assert set(inprocess.changed_suites([ROOT, ROOT], [path])) == suites


def test_figures_by_hand() -> None:
    """Six pairs with logs of 0.03, 0.05, 0.03, 0.05, 0.03 and 0.05.

    Mean 0.04, standard deviation 0.010954, standard error 0.0044721. Beyond the floor of 1 %, which
    is 0.0099503: t = 6.7194 with five degrees of freedom. P(T > t) = 0.000553, twice that is
    0.001106, and the first look may spend 4 %: p = 0.02765.
    """
    only = target()
    test = SequentialTest({only: ProcessPairs()})
    for log in (0.03, 0.05) * 3:
        assert test.open() == (only,)
        test.add(only, readings(2e-4, 2e-4 * math.exp(log)))
    assert test.adjusted()[only, ""] == pytest.approx(0.02765, rel=1e-3)
    assert test.open() == ()
    (judged,) = judge(test)[only]
    assert (judged.verdict, judged.reason) == (Verdict.SLOWER, "")
    assert judged.ratio == pytest.approx(math.exp(0.04), rel=1e-4)
    assert (judged.duets, judged.excluded) == (6, 0)


def test_a_side_that_fails_twice_is_not_comparable() -> None:
    only = target()
    failed = ProcessPair(
        ProcessReading(2e-4, "1"), ProcessReading(reason="its process ended with exit code 1"), 1.0
    )
    stage = SequentialTest({only: ProcessPairs()})
    stage.add(only, failed)
    assert stage.open() == (only,)
    stage.add(only, failed)
    assert stage.open() == ()
    (judged,) = judge(stage)[only]
    assert judged.verdict is Verdict.NOT_COMPARABLE
    assert judged.reason == "head: its process ended with exit code 1"
    assert (judged.ratio, judged.excluded) == (None, 2)


@pytest.mark.parametrize(
    ("played", "reason"),
    [
        (
            ProcessPair(
                ProcessReading(reason="no endpoint x", absent=True), ProcessReading(2e-4, "1"), 1.0
            ),
            "nothing to measure on base: no endpoint x",
        ),
        (
            ProcessPair(GOOD, ProcessReading(2e-4, "2"), 1.0),
            "another benchmark on head: version 1 → 2",
        ),
    ],
)
def test_what_only_one_side_has_is_missing(played: ProcessPair, reason: str) -> None:
    only = target()
    inside = InprocessComparison(
        [only], Constant(played), Method(), random.Random(1), itertools.count().__next__
    )
    inside.look(math.inf, SilentReporter())
    compared, (missing,) = inside.judged()
    assert compared == ()
    assert missing.reason == reason
    assert missing.case == "handlers.Cpu.time_request('asgi-wsgi/asgi-json') [current, 3.14]"


@dataclass
class Constant:
    """Processes that always give the same."""

    pair: ProcessPair

    def run(self, *_: object, **__: object) -> ProcessPair:
        return self.pair


def test_only_what_moved_is_called_slower_or_faster() -> None:
    fake = FakeProcesses(slower={"one/b": 0.05, "one/d": -0.05})
    inside = fake.inside("one/a", "one/b", "one/c", "one/d")
    inside.look(math.inf, SilentReporter())
    compared, missing = inside.judged()
    assert missing == ()
    verdicts = [one.judgement.verdict for one in compared]
    same = Verdict.NO_CHANGE
    assert verdicts == [same, Verdict.SLOWER, same, Verdict.FASTER]
    slow = compared[1].judgement
    assert slow.low is not None
    assert slow.high is not None
    assert slow.low < 1.05 < slow.high
    assert len(compared[1].head) == slow.duets >= 6
    turns = [head_first for one, head_first in fake.orders if one == target("one/b")]
    assert turns == [turns[0], not turns[0]] * (len(turns) // 2) + [turns[0]] * (len(turns) % 2)


def test_without_time_for_all_some_are_compared_and_it_is_said() -> None:
    """Each of four benchmarks needs 6 pairs of 4 s before its first look: 54 s hold two of them."""
    fake = FakeProcesses()
    inside = fake.inside("one/a", "one/b", "one/c", "one/d")
    inside.look(fake.now + 54, SilentReporter())
    assert {one.parameters[0][1] for one, _ in fake.orders} == {"one/a", "one/b"}
    assert fake.now <= 1054
    (note,) = inside.notes
    assert note.startswith("in-process benchmarks: 2 of 4 compared, for lack of time")
    nothing = fake.inside("one/a")
    nothing.look(fake.now + 23, SilentReporter())
    (left,), _ = nothing.judged()
    assert left.judgement.verdict is Verdict.INCONCLUSIVE
    assert left.judgement.reason == ProcessPairs.nothing
    assert nothing.notes[0].startswith("in-process benchmarks: 0 of 1 compared")


@pytest.fixture
def no_oha(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tools, "oha_version", lambda: "1.16.0")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.usefixtures("no_oha")
def test_a_change_of_benchmarks_alone_is_judged_without_a_server(tmp_path: Path) -> None:
    fake = FakeProcesses(slower={"one/b": 0.06})
    found = of_benchmarks(fake, tmp_path / "kept", 200, ("one/a", "one/b"))
    assert (found.status, found.planned, found.cases) == ("complete", 0, ())
    assert [one.judgement.verdict for one in found.micro] == [Verdict.NO_CHANGE, Verdict.SLOWER]
    assert found.wall_seconds <= 200
    assert found.method["inprocess_floor"] == inprocess.THRESHOLD
    view = make_view(found)
    assert view.headline.startswith(
        "Worse in 1 of 2 in-process benchmarks: handlers.Cpu.time_request('one/b')"
    )
    assert exit_code(found) == 1
    (kept,) = (tmp_path / "kept").iterdir()
    assert Comparison.model_validate_json(kept.read_bytes()) == found


@pytest.mark.usefixtures("no_oha")
def test_a_budget_too_small_measures_nothing_and_is_not_clean(tmp_path: Path) -> None:
    found = of_benchmarks(FakeProcesses(), tmp_path / "kept", 23)
    (left,) = found.micro
    assert (left.judgement.reason, left.base) == (ProcessPairs.nothing, ())
    assert exit_code(found) == 3
    assert any("0 of 1 compared" in note for note in found.notes)


@pytest.mark.usefixtures("no_oha")
def test_benchmarks_get_what_the_servers_leave(tmp_path: Path) -> None:
    """A fifth of 900 s is kept for them; the servers need half of theirs, and all 30 have a look.

    Thirty first looks are 30 * 6 * 3 s = 540 s.
    """
    case, fake, servers = busy("one/a/py3.14"), FakeProcesses(), FakeInstruments()
    targets = tuple(target(f"one/{number}") for number in range(30))
    pairs = (Pair(case, case, "a package"),)
    question = Question(
        side("base", (case,)),
        side("head", (case,)),
        Affected(pairs, 0, (), (), targets=targets),
        900,
    )
    equipment = session.Equipment(servers, fake, tmp_path / "kept", lambda: fake.now + servers.now)
    found = session.compare(question, SilentReporter(), equipment)
    assert servers.played
    assert [one.judgement.duets >= 6 for one in found.micro] == [True] * 30
    assert 540 <= found.wall_seconds <= 900


@pytest.mark.usefixtures("no_oha")
def test_an_interruption_keeps_what_was_played(tmp_path: Path) -> None:
    with pytest.raises(session.InterruptedComparison) as caught:
        of_benchmarks(FakeProcesses(stop=4), tmp_path / "kept")
    partial = caught.value.comparison
    (micro,) = partial.micro
    assert (partial.status, len(micro.base), micro.judgement.duets) == ("partial", 3, 3)


def test_the_schema_in_results_is_the_one_of_the_types() -> None:
    stored = (ROOT / "results" / "comparison.schema.json").read_text("utf-8")
    assert stored == comparison_store.schema(), (
        "make it again: duetbench dev schema --comparison -o results/comparison.schema.json"
    )


@pytest.mark.usefixtures("no_oha")
def test_the_schema_accepts_comparisons(tmp_path: Path) -> None:
    validator = jsonschema.Draft202012Validator(json.loads(comparison_store.schema()))
    good = json.loads(of_benchmarks(FakeProcesses(), tmp_path / "kept").model_dump_json())
    assert list(validator.iter_errors(good)) == []
    for change in ({"surprise": 1}, {"format": 3}, {"status": "fine"}):
        assert not validator.is_valid({**good, **change})


@pytest.fixture
def real(tmp_path: Path) -> Side:
    return of_checkout(ROOT, tmp_path)


def of_checkout(root: Path, folder: Path) -> Side:
    case: Case = declared("asgi-wsgi/asgi-json/py3.14/w1/c128")
    record = SideRecord(label="it", kind="stack", commit=None, stacks=(), interpreters=())
    return Side(
        record, testbed.assemble(Project.here(), [case], folder / "logs"), (case,), Project(root)
    )


def test_real_processes_of_the_driver_against_itself(
    real: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    quickly = {"rounds": 1, "repeat": 2, "sample_time": 0.002, "warmup_time": 0.05}
    monkeypatch.setattr(processes, "ATTRIBUTES", quickly)
    measured = RealProcesses(real, real)
    for head_first in (False, True):
        played = measured.run(target("driver/asgi"), head_first=head_first)
        assert (played.base.reason, played.head.reason) == ("", "")
        assert played.base.value is not None
        assert played.head.value is not None
        assert min(played.base.value, played.head.value) > 0
        assert played.base.version == played.head.version != ""


def test_real_processes_that_fail_or_have_nothing_to_measure(real: Side, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for folder in ("apps", "benchmarks"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, copy / folder, ignore=ignored)
    app = copy / "apps" / "asgi-wsgi" / "asgi_app.py"
    app.write_text(f"{app.read_text()}\nraise RuntimeError('broken on purpose')\n")
    measured = RealProcesses(real, of_checkout(copy, tmp_path))
    broken = measured.run(target(), head_first=True)
    assert broken.head.failed
    assert "RuntimeError: broken on purpose" in broken.head.reason
    assert not broken.base.failed
    absent = measured.run(target("asgi-wsgi/no-such"), head_first=False)
    assert absent.base.absent
    assert "asgi-wsgi/no-such" in absent.base.reason
    pairs = ProcessPairs()
    pairs.add(absent)
    assert pairs.missing().startswith("nothing to measure on base")


def test_a_server_is_no_part_of_what_runs_inside(real: Side) -> None:
    reader = dependencies.Reader(ROOT, real.rig)
    (case,) = real.cases
    assert {"granian", "fastapi"} <= reader.read(case).packages
    inside = reader.read(case, served=False)
    assert "fastapi" in inside.packages
    assert "granian" not in inside.packages
    assert "apps/asgi-wsgi/asgi_app.py" in inside.files


def test_the_job_of_a_series_is_what_its_instructions_are_counted_of() -> None:
    where = "py3.14/current"
    validated = "pydantic_models.Validate.time_refused(size=20, source=json)"
    assert inprocess.job(f"inprocess/{validated}/{where}") == "pydantic/refused/20/json"
    assert inprocess.job("asgi-wsgi/asgi-json/py3.14/w1/c128") is None
    request = "handlers.Cpu.time_request(endpoint=asgi-wsgi/asgi-json)"
    assert inprocess.job(f"inprocess/{request}/{where}") is None
    written = "pydantic_models.Serialise.time_serialised(size=20, target=json)"
    with pytest.raises(CountError, match="validation alone"):
        inprocess.job(f"inprocess/{written}/{where}")
