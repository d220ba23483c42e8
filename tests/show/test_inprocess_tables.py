"""From asv's results to tables: figures worked out by hand, and nothing where nothing was."""

from pathlib import Path

import pytest

import asv_files
import synthetic
from asv_files import SKIPPED, Bench, Figures
from bench import PROJECT
from duetbench.core.errors import DeclarationError
from duetbench.core.model import Load
from duetbench.load.summary import RunSummary, summarise
from observatory.matrix.published import read_suites
from observatory.show.experiments import Section, of_suites
from observatory.show.tables import FigureTable
from observatory.store import asv_results
from observatory.store.asv_results import Snapshot

MODES = ["serial", "threads", "processes", "asyncio"]
CPU = Bench("gil.Cpu.time_tasks", {"mode": MODES, "tasks": [1, 4]})
NETWORK = Bench("gil.Network.time_rounds", {"mode": ["serial", "threads", "asyncio"]})
SLOWEST = Bench("gil.track_slowest_round")
VALIDATE = Bench("pydantic_models.Validate.time_valid", {"size": [1, 20], "source": ["python"]})


def read(results: Path) -> tuple[Snapshot, ...]:
    asv_files.list_benchmarks(results, (CPU, NETWORK, SLOWEST, VALIDATE))
    return asv_results.read(results)


def section(snapshots: tuple[Snapshot, ...], suite: str, *runs: RunSummary) -> Section:
    declared = [declared for declared in read_suites(PROJECT) if declared.suite == suite]
    (section_,) = of_suites(snapshots, declared, runs)
    return section_


def lines(table: FigureTable) -> list[str]:
    """A table's lines: keys, then figures with what the source published."""
    return [
        " ".join((*row.keys, *(f"{cell.ours} [{cell.published}]" for cell in row.cells)))
        for row in table.rows
    ]


def gil_results(folder: Path) -> tuple[Snapshot, ...]:
    """Four tasks with and without the GIL, and the network rounds with it."""
    with_gil = {
        ("serial", 1): SKIPPED,
        ("serial", 4): [1.96, 2.04, 2.0],
        ("threads", 4): [2.08, 2.1, 2.12],
        ("processes", 4): [1.04, 1.05, 1.06],
        ("asyncio", 4): None,
    }
    without = {("serial", 4): [2.0, 2.0], ("threads", 4): [0.5, 0.5]}
    rounds = {("serial",): [2.4, 2.4], ("threads",): [0.3, 0.3], ("asyncio",): [0.4, 0.4]}
    ours: Figures = [(CPU, with_gil), (NETWORK, rounds), (SLOWEST, {(): 0.24})]
    asv_files.write(folder, "3.14", "gil-in-process", ours)
    asv_files.write(folder, "3.14t", "gil-in-process", [(CPU, without)])
    return read(folder)


def test_samples_become_a_median_and_what_failed_no_figure(tmp_path: Path) -> None:
    """1.96, 2, 2.04: median 2, quartiles 1.98 and 2.02; None is failed, NaN does not apply."""
    (snapshot,) = gil_results(tmp_path)
    assert (snapshot.machine, snapshot.commit) == ("synthetic-2c", asv_files.COMMIT)
    assert "2 cores" in snapshot.described
    own = {
        reading.params: reading for reading in snapshot.of("gil.Cpu") if reading.python == "3.14"
    }
    first = own[("mode", "serial"), ("tasks", "4")]
    assert (first.python, first.stack, first.unit) == ("3.14", "gil-in-process", "seconds")
    assert (first.value, first.samples) == (2.0, (1.96, 2.04, 2.0))
    assert first.spread == pytest.approx(0.01)
    assert own[("mode", "asyncio"), ("tasks", "4")].value is None
    assert (("mode", "serial"), ("tasks", "1")) not in own
    (slowest,) = snapshot.of("gil.track_slowest_round")
    assert (slowest.value, slowest.spread, slowest.samples) == (0.24, None, ())
    assert not snapshot.of("gil.C")


def test_the_newest_commit_comes_first_and_old_versions_do_not_count(tmp_path: Path) -> None:
    """Whenever it was measured: history is often measured backwards. Of one day, the later one."""
    old, day = Bench(SLOWEST.name, version="0"), 1_700_000_000_000
    for commit, hour, bench, committed in (
        ("a", 8, SLOWEST, day),
        ("b", 9, SLOWEST, day),
        ("c", 10, old, day),
        ("d", 20, SLOWEST, day - 10**11),
    ):
        figures = [(bench, {(): 1.0})]
        asv_files.write(
            tmp_path, "3.14", "s", figures, commit=commit * 40, hour=hour, committed=committed
        )
    snapshots = read(tmp_path)
    assert [s.commit[0] for s in snapshots] == ["c", "b", "a", "d"]
    assert [s.commit[0] for s in snapshots if s.has("gil")] == ["b", "a", "d"]


