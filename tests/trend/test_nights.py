"""Nights: shared out over machines, measured shard by shard, and what is missing."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import synthetic
from bench import Bench, make_checkout
from duetbench.ci import actions
from duetbench.core.errors import DeclarationError, FlagName
from duetbench.core.model import CaseResult, Plan
from duetbench.host import files, machine, result_files
from foreign import MACHINES, night, shard_run
from observatory.store import night as nights
from observatory.store.night import NightPlan

A, B = "alpha-2c-000001", "beta-2c-000002"


def plan_of(*names: str) -> Plan:
    cases = tuple(synthetic.make_case(f"experiment/{name}") for name in names)
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


def test_what_is_missing_is_said_with_its_reason() -> None:
    planned, runs = night(), [shard_run(number) for number in (1, 2, 3)]
    assert nights.missing(planned, (1, 2, 3), runs) == []
    never, failed = (
        [CaseResult(case=case, launches=launches) for case in planned.shards[number].plan.cases]
        for number, launches in (
            (1, ()), (2, (synthetic.failed("", 0, FlagName.NOT_READY, "60 s"),)),
        )
    )  # fmt: skip
    cut = runs[1].model_copy(update={"status": "partial", "results": never})
    last = runs[2].model_copy(update={"results": failed})
    first, second = nights.missing(planned, (1, 2, 3), [cut, last])
    assert first.startswith(
        f"shard 1 on {MACHINES[0].id}: no run of this shard arrived: 2 of 2 cases are missing: asgi"
    )
    assert "its run ended before: 2 of 2 cases are missing: asgi-wsgi/e2a/" in second
    assert nights.missing(planned, (3,), [last]) == []  # a failed launch is a result


def declare_fleet(bench: Bench, fleet: Mapping[str, str]) -> None:
    table = "".join(f'"{name}" = ["{glob}"]\n' for name, glob in fleet.items())
    root = make_checkout(bench.folder / "checkout")
    bench.patch.setenv("DUETBENCH_ROOT", str(root))
    with (root / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write(f"\n[tool.observatory.fleet]\n{table}")


@pytest.mark.real
def test_a_shard_is_measured_as_planned(bench: Bench) -> None:
    plan, sentence = bench.folder / "night.json", bench.folder / "told"
    bench.patch.setenv("GITHUB_OUTPUT", str(sentence))
    bench.patch.setenv("DUETBENCH_SELECT", "badapps/right badapps/error")
    declare_fleet(bench, {machine.fingerprint().id: "badapps/right", B: "badapps/error"})
    bench.done("observatory", "plan", "--profile", "quick", "--output", plan)
    planned = result_files.read(NightPlan, plan)
    first = min(planned.shards, key=lambda shard: shard.machine == B)
    assert first.plan.cases[0].id == "badapps/right"
    assert '"shard":2' in sentence.read_text()

    words = ("observatory", "measure", "--plan", plan)
    bench.done(*words, "--results", bench.results)
    run = bench.saved_run()
    assert (run.night, run.shard, run.launches) == (planned.id, first.number, 1)
    assert [result.case for result in run.results] == list(first.plan.cases)
    others = tuple(shard for shard in planned.shards if shard != first)
    files.write(plan, planned.model_copy(update={"shards": others}))
    bench.refused("expected a shard of this machine", *words)


def test_outputs_cannot_be_injected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value with lines that look like outputs stays one value: its fence cannot be guessed."""
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "out"))
    value = "one\nEND\nsecret=two\nevil<<END\nthree"
    actions.outputs({"night": value})
    head, *middle, tail = (tmp_path / "out").read_text().splitlines()
    fence = head.removeprefix("night<<")
    assert (tail, "\n".join(middle)) == (fence, value)
    assert fence not in value
