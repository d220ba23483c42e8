"""The load runs among asv's results: names, figures, and what must not become one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import asv_history
import synthetic
from asv_history import History
from servebench import paths, plan, store
from servebench.cli.asv import asv_app
from servebench.errors import DeclarationError, RecordError, SetupError
from servebench.flags import FlagName
from servebench.inprocess import export, stubs
from servebench.model import Case, CaseResult, Load, LoadModel

ROOT = paths.project_root()
CASE = synthetic.make_case("demo/json/py3.14/w1/c128")
GOOD = {
    "throughput": 4000.0,
    "server_cpu_per_request": 2e-4,
    "response_p99": 0.05,
    "pss_steady": 9e7,
}
NAME = "load_runs.demo.track_json_w1_c128"


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    """A repository of two commits that declares one case."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return asv_history.make(tmp_path / "repository", commits=2, cases=[CASE])


def nightly() -> tuple[Case, ...]:
    return plan.make_plan("nightly", (), None, 1).cases


def read(file: Path) -> dict[str, Any]:
    """Read a results file: per benchmark its columns, and the rest as it is."""
    document = json.loads(file.read_text(), parse_constant=pytest.fail)
    columns = document["result_columns"]
    document["results"] = {
        name: dict(zip(columns, row, strict=False)) for name, row in document["results"].items()
    }
    return dict(document)


def test_the_stubs_are_what_the_declarations_say() -> None:
    """`benchmarks/load_cases.json` is generated; this fails when somebody forgot to."""
    stubs.check(ROOT, stubs.declare(nightly()))


def test_every_nightly_case_has_its_benchmarks() -> None:
    """Interpreters and stacks share a benchmark, and nothing else does. Fifty requests: no p99."""
    declared = stubs.declare(nightly())
    titles = {stubs.title(case) for case in nightly()}
    few = {title for title in titles if title.startswith("gil-endpoints/")}
    assert len(declared) == 4 * len(titles) - len(few)
    assert "asgi-wsgi/asgi-json/w1/c128/uvicorn" in titles
    assert "pydantic-v1-v2/u200" in titles
    assert {stub.unit for stub in declared} == {"seconds", "bytes"}
    by_name = {stub.name: stub for stub in declared}
    cpu = by_name["load_runs.await_patterns.track_async_concurrent_wait0_5_cpu"]
    assert cpu.pretty_name == "await-patterns/async_concurrent/wait0.5: server CPU per request"


def test_only_what_is_measured_makes_a_version() -> None:
    """Another load, server or wait is another version; another right answer or place is not."""

    def version(**changes: Any) -> str:
        return stubs.stub(CASE.model_copy(update=changes), stubs.FIGURES[0]).version

    longer = Load(model=LoadModel.CLOSED, connections=128, duration=9, timeout=10)
    other_path = CASE.endpoint.model_copy(update={"path": "/other"})
    different = [
        version(server="granian"),
        version(load=longer),
        version(env={"SERVEBENCH_WAIT_S": "1"}),
        version(endpoint=other_path),
        stubs.stub(CASE, stubs.FIGURES[1]).version,
    ]
    assert len({version(), *different}) == 6
    judged = CASE.endpoint.model_copy(update={"floor": 9.0, "takes": 1.0})
    assert version(endpoint=judged, ceiling=None, slots=1) == version()
    assert version(python="3.14t", stack="pydantic-v1", id="demo/x") == version()


def test_an_id_that_means_two_things_is_refused() -> None:
    """Cases that differ in more than interpreter and stack must say so in their ids."""
    twin = CASE.model_copy(
        update={"id": "demo/json/py3.14t/w1/c128", "python": "3.14t", "workers": 2}
    )
    with pytest.raises(DeclarationError, match="put what differs into the id"):
        stubs.declare([CASE, twin])


