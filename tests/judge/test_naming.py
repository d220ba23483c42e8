"""The self-test of attributions: what is planted, and what counts as named."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from attributing import SEND, attribution, row
from duetbench.core.errors import SetupError
from duetbench.host import paths
from duetbench.judge.selftest import naming, planted
from duetbench.judge.selftest.planted import PLANTS, Edit, Plant
from duetbench.measure import testbed
from duetbench.measure.duet import SideCase
from duetbench.project import stacks
from duetbench.project.project import Project
from duetbench.show import selftest as report
from duetbench.show import selftest_attributions as told
from duetbench.store import attribution_trial
from duetbench.store.attribution import Attribution, Totals
from duetbench.store.attribution_trial import AttributionTrial, of_attribution
from duetbench.store.history.kinds import kind_of

APPS = paths.project_root() / "apps"
MODULES = {"asgi-json": "asgi_app.py", "wsgi-json": "wsgi_app.py"}


def said(rows: dict[str, float], **more: Any) -> Attribution:
    """Of 100,000 instructions per request, whose functions got so many more."""
    named = {name: SEND.model_copy(update={"name": name}) for name in rows}
    return attribution(
        totals=Totals(base=1e5, head=1e5 + sum(rows.values()), spread=0),
        rows=tuple(row(named[name], 1e4, 1e4 + size) for name, size in rows.items()),
        threshold=0.001, **more,
    )  # fmt: skip


@pytest.mark.real
@pytest.mark.parametrize("python", ["3.14", "3.14t"])
def test_every_plant_finds_its_place_and_differs_where_something_changed(
    python: str, tmp_path: Path
) -> None:
    """In the application, and in the packages that are installed; each edit gives valid code."""
    library = (
        stacks.executable(
            Project.here().lock("current"), Project.here().interpreter(python)
        ).parent.parent
        / "lib"
    )
    (packages,) = library.glob("python*/site-packages")
    for plant in (*PLANTS, *naming.PAIRS):
        assert naming.case_of(plant, python).endpoint.name == plant.endpoint
        texts = []
        for edit in (plant.base, plant.head):
            source = (
                packages / edit.file if edit.file else APPS / "asgi-wsgi" / MODULES[plant.endpoint]
            )
            copy = tmp_path / "module.py"
            shutil.copy(source, copy)
            planted.insert(copy, edit)
            texts.append(copy.read_text())
            compile(texts[-1], str(copy), "exec")
        assert (texts[0] == texts[1]) == (plant in naming.PAIRS and not plant.head.file), plant.name
    assert len({plant.name for plant in naming.IN_TURNS}) == len(PLANTS) + len(naming.PAIRS) == 30


def test_a_plant_that_has_lost_its_place_says_so(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("class Route:\n    def handle(self): ...\n")
    with pytest.raises(SetupError, match=r"expected Route\.matches, found none"):
        planted.insert(tmp_path / "module.py", Edit("pass", function="Route.matches"))


def test_both_sides_are_copies_and_head_has_the_plant(tmp_path: Path) -> None:
    plant = Plant("x", "a loop", ("greet",), Edit("for _ in b'xx': pass"))
    case = naming.case_of(plant, "3.14")
    rig = testbed.assemble(Project.here(), [case], tmp_path)
    seen: list[str] = []

    def engine(*sides: SideCase) -> Attribution:
        seen.extend((one.rig.apps / "asgi-wsgi" / "asgi_app.py").read_text() for one in sides)
        assert all(one.rig.apps != rig.apps for one in sides)
        return said({"greet": 900, "other": 100})

    found = naming.attempt(plant, case, rig, tmp_path, engine, None)
    assert (seen[0].count("for _ in b'xx'"), seen[1].count("for _ in b'xx'")) == (0, 1)
    assert (found.place, found.right, found.unchanged) == (1, True, False)
    assert found.id == "20261120T030000Z-x-py3.14"


def trial(
    name: str, rows: dict[str, float], *functions: str, unchanged: bool = False, **more: Any
) -> AttributionTrial:
    return of_attribution(
        said(rows, **more), name, f"told {name}", functions, unchanged=unchanged,
        python="3.14", machine="m", commit=None,
    )  # fmt: skip


TRIALS = (
    trial("first", {"f": 4000, "g": 1000}, "f", "h", seconds=10),
    # The fourth row is not among the first three.
    trial("fourth", {"a": 300, "b": 250, "c": 200, "f": 150}, "f", seconds=20),
    # Below the threshold nothing is named.
    trial("equal", {"a": 90}, seconds=30),
    trial("same-01", {}, unchanged=True, seconds=40),
    trial("same-02", {"a": 600}, unchanged=True, seconds=50),
)


def test_what_was_named_is_counted() -> None:
    """Right: the first and the one that costs nothing, of three; a small one of two was missed."""
    assert [one.place for one in TRIALS] == [1, None, None, None, None]
    assert [one.right for one in TRIALS] == [True, False, True, True, False]
    (score,) = told.naming(TRIALS)
    rates = [(rate.hits, rate.of) for rate in (score.found, score.small, score.false) if rate]
    assert rates == [(2, 3), (1, 2), (1, 2)]
    assert score.seconds == 30
    assert told.naming(()) == ()


def test_the_page_shows_every_try(tmp_path: Path) -> None:
    for one in TRIALS:
        attribution_trial.save(tmp_path, one)
        kind = kind_of(attribution_trial.path_of(one).as_posix())
        assert kind is not None
        assert kind.name == "trial of an attribution"
    found = attribution_trial.load(tmp_path)
    assert set(found) == set(TRIALS)
    page = report.page([], (), TRIALS)
    assert "On 3.14 2 of 3 planted changes were told right (95 % interval 9…99 %)" in page
    assert "of at most 1 % 1 of 2; 1 of 2 pairs without a change named a function" in page
    assert "| told first | f, h | +5.00 % | 1 |" in page
    assert "| told fourth | f | +0.90 % | not among the first 3 |" in page
    assert "| told same-02 | none | +0.60 % | a |" in page
    assert report.as_json([], (), TRIALS)["attributions"][0]["found"]["hits"] == 2


def test_tries_of_a_method_before_are_counted_apart() -> None:
    """A coarser one: half of its two were right, and no figure of the present one knows them."""
    first = {"started": "2026-11-19T03:00:00Z", "runs": 2}
    before = tuple(one.model_copy(update=first) for one in TRIALS[:2])
    assert told.naming((*before, *TRIALS)) == told.naming(TRIALS)
    assert told.sentences((*before, *TRIALS)) == (
        f"{told.sentences(TRIALS)} 1 of 2 tries of a coarser method before were right."
    )
