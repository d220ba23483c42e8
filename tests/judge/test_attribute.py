"""Attributions: the ranking, worked out by hand, and an application before and after a commit."""

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from bare import QUIET
from bench import deployed
from comparing import CPU, SAME, WORSE, comparison_of, judged_case
from duetbench.app.testbed import SideCase
from duetbench.core.comparison import APPLICATION, PYTHON, SideRecord
from duetbench.core.errors import CountError
from duetbench.counts import counted
from duetbench.counts.profiling import ROOT, Name, Profile
from duetbench.counts.ranking import rank
from duetbench.host.console import Narrator
from duetbench.judge.attribute import attribute, explain, name_of
from duetbench.judge.causes import clearest_case
from duetbench.judge.pairs import Pair, Sides
from duetbench.judge.repetition import contrast_of
from duetbench.report.attribution import AttributionText
from fake_sessions import side
from goldens import assert_said
from observatory.matrix.checkout import Checkout
from repos import asgi, write
from synthetic import make_case, make_endpoint, make_testbed

pytestmark = pytest.mark.usefixtures("state_home")

STEPS: Final = 2_000  # so many that what threads wait for each other is no tenth of them
SHOP: Final = asgi("import asyncio\n", "body = b'%d' % await asyncio.to_thread(priced, 7)")
BEFORE: Final = """
def priced(count):
    return sum([number * number for number in range(20)]) + count
"""
AFTER: Final = f"""
def priced(count):
    check(count)
    return sum([number * number for number in range(20)]) + count

def check(count):
    for _ in [count] * {STEPS}:
        pass
"""


def on_python(version: str) -> SideCase:
    python = Checkout.here().interpreter("3.14").model_copy(update={"version": version})
    return SideCase(make_case("x/a"), replace(make_testbed(), interpreters={"3.14": python}))


@pytest.mark.parametrize(
    ("version", "sentence"),
    [
        ("3.11.14", "to count by function, CPython 3.12 or newer is needed, found 3.11.14: repea"),
        ("3.12.0", "its instructions were not counted"),
    ],
)
def test_a_python_whose_functions_cannot_be_told_apart_is_refused_first(
    version: str, sentence: str, narrator: Narrator, heard: io.StringIO
) -> None:
    """After a comparison that is said, of the case that moved most; or nothing, if none did."""
    sides = [on_python(version), on_python("3.14.0")]
    slower, alike = (comparison_of(judged_case("x/a", found)) for found in (WORSE, SAME))
    assert clearest_case(slower, "x/*") == ("x/a", CPU)
    assert clearest_case(alike, "x/*") == ("x/*", "")
    for base, head in (sides, sides[::-1]):
        with pytest.raises(CountError, match=f"^{sentence}"):
            attribute(base, head, None, QUIET)
        both = Sides(side("base", ()), side("head", ()), Path(), (Pair(base, head),), ())
        assert explain(alike, both, narrator) is explain(slower, both, narrator) is None
    assert heard.getvalue().count(f"which code it is was not found out: {sentence}") == 2


@pytest.mark.thorough
@pytest.mark.real
@pytest.mark.skipif(counted.missing() is not None, reason=f"{counted.missing()}")
def test_a_new_function_of_an_application_is_named_in_its_own_file(tmp_path: Path) -> None:
    case = make_case("shop/get/py3.14", endpoint=make_endpoint(app="shop:app"), stack="project")
    sides = []
    for name, code in (("base", BEFORE), ("head", AFTER)):
        write(tmp_path / name, "src/shop.py", SHOP + code)
        sides.append(deployed(case, tmp_path / name, tmp_path / "logs", ("src",)))
    base, head = sides
    counts = counted.instructions((base, head), counted.LONGEST)
    actual = attribute(base, head, counts, QUIET, runs=1)
    first = actual.rows[0]
    assert (first.name, first.file, first.package) == ("check", "src/shop.py", APPLICATION)
    line = (SHOP + AFTER).splitlines().index("def check(count):") + 1
    assert (first.line, first.state, first.entries) == (line, "came", (0, 1))
    assert first.caller == "priced"
    # Steps of 5 to 200 instructions, and all that the commit adds.
    moved = actual.instructions.head - actual.instructions.base
    assert STEPS * 5 < moved < STEPS * 200
    assert 0.9 < (first.head - first.base) / moved < 1.1
    assert actual.asked == "GET /"
    assert AttributionText(actual).headline.startswith("GET /: ")
    assert not list((tmp_path / "logs").iterdir())


def test_the_sides_of_a_comparison_are_what_it_says_itself() -> None:
    """Also those of the files as they are, with and without uncommitted changes."""

    def sides(fields: str) -> str:
        head = SideRecord.model_validate({**dict(comparison_of().head), **json.loads(fields)})
        return str(contrast_of(comparison_of(head=head)))

    assert_said("contrasts", sides)


def function(name: str) -> Name:
    return Name(name, f"web/{name.lower().partition('.')[0]}.py", "web")


def calls(costs: Mapping[str, float]) -> Profile:
    """Own instructions by calls, `a b c`."""
    paths = {(ROOT, *map(function, chain.split())): cost for chain, cost in costs.items()}
    return Profile(paths, {})


BASE: Final = {"": 10.0, "serve": 100.0, "serve route": 200.0, "serve route dump": 690.0}


def test_what_moved_is_ranked() -> None:
    """Own instructions by calls, of base and of head."""

    def ranked(sides: str) -> str:
        each = ([call.rpartition(" ") for call in line.split(", ")]
                for line in sides.splitlines())  # fmt: skip
        base, head = (calls({chain: float(cost) for chain, _, cost in side}) for side in each)
        return ", ".join(
            f"{row.name} {row.state} {row.base:g} → {row.head:g} in {row.caller}"
            for row in rank(base, head, 0.005)
        )

    assert_said("ranking", ranked)


def test_files_are_named_alike_on_both_sides_wherever_they_lie() -> None:
    site = Path("/env/lib/python3.14/site-packages")
    owners = {"yaml/__init__.py": "pyyaml", "core/core.cpython-314-x86_64-linux-gnu.so": "the-core"}
    folders = {
        Path("/py/lib/python3.14"): PYTHON, Path("/copy/apps"): APPLICATION,
        Path("/own"): "duetbench",
    }  # fmt: skip
    assert_said(
        "files", lambda file: " of ".join(name_of(Name("f", file), site, owners, folders)[1:])
    )


def test_what_does_not_move_the_same_way_in_all_runs_is_not_named() -> None:
    """Both medians are 12 larger; where memory lies decides about one of them."""
    head = {**BASE, "serve": 112.0, "serve route": 212.0}
    elsewhere = {**BASE, "serve": 112.0, "serve route": 195.0}
    runs = [(calls(BASE), calls(head)), (calls(BASE), calls(elsewhere)), (calls(BASE), calls(head))]
    assert {row.name for row in rank(calls(BASE), calls(head), 0.005)} == {"serve", "route"}
    (row,) = rank(calls(BASE), calls(head), 0.005, runs)
    assert (row.name, row.state, row.base, row.head) == ("serve", "both", 100, 112)
    assert row.caller is None
