"""What readers see of a comparison: headline, rows, how sure, what next; and the Python API."""

import doctest
import io
import re
import subprocess
import sys
from html import unescape
from pathlib import Path
from typing import Any, Final

import pytest

import corpus
import observatory.matrix.published  # noqa: F401 - titles of benchmarks
from comparing import (
    AGAIN,
    BETTER,
    BROKEN,
    CPU,
    DISTURBED,
    LARGER,
    LATE,
    NOISY,
    OPEN,
    SAME,
    WORSE,
    Judged,
    comparison_of,
    duet,
    judged_case,
    lines,
)
from duetbench.ci import comments
from duetbench.core import units
from duetbench.core.comparison import ANSWER, Comparison, Coverage, Finding, PackageChange
from duetbench.core.model import KEPT, Missing, Verdict
from duetbench.core.units import Interval
from duetbench.host import files
from duetbench.host.console import Console
from duetbench.judge.findings import exit_code
from duetbench.judge.repetition import command, rebuilt
from duetbench.report import findings as words
from duetbench.report import formats
from duetbench.report.comparison_text import as_markdown, print_comparison
from duetbench.report.html.comparison_page import one_file
from duetbench.report.report import check_line, make_report
from goldens import assert_golden

A, B = "x/a/py3.14", "x/b/py3.14"
MUCH_WORSE: Final = WORSE.model_copy(update={"ratio": 1.2, "low": 1.19, "high": 1.21})
SMALL: Final = LARGER.model_copy(
    update={"verdict": Verdict.SAME, "ratio": 1.048, "low": 1.046, "high": 1.052}
)
SQL: Final = Finding(
    case="",
    subject="sql",
    verdict=Verdict.DIFFERENT,
    exact=True,
    base=1,
    head=21,
    text="+20 × SELECT title FROM book WHERE author = ?",
    place="find_book, library.py:17",
)
CALLS: Final = SQL.model_copy(update={"subject": "function", "base": 9, "head": 29, "text": ""})
SAME_SQL: Final = SQL.model_copy(update={"verdict": Verdict.SAME, "head": 1, "text": ""})
OTHER: Final = Finding(
    case="", subject=ANSWER, verdict=Verdict.DIFFERENT, exact=True, text="head answers 0 rows"
)
NEW_STATUS: Final = OTHER.model_copy(update={"verdict": Verdict.WORSE, "text": "status 500"})
LEAK: Final = Finding(case="", subject=KEPT, verdict=Verdict.WORSE, head=2e3, place="add, a.py:4")
COUNTED: Final = Finding(
    case="", subject="instructions", verdict=Verdict.DIFFERENT, base=3e5, head=2e5, ratio=2 / 3,
    low=0.666, high=0.6674, limit=0.02, n=1,
)  # fmt: skip
VOID: Final = BROKEN.model_copy(update={"verdict": Verdict.UNKNOWN, "why": "base: no"})
MENDED: Final = LEAK.model_copy(update={"verdict": Verdict.BETTER, "base": 2e3, "head": 0.0})

LEADING: Final = {
    "worse": (judged_case(A, WORSE),),
    "better": (judged_case(A, BETTER),),
    "worse in one of two": (judged_case(A, WORSE), judged_case(B, SAME)),
    "10 % of 5 is more than 2.1 % of 2": (judged_case(A, WORSE), judged_case(B, SAME, LARGER)),
    "both ways": (judged_case(A, BETTER, LARGER),),
    "too small for anybody to act on": (judged_case(A, SAME, SMALL),),
    "same": (judged_case(A, SAME),),
    "same in both": (judged_case(A, SAME), judged_case(B, SAME)),
    "one unknown metric is not the same": (judged_case(A, SAME, OPEN), judged_case(B, SAME)),
    "unknown, beside what is alike": (judged_case(A, OPEN, SAME_SQL),),
    "no time": (judged_case(A, LATE),),
    "worse and unknown": (judged_case(A, WORSE), judged_case(B, OPEN)),
    "an effect stands beside its cost": (judged_case(A, MUCH_WORSE, SQL),),
    "and leads without one": (judged_case(A, SAME, SQL),),
    "the most telling of two": (judged_case(A, CALLS, SQL),),
    "other work leads over speed": (judged_case(A, MUCH_WORSE, OTHER),),
    "a new status": (judged_case(A, SAME, NEW_STATUS),),
    "a leak": (judged_case(A, WORSE, LEAK),),
    "a leak that is mended is no news above": (judged_case(A, MUCH_WORSE, MENDED),),
    "head fails": (judged_case(A, BROKEN),),
    "base fails": (judged_case(A, VOID),),
    "duets decide what instructions cost": (judged_case(A, LATE, COUNTED),),
    "nothing": (),
}


