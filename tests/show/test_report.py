"""What readers see of a comparison: headline, rows, how sure, what next; and the Python API."""

import doctest
import io
import re
from typing import Any, Final

import pytest

import goldens
import observatory.matrix.published  # noqa: F401 - titles of benchmarks
import sites
from bench import PROJECT
from comparing import (
    AGAIN,
    BETTER,
    BROKEN,
    CPU,
    LARGER,
    LATE,
    OPEN,
    OPEN_RATE,
    SAME,
    WORSE,
    Judged,
    comparison_of,
    does,
    duet,
    judged_case,
)
from duetbench.ci import comments
from duetbench.core.comparison import ANSWER, Comparison, Coverage, Finding, Missing, PackageChange
from duetbench.core.effects import AnswerDifference, Effects, KeptMemory, RequestEffect
from duetbench.core.model import Verdict
from duetbench.core.units import Interval
from duetbench.host import result_files
from duetbench.host.console import Console
from duetbench.judge.findings import exit_code, of_effects
from duetbench.judge.repetition import command, rebuilt
from duetbench.report import changes, formats
from duetbench.report.findings import announce, row
from duetbench.report.html.comparison_page import one_file
from duetbench.report.report import make_report, print_comparison, print_section
from goldens import assert_golden, assert_said
from synthetic import make_case

A, B = "x/a/py3.14", "x/b/py3.14"
MUCH_WORSE: Final = WORSE.model_copy(update={"ratio": 1.2, "low": 1.19, "high": 1.21})
QUICKER: Final = BETTER.model_copy(update={"subject": "response_p50"})
SMALL: Final = LARGER.model_copy(
    update={"verdict": Verdict.SAME, "ratio": 1.048, "low": 1.046, "high": 1.052}
)
EXACT: Final = Finding(case="", subject="sql", verdict=Verdict.DIFFERENT, exact=True)
MORE: Final = {
    "text": "+20 × SELECT title FROM book WHERE author = ?",
    "place": "find_book, library.py:17",
}
SQL: Final = EXACT.model_copy(update={"base": 1, "head": 21, **MORE})
CALLS: Final = SQL.model_copy(update={"subject": "function", "base": 9, "head": 29, "text": ""})
SAME_SQL: Final = SQL.model_copy(update={"verdict": Verdict.SAME, "head": 1, "text": ""})
OTHER: Final = EXACT.model_copy(update={"subject": ANSWER, "text": "head answers 0 rows"})
NEW_STATUS: Final = OTHER.model_copy(update={"verdict": Verdict.WORSE, "text": "status 500"})
NEW_HEADER: Final = OTHER.model_copy(update={"text": "/b: head answers header x"})
COUNTED: Final = Finding(
    case="", subject="instructions", verdict=Verdict.DIFFERENT, base=3e5, head=2e5, ratio=2 / 3,
    low=0.666, high=0.6674, limit=0.02, n=1,
)  # fmt: skip
VOID: Final = BROKEN.model_copy(update={"verdict": Verdict.UNKNOWN, "why": "base: no"})

MANY: Final = tuple(
    PackageChange(stack=stack, package=f"p{number}", base="1", head="2")
    for stack in ("project", "other")
    for number in range(8)
)
UNREACHED: Final = Coverage(differ=3, entered=0, missed=("slow in shop.py",), alone=True)
NEXT: Final = {"reproduce": AGAIN}
LACKS: Final = ("to repeat it, add --header again: the command omits that",)
SPENT: Final = OPEN.model_copy(update={"lack": "samples"})
ONE_SIDE: Final = {"missing": (Missing(case="one/b", reason="only head has it"),)}

