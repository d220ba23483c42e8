"""Nights: shared out over machines, measured shard by shard, and what came of them."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import foreign
import synthetic
from bench import Bench
from duetbench.core.errors import RecordError, UsageError
from duetbench.core.flags import FlagName
from duetbench.core.model import Case, Load, LoadModel, Plan, Run, RunStatus
from duetbench.host import machine
from duetbench.host.git import Remote
from duetbench.project.duration import expected
from duetbench.store import files, store
from duetbench.store.comparison import Missing
from duetbench.store.night import NightPlan, NightRecord, Shard, assignment
from duetbench.trend import nights as nights_
from duetbench.trend import outcomes
from duetbench.trend.nights import Recorded, share_out
from histories import good, listing, make_remote, night_run, result_of, save

A, B, C = "alpha-2c-000001", "beta-2c-000002", "gamma-2c-000003"


def case(name: str) -> Case:
    """A case that waits: it cannot calibrate."""
    return synthetic.make_case(f"experiment/{name}")


def computing(name: str, seconds: float = 1) -> Case:
    """A closed loop on one worker that only computes."""
    made = case(name)
    load = Load(model=LoadModel.CLOSED, connections=16, duration=seconds, timeout=10)
    endpoint = made.endpoint.model_copy(update={"floor": 0.0})
    return made.model_copy(update={"endpoint": endpoint, "load": load, "ceiling": None})


def plan_of(*names: str, launches: int = 1) -> Plan:
    """A nightly plan of cases that wait."""
    return Plan(
        profile="nightly", launches=launches, seed=1, cases=tuple(case(name) for name in names)
    )


def measured(
    seconds: Mapping[tuple[str, str], float], nights: Mapping[tuple[str, str], int] | None = None
) -> Recorded:
    """A history of (machine, case name) → seconds, of one night each where not said otherwise."""
    keys = {(who, name): (who, f"experiment/{name}") for who, name in seconds}
    return Recorded(
        seconds={keys[key]: value for key, value in seconds.items()},
        nights={full: (nights or {}).get(key, 1) for key, full in keys.items()},
        latest=dict.fromkeys(keys.values(), "20261101T030000Z-nightly-3f2a9c17"),
    )


def shared(
    plan: Plan, machines: Sequence[str | None], known: Recorded | None = None
) -> list[list[str]]:
    """The cases' names by shard."""
    shards, _ = share_out(plan, machines, known)
    return [[one.id.removeprefix("experiment/") for one in s.plan.cases] for s in shards]


def test_durations_that_were_measured_balance_the_shards() -> None:
    """70 | 60, then 51 to the latter (111), 50 to the former (120), 40 (151) and 30 (150)."""
    seconds = dict(zip("abcdef", (30.0, 40.0, 50.0, 60.0, 70.0, 51.0), strict=True))
    # Measured on a machine that is gone: it tells how long, not where.
    known = measured({("gone", name): value for name, value in seconds.items()})
    plan = plan_of(*"abcdef", launches=2)
    shards, _ = share_out(plan, (None, None), known)
    names = [[one.id[-1] for one in shard.plan.cases] for shard in shards]
    assert names == [["a", "c", "e"], ["b", "d", "f"]]
    assert {(s.plan.launches, s.plan.seed, s.plan.profile) for s in shards} == {(2, 1, "nightly")}


STAYING = measured({(A, "a"): 50.0, (A, "b"): 50.0, (B, "c"): 70.0})
AWAY = measured({(A, "a"): 10.0, (B, "a"): 10.0}, {(A, "a"): 9, (B, "a"): 1})
AWAY = replace(AWAY, latest={**AWAY.latest, (B, "experiment/a"): "20261120T030000Z-nightly-x"})


