"""Declarations: what they expand to, and how each mistake is told."""

import math
import re
from pathlib import Path

import pytest

from bench import all_cases
from duetbench.app import interpreters
from duetbench.core.errors import DeclarationError
from duetbench.core.model import Case, Profile
from goldens import assert_golden
from observatory.matrix import declared_interpreters
from observatory.matrix.declared_interpreters import InterpreterSpec
from observatory.matrix.experiments import Experiment, load_experiments
from observatory.matrix.schema import PROFILES, StackSpec, evaluate
from repos import write

PYTHONS = {
    name: InterpreterSpec(version="3.14.7", free_threaded=name.endswith("t"))
    for name in ("3.14", "3.14t")
}
STACKS = {
    "current": StackSpec(interpreters=("3.14", "3.14t")),
    "old": StackSpec(interpreters=("3.14",)),
}
_NAPS = Path(__file__).parents[1] / "projects" / "naps" / "apps" / "naps" / "experiment.toml"
GOOD = _NAPS.read_text("utf-8")


def load_text(root: Path, text: str) -> Experiment:
    write(root, "apps/naps/experiment.toml", text)
    (experiment,) = load_experiments(root, PYTHONS, STACKS)
    return experiment


def declared(profile: Profile) -> dict[str, Case]:
    return {case.id: case for case in all_cases(profile)}


def test_a_block_expands_to_every_combination_of_its_axes(tmp_path: Path) -> None:
    """Pairs move together, all other axes cross; formulas are resolved for each case."""
    cases = load_text(tmp_path, GOOD).cases["quick"]
    assert [case.id for case in cases] == [
        f"naps/nap/py{python}/{load}/{pair}/wait0.2"
        for python in ("3.14", "3.14t")
        for load in ("closed", "paced")
        for pair in ("w1/c16", "w2/c32")
    ]
    gil, free = cases[3], cases[5]
    assert (gil.endpoint.floor, gil.slots, gil.endpoint.factory) == (0.4, 3, True)
    assert gil.env == {"WAIT": "{tmp}/0.2/{port}"}  # what each launch fills in stays
    assert (gil.load.connections, gil.load.rate, gil.load.duration) == (10, 16, 7)
    assert (free.slots, free.load.rate, free.load.connections) == (None, None, 32)
    assert (free.load.duration, free.workers) == (2, 2)


