"""`duetbench show`: runs, failures in words, and comparisons again."""

import io
import json
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import synthetic
from bench import Shell
from comparing import BROKEN, SAME, WORSE, comparison_of, judged_case
from duetbench.cli.show import print_run
from duetbench.core.comparison import Comparison
from duetbench.core.errors import FlagName
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


Show = Callable[..., str]


@pytest.fixture
def show(call: Shell, state_home: Path) -> Show:
    """The verb, in a checkout with one run: its output; with `fails`, it fails with these words."""
    root = state_home.parent
    (root / "pyproject.toml").write_text('[tool.duetbench]\nresults = "results"\n')
    files.save(root / "results", demo_run())
    call.patch.setenv("DUETBENCH_ROOT", str(root))
    call.patch.delenv("COLUMNS", raising=False)  # workers of pytest-xdist have a width

    def show(*words: str | Path, fails: str = "") -> str:
        result = call("show", *words)
        assert result.code in ((2, 4) if fails else (0,)), result
        assert re.search(fails, result.err), result
        return result.out

    return show


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


def test_the_latest_run_is_shown_whole_and_a_partial_one_says_so(
    show: Show, tmp_path: Path
) -> None:
    assert Run.model_validate_json(show("latest", "-o", "-")) == demo_run()
    assert "Run 20261120T090000Z-nightly-3f2a9c17\n" in show()
    notes = ("interrupted after 7 launches",)
    run = demo_run().model_copy(update={"status": "partial", "notes": notes})
    text = show(files.save(tmp_path / "results", run))
    assert ("(partial)" in text, notes[0] in text) == (True, True)


def test_what_cannot_be_shown_is_refused_with_what_there_is(show: Show, tmp_path: Path) -> None:
    show("tomorrow", fails="no result has the name 'tomorrow'")
    show("-o", "c.html", fails="-o c.html: expected a file .json or .md")
    for path in (tmp_path / "results").rglob("*.json"):
        path.unlink()
    show(fails="no result has the name 'latest'.*duetbench run or duetbench compare makes one")
    path = save_comparison(a_comparison(), tmp_path)
    show(path, "-o", path / "c.html", fails="cannot be written")
    record = files.save(tmp_path, synthetic.change_record())
    show(record, fails="expected a comparison of format 4: format: Input")
    text = path.read_text("utf-8")
    path.write_text(text.replace('"format": 4', '"format": 5', 1), "utf-8")
    show(path, fails=r"a comparison of format 4: format: .*, found 5\.")
    path.write_text(text[: len(text) // 2], "utf-8")
    show(path, fails="truncated or damaged")


def a_comparison(**more: Any) -> Comparison:
    cases = (judged_case("x/a/py3.14", WORSE), judged_case("x/b/py3.14", SAME))
    return comparison_of(*cases, **{"id": COMPARED, **more})


def test_a_stored_comparison_is_shown_as_it_was(show: Show, tmp_path: Path) -> None:
    actual, stream = a_comparison(), io.StringIO()
    path = save_comparison(actual, tmp_path)
    print_comparison(Console(file=stream, width=120, highlight=False), actual)
    assert "▼ worse in 1 of 2 cases" in stream.getvalue()
    assert show(path) == stream.getvalue()
    assert show(path, "-o", tmp_path / "c.md") == ""
    assert (tmp_path / "c.md").read_text("utf-8") == report(actual)
    assert Comparison.model_validate_json(show(path, "-o", "-")) == actual


def acting(text: str) -> set[str]:
    acts = {item for item in text if unicodedata.category(item) == "Cc"} - {"\n", "\t"}
    return acts | ({"##["} if "##[" in text else set())


def test_what_a_file_holds_does_nothing_on_a_terminal(show: Show, tmp_path: Path) -> None:
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
        "-o -": "\\u001b]0;mine\\u0007",
        f"-o {tmp_path}/c.md": "␛\\]0;mine␇␛\\[2J\ufffd2J␡",
    }
    for path in (save_comparison(compared, tmp_path), run):
        for word, pictures in shown.items():
            text = show(path, *word.split()) or (tmp_path / "c.md").read_text("utf-8")
            assert (acting(text), pictures in text) == (set(), True), (path, word)
        assert not acting(path.read_text("utf-8"))
    document = show(tmp_path / "comparisons" / f"{COMPARED}.json", "-o", "-")
    assert Comparison.model_validate_json(document) == compared


def test_comparisons_go_by_their_ids_and_the_latest_is_of_this_repository(
    show: Show, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one's is newer, and goes by its id."""
    for place, day in (("shop", 20), ("books", 21)):
        root = tmp_path / place
        write(root, "pyproject.toml", f"[project]\nname = '{place}'\n")
        monkeypatch.setenv("DUETBENCH_ROOT", str(root))
        show(fails="no result has the name 'latest'")
        save_comparison(a_comparison(id=f"202611{day}T120000Z-compare-{place}", notes=(place,)))
        assert json.loads(show("latest", "-o", "-"))["notes"] == [place]
    monkeypatch.setenv("DUETBENCH_ROOT", str(tmp_path / "shop"))
    assert json.loads(show("-o", "-"))["notes"] == ["shop"]
    assert json.loads(show("compare-books", "-o", "-"))["notes"] == ["books"]
    assert "Partial: " not in show()
    save_comparison(a_comparison(id="20261122T120000Z-compare-shop2", status="partial"))
    assert "Partial: " in show("shop2")
    show("Z-compare-", fails="could be any of .*compare-shop.*; be more specific")
    for name in ("x", "x-compare-y"):
        show(name, fails=f"no result has the name '{name}'.*compare-shop2")