def test_stubs_are_written_once_and_checked(tmp_path: Path) -> None:
    """Writing what is there changes nothing; a stale or damaged file is told with its remedy."""
    (tmp_path / "benchmarks").mkdir()
    declared = stubs.declare([CASE])
    with pytest.raises(RecordError, match="servebench asv stubs"):
        stubs.check(tmp_path, declared)
    assert stubs.write(tmp_path, declared)
    assert not stubs.write(tmp_path, declared)
    stubs.check(tmp_path, declared)
    assert stubs.read(tmp_path) == declared
    stubs.place(tmp_path).write_text('[{"name": "x"}]')
    with pytest.raises(RecordError, match=r"expected the stubs of the load runs, found .*missing"):
        stubs.read(tmp_path)


def test_asv_discovers_the_stubs_and_skips_them(history: History, tmp_path: Path) -> None:
    """The stubs' names, versions and units are what asv's own runner finds; one run is "n/a"."""

    def asv(*arguments: str | Path) -> None:
        script = Path(sys.prefix, "bin", "python"), "-m", "asv.benchmark"
        subprocess.run([*script, *arguments], check=True, capture_output=True, cwd=tmp_path)

    folder, listed, result = history.root / "benchmarks", tmp_path / "a.json", tmp_path / "b.json"
    asv("discover", folder, listed)
    found = {entry["name"]: entry for entry in json.loads(listed.read_text())}
    assert set(found) == {f"{NAME}_{figure.key}" for figure in stubs.FIGURES}
    for stub in stubs.declare([CASE]):
        expected = export.entry(stub)
        assert {key: found[stub.name][key] for key in expected if key != "code"} == {
            key: expected[key] for key in expected if key != "code"
        }
        assert stub.pretty_name in found[stub.name]["code"]
    asv("run", folder, f"{NAME}_cpu", "{}", "None", result)
    assert result.read_text() == "NaN"


def test_figures_of_a_run(history: History) -> None:
    """Median of the launches as asv takes it, 1/4000 s per request, the launches as samples."""
    metrics = [{**GOOD, "server_cpu_per_request": cpu} for cpu in (3e-4, 1e-4, 2e-4)]
    launches = tuple(synthetic.ok(CASE.id, n, row) for n, row in enumerate(metrics))
    history.record(0, CaseResult(case=CASE, launches=launches))
    done = history.export()
    assert (done.runs, done.figures, done.left_out) == (1, 4, ())
    (file,) = done.files
    assert file == (
        history.root / "results" / "asv" / synthetic.MACHINE.id
        / f"{history.commits[0][:8]}-load-runs-py3.14-stackcurrent.json"
    )  # fmt: skip
    written = read(file)
    assert written["commit_hash"] == history.commits[0]
    assert written["date"] == 1_700_000_000_000
    assert written["python"] == "3.14"
    assert written["requirements"] == {"stack": "current"}
    assert written["params"]["machine"] == synthetic.MACHINE.id
    assert (written["params"]["python"], written["params"]["stack"]) == ("3.14", "current")
    cpu = written["results"][f"{NAME}_cpu"]
    assert cpu["result"] == [2e-4]
    assert cpu["samples"] == [[3e-4, 1e-4, 2e-4]]
    assert cpu["version"] == stubs.stub(CASE, stubs.FIGURES[0]).version
    assert cpu["duration"] == 53.494  # three times 17.8312345; asv keeps five digits
    assert cpu["started_at"] == 1795165207123  # 2026-11-20T09:00:07.123 UTC, in ms
    results = {name: row["result"] for name, row in written["results"].items()}
    assert results[f"{NAME}_time"] == [2.5e-4]
    assert results[f"{NAME}_p99"] == [0.05]
    assert results[f"{NAME}_pss"] == [9e7]


