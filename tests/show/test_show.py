"""`duetbench show`: runs, failures in words, and comparisons again."""

import io
import json
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

import synthetic
from comparing import BROKEN, SAME, WORSE, comparison_of, judged_case
from duetbench.cli.show import print_run, show_command
from duetbench.core.comparison import Comparison
from duetbench.core.errors import FlagName, RecordError, UsageError
from duetbench.core.model import CaseResult, Flag, Run
from duetbench.host import files
from duetbench.host.files import encode, save_comparison
from duetbench.report.report import as_markdown as report
from duetbench.report.report import print_comparison
from duetbench.report.run import as_markdown, print_cases
from goldens import assert_golden
from repos import write

COMPARED = "20261120T120000Z-compare-bbbbbbbb"
HOSTILE = "\x1b]0;mine\x07\x1b[2J\x9b2J\x7f##[error]"
"""Sets a window's title, empties the screen twice, deletes, and fails in a job's log."""


def demo_run() -> Run:
    """A measured case with noise on one launch, a failed one, and one of another endpoint."""
    gil, ft, other = (
        synthetic.make_case(f"demo/{name}") for name in ("json/py3.14", "json/py3.14t", "io")
    )
    noise = Flag(name=FlagName.HOST_NOISE, detail="other processes used 0.20 cores")
    figures = [
        {
            "server_cpu_per_request": 163e-6, "throughput": rate, "response_p50": 0.0556,
            "response_p99": 0.081, "pss_steady": 45e6,
        }
        for rate in (90, 100, 110)
    ]  # fmt: skip
    good = [synthetic.ok(gil.id, n, row, *[noise] * (n == 1)) for n, row in enumerate(figures)]
    wrong = FlagName.WRONG_ANSWER, "expected a | b, found c"
    bad = [synthetic.failed(ft.id, number, *wrong) for number in range(3)]
    results = [
        CaseResult(case=case, launches=tuple(many)) for case, many in ((gil, good), (ft, bad))
    ]
    return synthetic.make_run([*results, synthetic.steady_result(other, {"throughput": 7.0})])


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one run."""
    (tmp_path / "pyproject.toml").write_text('[tool.duetbench]\nresults = "results"\n')
    files.save(tmp_path / "results", demo_run())
    monkeypatch.setenv("DUETBENCH_ROOT", str(tmp_path))
    return tmp_path


def called(arguments: Sequence[str]) -> str:
    """Output of the command line; its errors are raised."""
    app = typer.Typer(callback=lambda: None)  # of several commands
    app.command("show")(show_command)
    # Workers of pytest-xdist have a width in their environment.
    runner = CliRunner(env={"COLUMNS": None})
    return runner.invoke(app, arguments, catch_exceptions=False, standalone_mode=False).output


def test_what_a_run_says_on_a_terminal_and_in_markdown() -> None:
    """In brief, of one case and of several with a failure; and with all figures."""
    text = io.StringIO()
    console = Console(file=text, width=120, highlight=False)
    brief = [
        case.model_copy(update={"launches": case.launches[1:2]}) for case in demo_run().results
    ]
    for n in (1, 2):
        print_cases(console, demo_run().model_copy(update={"results": brief[:n], "launches": 1}))
        console.print()
    print_run(console, demo_run())
    assert_golden("answers/run.txt", "\n".join(map(str.rstrip, text.getvalue().splitlines())))
    assert_golden("answers/run.md", as_markdown(demo_run()))


@pytest.mark.usefixtures("state_home")
def test_the_latest_run_is_shown_whole_and_a_partial_one_says_so(checkout: Path) -> None:
    assert Run.model_validate_json(called(["show", "latest", "--json"])) == demo_run()
    assert "Run 20261120T090000Z-nightly-3f2a9c17\n" in called(["show"])
    notes = ("interrupted after 7 launches",)
    run = demo_run().model_copy(update={"status": "partial", "notes": notes})
    text = called(["show", str(files.save(checkout / "results", run))])
    assert ("(partial)" in text, notes[0] in text) == (True, True)


def refused(error: type[Exception], match: str, *words: str | Path) -> None:
    with pytest.raises(error, match=match):
        called(list(map(str, words)))


@pytest.mark.usefixtures("state_home")
def test_what_cannot_be_shown_is_refused_with_what_there_is(checkout: Path) -> None:
    refused(UsageError, "no result has the name 'tomorrow'", "show", "tomorrow")
    refused(UsageError, "-o c.html: expected a file .json or .md", "show", "-o", "c.html")
    for path in (checkout / "results").rglob("*.json"):
        path.unlink()
    refused(RecordError, "no run has been recorded", "show")
    path = save_comparison(a_comparison(), checkout)
    refused(RecordError, "cannot be written", "show", path, "-o", path / "c.html")
    record = files.save(checkout, synthetic.change_record())
    refused(RecordError, "expected a comparison of format 4: format: Input", "show", record)
    text = path.read_text("utf-8")
    path.write_text(text.replace('"format": 4', '"format": 5', 1), "utf-8")
    refused(RecordError, r"a comparison of format 4: format: .*, found 5\.", "show", path)
    path.write_text(text[: len(text) // 2], "utf-8")
    refused(RecordError, "truncated or damaged", "show", path)


def a_comparison(**more: Any) -> Comparison:
    cases = (judged_case("x/a/py3.14", WORSE), judged_case("x/b/py3.14", SAME))
    return comparison_of(*cases, **{"id": COMPARED, **more})


@pytest.mark.usefixtures("checkout")
def test_a_stored_comparison_is_shown_as_it_was(tmp_path: Path) -> None:
    actual, stream = a_comparison(), io.StringIO()
    path = save_comparison(actual, tmp_path)
    print_comparison(Console(file=stream, width=120, highlight=False), actual)
    assert "▼ worse in 1 of 2 cases" in stream.getvalue()
    assert called(["show", str(path)]) == stream.getvalue()
    assert called(["show", str(path), "-o", str(tmp_path / "c.md")]) == ""
    assert (tmp_path / "c.md").read_text("utf-8") == report(actual)
    assert Comparison.model_validate_json(called(["show", str(path), "--json"])) == actual


def acting(text: str) -> set[str]:
    acts = {item for item in text if unicodedata.category(item) == "Cc"} - {"\n", "\t"}
    return acts | ({"##["} if "##[" in text else set())


@pytest.mark.usefixtures("checkout")
def test_what_a_file_holds_does_nothing_on_a_terminal(tmp_path: Path) -> None:
    broken = BROKEN.model_copy(update={"why": f"head: {HOSTILE}"})
    hostile = {"notes": (HOSTILE,), "reproduce": f"duetbench compare {HOSTILE}"}
    compared = comparison_of(
        judged_case(f"x/{HOSTILE}", WORSE), judged_case("x/b", broken), id=COMPARED, **hostile
    )
    case = synthetic.make_case(f"demo/{HOSTILE}")
    failed = synthetic.failed(case.id, 0, FlagName.WRONG_ANSWER, f"found {HOSTILE}")
    run = tmp_path / "run.json"
    run.write_bytes(encode(synthetic.make_run([CaseResult(case=case, launches=(failed,))])))
    shown = {
        "": "␛]0;mine␛[2J\ufffd2J␡",
        "--json": "\\u001b]0;mine\\u0007",
        f"-o {tmp_path}/c.md": "␛\\]0;mine␇␛\\[2J\ufffd2J␡",
    }
    for path in (save_comparison(compared, tmp_path), run):
        for word, pictures in shown.items():
            text = called(["show", str(path), *word.split()])
            text = text or (tmp_path / "c.md").read_text("utf-8")
            assert (acting(text), pictures in text) == (set(), True), (path, word)
        assert not acting(path.read_text("utf-8"))
    document = called(["show", str(tmp_path / "comparisons" / f"{COMPARED}.json"), "--json"])
    assert Comparison.model_validate_json(document) == compared


@pytest.mark.usefixtures("state_home")
def test_comparisons_go_by_their_ids_and_the_latest_is_of_this_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one's is newer, and goes by its id."""
    for place, day in (("shop", 20), ("books", 21)):
        root = tmp_path / place
        write(root, "pyproject.toml", f"[project]\nname = '{place}'\n")
        monkeypatch.setenv("DUETBENCH_ROOT", str(root))
        refused(RecordError, f"{root}: no run has been recorded, and no comparison", "show")
        save_comparison(a_comparison(id=f"202611{day}T120000Z-compare-{place}", notes=(place,)))
        assert json.loads(called(["show", "latest", "--json"]))["notes"] == [place]
    monkeypatch.setenv("DUETBENCH_ROOT", str(tmp_path / "shop"))
    assert json.loads(called(["show", "--json"]))["notes"] == ["shop"]
    assert json.loads(called(["show", "compare-books", "--json"]))["notes"] == ["books"]
    assert "Partial: " not in called(["show"])
    save_comparison(a_comparison(id="20261122T120000Z-compare-shop2", status="partial"))
    assert "Partial: " in called(["show", "shop2"])
    any_of = "could be any of .*compare-shop.*; be more specific"
    refused(UsageError, any_of, "show", "Z-compare-")
    for name in ("x", "x-compare-y"):
        refused(UsageError, f"no result has the name '{name}'.*compare-shop2", "show", name)