def test_all_who_read_a_comparison_are_told_the_same() -> None:
    lines = []
    for name, found in LEADING.items():
        comparison = comparison_of(*found)
        headline = make_report(comparison).headline
        lines.append(f"{name}: {exit_code(comparison)} {headline}")
        assert headline in " ".join(printed(comparison, 400).split())
        assert formats.escape(headline) in comments.report(comparison)
        assert files.parse(Comparison, comparison.model_dump_json().encode(), "it") == comparison
    assert_golden("answers/headlines.txt", "\n".join(lines))


def test_the_verdict_stands_below_what_the_requests_enter() -> None:
    """'Same' proves nothing of what they do not enter, unless something else differs."""
    none = Coverage(differ=3, entered=0, missed=("slow in shop.py",), alone=True)
    texts = []
    for changes in (
        {},
        {"alone": False, "outside": 1},
        {"differ": 1, "entered": 1, "functions": ("fast, shop.py:3",)},
        {"differ": 0, "outside": 2},
    ):
        covered = none.model_copy(update=changes)
        report = make_report(comparison_of(judged_case(A, SAME), coverage=covered))
        texts += [report.headline, *report.lines[:-1]]
    assert_golden("answers/coverage.txt", "\n".join(texts))


def printed(comparison: Comparison, width: int, **more: Any) -> str:
    file = io.StringIO()
    print_comparison(Console(file=file, width=width), comparison, **more)
    return file.getvalue()


@pytest.mark.parametrize(
    ("found", "more", "codes"),
    [
        # Plainly; the same answers; by statements; by what a request does.
        ((judged_case(A, SAME, BETTER),), {}, (0, 0, 3, 3)),
        ((judged_case(A, WORSE),), {}, (1, 1, 1, 3)),
        ((judged_case(A, WORSE),), {"cross": True}, (0, 0, 3, 3)),
        ((judged_case(A, BROKEN),), {"cross": True}, (1, 1, 1, 3)),
        ((judged_case(A, SAME, OPEN),), {}, (3, 3, 3, 3)),
        ((judged_case(A, OPEN),), {}, (3, 3, 3, 3)),
        ((judged_case(A, SAME),), {"planned": 2}, (3, 3, 3, 3)),
        ((judged_case(A, SAME),), {"status": "partial"}, (3, 3, 3, 3)),
        ((judged_case(A, SAME, OTHER),), {}, (0, 1, 3, 3)),
        ((judged_case(A, SAME, COUNTED),), {}, (0, 0, 3, 3)),
        ((judged_case(A, COUNTED),), {"counts_only": True}, (0, 0, 3, 3)),
        ((), {"missing": (Missing(case="one/b", reason="only head has it"),)}, (0, 0, 0, 0)),
        ((), {"missing": (Missing(case="one/b", reason="only head"),), "untouched": 0},
         (3, 3, 3, 3)),
    ],
)  # fmt: skip
def test_exit_codes_say_how_it_ended(
    found: tuple[Judged, ...], more: dict[str, Any], codes: tuple[int, ...]
) -> None:
    comparison = comparison_of(*found, **more)
    gates: list[dict[str, Any]] = [
        {},
        {"answers": True},
        {"statements": 0},
        {"effects": True},
    ]
    assert tuple(exit_code(comparison, **gate) for gate in gates) == codes