# Exit codes (plainly; by the same answers; by statements; by what a request does); cases; the rest.
INVENTED: Final[dict[str, tuple[str, tuple[Judged, ...], dict[str, Any]]]] = {
    "better": ("0033", (judged_case(A, QUICKER),), {}),
    "worse in one of two": ("1113", (judged_case(A, WORSE), judged_case(B, SAME)), {}),
    "10 % of 5 is more than 2.1 % of 2":
    ("1113", (judged_case(A, WORSE), judged_case(B, SAME, LARGER)), {}),
    "both ways": ("1113", (judged_case(A, BETTER, LARGER),), {}),
    "too small for anybody to act on": ("0033", (judged_case(A, SAME, SMALL),), {}),
    "a choice is not worse": ("0033", (judged_case(A, WORSE),), {"cross": True}),
    "unless its head fails": ("1113", (judged_case(A, BROKEN),), {"cross": True}),
    "same, but only one of two was judged": ("3333", (judged_case(A, SAME),), {"planned": 2}),
    "same, as far as it got": ("3333", (judged_case(A, SAME),), {"status": "partial"}),
    "one unknown metric is not the same":
    ("3333", (judged_case(A, SAME, OPEN), judged_case(B, SAME)), {}),
    "unknown, beside what is alike": ("3333", (judged_case(A, OPEN, SAME_SQL),), {}),
    "twice the time that was too short":
    ("3333", (judged_case(A, OPEN, OPEN_RATE), judged_case(B, OPEN)), NEXT),
    "more time does not help": ("3333", (judged_case(A, SPENT),), NEXT),
    "an effect leads without a cost": ("0033", (judged_case(A, SAME, SQL),), {}),
    "the most telling of two": ("3333", (judged_case(A, CALLS, SQL),), {}),
    "other work leads over speed": ("1113", (judged_case(A, MUCH_WORSE, OTHER),), {}),
    "answers of two of its requests": ("0133", (judged_case(A, SAME, OTHER, NEW_HEADER, SQL),), {}),
    "a new status": ("1111", (judged_case(A, SAME, NEW_STATUS),), {}),
    "head fails": ("1113", (judged_case(A, BROKEN),), {}),
    "base fails": ("3333", (judged_case(A, VOID),), {}),
    "duets decide what instructions cost": ("3333", (judged_case(A, LATE, COUNTED),), {}),
    "instructions alone": ("0033", (judged_case(A, COUNTED),), {"counts_only": True}),
    "requests enter nothing that differs":
    ("0033", (judged_case(A, SAME),), {"coverage": UNREACHED}),
    "nor, but something else differs": (
        "0033", (judged_case(A, SAME),),
        {"coverage": UNREACHED.model_copy(update={"alone": False, "outside": 1})}),
    "requests enter what differs": (
        "0033", (judged_case(A, SAME),),
        {"coverage": Coverage(differ=1, entered=1, functions=("fast, shop.py:3",))}),
    "no function differs":
    ("0033", (judged_case(A, SAME),), {"coverage": Coverage(differ=0, entered=0, outside=2)}),
    "many packages": ("1113", (judged_case(A, WORSE),), {"packages": MANY}),
    "what a command lacks": ("1113", (judged_case(A, WORSE),), {**NEXT, "to_repeat": LACKS}),
    "nothing": ("0000", (), {}),
    "a case of one side": ("0000", (), ONE_SIDE),
    "that shows nothing": ("3333", (), {**ONE_SIDE, "untouched": 0}),
}  # fmt: skip


def test_each_way_to_end_has_its_words_and_its_exit_codes() -> None:
    """Rows, advice and the reason of the exit code; the headline is the same for all readers."""
    gates: list[dict[str, Any]] = [{}, {"answers": True}, {"statements": 0}, {"effects": True}]
    written = []
    for name, (codes, cases, more) in INVENTED.items():
        comparison = comparison_of(*cases, **more)
        assert "".join(str(exit_code(comparison, **gate)) for gate in gates) == codes, name
        report, out = make_report(comparison), io.StringIO()
        console = Console(file=out, width=110)
        print_comparison(console, comparison, details=False)
        for section in report.sections:
            if section.title in {"All findings", "Packages that differ", "Repeat it"}:
                print_section(console, section)
        assert report.headline in " ".join(out.getvalue().split())
        assert formats.escape(report.headline) in comments.report(comparison)
        text = "\n".join(line.rstrip() for line in out.getvalue().splitlines())
        written.append(f"# {name}: exit code {codes[0]}\n{text}\n")
    assert_golden("answers/invented.txt", "\n".join(written))


