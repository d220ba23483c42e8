"""From asv's results to tables: figures worked out by hand, and nothing where nothing was."""

import shutil
from itertools import product
from pathlib import Path

import pytest

import asv_files
import sites
import synthetic
from asv_files import SKIPPED, Bench, Figures
from duetbench.core.errors import DeclarationError
from duetbench.core.model import Load
from duetbench.host import paths
from duetbench.load.summary import RunSummary, summarise
from observatory.matrix.published import read_suites
from observatory.show.experiments import Section, of_suites
from observatory.show.tables import FigureTable
from observatory.store import asv_results
from observatory.store.asv_results import Snapshot

SUITES = read_suites(paths.project_root())
DECLARED = {suite.suite: suite for suite in SUITES}
MODES = ["serial", "threads", "processes", "asyncio"]
CPU = Bench("gil.Cpu.time_tasks", {"mode": MODES, "tasks": [1, 4]})
NETWORK = Bench("gil.Network.time_rounds", {"mode": ["serial", "threads", "asyncio"]})
SLOWEST = Bench("gil.track_slowest_round")
SCALING = Bench("scaling.Scaling.time_threads", {"work": ["json"], "threads": [1, 2, 4]})
VALIDATE = Bench("pydantic_models.Validate.time_valid", {"size": [1, 20], "source": ["python"]})
ALL = (CPU, NETWORK, SLOWEST, SCALING, VALIDATE)


def only(results: Path) -> Snapshot:
    asv_files.list_benchmarks(results, ALL)
    (snapshot,) = asv_results.read(results)
    return snapshot


def section(snapshot: Snapshot, suite: str, run: RunSummary | None = None) -> Section:
    (section_,) = of_suites((snapshot,), [DECLARED[suite]], [run] if run else [])
    return section_


def lines(table: FigureTable) -> list[str]:
    """A table's lines: keys, then figures with what the source published."""
    return [
        " ".join((*row.keys, *(f"{cell.ours} [{cell.published}]" for cell in row.cells)))
        for row in table.rows
    ]


def test_samples_become_a_median_and_what_failed_no_figure(tmp_path: Path) -> None:
    """1, 2, 3: median 2, quartiles 1.5 and 2.5; None is failed, NaN does not apply."""
    cpu = {("serial", 1): [1.0, 3.0, 2.0], ("threads", 1): None, ("serial", 4): SKIPPED}
    elsewhere = dict.fromkeys(product(MODES, [1, 4]), SKIPPED)
    asv_files.write(tmp_path, "3.14t", "current", [(CPU, elsewhere)])
    asv_files.write(tmp_path, "3.14t", "gil-in-process", [(CPU, cpu), (SLOWEST, {(): 0.25})])
    snapshot = only(tmp_path)
    assert (snapshot.machine, snapshot.commit) == ("synthetic-2c", asv_files.COMMIT)
    assert "2 cores" in snapshot.described
    first, failed, *_ = snapshot.of("gil.Cpu")
    assert first.params == (("mode", "serial"), ("tasks", "1"))
    assert (first.python, first.stack, first.unit) == ("3.14t", "gil-in-process", "seconds")
    assert (first.value, first.spread) == (2.0, 0.25)
    assert first.samples == (1.0, 3.0, 2.0)
    assert failed.value is None
    (slowest,) = snapshot.of("gil.track_slowest_round")
    assert (slowest.value, slowest.spread, slowest.samples) == (0.25, None, ())
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
    asv_files.list_benchmarks(tmp_path, ALL)
    snapshots = asv_results.read(tmp_path)
    assert [s.commit[0] for s in snapshots] == ["c", "b", "a", "d"]
    assert [s.commit[0] for s in snapshots if s.has("gil")] == ["b", "a", "d"]


def gil_results(folder: Path) -> Snapshot:
    """Four tasks with and without the GIL, and the network rounds with it."""
    with_gil = {
        ("serial", 4): [1.96, 2.0, 2.04],
        ("threads", 4): [2.08, 2.1, 2.12],
        ("processes", 4): [1.04, 1.05, 1.06],
        ("asyncio", 4): None,
    }
    without = {("serial", 4): [2.0, 2.0], ("threads", 4): [0.5, 0.5]}
    rounds = {("serial",): [2.4, 2.4], ("threads",): [0.3, 0.3], ("asyncio",): [0.4, 0.4]}
    ours: Figures = [(CPU, with_gil), (NETWORK, rounds), (SLOWEST, {(): 0.24})]
    asv_files.write(folder, "3.14", "gil-in-process", ours)
    asv_files.write(folder, "3.14t", "gil-in-process", [(CPU, without)])
    return only(folder)


def test_published_figures_stand_beside_those_of_their_interpreter(tmp_path: Path) -> None:
    """Of each run of the source; what was not measured has a dash, what failed says so."""
    cpu, network = section(gil_results(tmp_path), "gil").tables
    assert [line for line in lines(cpu) if line.startswith("4 ")] == [
        "4 serial 2.00 s [2.11 s, 2.00 s] 2.00 s []",
        "4 threads 2.10 s [2.70 s, 3.54 s] 500 ms []",
        "4 processes 1.05 s [754 ms, 731 ms] failed []",
        "4 asyncio failed [1.79 s] failed []",
    ]
    # quartiles of 1.96, 2.0, 2.04 are 1.98 and 2.02: 1 %, the widest
    assert "half of their samples lie within ±1.0 %" in cpu.notes[-1]
    assert lines(network)[:2] == ["serial 2.40 s [7.50 s] — []", "threads 300 ms [1.07 s] — []"]