@pytest.mark.parametrize(
    ("finding", "cells"),
    [
        (MUCH_WORSE.model_copy(update={"base": 126e-6, "head": 151.2e-6, "agreeing": 15}),
         ("126 → 151 µs", "20 % more", "19…21 %", "▼ 15 of 16")),
        (SAME, ("", "", "−0.4…+0.5 %", "= below 2 %")),
        (SMALL, ("", "+4.8 %", "+4.6…+5.2 %", "= probably below 5 %")),
        (OPEN, ("", "+0.6 %", "−0.9…+2.1 %", "? unknown")),
        (LATE, ("", "—", "", "? unknown")),
        (SQL, ("1 → 21", "+20", "", "≠ find_book, library.py:17")),
        (LEAK, ("2.0 kB", "", "", "▼ add, a.py:4")),
        (BROKEN, ("", "", "", "▼ head: found <script>")),
    ],
)  # fmt: skip
def test_a_row_says_how_much_and_how_sure(finding: Finding, cells: tuple[str, ...]) -> None:
    shown = make_report(comparison_of(judged_case(A, finding)))
    rest = [row for section in shown.sections if section.title == "Other findings"
            for row in section.rows]  # fmt: skip
    (row,) = shown.rows or rest
    *others, verdict = row[1:]
    assert (*others, verdict.partition(": no time")[0]) == cells
    assert not (shown.rows and [verdict] in rest), "no figure stands twice"


def test_five_rows_lead_and_all_others_are_counted() -> None:
    cases = [judged_case(f"x/{n}", WORSE, SAME, SQL) for n in range(3)]
    report = make_report(comparison_of(*cases))
    assert (len(report.rows), report.more) == (5, 4)
    # The rows of a case stand together, the first of each case by its size.
    assert [row[0] for row in report.rows] == ["x/0", "x/0", "x/1", "x/1", "x/2"]


def test_a_report_says_why_it_has_its_exit_code() -> None:
    text = "\n".join(check_line(comparison_of(judged_case(A, WORSE)), code) for code in (0, 1, 3))
    assert_golden("answers/codes.md", text)


@pytest.mark.parametrize(
    ("subject", "ends"),
    [(CPU, "compare --why aaaaaaaaaaaa bbbbbbbbbbbb --profile quick"), ("pss_steady", "")],
)
def test_what_to_type_next_looks_into_what_moved(subject: str, ends: str) -> None:
    moved = MUCH_WORSE.model_copy(update={"subject": subject})
    command = make_report(comparison_of(judged_case(A, moved), reproduce=AGAIN)).command
    assert command.endswith(ends)
    assert bool(command) == bool(ends)


def test_time_is_asked_for_only_where_it_helps() -> None:
    """Twice the time that was too short."""
    open_ = judged_case(A, OPEN, OPEN.model_copy(update={"subject": "throughput"}))
    report = make_report(comparison_of(open_, judged_case(B, OPEN), reproduce=AGAIN))
    assert report.command.endswith("--seed 1 --budget 40m")
    assert "--budget 20m" not in report.command
    assert make_report(comparison_of(judged_case(A, LATE))).lines[-1] == "about 40m may decide"
    spent = judged_case(A, OPEN.model_copy(update={"lack": "samples"}))
    assert make_report(comparison_of(spent)).lines[-1].startswith("Any change is too small or too")
    loud = judged_case(A, DISTURBED, duets=(duet(A, head_flags=(NOISY,)),))
    assert "something else took core time" in make_report(comparison_of(loud)).lines[-1]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(4, "5s"), (71, "75s"), (116, "2m"), (121, "2m30s"), (600, "10m"), (601, "11m"),
     (3541, "1h"), (5400, "1h30m")],
)  # fmt: skip
def test_a_proposed_time_is_one_that_an_option_reads(seconds: float, text: str) -> None:
    assert units.write_time(seconds) == text
    assert (units.read_time(text) or 0) >= seconds


def test_the_packages_that_differ_are_named_in_one_line() -> None:
    moved = [
        PackageChange(stack=stack, package=f"p{number}", base="1", head="2")
        for stack in ("project", "other")
        for number in range(8)
    ]
    for count, text in ((0, []), (2, ["packages: p0 1 → 2, p1 1 → 2"]),
                        (16, ["packages: p0 1 → 2, p1 1 → 2, p2 1 → 2 and 5 more"])):  # fmt: skip
        found = comparison_of(judged_case(A, WORSE), packages=moved[:count])
        assert make_report(found).lines[:-1] == text


