"""Nights: shared out over machines, measured shard by shard, and what came of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import synthetic
from bench import Bench, make_checkout
from duetbench.app import stacks
from duetbench.ci import actions
from duetbench.core.errors import DeclarationError, FlagName, SetupError, UsageError
from duetbench.core.model import Case, Launch, Plan, Run
from duetbench.host import files, machine
from histories import good, listing, make_remote, night_run, result_of, save
from observatory.store import kinds
from observatory.store import night as nights
from observatory.store.night import NightPlan, NightRecord, Shard, assignment

A, B, C = "alpha-2c-000001", "beta-2c-000002", "gamma-2c-000003"


def case(name: str) -> Case:
    return synthetic.make_case(f"experiment/{name}")


def plan_of(*names: str) -> Plan:
    cases = tuple(case(name) for name in names)
    return Plan(profile="nightly", launches=1, seed=1, cases=cases)


@pytest.mark.parametrize(
    ("fleet", "expected"),
    [
        ({}, {None: "abcd"}),
        ({A: ["experiment/[ad]"], B: ["*/b", "*/c"]}, {A: "ad", B: "bc"}),
        ({A: ["*"], B: ["*/b"]}, {A: "abcd", B: "b"}),
        ({A: ["other/*"], B: ["experiment/*"]}, {B: "abcd"}),
    ],
)
def test_each_machine_measures_what_is_declared(
    fleet: Mapping[str, Sequence[str]], expected: Mapping[str | None, str]
) -> None:
    shards = nights.share_out(plan_of(*"abcd"), fleet)
    found = {s.machine: "".join(one.id[-1] for one in s.plan.cases) for s in shards}
    assert found == expected
    assert [shard.number for shard in shards] == list(range(1, len(expected) + 1))
    assert {(s.plan.launches, s.plan.seed, s.plan.profile) for s in shards} == {(1, 1, "nightly")}
    words = r"fleet: found 'no machine for experiment/b, experiment/d'; allowed"
    with pytest.raises(DeclarationError, match=words):
        nights.share_out(plan_of(*"abcd"), {A: ["*/a"], B: ["*/c", "other/*"]})


NIGHT = NightPlan(
    id="20261120T030000Z-nightly-3f2a9c17",
    created="2026-11-20T03:00:00Z",
    commit="3f2a9c17" * 5,
    shards=tuple(
        Shard(number=number, machine=who, plan=plan_of(name))
        for number, (name, who) in enumerate(zip("abc", (A, B, C), strict=True), start=1)
    ),
)
"""A night of one case per shard."""


def arrived(number: int, *launches: Launch, **changes: Any) -> Run:
    """The run of a shard; by default with one good launch per case."""
    shard = NIGHT.shards[number - 1]
    results = [result_of(one, *(launches or [good(one)])) for one in shard.plan.cases]
    fields = {"night": NIGHT.id, "shard": number, **changes}
    return night_run(0, str(shard.machine), results, **fields)


def test_a_record_says_what_is_missing_and_why() -> None:
    runs = [arrived(n) for n in (1, 2, 3)]
    record = nights.outcome(NIGHT, runs)
    assert (record.status, record.missing, record.sentences) == ("complete", (), ())
    assert [shard.runs for shard in record.shards] == [
        (f"{who}/{night_run(0).id}",) for who in (A, B, C)
    ]
    case_ = NIGHT.shards[2].plan.cases[0]
    failed = arrived(3, synthetic.failed(case_.id, 0, FlagName.NOT_READY, "60 s"))
    cut = runs[1].model_copy(
        update={"status": "partial", "results": (result_of(NIGHT.shards[1].plan.cases[0]),)}
    )
    another = arrived(1, night="20261119T030000Z-nightly-3f2a9c17")
    record = nights.outcome(NIGHT, [cut, failed, another])
    assert record.status == "empty"
    assert [(one.missing, one.reason) for one in record.shards] == [
        (("experiment/a",), "no run of this shard arrived"),
        (("experiment/b",), "its run ended before it came to them"),
        ((), ""),
    ]
    assert [one.shard for one in record.missing] == [1, 2]
    assert nights.outcome(NIGHT, [cut, runs[2]]).status == "incomplete"


def test_a_shard_belongs_to_its_machine_and_commit(tmp_path: Path) -> None:
    files.write(path := tmp_path / "night.json", NIGHT)
    second = assignment(path, 2)
    assert second is not None
    run = arrived(2, night=None, shard=None)
    assert (second.mark(run).night, second.mark(run).shard) == (NIGHT.id, 2)
    for wrong, sentence in (
        (run.model_copy(update={"machine": night_run(0, A).machine}), f"is for the machine {B}"),
        (run.model_copy(update={"commit": "0" * 40}), "measures commit 3f2a9c173f2a"),
    ):
        with pytest.raises(UsageError, match=sentence):
            second.mark(wrong)


def declare_fleet(bench: Bench, fleet: Mapping[str, str]) -> None:
    table = "".join(f'"{name}" = ["{glob}"]\n' for name, glob in fleet.items())
    root = make_checkout(bench.folder / "checkout")
    bench.patch.setenv("DUETBENCH_ROOT", str(root))
    with (root / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write(f"\n[tool.observatory.fleet]\n{table}")


@pytest.mark.real
def test_measuring_makes_the_environments_of_new_locks(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A sandbox has none of a night's locks, and runs nothing before this.
    def make(stack: Any, python: Any, _narrator: object) -> None:
        raise SetupError(f"asked for {stack.name} on {python.name}")

    monkeypatch.setattr(stacks, "make_environment", make)
    done = bench.run("right")
    assert (done.code, "asked for current on 3.14" in done.err) == (4, True), done


@pytest.mark.real
def test_a_night_from_its_plan_to_the_history(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote, plan, told = make_remote(tmp_path), bench.folder / "night.json", tmp_path / "told"
    summary, empty = tmp_path / "summary.md", tmp_path / "empty"
    monkeypatch.setenv("GITHUB_OUTPUT", str(told))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    monkeypatch.setenv("DUETBENCH_HISTORY_REMOTE", remote.address)
    monkeypatch.setenv("DUETBENCH_SELECT", "badapps/right badapps/error")
    declare_fleet(bench, {machine.fingerprint().id: "badapps/right", B: "badapps/error"})
    done = bench("observatory", "plan", "--profile", "quick", "--output", plan)
    assert done.code == 0, done
    night = files.read(NightPlan, plan)
    first, other = sorted(night.shards, key=lambda shard: shard.machine == B)
    assert first.plan.cases[0].id == "badapps/right"
    assert '"shard":2' in told.read_text()

    words = ("observatory", "measure", "--plan", plan)
    done = bench(*words, "--shard", str(first.number), "--results", bench.results)
    assert done.code == 0, done
    run = bench.saved_run()
    assert (run.night, run.shard, run.launches) == (night.id, first.number, 1)
    assert [result.case for result in run.results] == list(first.plan.cases)
    done = bench(*words)
    assert (done.code, "--plan and --shard belong together" in done.err) == (2, True)

    push = ("observatory", "history", "push")
    done = bench(*push, empty, "--plan", plan)
    assert (done.code, "found no usable launch" in done.err) == (3, True), done
    done = bench(*push, bench.results, "--plan", plan)
    missing = f"shard {other.number} ({B}): 1 of 1 cases are missing: no run of this"
    assert (done.code, missing in done.err) == (1, True), done
    assert listing(remote) == [
        f"results/nights/{night.created[:4]}/{night.id}.json",
        f"results/{files.place(Path(), run).as_posix()}",
    ]
    assert "- missing: `badapps/error`" in summary.read_text()

    # The other shard comes late, from a machine of its own.
    update = {
        "shard": other.number,
        "machine": run.machine.model_copy(update={"id": B}),
        "results": (result_of(other.plan.cases[0], good(other.plan.cases[0])),),
    }
    save(bench.results, run.model_copy(update=update))
    done = bench(*push, bench.results, "--plan", plan)
    assert done.code == 0, done
    done = bench("observatory", "history", "pull", "--to", bench.folder / "all")
    assert ": 3 new files" in done.out
    (record,) = kinds.read_all(NightRecord, bench.folder / "all")
    assert record.status == "complete"

    done = bench(*push, empty)
    assert (done.code, f"{empty}: expected a results folder" in done.err) == (2, True)
    empty.mkdir()
    assert bench(*push, empty).out.startswith("0 files added")


def test_outputs_cannot_be_injected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value with lines that look like outputs stays one value: its fence cannot be guessed."""
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "out"))
    value = "one\nEND\nsecret=two\nevil<<END\nthree"
    actions.outputs({"night": value})
    head, *middle, tail = (tmp_path / "out").read_text().splitlines()
    fence = head.removeprefix("night<<")
    assert (tail, "\n".join(middle)) == (fence, value)
    assert fence not in value
