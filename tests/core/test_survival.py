"""Whatever the door lets in, everything behind it survives: thousands of mutated files, seeded."""

import json
import os
import random
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

import asv_files
import sites
from attributing import attribution
from bench import invoke, make_checkout
from duetbench.core.metrics import METRICS
from duetbench.core.model import Run
from duetbench.github import incoming
from duetbench.host.machine import asv_profile
from duetbench.store import files, store
from duetbench.store.points import path_of
from duetbench.trend import reading
from duetbench.trend.columns import RunColumns, of_run
from foreign import LOCKS, MACHINES, NOW, inside, judged, night, points, shard_run

TRIES: Final = int(os.environ.get("DUETBENCH_TRIES", "120"))
"""Mutated artifacts."""

NUMBERS: Final = (
    0,
    -0.0,
    1,
    -1,
    2,
    0.1,
    1e-13,
    1e-12,
    1e-9,
    1e-320,
    5e-324,
    255,
    256,
    1e3,
    1e5,
    1e6,
    1e9,
    1e12,
    1e15,
    1e18,
    3.5e38,
    1e100,
    1e308,
    -1e308,
    10**18,
    10**30,
    10**400,
    2**31,
    2**63,
    True,
    False,
)
TEXTS: Final = (
    "",
    " ",
    "0",
    "nan",
    "-",
    "..",
    "/",
    "%",
    "{{ 7*7 }}",
    "<b>",
    "x" * 4000,
    "x" * 4001,
    "é" * 99,
    "\u202e",
    "\ud83e\udd16",
    "2026-11-20T09:00:00",
    "2026-11-20T09:10:00+00:00",
    "2026-11-20T23:59:59+23:59",
    "9999-12-31T23:59:59+00:00",
    "0001-01-01T00:00:00+00:00",
    "2026-11-20",
    "20261120T090000Z",
    "nightly",
    "ok",
    "failed",
    "3.14t",
    "current",
    "shared",
)

Place = tuple[Any, Any]
"""A container, and the key or index in it."""


def places(document: Any) -> list[Place]:
    """All places of a JSON document."""
    result: list[Place] = []
    waiting = [document]
    while waiting:
        value = waiting.pop()
        keys = list(value) if isinstance(value, dict) else range(len(value))
        for key in keys:
            result.append((value, key))
            if isinstance(value[key], dict | list):
                waiting.append(value[key])
    return result


def mutated(source: random.Random, old: Any) -> Any:
    """Something else in place of a value, mostly of its own kind."""
    if source.random() < 0.05:
        return source.choice((None, [], {}, "", 0))
    if isinstance(old, bool) or old is None:
        return source.choice((True, False, None, *NUMBERS, *TEXTS))
    if isinstance(old, int | float):
        if source.random() < 0.5 or abs(old) > 1e200:
            return source.choice(NUMBERS)
        return old * 10.0 ** source.randint(-25, 25) * source.choice((1, 1, 1, -1))
    if isinstance(old, list) and old:
        same = mutated(source, source.choice(old))
        return source.choice((old[:-1], [*old, old[-1]], old[::-1], [same] * len(old), [same]))
    text = old if isinstance(old, str) else ""
    return source.choice((*TEXTS, text + source.choice(TEXTS), text[:-1]))


def mutate(source: random.Random, document: Any) -> None:
    """Change one to three places; every other time a column of figures."""
    for _ in range(source.choice((1, 1, 2, 3))):
        every = places(document)
        columns = [
            entry for entry in every if isinstance(entry[0][entry[1]], list) and entry[1] in METRICS
        ]
        container, key = source.choice(columns if columns and source.random() < 0.5 else every)
        container[key] = mutated(source, container[key])


def files_of(number: int) -> dict[str, Any]:
    """What the first shard of a night sends, each time of another second and commit."""
    started = (NOW - timedelta(hours=1) + timedelta(seconds=number)).isoformat()
    commit = f"{number:08x}" * 5
    run = shard_run(1, started=started, finished=None, commit=commit)
    run = run.model_copy(update={"id": f"{store.run_id(started, run.profile, commit)}-s1"})
    played = points(1, id=f"20261120T100000Z-night-{number:06x}-s1", commit=commit)
    figures = f"asv/{MACHINES[0].id}/{commit[:8]}-duetbench-py3.14-stackcurrent.json"
    return {
        store.path_for(Path(), run).as_posix(): json.loads(store.encode(run)),
        path_of(played).as_posix(): json.loads(files.encode(played)),
        figures: inside(commit_hash=commit),
        f"asv/{MACHINES[0].id}/machine.json": {**asv_profile(MACHINES[0]), "version": 1},
    }


