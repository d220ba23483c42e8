"""Whatever the door lets in, everything behind it survives: thousands of mutated files, seeded."""

import json
import os
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

import asv_files
import sites
from bench import invoke, make_checkout
from duetbench.core.errors import ArtifactError, RecordError
from duetbench.core.metrics import METRICS
from duetbench.core.model import Run
from duetbench.github.incoming import comparisons, nights
from duetbench.github.incoming.facts import Checkout, Lock
from duetbench.github.incoming.folder import ArtifactFile
from duetbench.github.incoming.inprocess import check
from duetbench.store import files, store
from duetbench.store.change import ChangeRecord
from duetbench.store.comparison import Comparison
from duetbench.trend import reading
from duetbench.trend.columns import RunColumns, of_run
from duetbench.trend.conclude import conclude
from foreign import MACHINES, NOW, TRUSTED, inside, judged, night, shard_run

TRIES: Final = int(os.environ.get("DUETBENCH_TRIES", "400"))
"""Mutations of a run; half as many of asv's files, a fourth of what was confirmed."""

SHOWN: Final = max(10, TRIES // 40)
"""Survivors of each kind that a site is made of."""

NUMBERS: Final = (
    0, -0.0, 1, -1, 2, 0.1, 1e-13, 1e-12, 1e-9, 1e-320, 5e-324, 255, 256, 1e3, 1e5, 1e6, 1e9, 1e12,
    1e15, 1e18, 3.5e38, 1e100, 1e308, -1e308, 10**18, 10**30, 10**400, 2**31, 2**63, True, False,
)  # fmt: skip
TEXTS: Final = (
    "", " ", "0", "nan", "-", "..", "/", "%", "{{ 7*7 }}", "<b>", "x" * 4000, "x" * 4001, "é" * 99,
    "\u202e", "\ud83e\udd16", "2026-11-20T09:00:00", "2026-11-20T09:10:00+00:00",
    "2026-11-20T23:59:59+23:59", "9999-12-31T23:59:59+00:00", "0001-01-01T00:00:00+00:00",
    "2026-11-20", "20261120T090000Z", "nightly", "ok", "failed", "3.14t", "current", "shared",
)  # fmt: skip

Place = tuple[Any, Any]
"""A container, and the key or index in it."""


def places(document: Any) -> list[Place]:
    """All places of a JSON document."""
    found: list[Place] = []
    waiting = [document]
    while waiting:
        value = waiting.pop()
        keys = list(value) if isinstance(value, dict) else range(len(value))
        for key in keys:
            found.append((value, key))
            if isinstance(value[key], dict | list):
                waiting.append(value[key])
    return found


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
        columns = [one for one in every if isinstance(one[0][one[1]], list) and one[1] in METRICS]
        container, key = source.choice(columns if columns and source.random() < 0.5 else every)
        container[key] = mutated(source, container[key])


@pytest.fixture(scope="module")
def trusted() -> tuple[Checkout, Checkout]:
    """The checkout before and after a release, so that steps have a cause."""
    locks = {name: Lock("b" * 64, lock.pins) for name, lock in TRUSTED.locks.items()}
    return TRUSTED, replace(TRUSTED, locks=locks)


def let_in(trusted: tuple[Checkout, Checkout]) -> Iterator[Run]:
    """The mutated runs that pass the door, each of another second."""
    source = random.Random(1)
    for number in range(TRIES):
        late = number >= TRIES / 2
        checkout = trusted[late]
        started = NOW - timedelta(hours=1) + timedelta(seconds=number)
        run = shard_run(1, started=started.isoformat(), finished=None)
        stacks = tuple(
            record.model_copy(update={"digest": checkout.locks[record.name].digest})
            for record in run.stacks
        )
        name = store.run_id(run.started, run.profile, run.commit)
        document = json.loads(store.encode(run.model_copy(update={"id": name, "stacks": stacks})))
        mutate(source, document)
        data = json.dumps(document).encode()
        try:
            # In our own words: most mutations would fall for their white space alone.
            ours = store.encode(store.decode(data, "x"))
            yield nights.run(ours, "shard-1", night(), checkout, NOW)
        except (ArtifactError, RecordError):
            continue


def let_in_of_asv() -> Iterator[dict[str, bytes]]:
    """The mutated files of asv's that pass the door, each of another commit."""
    source = random.Random(2)
    run = shard_run(1)
    for number in range(TRIES // 2):
        commit = f"{number:08x}" * 5
        document = inside(commit_hash=commit)
        mutate(source, document)
        path = f"asv/{MACHINES[0].id}/{commit[:8]}-duetbench-py3.14-stackcurrent.json"
        plan = night().model_copy(update={"commit": commit})
        with suppress(ArtifactError):
            found = [ArtifactFile(path, json.dumps(document).encode())]
            yield check(found, [run], plan, TRUSTED, NOW)


def let_in_of_confirmations() -> Iterator[dict[str, bytes]]:
    """The mutated evidence that passes the door, with what follows from it, each of another id."""
    source = random.Random(4)
    candidate, evidence, _ = judged()
    for number in range(TRIES // 4):
        name = f"20261120T{number // 3600:02d}{number // 60 % 60:02d}{number % 60:02d}Z-compare-x"
        document = evidence.model_copy(update={"id": name}).model_dump(mode="json")
        mutate(source, document)
        mine = candidate.model_copy(update={"id": f"20261119-{number}-abc123"})
        try:
            found = Comparison.model_validate_json(json.dumps(document))
            record = conclude(mine, found)
        except ValueError:  # it is none, or the door stumbles over it, too, and refuses it
            continue
        folder = "changes" if isinstance(record, ChangeRecord) else "dismissed"
        judged_files = {
            f"{below}/{value.id}.json": files.encode(value)
            for below, value in ((folder, record), ("comparisons", found))
        }
        sent = [ArtifactFile(path, data) for path, data in judged_files.items()]
        sender = f"confirmed-{MACHINES[0].id}"
        with suppress(Exception):  # what the check stumbles over is refused (`acceptance`)
            comparisons.conclusions(sent, sender, TRUSTED, NOW, {mine.id: mine})
            yield judged_files


def sample(source: random.Random, every: list[Any]) -> list[Any]:
    return source.sample(every, min(SHOWN, len(every)))


def test_whatever_the_door_lets_in_everything_behind_it_survives(
    trusted: tuple[Checkout, Checkout],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Runs and asv's figures, mutated: the site is built, `detect` and the next plan are made."""
    runs, figures = list(let_in(trusted)), list(let_in_of_asv())
    confirmations = list(let_in_of_confirmations())
    assert len(runs) >= TRIES / 50
    assert min(len(figures), len(confirmations)) >= TRIES / 100
    root, source = make_checkout(tmp_path / "checkout"), random.Random(3)
    results = root / "results"
    for run in sample(source, runs):
        store.finalise(results, run)
    asv_files.list_benchmarks(
        results / "asv",
        [asv_files.Bench("gil.Cpu.time_tasks", {"mode": ["serial"], "tasks": [1, 2, 4]})],
    )
    for sent in (*sample(source, figures), *sample(source, confirmations)):
        for path, data in sent.items():
            files.replace(results / path, data)
    sources = reading.read(results, tmp_path / "cache", tmp_path)
    assert sources.problems == ()
    built = sites.made(tmp_path, results=results)
    assert built.pages > SHOWN
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
    sources = reading.read(results, tmp_path / "cache", tmp_path)
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
    sources = reading.read(results, tmp_path / "cache", tmp_path)
    assert [night.header.machine for night in sources.nights] == [MACHINES[0].id]
    assert "cannot be used (ZeroDivisionError: a surprise); it is left out" in sources.problems[0]


def test_a_run_cannot_be_faster_than_its_case_allows() -> None:
    """128 connections whose requests take 10 ms or more: 12,800/s, and 1 % for clocks."""
    run, plan = shard_run(1), night()

    def claiming(throughput: float) -> bytes:
        first = run.results[0]
        launch = first.launches[0]
        metrics = {**launch.metrics, "throughput": throughput, "window": 8.0, "ceiling": 1e6}
        launch = launch.model_copy(update={"metrics": metrics})
        first = first.model_copy(update={"launches": (launch, *first.launches[1:])})
        return store.encode(run.model_copy(update={"results": (first, *run.results[1:])}))

    nights.run(claiming(12_928), "shard-1", plan, TRUSTED, NOW)
    with pytest.raises(ArtifactError, match=r"at most 12,800/s, its ceiling, found 12,929/s"):
        nights.run(claiming(12_929), "shard-1", plan, TRUSTED, NOW)