BOOKS: Final = RequestEffect(
    kind="sql",
    text="SELECT book.id, book.title, book.author_id FROM book WHERE author_id = ?",
    place="authors, shop/main.py:41",
    base=0,
    head=20,
)
KEEPS: Final = KeptMemory(course="constant", bytes=2_100, place="shop/main.py:12", requests=200)
LOADED: Final = KEEPS.model_copy(update={"loaded": True})
NOTHING: Final = KeptMemory(course="none", requests=200)
FEW_ROWS: Final = AnswerDifference(what="head answers 0 rows instead of 20", broken=False)
BROKEN_ROWS: Final = FEW_ROWS.model_copy(update={"broken": True})
BY_ID: Final = " FROM book WHERE id = ?"
WIDE: Final = f"SELECT {'book.id, ' * 9}book"


def keeps(base: KeptMemory | None, head: KeptMemory | None) -> Effects:
    return Effects(kept_base=base, kept_head=head)


def sends(*texts: tuple[int, int, str]) -> Effects:
    return does(*(RequestEffect(kind="sql", base=a, head=b, text=text) for a, b, text in texts))


# Exit codes (plainly; by the same answers; by statements), what one request does.
OBSERVED: Final[dict[str, tuple[str, Effects]]] = {
    "answers, then leaks, then effects; what is alike is last": (
        "111", does(BOOKS, totals={"log": (1, 1), "sql": (2, 21)}, answers=(FEW_ROWS,),
                    kept_base=NOTHING, kept_head=LOADED)),
    "six times the calls say more than fewer tasks":
    ("000", does(("task", 9, 6), ("function", 103, 602))),
    "tasks that stay say more than both":
    ("000", does(("task", 9, 6), ("tasks left", 0, 1), ("function", 103, 602))),
    "what explains a cost comes after what is done":
    ("001", does(("library exception", 0, 6), BOOKS)),
    "no memory": ("000", keeps(NOTHING, NOTHING)),
    "few requests are no load": ("000", keeps(NOTHING, KEEPS)),
    "many are": ("111", keeps(NOTHING, LOADED)),
    "more of it": ("111", keeps(KEEPS, LOADED.model_copy(update={"bytes": 4_000}))),
    "statements without their columns, which are one text then": ("000", sends(
        (1, 0, f"SELECT book.id AS book_id, book.title AS title{BY_ID}"),
        (0, 1, f"SELECT book.id, book.title{BY_ID}"))),
    "that begin alike":
    ("000", sends((1, 0, f"{WIDE}.title{BY_ID}"), (0, 1, f"{WIDE}.isbn{BY_ID}"))),
    "the first three, and a number of others": (
        "001", sends((0, 20, BOOKS.text), *((1, 0, f"SELECT {name}") for name in "abcd"))),
    "statements that vary": ("003", Effects(unsteady={"sql": "1 to 3 in head"})),
    "statements that nobody saw":
    ("003", Effects(unseen=("statements of apsw",), totals={"sql": (2, 2)})),
    "another answer": ("010", Effects(answers=(FEW_ROWS,))),
    "a broken one": ("111", Effects(answers=(BROKEN_ROWS,))),
}  # fmt: skip