@pytest.mark.parametrize(
    ("names", "machines", "known", "expected"),
    [
        ("abc", (A, B), STAYING, ["ab", "c"]),
        ("cba", (B, A), STAYING, ["c", "ba"]),
        ("abcd", (A, B), STAYING, ["ab", "cd"]),
        # A machine that was away gets its case back. Of three new ones, all of 10 s, the first goes
        # to who has nothing yet.
        ("abcd", (A, B), AWAY, ["ac", "bd"]),
        # As often on both: where it was measured last.
        ("abcd", (A, B), replace(AWAY, nights=dict.fromkeys(AWAY.nights, 3)), ["bc", "ad"]),
        # A machine that is gone leaves its cases to the others: 100 | 90, then 60 and 50.
        ("abcd", (A, B), measured(
            {(A, "a"): 100.0, (B, "b"): 90.0, (C, "c"): 60.0, (C, "d"): 50.0}), ["ad", "bc"]),
        # A new machine takes what has the shortest history: up to 5/4 of the fair share stays; of
        # 4 × 50 s on one machine, two cases go to the other.
        ("abcd", (A, B), measured({(A, name): 50.0 for name in "abcd"},
            {(A, "a"): 9, (A, "b"): 2, (A, "c"): 9, (A, "d"): 3}), ["ac", "bd"]),
        # 110 of 200 s are 10 % above the fair share, which moves nothing.
        ("abcd", (A, B), measured(
            {(A, "a"): 55.0, (A, "b"): 55.0, (B, "c"): 50.0, (B, "d"): 40.0}), ["ab", "cd"]),
        # B takes three times as long as A: 20 s and five times 20 s here, 60 s and once 60 s there.
        ("xystuvwz", (A, B), measured({(A, "x"): 20.0, (B, "y"): 60.0}), ["xstuvw", "yz"]),
        # What has nothing to do is no shard.
        ("ab", (None,) * 5, None, ["a", "b"]),
    ],
)  # fmt: skip
def test_cases_stay_where_they_were_measured_as_long_as_that_is_fair(
    names: str, machines: Sequence[str | None], known: Recorded | None, expected: list[str]
) -> None:
    assert ["".join(many) for many in shared(plan_of(*names), machines, known)] == expected


def test_what_moved_stays_in_the_next_night() -> None:
    known = measured({(A, name): 50.0 for name in "abcd"})
    first = shared(plan_of(*"abcd"), (A, B), known)
    homes = {(who, name): 50.0 for who, names in zip((A, B), first, strict=True) for name in names}
    assert shared(plan_of(*"abcd"), (A, B), measured(homes)) == first


def test_duets_count_too() -> None:
    """Launches of 10 s each; a's duets take 30 s on a machine as quick as was thought: 40 | 20."""
    plan = plan_of(*"abc")
    known = measured({("gone", name): 10.0 for name in "abc"})
    whole = [expected(one, "nightly").total for one in plan.cases]
    slower = 10.0 / whole[0]  # than was thought: so are its duets
    shards, _ = share_out(plan, (None, None), known, {plan.cases[0].id: 30.0 / slower})
    assert ["".join(one.id[-1] for one in shard.plan.cases) for shard in shards] == ["a", "bc"]
    assert [shard.expected_seconds for shard in shards] == [40.0, 20.0]


def test_every_shard_calibrates() -> None:
    """The shortest case that only computes, on one worker, is in all of them, at its place."""
    cases = (case("a"), computing("long", 5), computing("short"), case("b"))
    several = computing("quick").model_copy(update={"workers": 2})
    plan = Plan(profile="nightly", launches=1, seed=1, cases=(*cases, several))
    shards, calibration = share_out(plan, (A, B))
    assert calibration == "experiment/short"
    names = [[one.id for one in shard.plan.cases] for shard in shards]
    assert all(calibration in many for many in names)
    everything = [name for many in names for name in many]
    assert sorted(everything) == sorted([*(one.id for one in plan.cases), calibration])
    for many in names:
        assert many == [one.id for one in plan.cases if one.id in many]
    only = plan.model_copy(update={"cases": (computing("short"),)})
    assert shared(only, (None, None, None)) == [["short"]]
    assert shared(only, (A, B)) == [["short"], ["short"]]
    assert share_out(plan_of("a"), (None,))[1] is None


@pytest.mark.parametrize("machines", [(A, A), ()])
def test_a_night_needs_machines_and_each_once(machines: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="expected one or more machines"):
        share_out(plan_of("a"), machines)


def test_recent_runs_say_who_measured_what_and_how_long(tmp_path: Path) -> None:
    one, two = case("a"), case("b")
    save(
        tmp_path,
        night_run(0, A, [result_of(one, good(one, 10), good(one, 20)), result_of(two, good(two))]),
        night_run(1, A, [result_of(one, good(one, 30)), result_of(two)]),
        night_run(1, B, [result_of(one, good(one, 7))]),
    )
    (tmp_path / "runs" / A / "2026" / "20261103T030000Z-nightly-x.json").write_text("{")
    known = nights_.recorded(tmp_path, "nightly")
    assert known.seconds == {(A, one.id): 30, (A, two.id): 20, (B, one.id): 7}
    assert known.nights == {(A, one.id): 2, (A, two.id): 1, (B, one.id): 1}
    assert known.latest[A, one.id] == night_run(1).id
    assert not nights_.recorded(tmp_path, "quick").seconds


