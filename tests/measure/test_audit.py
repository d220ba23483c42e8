"""A published table is held against arithmetic; every limit here is worked out by hand."""

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from duetbench.cli import app
from duetbench.core.errors import DeclarationError
from duetbench.core.model import Case
from duetbench.measure.audit import RowAudit, audit
from duetbench.project.experiments import load_experiments
from duetbench.project.published import load_published
from duetbench.project.published_table import Terms, read, table
from repos import PROJECT


def audited(cells: Mapping[str, str], terms: Terms | None = None) -> RowAudit:
    return audit(table([("line 2", cells)], "t.csv", terms)).rows[0]


def broken(row: RowAudit) -> dict[str, str]:
    return {problem.law: problem.verdict for problem in row.problems}


def test_a_ceiling_finds_what_littles_law_allows() -> None:
    """128 connections that wait 100 ms give 1,280/s; 6441/s × 19.829 ms are 127.7 in flight."""
    row = audited({"rps": "6441", "c": "128", "avg": "19.829ms", "wait": "100 ms"})
    assert broken(row) == {"ceiling": "impossible", "floor": "impossible"}
    ceiling, floor = row.problems
    assert (ceiling.expected, ceiling.found) == (1280, 6441)
    assert ceiling.limit == pytest.approx(1292.8)  # by 1 %, as of our own launches
    assert ceiling.cells == ("rate", "wait", "connections")
    assert floor.cells == ("mean", "wait")
    assert "Little's law" in row.fine
    assert row.unchecked["cores"] == "cpu, cores"


@pytest.mark.parametrize(
    ("rate", "found"),
    # 10 connections and 5 % are 10.5 requests. 4.2 ms may be 4.15 ms, and 2530/s may be 2529.5/s:
    # 10.497; 2531/s are 10.502 at least. Below, 9.5: 2235.5/s × 4.25 ms are 9.501, 2234.5/s 9.497.
    [("2530", {}), ("2531", {"Little's law": "impossible"}),
     ("2235", {}), ("2234", {"Little's law": "suspicious"})],
)  # fmt: skip
def test_printed_digits_are_the_tolerance(rate: str, found: dict[str, str]) -> None:
    assert broken(audited({"rps": rate, "c": "10", "mean (ms)": "4.2"})) == found


def test_several_requests_on_a_connection_are_told() -> None:
    """129750/s × 3.924 ms are 509 in flight on 128 connections: four on each."""
    cells = {"rps": "129750", "c": "128", "avg": "3.924ms"}
    alone = audited(cells)
    assert broken(alone) == {"Little's law": "suspicious"}
    assert "--set streams=4" in alone.problems[0].ask
    assert not broken(audited(cells, Terms(common={"streams": "4"})))


def test_requests_under_way_at_the_end_are_no_gap() -> None:
    """5.29/s × 79.08 s are 418 of 500; but 1520 answers took 287 s, and the last never came."""
    cells = {"rps": "5.29", "users": "500", "mean (s)": "79.08"}
    assert broken(audited(cells)) == {"Little's law": "suspicious"}
    assert not broken(audited({**cells, "requests": "1520"}))


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        ({"p50": "9.0ms", "p99": "8.0ms"}, {"order": "impossible"}),
        ({"p50": "9ms", "p99": "9ms"}, {}),
        # Half of the answers take 10 ms or more: a mean of 5 ms or more.
        ({"mean": "4.8ms", "p50": "10.0ms", "requests": "10000"},
         {"mean and percentiles": "impossible"}),
        ({"mean": "5.1ms", "p50": "10.0ms", "requests": "10000"}, {}),
        # Of 99 % at most 10 ms each, and 1 % at most 100 ms: 10.9 ms.
        ({"mean": "11.5ms", "p99": "10.0ms", "max": "100ms", "requests": "10000"},
         {"mean and percentiles": "impossible"}),
        ({"mean": "10.9ms", "p99": "10.0ms", "max": "100ms", "requests": "10000"}, {}),
        # Of twenty answers, one more or less is 5 %.
        ({"mean": "11.5ms", "p99": "10.0ms", "max": "100ms", "requests": "20"}, {}),
        ({"sent": "100", "answered": "101"}, {"counts": "impossible"}),
        ({"good": "100", "answered": "100", "sent": "100"}, {}),
        # 978 answers in 10.5 to 9.5 s are 93.1 to 102.9/s.
        ({"rps": "413", "requests": "978", "duration": "10 s"}, {"rate and count": "impossible"}),
        ({"rps": "105", "requests": "978", "duration": "10 s"}, {"rate and count": "suspicious"}),
        ({"rps": "103", "requests": "978", "duration": "10 s"}, {}),
        ({"cpu": "212 %", "cores": "2"}, {"cores": "impossible"}),
        ({"cpu": "210 %", "cores": "2"}, {}),
        ({"cpu": "0.42 cores", "workers": "1", "wait": "0 s"}, {"busy server": "suspicious"}),
        ({"cpu": "0.8 cores", "workers": "1", "wait": "0 s"}, {}),
        ({"rps": "120", "offered rate": "100"}, {"offered load": "impossible"}),
        ({"rps": "100", "offered rate": "100"}, {}),
        # One place of 10 ms: 100/s. Threads may serve several at once, if an event loop waits.
        ({"rps": "413", "wait": "10ms", "slots": "1"}, {"ceiling": "impossible"}),
        ({"rps": "413", "wait": "10ms", "c": "9", "workers": "1", "threads": "2"},
         {"ceiling": "suspicious"}),
    ],
)  # fmt: skip
def test_a_law_finds_what_breaks_it(cells: dict[str, str], found: dict[str, str]) -> None:
    assert broken(audited(cells)) == found