def test_each_thing_that_a_request_does_has_its_words_and_its_exit_codes() -> None:
    gates: list[dict[str, Any]] = [{}, {"answers": True}, {"statements": 0}]
    written, case = [], make_case(A)
    for name, (codes, seen) in OBSERVED.items():
        actual = of_effects(case, seen)
        comparison = comparison_of(judged_case(A, SAME, *actual, effects=seen))
        assert "".join(str(exit_code(comparison, **gate)) for gate in gates) == codes, name
        lines = [f"{f.subject} {' '.join(row(f)[1:])} {f.why}".rstrip() for f in actual]
        written += [f"# {name}", *lines, *announce(case, seen), ""]
    assert_golden("answers/observed.txt", "\n".join(written))


def test_a_command_from_a_file_writes_and_installs_nothing() -> None:
    def repeat(recorded: str) -> str:
        return rebuilt(comparison_of(judged_case(A, WORSE), reproduce=recorded)) or "not repeated"

    assert_said("repeated", repeat)
    plain, words = comparison_of(), ("server=granian", "granian==2.8.7")
    sides = [side.model_copy(update={"kind": "setting"}) for side in (plain.base, plain.head)]
    made = command(sides[0], sides[1].model_copy(update={"words": words}), ("--seed", "1"))
    assert made == "duetbench compare --head server=granian --head granian==2.8.7 --seed 1"


def test_a_figure_has_no_more_digits_than_its_interval() -> None:
    def write(figures: str) -> str:
        ratio, low, high = map(float, figures.split())
        figure = Interval(ratio, low, high)
        return f"{changes.change(figure)}, {changes.ends(figure)}, {changes.within(figure)}"

    assert_said("figures", write)
    # Three loud duets may see nothing below a factor of millions: no such figure is printed.
    sizes = [changes.size(change) for change in (None, 0.0062, 0.99, 1.0, 1.39, 65535.6)]
    assert sizes == [formats.MISSING, "0.62 %", "99 %", "2.0 times", "2.4 times", "over 10 times"]


PAGES: Final = ("leak", "n-plus-1", "void")
"""A page has the words of the other two, in a template of its own."""

STORED: Final = PROJECT / "results" / "comparisons"
CHOSEN: Final = {
    "release-slower": "20261125T145309Z-compare-01f80eca",
    "server-choice": "20261126T142459Z-compare-6e1bba24",
    "no-change": "20261125T022727Z-compare-ce0f6843",
}


@pytest.mark.usefixtures("_at_home")
@pytest.mark.parametrize("name", [*CHOSEN, *goldens.NAMES])
def test_each_reader_sees_what_was_agreed(name: str) -> None:
    """Of our own comparisons, and of each application of the corpus."""
    file = STORED / CHOSEN[name] if name in CHOSEN else goldens.CORPUS / name
    comparison = result_files.read(Comparison, file.with_suffix(".json"))
    out = io.StringIO()
    print_comparison(Console(file=out, width=100), comparison, details=False)
    assert_golden(f"answers/{name}.txt", out.getvalue())
    assert_golden(f"answers/{name}.md", comments.report(comparison))
    if name in PAGES:
        _head, _, main = sites.document(one_file(comparison)).lines.partition("\n")
        assert_golden(f"answers/{name}.html.txt", main)


@pytest.fixture
def _at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of cases are those that this repository declares."""
    monkeypatch.chdir(PROJECT)
    monkeypatch.delenv("DUETBENCH_ROOT", raising=False)


def test_a_page_alone_has_every_duet_and_fetches_nothing() -> None:
    many = tuple(duet("x/a", {CPU: 1.02}) for _ in range(3))
    text = one_file(comparison_of(judged_case("x/a", WORSE, duets=many)))
    assert not re.search(r"<script|<link|src=|@import|url\(|href=\"[^#]", text)
    assert "light-dark(" in text
    assert "width=device-width" in text
    assert text.count('class="sample"') == 3, "one for each duet"


@pytest.mark.usefixtures("_at_home")
def test_the_example_in_python_is_right() -> None:
    result = doctest.testfile(str(PROJECT / "docs" / "agents.md"), module_relative=False)
    assert result.failed == 0
    assert result.attempted > 5