def test_a_machine_that_has_left_is_not_waited_for() -> None:
    """A week after its last night; by the nights of the others, whatever the clock says."""
    latest = {A: night_run(0).id, B: night_run(1).id, C: night_run(8).id, "copy": "mine"}
    assert nights_.present(latest) == {B, C}
    assert nights_.present({}) == set()


@pytest.mark.parametrize(
    ("shards", "machines", "fleet"),
    [
        (None, (), (None,)),
        (3, (), (None, None, None)),
        (None, (f"{A},{B}", C), (A, B, C)),
        (3, (A,), (A, None, None)),
        (1, (A, B), (A, B)),
        (257, (), None),
        (None, (A, A), None),
    ],
)
def test_the_fleet_is_named_or_counted(
    shards: int | None, machines: tuple[str, ...], fleet: tuple[str | None, ...] | None
) -> None:
    with nullcontext() if fleet else pytest.raises(UsageError, match="expected"):
        assert nights_.fleet(shards, machines) == fleet


def night_of(plan: Plan, machines: Sequence[str | None], results: Path) -> NightPlan:
    """The plan of a night at a fixed time."""
    return nights_.make(
        plan, machines, results=results, commit="3f2a9c17" * 5,
        now=datetime(2026, 11, 20, 3, tzinfo=UTC),
    )  # fmt: skip


def test_a_plan_of_a_night_says_what_moves(tmp_path: Path) -> None:
    one, two = case("a"), case("b")
    save(tmp_path, night_run(0, A, [result_of(one, good(one)), result_of(two, good(two))]))
    night = night_of(plan_of(*"ab"), (A, B), tmp_path)
    assert night.id == "20261120T030000Z-nightly-3f2a9c17"
    assert night.notes[0].startswith(f"no night of {B} is recorded: if that is no new machine")
    assert night.notes[1:] == (
        f"1 case moves from {A} to {B}, where their series begin anew: experiment/a",
    )
    assert not night_of(plan_of(*"ab"), (A,), tmp_path).notes
    files.write(tmp_path / "night.json", night)
    assert files.read(NightPlan, tmp_path / "night.json") == night
    matrix = json.loads(nights_.outputs(night)["matrix"])["include"]
    who = [(one["shard"], one["machine"], one["runner"]) for one in matrix]
    assert who == [(1, A, A), (2, B, B)]
    anywhere = json.loads(nights_.outputs(night_of(plan_of("a"), (None,), tmp_path))["matrix"])
    (one,) = anywhere["include"]
    assert (one["machine"], one["runner"]) == ("", "duetbench")
    (tmp_path / "night.json").write_bytes(files.encode(night)[:-30])
    with pytest.raises(RecordError, match="expected a night's plan"):
        files.read(NightPlan, tmp_path / "night.json")


def shards_of(*names: str) -> NightPlan:
    """A night of one case per shard."""
    shards = tuple(
        Shard(number=number, machine=who, expected_seconds=1, plan=plan_of(name))
        for number, (name, who) in enumerate(zip(names, (A, B, C), strict=False), start=1)
    )
    return NightPlan(
        id="20261120T030000Z-nightly-3f2a9c17", created="2026-11-20T03:00:00Z",
        commit="3f2a9c17" * 5, shards=shards,
    )  # fmt: skip


def arrived(planned_: NightPlan, number: int, who: str, **changes: Any) -> Run:
    """The run of a shard, with one good launch per case."""
    shard = planned_.shard(number)
    assert shard is not None
    results = [result_of(one, good(one)) for one in shard.plan.cases]
    changes = {"night": planned_.id, "shard": number, **changes}
    return night_run(0, who, results, **changes)


def test_a_whole_night_is_complete() -> None:
    night = shards_of("a", "b", "c")
    runs = [arrived(night, n, who) for n, who in enumerate((A, B, C), start=1)]
    record = outcomes.outcome(night, runs)
    assert (record.status, record.missing) == ("complete", ())
    assert outcomes.sentences(record) == ()
    assert [shard.runs for shard in record.shards] == [
        (f"{who}/{night_run(0).id}",) for who in (A, B, C)
    ]