def test_what_a_command_lacks_is_said_beside_it() -> None:
    lacks = ("to repeat it, add --header again: the command omits that",)
    found = comparison_of(judged_case(A, WORSE), reproduce=AGAIN, to_repeat=lacks)
    assert lacks[0] in printed(found, 200, details=False)
    assert lines(make_report(found), "Repeat it") == (("", lacks[0]),)


def test_untrusted_text_stays_text() -> None:
    evil = SQL.model_copy(update={"text": "+1 × <script>alert(1)</script> | `x` @everyone"})
    found = comparison_of(judged_case(A, evil, BROKEN), notes=("\x1b[2J<b>note</b>",))
    page, text = one_file(found), as_markdown(found)
    assert "<script>" not in page
    assert "<script>" not in text
    assert "\x1b" not in printed(found, 100)


REVISIONS: Final = f"duetbench compare {'a' * 12} {'b' * 12}"


@pytest.mark.parametrize(
    ("recorded", "harmless"),
    [
        (AGAIN, True),
        (f"{REVISIONS} --all --budget 20m", True),
        (f"{AGAIN}; rm -rf /", False),
        (AGAIN.replace("--seed 1", "-o /etc/passwd"), False),
        ("no command at all", False),
        *((f"duetbench compare --head {words} --seed 1", True) for words in (
            "server=granian --head env.JIT=1", "python=3.14t --head granian==2.8.7",
            "arg=--access-log --head arg=--no-ws")),
        *((f"duetbench compare --head '{word}' --seed 1", False) for word in (
            "lock=uv.lock@main", "arg=--config=/etc/passwd", "env.PATH=/tmp",
            "granian==2.8.7 @ https://x", "--why")),
    ],
)  # fmt: skip
def test_a_command_from_a_file_writes_and_installs_nothing(recorded: str, harmless: bool) -> None:
    plain = comparison_of(judged_case(A, WORSE), reproduce=recorded)
    assert rebuilt(plain) == (recorded if harmless else None)
    words = ("server=granian", "granian==2.8.7")
    sides = [side.model_copy(update={"kind": "setting"}) for side in (plain.base, plain.head)]
    made = command(sides[0], sides[1].model_copy(update={"words": words}), ("--seed", "1"))
    assert made == "duetbench compare --head server=granian --head granian==2.8.7 --seed 1"


@pytest.mark.parametrize(
    ("ratio", "low", "high", "change", "ends", "within"),
    [
        (1.0213, 1.0161, 1.0265, "+2.1 %", "+1.6…+2.6 %", "1.6…2.6 %"),
        (1.2016, 1.1835, 1.2199, "+20 %", "+18…+22 %", "18…22 %"),
        (1.25, 1.18, 1.32, "+25 %", "+18…+32 %", "18…32 %"),
        (0.9647, 0.9581, 0.9714, "−3.5 %", "−4.2…−2.9 %", "2.9…4.2 %"),
        (1.0096, 1.0074, 1.0119, "+1.0 %", "+0.7…+1.2 %", "0.7…1.2 %"),
        (0.884, 0.879, 0.889, "−11.6 %", "−12.1…−11.1 %", "11.1…12.1 %"),
        (0.9329, 0.9303, 0.9356, "−6.7 %", "−7.0…−6.4 %", "6.4…7.0 %"),
        (0.9035, 0.8892, 0.9166, "−10 %", "−11…−8 %", "8…11 %"),
        (1.0004, 1.0002, 1.0006, "+0.04 %", "+0.02…+0.06 %", "0.02…0.06 %"),
        (1.01, 0.99, 1.03, "+1.0 %", "−1.0…+3.0 %", "−1.0…+3.0 %"),
        (2.317, 2.01, 2.67, "2.3×", "2.0…2.7×", "2.0…2.7 times"),
        (31.5, 27.0, 36.0, "32×", "27…36×", "27…36 times"),
        (1.05, 1e-18, 1.1e19, "+5 %", *["wider than a factor of 100"] * 2),
    ],
)
def test_a_figure_has_no_more_digits_than_its_interval(
    ratio: float, low: float, high: float, change: str, ends: str, within: str
) -> None:
    figure = Interval(ratio, low, high)
    assert formats.change(figure) == change
    assert (formats.ends(figure), formats.within(figure)) == (ends, within)