def test_failures_have_no_figure(history: History) -> None:
    """A failed launch is no sample; a case of failed launches has none; what was not tried, too."""
    failed = synthetic.failed(CASE.id, 1, FlagName.WRONG_STATUS, "500 instead of 200")
    no_p99 = {name: value for name, value in GOOD.items() if name != "response_p99"}
    dead = CASE.model_copy(update={"id": "demo/dead/py3.14/w1"})
    untried = CASE.model_copy(update={"id": "demo/untried/py3.14/w1"})
    history.record(
        0,
        CaseResult(case=CASE, launches=(synthetic.ok(CASE.id, 0, no_p99), failed)),
        CaseResult(case=dead, launches=(failed.model_copy(update={"case": dead.id}),)),
        CaseResult(case=untried),
    )
    done = history.export()
    (file,) = done.files
    results = read(file)["results"]
    assert results[f"{NAME}_cpu"]["result"] == [2e-4]
    assert results[f"{NAME}_cpu"]["samples"] == [[2e-4]]
    assert f"{NAME}_p99" not in results
    assert [results[f"load_runs.demo.track_dead_w1_{f.key}"]["result"] for f in stubs.FIGURES] == [
        None
    ] * 4
    assert not any("untried" in name for name in results)
    assert done.figures == 3


def test_service_time_of_a_schedule_is_without_the_queue() -> None:
    """Paced loads have both p99: the service's is shown, and never the response's in its place."""
    (p99,) = (figure for figure in stubs.FIGURES if figure.key == "p99")
    assert p99.of({"response_p99": 3.0, "service_mean": 0.5, "service_p99": 1.0}) == 1.0
    assert p99.of({"response_p99": 3.0, "service_mean": 0.5}) is None


def test_runs_of_one_commit_are_one_point(history: History) -> None:
    """Two nights without a new commit add their launches; a new definition replaces the old."""
    history.record(0, synthetic.steady_result(CASE, GOOD, 2), hour=1)
    history.record(0, synthetic.steady_result(CASE, {**GOOD, "pss_steady": 7e7}, 1), hour=2)
    (file,) = history.export().files
    assert read(file)["results"][f"{NAME}_pss"]["samples"] == [[9e7, 9e7, 7e7]]
    changed = CASE.model_copy(update={"server": "granian"})
    history.record(0, synthetic.steady_result(changed, {**GOOD, "pss_steady": 5e7}, 1), hour=3)
    (file,) = history.export().files
    row = read(file)["results"][f"{NAME}_pss"]
    assert row["samples"] == [[5e7]]
    assert row["version"] == stubs.stub(changed, stubs.FIGURES[3]).version


def test_interpreters_and_stacks_have_files_of_their_own(history: History) -> None:
    """The same benchmark, under asv's keys; the machine is described once, as asv would."""
    other = CASE.model_copy(update={"id": "demo/json/py3.14t/w1/c128", "python": "3.14t"})
    history.record(1, synthetic.steady_result(CASE, GOOD), synthetic.steady_result(other, GOOD))
    files = history.export().files
    assert [file.name.split("-", 1)[1] for file in files] == [
        "load-runs-py3.14-stackcurrent.json",
        "load-runs-py3.14t-stackcurrent.json",
    ]
    first, second = (read(file) for file in files)
    assert set(first["results"]) == set(second["results"])
    machine = json.loads((files[0].parent / "machine.json").read_text())
    assert machine.pop("version") == 1
    assert machine == {
        name: value for name, value in first["params"].items() if name not in {"python", "stack"}
    }
    assert set(machine) == {"machine", "os", "arch", "cpu", "num_cpu", "ram"}


def test_a_machine_that_asv_knows_keeps_its_description(history: History) -> None:
    """Graphs are keyed by every word of it: what asv has recorded is not described anew."""
    folder = history.root / "results" / "asv" / synthetic.MACHINE.id
    folder.mkdir(parents=True)
    known = {"machine": synthetic.MACHINE.id, "os": "Plan 9", "version": 1}
    (folder / "machine.json").write_text(json.dumps(known))
    history.record(0, synthetic.steady_result(CASE, GOOD))
    (file,) = history.export().files
    assert read(file)["params"]["os"] == "Plan 9"
    assert json.loads((folder / "machine.json").read_text()) == known


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"dirty": True}, "it was measured with uncommitted changes over "),
        ({"commit": None}, "it was measured outside a repository"),
        ({"commit": "f" * 40}, "its commit ffffffff is not in this repository (is the clone sh"),
    ],
)
def test_runs_that_are_no_point_of_history(
    history: History, changes: dict[str, Any], reason: str
) -> None:
    """Figures of no known state of the code are left out, with the reason, and no file."""
    run = history.record(0, synthetic.steady_result(CASE, GOOD), **changes)
    done = history.export()
    assert (done.files, done.runs, done.figures) == ((), 0, 0)
    (sentence,) = done.left_out
    assert sentence.startswith(f"run {run.id} is left out: {reason}")