def test_what_is_missing_is_recorded_with_its_reason() -> None:
    night = shards_of("a", "b", "c")
    cut = arrived(night, 2, B, status=RunStatus.PARTIAL)
    cut = cut.model_copy(update={"results": (result_of(case("b")),)})
    broken = synthetic.failed(case("c").id, 0, FlagName.NOT_READY, "60 s")
    failed = arrived(night, 3, C).model_copy(update={"results": (result_of(case("c"), broken),)})
    another = arrived(night, 1, A, night="20261119T030000Z-nightly-3f2a9c17")
    useful = arrived(night, 3, C, notes=("the other launches",))
    record = outcomes.outcome(night, [cut, failed, another])
    assert record.status == "empty"
    assert [(one.missing, one.failed, one.reason) for one in record.shards] == [
        (("experiment/a",), (), "no run of this shard arrived"),
        (("experiment/b",), (), "its run ended before it came to them"),
        ((), ("experiment/c",), ""),
    ]
    assert [one.shard for one in record.missing] == [1, 2]
    assert outcomes.outcome(night, [cut, useful]).status == "incomplete"
    text = outcomes.markdown(record)
    assert f"| 1 | {A} | none | 1 | 1 | 0 | 0 |" in text
    assert "- `experiment/b`" in text


def test_what_has_no_point_is_recorded_and_leaves_the_night_complete() -> None:
    night = shards_of("a", "b").model_copy(update={"anchor": "2026-11"})
    runs = [arrived(night, n, who) for n, who in enumerate((A, B), start=1)]
    found = foreign.points(night=night.id, missing=(), cases=())
    other = found.model_copy(update={"night": "20261119T030000Z-nightly-3f2a9c17", "shard": 2})
    record = outcomes.outcome(night, runs, [found, other])
    assert record.status == "complete"
    assert [[(one.case, one.reason) for one in s.without_point] for s in record.shards] == [
        [("experiment/a", "its points do not hold it")],
        [("experiment/b", "no points of this shard arrived")],
    ]
    assert outcomes.sentences(record)[1] == (
        f"shard 2 ({B}): 1 of 1 cases have no anchored point, the first of them: 'no points of "
        "this shard arrived'"
    )
    point = foreign.points().cases[0].model_copy(update={"case": "experiment/a"})
    counted = point.points[0].model_copy(update={"metric": "instructions"})
    why = found.model_copy(
        update={
            "cases": (point.model_copy(update={"points": (counted,)}),),
            "missing": (Missing(case="experiment/a", reason="60 s"),),
        }
    )
    record = outcomes.outcome(night, runs, [why])
    assert record.shards[0].without_point == why.missing
    hostile = Missing(case="experiment/a", reason="##[set-env name=X]`y")
    told = outcomes.outcome(night, runs, [why.model_copy(update={"missing": (hostile,)})])
    assert outcomes.sentences(told)[0].endswith("the first of them: '# #[set-env name=X]'y'")
    record = outcomes.outcome(night, runs, [found.model_copy(update={"cases": (point,)})])
    assert record.shards[0].without_point == ()
    assert f"| 1 | {A} | `{A}/{night_run(0).id}` | 1 | 0 | 0 | 0 |" in outcomes.markdown(record)
    # A night that had no anchor, and a check that does not look at points, say nothing of them.
    for silent in (outcomes.outcome(night, runs), outcomes.outcome(shards_of("a", "b"), runs, [])):
        assert outcomes.sentences(silent) == ()


def test_records_are_read_in_order(tmp_path: Path) -> None:
    names = ("20261120T030000Z-nightly-3f2a9c17", "20251120T030000Z-nightly-3f2a9c17")
    for name in names:
        record = NightRecord(
            id=name, created=f"{name[:4]}-11-20T03:00:00Z", commit=None, profile="nightly",
            status="empty", shards=(),
        )  # fmt: skip
        path = tmp_path / record.path
        path.parent.mkdir(parents=True)
        path.write_bytes(files.encode(record))
        assert path == tmp_path / "nights" / name[:4] / f"{name}.json"
        assert files.read(NightRecord, path, named=True) == record
    renamed = path.rename(path.with_name("another.json"))
    with pytest.raises(RecordError, match="expected the id of the record of a night"):
        files.read(NightRecord, renamed, named=True)


def test_a_shard_belongs_to_its_machine_and_commit(tmp_path: Path) -> None:
    night = shards_of("a", "b")
    files.write(path := tmp_path / "night.json", night)
    second = assignment(path, 2)
    assert second is not None
    run = arrived(night, 2, B, night=None, shard=None)
    assert (second.begin(run).night, second.begin(run).shard) == (night.id, 2)
    for wrong, sentence in (
        (run.model_copy(update={"machine": night_run(0, A).machine}), f"is for the machine {B}"),
        (run.model_copy(update={"commit": "0" * 40}), "measures commit 3f2a9c173f2a"),
    ):
        with pytest.raises(UsageError, match=sentence):
            second.begin(wrong)
    with pytest.raises(UsageError, match=r"has shards 1 to 2"):
        assignment(path, 3)
    for words in ((path, None), (None, 1)):
        with pytest.raises(UsageError, match="belong together"):
            assignment(*words)
    assert assignment(None, None) is None


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    """An empty remote."""
    return make_remote(tmp_path)