def test_published_figures_stand_beside_those_of_their_interpreter(tmp_path: Path) -> None:
    """Of each run of the source; what was not measured has a dash, what failed says so."""
    cpu, network = section(gil_results(tmp_path), "gil").tables
    assert [line for line in lines(cpu) if line.startswith("4 ")] == [
        "4 serial 2.00 s [2.11 s, 2.00 s] 2.00 s []",
        "4 threads 2.10 s [2.70 s, 3.54 s] 500 ms []",
        "4 processes 1.05 s [754 ms, 731 ms] failed []",
        "4 asyncio failed [1.79 s] failed []",
    ]
    assert "half of their samples lie within ±1.0 %" in cpu.notes[-1]
    assert lines(network)[:2] == ["serial 2.40 s [7.50 s] — []", "threads 300 ms [1.07 s] — []"]


def test_statements_about_the_gil_are_checked_with_intervals(tmp_path: Path) -> None:
    """Threads 1.05 times serial: no faster. Processes 0.52: faster. What is missing: not said."""
    answers = {item.shape.statement: item for item in section(gil_results(tmp_path), "gil").answers}
    for statement, verdict, reason in (
        ("with the GIL, four CPU threads are no faster than serial", "holds",
         "2.10 s against 2.00 s, over 3 samples"),
        ("with the GIL, four processes are", "holds", "1.05 s against 2.00 s, over 3 samples"),
        ("asyncio does not help CPU work with the GIL", "not measured",
         "no figures of gil.Cpu.time_tasks/asyncio/4/py3.14/gil-in-process"),
        ("network waits favour threads with the GIL", "holds",
         "300 ms against 2.40 s, over 2 samples"),
        ("without the GIL, four threads are, too", "holds",
         "500 ms against 2.00 s, over 2 samples"),
    ):  # fmt: skip
        assert (answers[statement].verdict, answers[statement].reason) == (verdict, reason)
    threads = answers["with the GIL, four CPU threads are no faster than serial"]
    assert threads.published == pytest.approx(2.7011 / 2.1103)
    assert answers["without the GIL, four threads are, too"].published is None
    disk = answers["files of 100 MB: the disk is the limit, and threads lose"]
    assert disk.verdict == "cannot be asked here"


def pydantic_run() -> RunSummary:
    """Closed connections: 3 ms per request with Pydantic 1, 1.5 ms with 2."""
    results = []
    for stack, cost in (("pydantic-v1", 3e-3), ("pydantic-v2", 1.5e-3)):
        load = Load(connections=16, duration=8, timeout=10)
        name = f"pydantic-v1-v2/{stack}/py3.14/c16"
        case = synthetic.make_case(name, stack=stack, load=load)
        results.append(synthetic.steady_result(case, {"server_cpu_per_request": cost}))
    return summarise(synthetic.make_run(results))


def test_what_pydantic_gains_alone_stands_beside_the_response(tmp_path: Path) -> None:
    """80 µs against 20 µs is 4; 3 ms against 1.5 ms is 2: clearly more alone (2 ≥ 1.2)."""
    for stack, time in (("pydantic-v1", 80e-6), ("pydantic-v2", 20e-6), ("current", 25e-6)):
        asv_files.write(tmp_path, "3.14", stack, [(VALIDATE, {(20, "python"): [time, time]})])
    models = section(read(tmp_path), "pydantic_models", pydantic_run())
    (alone,) = (line for line in lines(models.tables[0]) if "failed" not in line)
    assert alone == "validate: 20, python 80.0 µs [] 20.0 µs [] 25.0 µs []"
    (answer,) = models.answers
    assert answer.ours is not None
    assert answer.ours.estimate == pytest.approx(2.0)
    words = "4.00 alone, 2.00 served; 80.0 µs against 20.0 µs, over 2 samples"
    assert (answer.verdict, answer.reason) == ("holds", words)
    (answer,) = section(read(tmp_path), "pydantic_models").answers
    assert (answer.verdict, answer.reason) == ("not measured", "never in one run")


@pytest.mark.parametrize(
    ("replaced", "by", "words"),
    [
        ("most = 0.9\n", "", "least or most"),
        ("question =", "question", "TOML"),
    ],
)
def test_a_wrong_declaration_is_refused(tmp_path: Path, replaced: str, by: str, words: str) -> None:
    text = (PROJECT / "benchmarks" / "gil.toml").read_text("utf-8")
    assert replaced in text
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "gil.toml").write_text(text.replace(replaced, by), "utf-8")
    with pytest.raises(DeclarationError, match=rf"benchmarks/gil\.toml.*{words}"):
        read_suites(tmp_path)