def test_exporting_again_changes_nothing_and_forgets_removed_runs(history: History) -> None:
    """The same run files give the same bytes; files of runs that were removed go, asv's stay."""
    run = history.record(0, synthetic.steady_result(CASE, GOOD))
    history.record(1, synthetic.steady_result(CASE, GOOD))
    files = history.export().files
    (removed,) = (file for file in files if file.name.startswith(history.commits[0][:8]))
    theirs = removed.with_name(removed.name.replace("load-runs", "servebench"))
    theirs.write_bytes(removed.read_bytes())
    folder = history.root / "results" / "asv"
    before = {file: file.read_bytes() for file in folder.rglob("*.json")}
    assert len(before) == 5  # two of ours, one of asv's, machine.json, benchmarks.json
    assert history.export().files == files
    assert {file: file.read_bytes() for file in folder.rglob("*.json")} == before
    store.path_for(history.root / "results", run).unlink()
    assert set(history.export().files) == {*files} - {removed}
    assert not removed.exists()
    assert theirs.exists()


def test_asvs_own_benchmarks_stay_on_the_list(history: History) -> None:
    """Stubs that are no longer declared leave asv's list; what it discovered itself stays."""
    history.record(0, synthetic.steady_result(CASE, GOOD))
    history.export()
    file = history.root / "results" / "asv" / "benchmarks.json"
    listed = json.loads(file.read_text())
    own = {**listed[f"{NAME}_cpu"], "name": "handlers.time_x", "unit": "seconds"}
    discovered = {**listed[f"{NAME}_pss"], "code": "as discovered", "timeout": 60}
    listed |= {"handlers.time_x": own, f"{NAME}_pss": discovered}
    listed["load_runs.old.track_x"] = {**own, "name": "load_runs.old.track_x"}
    file.write_text(json.dumps(listed))
    history.export()
    kept = json.loads(file.read_text())
    assert kept["handlers.time_x"] == own
    assert kept[f"{NAME}_pss"] == discovered
    assert "load_runs.old.track_x" not in kept
    assert set(kept) == {
        "version",
        "handlers.time_x",
        *(f"{NAME}_{figure.key}" for figure in stubs.FIGURES),
    }


def test_the_verbs(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """`asv stubs --check` is content here; `asv export` says what entered and what did not."""
    checked = CliRunner().invoke(asv_app, ["stubs", "--check"])
    assert (checked.exit_code, checked.output) == (0, "")
    shutil.copy(ROOT / "pyproject.toml", history.root)
    monkeypatch.setenv("SERVEBENCH_ROOT", str(history.root))
    history.record(0, synthetic.steady_result(CASE, GOOD))
    left_out = history.record(1, synthetic.steady_result(CASE, GOOD), dirty=True)
    done = CliRunner().invoke(asv_app, ["export"])
    assert done.exit_code == 0
    assert done.output.splitlines() == [
        f"run {left_out.id} is left out: it was measured with uncommitted changes over "
        + history.commits[1][:8],
        "nightly runs: 1, with 4 figures in 1 files of asv's results",
    ]


def test_without_asvs_configuration(tmp_path: Path) -> None:
    """A checkout without asv.conf.json ends in a sentence with its name."""
    with pytest.raises(SetupError, match=r"asv\.conf\.json: .*not found"):
        export.export(tmp_path, ())