def test_statements_about_the_gil_are_checked_with_intervals(tmp_path: Path) -> None:
    """Threads 1.05 times serial: no faster. Processes 0.52: faster. What is missing: not said."""
    answers = section(gil_results(tmp_path), "gil").answers
    by_statement = {answer.statement: answer for answer in answers}
    threads = by_statement["with the GIL, four CPU threads are no faster than serial"]
    assert threads.ours is not None
    assert threads.ours.estimate == pytest.approx(1.05, rel=0.01)
    assert threads.published == pytest.approx(2.7011 / 2.1103)
    assert (threads.verdict, threads.reason) == ("holds", "2.10 s against 2.00 s, over 3 samples")
    assert by_statement["with the GIL, four processes are"].verdict == "holds"
    asyncio = by_statement["asyncio does not help CPU work with the GIL"]
    assert (asyncio.verdict, asyncio.ours) == ("not measured", None)
    assert asyncio.reason == "no figures of asyncio on 3.14"
    assert asyncio.published == pytest.approx(1.7862 / 2.0004)
    assert by_statement["network waits favour threads with the GIL"].verdict == "holds"
    alone = by_statement["without the GIL, four threads are, too"]
    assert (alone.verdict, alone.published) == ("holds", None)
    large = by_statement["files of 100 MB: the disk is the limit, and threads lose"]
    assert large.verdict == "cannot be asked here"


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
    snapshot = only(tmp_path)
    models = section(snapshot, "pydantic_models", pydantic_run())
    (alone,) = (line for line in lines(models.tables[0]) if "failed" not in line)
    assert alone == "validate: 20, python 80.0 µs [] 20.0 µs [] 4.00 [] 25.0 µs []"
    (answer,) = models.answers
    assert answer.ours is not None
    assert answer.ours.estimate == pytest.approx(2.0)
    assert (answer.verdict, answer.reason) == (
        "holds",
        "4.00 alone, 2.00 served; 80.0 µs against 20.0 µs, over 2 samples",
    )
    (answer,) = section(snapshot, "pydantic_models").answers
    assert (answer.verdict, answer.reason) == ("not measured", "never in one run")


@pytest.mark.parametrize(
    ("replaced", "by", "words"),
    [
        ('table = "files"', 'table = "flies"', "no table 'flies'"),
        ('where = { megabytes = "10" }', "where = { }", "expected `where` to name"),
        ("most = 0.9\n", "", "least or most"),
        ("question =", "question", "TOML"),
    ],
)
def test_a_wrong_declaration_is_refused(tmp_path: Path, replaced: str, by: str, words: str) -> None:
    text = (paths.project_root() / "benchmarks" / "gil.toml").read_text("utf-8")
    assert replaced in text
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "gil.toml").write_text(text.replace(replaced, by), "utf-8")
    with pytest.raises(DeclarationError, match=rf"benchmarks/gil\.toml.*{words}"):
        read_suites(tmp_path)


SORTING = """\
name = "sorting-threads"
question = "Do threads sort faster?"

source = "Made up, 2026-11 (a laptop)"
source_python = "3.14"

[[tables]]
name = "sort"
title = "Sorting"
benchmark = "sorting.Sort.time_sort"
variant = "threads"
columns = [{ title = "3.14", python = "3.14" }, { title = "3.14t", python = "3.14t" }]

[[published]]
table = "sort"
seconds = { 1 = 4.0, 2 = 5.0 }

[[shapes]]
statement = "two threads take no longer"
table = "sort"
above = { variant = "2", python = "3.14t" }
below = { variant = "1", python = "3.14t" }
most = 1
"""


def test_a_suite_is_added_by_its_declaration_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, project = tmp_path / "checkout", paths.project_root()
    shutil.copytree(project / "benchmarks", root / "benchmarks")
    shutil.copy(project / "pyproject.toml", root)
    (root / "apps").symlink_to(project / "apps")
    (root / "benchmarks" / "sorting.toml").write_text(SORTING, "utf-8")
    monkeypatch.setenv("DUETBENCH_ROOT", str(root))
    bench = Bench("sorting.Sort.time_sort", {"threads": [1, 2]})
    results = tmp_path / "results"
    for python, times in (("3.14", (2.0, 2.5)), ("3.14t", (2.0, 1.0))):
        figures = {(n + 1,): [time, time] for n, time in enumerate(times)}
        asv_files.write(results / "asv", python, "current", [(bench, figures)])
    asv_files.list_benchmarks(results / "asv", [bench])
    sites.build_site(tmp_path, results=results, root=root)
    page = sites.read(tmp_path / "site" / "x" / "sorting-threads" / "index.html")
    # 2.0 / 1.0; the source's 4.0 / 5.0
    assert "two threads take no longer holds expected ≤ 1 0.500 0.500…0.500" in page.text
    assert "published 4.00 s" in page.text
    for other in ("index.html", "x/index.html"):
        listed = sites.read(tmp_path / "site" / other).text
        assert "Two threads take no longer" in listed
    assert list(sites.dead_links(tmp_path / "site")) == []