def test_what_only_a_doubling_would_show_is_a_factor() -> None:
    """Three loud duets may see nothing below a factor of millions: no such figure is printed."""
    sizes = [formats.size(change) for change in (None, 0.0062, 0.99, 1.0, 1.39, 65535.6)]
    assert sizes == [formats.MISSING, "0.62 %", "99 %", "2.0 times", "2.4 times", "over 10 times"]


PAGES: Final = ("leak", "n-plus-1", "void")
"""A page has the words of the other two, in a template of its own."""

ROOT: Final = Path(__file__).parents[2]
STORED: Final = ROOT / "results" / "comparisons"
CHOSEN: Final = {
    "release-slower": "20261125T145309Z-compare-01f80eca",
    "server-choice": "20261126T142459Z-compare-6e1bba24",
    "no-change": "20261125T022727Z-compare-ce0f6843",
}


@pytest.mark.usefixtures("_at_home")
@pytest.mark.parametrize("name", CHOSEN)
def test_each_reader_sees_what_was_agreed(name: str) -> None:
    _assert_agreed(name, files.read(Comparison, STORED / f"{CHOSEN[name]}.json"))


@pytest.mark.parametrize("name", corpus.NAMES)
def test_each_application_of_the_corpus_has_its_answer(name: str) -> None:
    _assert_agreed(name, corpus.load(name))


def test_an_interrupted_comparison_says_so() -> None:
    partial = corpus.load("leak", {"status": "partial", "findings.0.place": "shop.py:1"})
    headline = make_report(partial).headline
    assert headline.startswith("Partial: ▼ worse: GET /page keeps 4.2 kB")
    assert "(shop.py:1)" in headline


def _assert_agreed(name: str, comparison: Comparison) -> None:
    out = io.StringIO()
    print_comparison(Console(file=out, width=100), comparison, details=False)
    assert_golden(f"answers/{name}.txt", out.getvalue())
    assert_golden(f"answers/{name}.md", comments.report(comparison))
    if name in PAGES:
        assert_golden(f"answers/{name}.html.txt", words_of(one_file(comparison)))


def words_of(page: str) -> str:
    """The words of a page above its samples, an element a line."""
    main = re.sub(r"(?s)<(style|svg|script)\b.*?</\1>", "", page)
    main = main.partition("<main")[2].partition('id="samples"')[0]
    lines = re.sub(r"</?(?:p|h\d|tr|li|dt|dd|ul|table|details|summary|figure)\b[^>]*>", "\n", main)
    text = unescape(re.sub(r"<[^>]*>", " ", lines))
    return "\n".join(filter(None, (" ".join(line.split()) for line in text.splitlines())))


@pytest.fixture
def _at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of cases are those that this repository declares."""
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("DUETBENCH_ROOT", raising=False)


def test_a_page_alone_has_every_duet_and_fetches_nothing() -> None:
    many = tuple(duet("x/a", {CPU: 1.02}) for _ in range(3))
    text = one_file(comparison_of(judged_case("x/a", WORSE, duets=many)))
    assert not re.search(r"<script|<link|src=|@import|url\(|href=\"[^#]", text)
    assert "light-dark(" in text
    assert "width=device-width" in text
    assert text.count('class="sample"') == 3, "one for each duet"
    assert len(re.findall(r'<th scope="row">\d</th><td [^>]*class="number">\+2', text)) == 3


def test_on_a_phone_each_cell_is_labelled_by_its_own_column() -> None:
    """The first column of findings has no title, which shifted the labels by one."""
    text = one_file(comparison_of(judged_case("x/a", WORSE)))
    table = re.search(r"(?s)<table class=\"wide\">.*?</tr>.*?(<tr>.*?)</tr>", text)
    assert table is not None
    assert re.findall(r'data-label="([^"]*)"', table[1]) == [*words.HEAD[1:]]
    page = one_file(corpus.load("n-plus-1"))
    assert '<td data-label="change" class="number">47 % more</td>' in page


@pytest.mark.usefixtures("_at_home")
def test_the_example_in_python_is_right() -> None:
    done = doctest.testfile(str(ROOT / "docs" / "agents.md"), module_relative=False)
    assert done.failed == 0
    assert done.attempted > 5


def test_importing_duetbench_takes_nothing_with_it() -> None:
    code = "import sys, duetbench; print(sorted({'numpy', 'pydantic', 'typer'} & {*sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