def changes_of(number: int) -> dict[str, Any]:
    """What a machine sends of a confirmed change, each time of another id."""
    _, evidence, record = judged()
    evidence = evidence.model_copy(update={"id": f"20261120T{number:06}Z-compare-x"})
    name = f"20261119-{number}-abc123"
    record = record.model_copy(update={"id": name, "evidence": evidence.id})
    code = attribution(id=name, change=name)
    return {
        f"{folder}/{value.id}.json": json.loads(files.encode(value))
        for folder, value in (
            ("changes", record),
            ("comparisons", evidence),
            ("attributions", code),
        )
    }


def let_in(target: Path) -> int:
    """Send mutated artifacts, and put what is accepted into a results folder; how many were."""
    source, inbox, accepted = random.Random(1), target.parent / "inbox", 0
    for number in range(TRIES):
        of_night = number % 3 > 0
        sent = files_of(number) if of_night else changes_of(number)
        mutate(source, sent[source.choice(sorted(sent))])
        shutil.rmtree(inbox, ignore_errors=True)
        artifact = inbox / ("shard-1" if of_night else f"confirmed-{MACHINES[0].id}")
        for path, document in sent.items():
            files.replace(artifact / path, json.dumps(document).encode())
        if of_night:
            plan = night().model_copy(update={"commit": f"{number:08x}" * 5})
            done = incoming.night(plan, inbox, target, LOCKS, NOW)
        else:
            done = incoming.confirmed(inbox, target, NOW)
        accepted += bool(done.accepted)
    return accepted


def test_whatever_the_door_lets_in_everything_behind_it_survives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One file of each artifact is mutated: the site is built, and `detect` ends well."""
    root = make_checkout(tmp_path / "checkout")
    results = root / "results"
    assert let_in(results) >= TRIES / 50
    asv_files.list_benchmarks(
        results / "asv",
        [asv_files.Bench("gil.Cpu.time_tasks", {"mode": ["serial"], "tasks": [1, 2, 4]})],
    )
    sources = reading.read(results, tmp_path / "cache")
    assert sources.problems == ()
    built = sites.made(tmp_path, results=results)
    assert built.pages > 10
    monkeypatch.setenv("DUETBENCH_ROOT", str(root))
    done = invoke(capsys, monkeypatch, ("ci", "detect", "--json"))
    assert done.code == 0, done.err


def history(root: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A checkout with two nights; the second is the one that something is wrong with."""
    results = make_checkout(root / "checkout") / "results"
    monkeypatch.setenv("DUETBENCH_ROOT", str(results.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(root / "cache"))
    for number in (1, 2):
        store.finalise(results, shard_run(number))
    return results, results / "runs" / MACHINES[1].id / "2026" / f"{shard_run(2).id}.json"


@pytest.mark.parametrize("figure", ["1e308", "1e-320", "-1"])
def test_an_impossible_figure_in_the_history_costs_its_file_alone(
    figure: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It got in when nobody looked; site and `detect` name it, and go on with the others."""
    results, bad = history(tmp_path, monkeypatch)
    document = json.loads(bad.read_bytes())
    document["results"][0]["launches"][0]["metrics"]["throughput"] = json.loads(figure)
    bad.write_text(json.dumps(document))
    sources = reading.read(results, tmp_path / "cache")
    assert [night.header.machine for night in sources.nights] == [MACHINES[0].id]
    (problem,) = sources.problems
    assert problem.startswith(f"runs/{MACHINES[1].id}/2026/")
    assert "expected throughput to be" in problem
    for words in (("ci", "detect"), ("site", "--no-asv", "-o", tmp_path / "site")):
        done = invoke(capsys, monkeypatch, words)
        assert done.code == 0
        assert (
            f"{MACHINES[1].id}/2026/{bad.name}: expected a run file of format 2"
            in done.out + done.err
        )
    front = (tmp_path / "site" / "index.html").read_text("utf-8")
    assert "expected throughput to be" in front


def test_whatever_goes_wrong_with_one_file_costs_that_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, _ = history(tmp_path, monkeypatch)

    def stumble(run: Run) -> RunColumns:
        if run.machine.id == MACHINES[1].id:
            raise ZeroDivisionError("a surprise")
        return of_run(run)

    monkeypatch.setattr(reading, "of_run", stumble)
    sources = reading.read(results, tmp_path / "cache")
    assert [night.header.machine for night in sources.nights] == [MACHINES[0].id]
    assert "cannot be used (ZeroDivisionError: a surprise); it is left out" in sources.problems[0]