@pytest.mark.real
def test_a_night_from_its_plan_to_the_history(
    bench: Bench, remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, told = bench.folder / "night.json", bench.folder / "told"
    monkeypatch.setenv("GITHUB_OUTPUT", str(told))
    monkeypatch.setenv("DUETBENCH_HISTORY_REMOTE", remote.address)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("DUETBENCH_SELECT", "badapps/right badapps/error")
    summary = bench.folder / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    shards = ("--shards", "2", "--output", plan, "--github-output")
    done = bench("plan", "--seconds", "0.6", *shards)
    assert done.code == 0, done
    night = files.read(NightPlan, plan)
    assert len(night.shards) == 2
    assert f"\n{night.id}\n" in told.read_text()
    (first,) = (shard for shard in night.shards if shard.plan.cases[0].id == "badapps/right")

    done = bench(*("run", "--plan", plan, "--shard", str(first.number)), "--results", bench.results)
    assert done.code == 0, done
    run = bench.recorded()
    assert (run.night, run.shard, run.launches) == (night.id, first.number, 1)
    assert [result.case for result in run.results] == list(first.plan.cases)

    empty = bench.folder / "empty"
    done = bench("history", "push", empty, "--plan", plan)
    assert done.code == 3, done
    assert "found no usable launch" in done.err
    done = bench("history", "push", bench.results, "--plan", plan)
    assert done.code == 1, done
    assert f"shard {3 - first.number}: 1 of 1 cases are missing: no run of this" in done.err
    assert listing(remote) == [
        f"results/nights/{night.created[:4]}/{night.id}.json",
        f"results/{store.path_for(Path(), run).as_posix()}",
    ]
    assert "- `badapps/error`" in summary.read_text()

    # The other shard comes late, from a machine of its own.
    other = night.shard(3 - first.number)
    assert other is not None
    late = run.model_copy(
        update={
            "shard": other.number,
            "machine": run.machine.model_copy(update={"id": B}),
            "results": (result_of(other.plan.cases[0], good(other.plan.cases[0])),),
        }
    )
    save(bench.results, late)
    done = bench("history", "push", bench.results, "--plan", plan, "--json")
    assert (done.code, json.loads(done.out)["night"]["status"]) == (0, "complete")
    done = bench("history", "pull", "--to", bench.folder / "all", "--json")
    assert json.loads(done.out)["written"] == 3
    (path,) = (bench.folder / "all" / "nights").glob("*/*.json")
    record = files.read(NightRecord, path, named=True)
    assert record.status == "complete"

    done = bench("run", "--plan", plan, "--shard", "1", "--select", "badapps/right")
    assert (done.code, "--plan says what is measured" in done.err) == (2, True)
    assert bench("history", "push", empty).out.endswith("nothing to push\n")


def test_a_plan_that_names_another_machine_is_refused(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = bench.folder / "night.json"
    monkeypatch.setenv("DUETBENCH_MACHINES", f"{A}, {B}")
    done = bench("plan", "--select", "badapps/right", "--output", plan)
    assert done.code == 0, done
    assert f"on {A}: 1 case," in done.out
    done = bench("run", "--plan", plan, "--shard", "1", "--results", bench.results)
    assert (done.code, machine.fingerprint().id in done.err) == (2, True)
    assert not bench.results.exists()
    monkeypatch.delenv("GITHUB_OUTPUT", raising=False)
    done = bench("plan", "--select", "badapps/right", "--output", plan, "--github-output")
    assert (done.code, "GITHUB_OUTPUT, which is not set" in done.err) == (2, True)


def test_outputs_cannot_be_injected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value with lines that look like outputs stays one value: its fence cannot be guessed."""
    from duetbench.github import actions

    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "out"))
    value = "one\nEND\nsecret=two\nevil<<END\nthree"
    actions.outputs({"night": value})
    head, *middle, tail = (tmp_path / "out").read_text().splitlines()
    fence = head.removeprefix("night<<")
    assert (tail, "\n".join(middle)) == (fence, value)
    assert fence not in value


def test_git_is_not_asked_where_there_is_none(bench: Bench) -> None:
    assert subprocess.run(["git", "-C", bench.root, "rev-parse"], check=False).returncode != 0
    done = bench("history", "pull")
    assert (done.code, "name one with --remote" in done.err) == (4, True)