@pytest.mark.parametrize(
    ("heading", "cell", "name", "value"),
    [
        ("Avg Latency (ms)", "4.2", "mean", 0.0042),
        ("latency_ms_mean", "4.2", "mean", 0.0042),
        ("latency.p99.9", "4.2 µs", "p99.9", 4.2e-6),
        ("percentile_99.999 [s]", "4.2", "p99.999", 4.2),
        ("90 %", "1.5s", "p90", 1.5),
        ("Requests/sec", "38.3k", "rate", 38300),
        ("Total requests", "1,209,492", "answered", 1209492),
        ("CPU %", "650", "cpu", 6.5),
        ("server cores", "0.41", "cpu", 0.41),
        ("cores", "16", "cores", 16),
    ],
)
def test_headings_are_forgiven(heading: str, cell: str, name: str, value: float) -> None:
    row = table([("line 2", {heading: cell})], "t.csv").rows[0]
    assert row.figures[name].value == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("mean\n4.2\n", "line 2, mean: found '4.2, without a unit'"),
        ("mean (ms),cpu\n4.2,0.4\n", "line 2, cpu: found '0.4, without a unit'"),
        ("mean (ms)\n4,2\n", "line 2: found '2 cells'"),
        ("mean (ms);rps\n4,2;1\n", "line 2, mean (ms): found '4,2'"),
        ("# source\n\nrps\nfast\n", "line 4, rps: found 'fast'"),
        ("mean (ms),avg (ms)\n1,2\n", "columns 'mean (ms)' and 'avg (ms)'"),
        ("throughput (MB/s)\n3\n", "header: found 'throughput (MB/s)'"),
        ('[{"rps": "12 parsecs"}]', "row 1, rps: found \"12 parsecs in 'parsecs'\""),
        ("[1, 2]", "JSON: found"),
        ("rps\n", "rows: found 'none'"),
    ],
)
def test_units_and_cells_are_not_guessed(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_text(text)
    with pytest.raises(DeclarationError) as error:
        read(tmp_path / "t")
    assert problem in str(error.value)
    assert "allowed: " in str(error.value)


def test_json_keeps_its_digits_and_flattens(tmp_path: Path) -> None:
    """4.20 ms leaves less open than 4.2 ms."""
    rows = '{"run": "x", "rows": [{"name": "a", "latency": {"avg": 4.20}, "latency_max": "9ms"}]}'
    (tmp_path / "t.json").write_text(rows)
    found = read(tmp_path / "t.json", Terms(units={"time": "ms"}))
    mean = found.rows[0].figures["mean"]
    assert (mean.low, mean.high) == pytest.approx((0.004195, 0.004205))
    assert found.rows[0].label == "a"
    assert found.columns == {"latency.avg": "mean", "latency_max": "max"}


NAMES = {"throughput": "rate", "server_cores": "server cores", "requests": "requests"}


def test_the_articles_figures_stand_but_for_what_can_be_asked() -> None:
    """What the five articles published, as declared: nothing is impossible."""
    cases = {case.id: case for e in load_experiments(PROJECT) for case in e.cases["published"]}
    rows = [
        (name, _cells(cases[published.ids(name)[0]], figures))
        for published in load_published(PROJECT).values()
        for name, figures in published.figures.items()
    ]
    found = audit(table(rows, "articles")).rows
    assert len(found) == 42
    asked: dict[str, set[str]] = {}
    for row in found:
        for problem in row.problems:
            assert problem.verdict == "suspicious", problem
            asked.setdefault(problem.law, set()).add(row.row.place)
    assert asked == {
        "Little's law": {"wsgi_json_gil_w1", "wsgi_json_gil_w2", "sweep_io_t1"},
        "busy server": {"asgi_json_gil_w1", "wsgi_json_gil_w1", "wsgi_json_gil_w2"},
    }


def _cells(case: Case, figures: Mapping[str, float]) -> dict[str, str]:
    """A case and its published figures as somebody would print them in a table."""
    times = {n: n.split("_")[1] for n in figures if n.startswith(("response_", "service_"))}
    cells = {
        f"{name} (s)" if metric in times else name: f"{figures[metric]:.10g}"
        for metric, name in {**NAMES, **times}.items()
        if metric in figures
    }
    cells |= {"connections": str(case.load.connections), "wait": f"{case.endpoint.floor:g} s"}
    cells |= {"workers": str(case.workers), "model": str(case.load.model)}
    cells |= {"slots": str(case.slots)} if case.slots else {}
    return cells | ({"offered": f"{case.load.rate:g}"} if case.load.rate else {})


def test_the_guide_shows_what_the_command_says(tmp_path: Path) -> None:
    """Every table of docs/audit.md is audited, and every answer there is the command's."""
    page = (PROJECT / "docs" / "audit.md").read_text("utf-8")
    blocks = re.findall(r"```(csv|json|console) ?(\S*)\n(.*?)```", page, re.DOTALL)
    shown = []
    for kind, name, text in blocks:
        if kind != "console":
            (tmp_path / name).write_text(text, "utf-8")
            continue
        command, _, answer = text.partition("\n")
        words = shlex.split(command.removeprefix("$ duetbench "))
        done = CliRunner().invoke(app, [*words[:1], str(tmp_path / words[1]), *words[2:]])
        said = done.stdout.replace(f"{tmp_path}/", "")
        assert said == answer, said
        assert done.exit_code == ("cannot be\n" in answer)
        shown.append(words[1])
    assert len(shown) >= 3


@pytest.mark.parametrize(
    ("text", "words", "code", "said"),
    [
        ("rps,mean (ms),c\n100,10.0,1\n", [], 0, "1 fine"),
        ("rps,mean (ms),c\n100,15.0,1\n", ["--markdown"], 1, "| line 2 | cannot be | Little"),
        ("rps,p,c\n100,15.0,1\n", ["--column", "p=mean", "--unit", "time=ms"], 1, "100 × 15.0 ms"),
        ("rps\n100\n", [], 3, "not checked"),
        ("rps\n100\n", ["--set", "speed=3"], 2, ""),
        ("rps\n100\n", ["--set", "mean"], 2, ""),
    ],
)
def test_the_command_ends_as_it_found(
    text: str, words: list[str], code: int, said: str, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text(text)
    done = CliRunner().invoke(app, ["audit", str(tmp_path / "t.csv"), *words])
    found = getattr(done.exception, "exit_code", done.exit_code)
    assert (found, said in done.stdout) == (code, True), done


def test_programs_get_figures_in_si_units(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("server,rps,mean (ms),c\na,100,15.0,1\n")
    done = CliRunner().invoke(app, ["audit", str(tmp_path / "t.csv"), "--json"])
    row = json.loads(done.stdout)["rows"][0]
    assert row["figures"] == {"rate": 100, "mean": 0.015, "connections": 1}
    (problem,) = row["problems"]
    assert (problem["expected"], problem["found"], problem["verdict"]) == (1, 1.5, "impossible")
    assert (row["label"], row["unchecked"]["floor"]) == ("a", "wait")
