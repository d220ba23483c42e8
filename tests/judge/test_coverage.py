"""Do the requests run what differs? Which functions differ, and how a report says it."""

from pathlib import Path
from typing import Any, Final

import pytest

from bench import Bench
from comparing import SAME, comparison_of, judged_case
from duetbench.judge import coverage, session
from duetbench.judge.session import Question, empty_comparison
from duetbench.show.report import make_report
from duetbench.store.comparison import Comparison, Coverage
from repos import asgi, commit, work_in

BASE = """\
import json

LIMIT = 10
route = str


def first(a, b=1):
    def inner():
        return a
    return inner


@route
def second(a: int):
    return a


class Shop:
    size = 1

    async def get(self):
        return self.size
"""


@pytest.mark.parametrize(
    ("old", "new", "differ"),
    [
        ("return a\n    return", "return a + 1\n    return", {"first.<locals>.inner"}),
        ("return inner", "return inner()", {"first"}),
        ("b=1", "b=2", {"first", ""}),  # a default is evaluated where the function stands
        ("a: int", "a: str", {"second"}),
        ("@route\ndef second", "@route\nasync def second", {"second"}),
        ("@route\n", "", {""}),
        ("self.size", "self.size * 2", {"Shop.get"}),
        ("size = 1", "size = 2", {""}),
        ("LIMIT = 10", "LIMIT = 11", {""}),
        ("import json", "import json  # a comment\nimport os", set()),
        ("class Shop:", "def third(): return 3\n\n\nclass Shop:", {"third"}),
    ],
)
def test_functions_differ_by_what_they_execute(
    old: str, new: str, differ: set[str], tmp_path: Path
) -> None:
    """Each without those inside it, on either side."""
    assert BASE.count(old) == 1
    for name, text in (("base", BASE), ("head", BASE.replace(old, new))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "shop.py").write_text(text)
    roots = tmp_path / "base", tmp_path / "head"
    for base, head in (roots, roots[::-1]):
        assert coverage.differing("shop.py", base, head) == {("shop.py", one) for one in differ}
    assert coverage.differing("gone.py", *roots) == set()


NONE = "3 functions differ, and these requests enter none of them (slow in shop.py)"
COVERED = Coverage(
    differ=3, entered=0, cases={"x/a/py3.14": 0}, missed=("slow in shop.py",), alone=True
)


@pytest.mark.parametrize(
    ("covered", "sentence"),
    [
        (COVERED, f"{NONE}: 'same' proves nothing about them"),
        # Something else differs, and its effect is judged.
        (COVERED.model_copy(update={"alone": False, "outside": 1}),
         f"{NONE}; code outside functions differs in 1 file"),
        (COVERED.model_copy(update={"differ": 1, "entered": 1, "functions": ("fast, shop.py:3",)}),
         "1 function differs and is called: fast, shop.py:3"),
        (COVERED.model_copy(update={"differ": 0, "outside": 2}),
         "No function differs; code outside functions differs in 2 files"),
    ],
)  # fmt: skip
def test_the_verdict_stands_below_what_the_requests_enter(covered: Coverage, sentence: str) -> None:
    report = make_report(comparison_of(judged_case("x/a/py3.14", SAME), coverage=covered))
    missed = bool(covered.differ and not covered.entered)
    assert report.causes == ([] if missed else [sentence])
    unproven = f", but {sentence}" * missed
    same = "any change of CPU per request is below 2 %"
    assert report.headline == f"= same: x/a/py3.14: {same}{unproven}"


MAIN: Final = asgi("from shop import items\n", 'body = items.find(scope["path"])')
ITEMS: Final = "def find(path):\n    return path.encode()\n\n\ndef more():\n    return 1\n"
PROJECT: Final = '[project]\nname = "shop"\nversion = "0.1"\nrequires-python = ">=3.11"\n'


@pytest.mark.real
@pytest.mark.parametrize(
    ("file", "text", "words", "entered"),
    [
        ("shop/tools.py", "x = 2\n", "", None),
        ("shop/tools.py", "x = 2\n", "--all", 0),
        ("shop/tools.py", "x = 2\n", "--before true", 0),
        ("shop/items.py", ITEMS.replace("1", "2"), "", 0),
        ("shop/items.py", ITEMS.replace("path.", "path.lower()."), "", 1),
    ],
)
def test_what_no_request_loads_is_not_measured(
    file: str,
    text: str,
    words: str,
    entered: int | None,
    tmp_path: Path,
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither by the new code nor by the old; what runs before the server may load anything."""
    asked: list[Question] = []

    def measure(question: Question, *_: Any) -> Comparison:
        asked.append(question)
        return empty_comparison(question)

    monkeypatch.setattr(session, "compare", measure)
    files = {
        "pyproject.toml": PROJECT, ".python-version": "3.14\n", "shop/__init__.py": "",
        "shop/main.py": MAIN, "shop/items.py": ITEMS, "shop/tools.py": "x = 1\n",
    }  # fmt: skip
    root = work_in(tmp_path / "shop", files, monkeypatch)
    commit(root, "A change", **{file: text})
    for base, head in (("HEAD~1", "HEAD"), ("HEAD", "HEAD~1")):
        done = bench(
            "compare", base, head, "--app", "shop.main:app", "--path", "/a", *words.split()
        )
        assert (done.code, done.err) == (3 * (entered is not None), ""), done
        if entered is None:
            sentence = "Nothing to judge: only files that no application imports differ"
            assert (asked, sentence in " ".join(done.out.split())) == ([], True), done
        else:
            question = asked.pop()
            assert [pair.reason for pair in question.sides.pairs] == [
                file if words != "--all" else "asked for with --all"
            ]
            assert question.coverage is not None
            assert question.coverage.entered == entered