def test_all_interpreters_have_one_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is prebuilt counts only if all of it is."""
    there = {("prebuilt", "3.14"), ("source", "3.14"), ("source", "3.14t")}

    def read(name: str, place: Path) -> Path | None:
        return place if (place.parent.name.split("-")[0], name) in there else None

    monkeypatch.setattr(interpreters, "read", read)
    declared = declared_interpreters.load()
    assert "source-" in str(declared_interpreters.locate("3.14", declared))
    there.add(("prebuilt", "3.14t"))
    assert "prebuilt-" in str(declared_interpreters.locate("3.14", declared))


WSGI = GOOD.replace('interface = "asgi"', 'interface = "wsgi"')
MISTAKES = {
    "not TOML": ('question = "Why?"', "question =",
        "file: found 'Invalid value (at line 1, column 11)'; allowed: valid TOML in UTF-8"),
    "missing key": ('path = "/nap"\n', "",
        "endpoints.nap.path: found 'nothing'; allowed: a value; this key is required"),
    "unknown key": ("slots = ", "slotted = ",
        "endpoints.nap.slotted: found 'slotted'; allowed: only the keys that…explains"),
    "two bodies": ('text = "done"', 'text = "done", json_value = 1',
        "endpoints.nap.expect: found 'a table'; allowed: give…json_value and json_schema, or none"),
    "closed load with a rate": ('model = "paced"', 'model = "closed"',
        "loads.paced: found 'a table'; allowed: a rate belongs…and open loads, and to them only"),
    "unknown server": ('server = "granian"', 'server = "quick"',
        "cases[0]: found…; allowed: names that are declared; there is no 'quick'"),
    "stack not made for the interpreter": ('stack = "current"', 'stack = "old"',
        "cases[0]: found…; allowed: Python 3.14 (of stack old)"),
    "server of another interface": ('server = "granian"', 'server = "uvicorn"',
        "cases[0]: found…; allowed: server uvicorn is not one that speaks wsgi, as…granian…"),
    "connections above the backpressure": ("workers = 2, c = 32", "workers = 2, c = 1025",
        "cases[0]: found…connections 1025 is not at…backpressure of granian with 2 workers"),
    "formula over an unknown name": ('floor = "2 * wait"', 'floor = "2 * nap"',
        "cases[0]: found…; allowed: '2 * nap', which…not defined for expression '2 * nap'"),
    "id that no address can hold": ("/py{python}/", "//py{python}/",
        "cases[0]: found…; allowed: letters, digits…but not naps/nap//py3.14/closed/w1…"),
    "id of two meanings": ("/wait{wait}", "",
        "cases[0].id: found 'naps/nap/py3.14/closed/w1/c16';…into the id, as in wait{wait}"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_names_file_key_found_and_allowed(mistake: str, tmp_path: Path) -> None:
    old, new, message = MISTAKES[mistake]
    text = WSGI if mistake == "server of another interface" else GOOD
    assert old in text
    text = text.replace(old, new)
    with pytest.raises(DeclarationError) as error:
        load_text(tmp_path, text)
    # Whole, or with its middle left out at "…", between words.
    parts = f"apps/naps/experiment.toml: {message}".split("…")
    assert re.fullmatch(".+".join(map(re.escape, parts)), str(error.value)), str(error.value)


def test_formulas_are_arithmetic() -> None:
    for formula, value in (
        ("min(c, 40) / 0.01", 1600), ("1 if c > 8 else inf", 1), ("inf", math.inf), ("c // 3", 5),
    ):  # fmt: skip
        assert evaluate(formula, {"c": 16}) == value
    for formula, reason in (
        ("c / 0", "division by zero"),
        ("inf - inf", "0 or more"),
        ("open('/etc/passwd')", "Function 'open' not defined"),
    ):
        with pytest.raises(ValueError, match=re.escape(reason)):
            evaluate(formula, {"c": 16})


def test_declared_experiments_have_the_ids_that_history_knows() -> None:
    """A changed id ends a series: whoever changes one changes this list, knowingly."""
    ids = {f"{profile} {case_id}" for profile in PROFILES for case_id in declared(profile)}
    assert_golden("case_ids.txt", "\n".join(sorted(ids)))


CEILINGS = {
    "asgi-wsgi/asgi-io/py3.14t/w2/c256": 25_600,
    "asgi-wsgi/wsgi-io/py3.14/w1/t64/c128": 6_400,
    "asgi-wsgi/wsgi-io/py3.14t/w2/t64/c256": 12_800,
    "gil-endpoints/sync_sleep/py3.14": 5 / 3,
    "await-patterns/sync_baseline/py3.14": 16 / 3,
    "await-patterns/async_dependent/py3.14": 100 / 3,
    "pydantic-v1-v2/pydantic-v1/py3.14/u200": 200,
}


def test_ceilings_are_those_worked_out_by_hand(tmp_path: Path) -> None:
    """Three slots of 0.4 s give 7.5/s; offered 8/s they stay the limit, offered 4/s they do not."""
    cases = declared("published")
    assert {name: cases[name].ceiling for name in CEILINGS} == pytest.approx(CEILINGS)
    text = GOOD.replace('rate = "c / 2"', 'rate = "c / workers / workers / 2"')
    paced = load_text(tmp_path, text).cases["quick"][2:4]
    assert [case.ceiling for case in paced] == pytest.approx([7.5, 4])


@pytest.mark.parametrize("profile", PROFILES)
def test_timeouts_outlast_the_queues(profile: Profile) -> None:
    for case in declared(profile).values():
        slots = (case.slots or case.load.connections) / case.workers
        turns = math.ceil(case.load.connections / slots)
        assert turns * case.endpoint.floor < case.load.timeout, case.id
