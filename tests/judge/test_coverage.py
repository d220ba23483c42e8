"""Do the requests run what differs? Which functions differ, and how a report says it."""

from pathlib import Path

import pytest

from comparing import SAME, comparison_of, judged_case
from duetbench.judge import coverage
from duetbench.show.comparison_view import make_view
from duetbench.store.comparison import Coverage

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
NOWHERE = "neither these requests nor their servers enter any of them"
COVERED = Coverage(
    differ=3, entered=0, cases={"x/a/py3.14": 0}, missed=("slow in shop.py",), alone=True
)


@pytest.mark.parametrize(
    ("covered", "sentence"),
    [
        (COVERED, f"{NONE}: 'no change' proves nothing about them"),
        # Something else differs, and its effect is judged.
        (COVERED.model_copy(update={"alone": False, "outside": 1}),
         f"{NONE}; code outside functions differs in 1 file"),
        (COVERED.model_copy(update={"differ": 1, "entered": 1}),
         "1 function differs, and these requests enter 1 of them"),
        # What a server runs beside requests is measured with them.
        (COVERED.model_copy(update={"server": ("slow, shop.py:4",)}),
         "3 functions differ; run by the server, not in a request: slow, shop.py:4"),
        (COVERED.model_copy(update={"idle": True, "paths": ("GET /a", "GET /b")}),
         NONE.replace("these requests enter none of them", NOWHERE) + "; GET /a, GET /b would"),
        (COVERED.model_copy(update={"doubt": "it failed"}),
         f"{NONE}: 'no change' proves nothing about them; perhaps the server does: it failed"),
        (COVERED.model_copy(update={"differ": 0, "outside": 2}),
         "No function differs; code outside functions differs in 2 files"),
    ],
)  # fmt: skip
def test_the_verdict_stands_below_what_the_requests_enter(covered: Coverage, sentence: str) -> None:
    view = make_view(comparison_of(judged_case("x/a/py3.14", SAME), coverage=covered))
    assert sentence in view.answer.causes
    unproven = (
        f", but {sentence}" if covered.differ and not covered.server and not covered.entered else ""
    )
    smallest = "a change of 0.81 % or more in CPU per request would have been seen"
    seen = "" if unproven else f"; {smallest} in 4 of 5 such comparisons"
    assert view.headline == f"= no change: x/a/py3.14{seen}{unproven}"
