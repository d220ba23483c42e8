"""Nights: shared out over machines, measured shard by shard, and what is missing."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import synthetic
from bench import Bench, make_checkout
from duetbench.ci import actions
from duetbench.core.errors import DeclarationError, FlagName
from duetbench.core.model import Case, CaseResult, Launch, Plan, Run
from duetbench.host import files, machine
from observatory.store import night as nights
from observatory.store.night import NightPlan, Shard

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
    actual = {s.machine: "".join(item.id[-1] for item in s.plan.cases) for s in shards}
    assert actual == expected
    assert [shard.number for shard in shards] == list(range(1, len(expected) + 1))
    assert {(s.plan.launches, s.plan.seed, s.plan.profile) for s in shards} == {(1, 1, "nightly")}
    words = r"fleet: found 'no machine for experiment/b, experiment/d'; allowed"
    with pytest.raises(DeclarationError, match=words):
        nights.share_out(plan_of(*"abcd"), {A: ["*/a"], B: ["*/c", "other/*"]})


NIGHT = NightPlan(
    id="20261120T030000Z-nightly-3f2a9c17",
    commit="3f2a9c17" * 5,
    shards=tuple(
        Shard(number=number, machine=who, plan=plan_of(name))
        for number, (name, who) in enumerate(zip("abc", (A, B, C), strict=True), start=1)
    ),
)
"""A night of one case per shard."""


def arrived(number: int, *launches: Launch, **changes: Any) -> Run:
    """The run of a shard; by default with one good launch per case."""
    results = [
        CaseResult(case=case, launches=launches or (synthetic.ok(case.id, 0, {"throughput": 1.0}),))
        for case in NIGHT.shards[number - 1].plan.cases
    ]
    return synthetic.make_run(results, night=NIGHT.id, shard=number, **changes)


def test_what_is_missing_is_said_with_its_reason() -> None:
    runs = [arrived(n) for n in (1, 2, 3)]
    assert nights.missing(NIGHT, (1, 2, 3), runs) == []
    case_ = NIGHT.shards[2].plan.cases[0]
    failed = arrived(3, synthetic.failed(case_.id, 0, FlagName.NOT_READY, "60 s"))
    never = CaseResult(case=NIGHT.shards[1].plan.cases[0], launches=())
    cut = runs[1].model_copy(update={"status": "partial", "results": (never,)})
    first, second = nights.missing(NIGHT, (1, 2, 3), [cut, failed])
    assert first == (
        f"shard 1 ({A}): 1 of 1 cases are missing: no run of this shard arrived: experiment/a"
    )
    assert "its run ended before it came to them: experiment/b" in second
    assert nights.missing(NIGHT, (3,), [failed]) == []  # a failed launch is a result


def declare_fleet(bench: Bench, fleet: Mapping[str, str]) -> None:
    table = "".join(f'"{name}" = ["{glob}"]\n' for name, glob in fleet.items())
    root = make_checkout(bench.folder / "checkout")
    bench.patch.setenv("DUETBENCH_ROOT", str(root))
    with (root / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write(f"\n[tool.observatory.fleet]\n{table}")


@pytest.mark.real
def test_a_shard_is_measured_as_planned(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, sentence = bench.folder / "night.json", tmp_path / "told"
    monkeypatch.setenv("GITHUB_OUTPUT", str(sentence))
    monkeypatch.setenv("DUETBENCH_SELECT", "badapps/right badapps/error")
    declare_fleet(bench, {machine.fingerprint().id: "badapps/right", B: "badapps/error"})
    outcome = bench("observatory", "plan", "--profile", "quick", "--output", plan)
    assert outcome.code == 0, outcome
    night = files.read(NightPlan, plan)
    first = min(night.shards, key=lambda shard: shard.machine == B)
    assert first.plan.cases[0].id == "badapps/right"
    assert '"shard":2' in sentence.read_text()

    words = ("observatory", "measure", "--plan", plan)
    outcome = bench(*words, "--results", bench.results)
    assert outcome.code == 0, outcome
    run = bench.saved_run()
    assert (run.night, run.shard, run.launches) == (night.id, first.number, 1)
    assert [result.case for result in run.results] == list(first.plan.cases)
    others = tuple(shard for shard in night.shards if shard != first)
    files.write(plan, night.model_copy(update={"shards": others}))
    outcome = bench(*words)
    assert (outcome.code, "expected a shard of this machine" in outcome.err) == (2, True)


def test_outputs_cannot_be_injected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value with lines that look like outputs stays one value: its fence cannot be guessed."""
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "out"))
    value = "one\nEND\nsecret=two\nevil<<END\nthree"
    actions.outputs({"night": value})
    head, *middle, tail = (tmp_path / "out").read_text().splitlines()
    fence = head.removeprefix("night<<")
    assert (tail, "\n".join(middle)) == (fence, value)
    assert fence not in value
