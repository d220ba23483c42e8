"""What a change can affect, never too little and not everything; do requests run what differs?"""

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest

from bare import QUIET
from bench import Bench
from duetbench.core.comparison import PackageChange
from duetbench.core.model import Case, InterpreterRecord, Load
from duetbench.judge import affected
from duetbench.judge.affected import Diff
from duetbench.judge.pairs import Sides
from duetbench.judge.preparation import Scope
from fake_sessions import make_pairs, note_sessions, side
from goldens import assert_said
from observatory.matrix.sides import match
from repos import SHOP, asgi, commit, git, work_in, write_all
from synthetic import make_case, make_testbed

ONE, TWO, SLOW = CASES = "one/a", "two/b", "slow/c"
LOADED: Final = {
    ONE: frozenset({"apps/one/app.py"}),
    TWO: frozenset({"apps/two/app.py", "apps/shared.py"}),
}
"""What the requests of the observed cases load; those of the third are not observed."""

FILES: Final = {
    **{f"apps/{name.partition('/')[0]}/experiment.toml": "" for name in CASES},
    "apps/one/app.py": "",
    "apps/two/app.py": "from shared import rows",
}
ALONE: Final = "no measured case depends on what differs: {}."


def selected(
    diff: Diff,
    cases: Sequence[Case],
    loaded: Mapping[str, frozenset[str]] = MappingProxyType({}),
    *,
    everything: bool = False,
) -> Sides:
    both = side("base", ()), side("head", tuple(cases))
    sides = Sides(*both, Path(), make_pairs(*both), ())
    return affected.find(sides, diff, loaded, everything=everything)


def ids(found: Sides) -> list[str]:
    return [pair.case.id for pair in found.pairs]


def moved(name: str, before: str | None = "1.0", after: str | None = "1.1") -> PackageChange:
    return PackageChange(stack="current", package=name, base=before, head=after)


def test_a_file_affects_the_cases_that_may_read_it(tmp_path: Path) -> None:
    """Before any request is observed, and after those of two of three cases were."""
    cases = [make_case(name) for name in CASES]

    def cases_of(path: str) -> str:
        repository = tmp_path / path.replace("/", "-") / "head"
        repository.mkdir(parents=True)
        git(repository, "init", "--quiet")
        commit(repository, "A state", **FILES)
        shutil.copytree(repository, repository.with_name("base"))
        commit(repository, "A change", **{path: "x = 1\n"})
        base, head = (
            replace(side(name, ()), tree=tree, testbed=make_testbed(repository.with_name(name)))
            for name, tree in (("base", "HEAD~1^{tree}"), ("head", "HEAD^{tree}"))
        )
        diff = affected.difference(Sides(base, head, repository, (), ()))
        before, after = ids(selected(diff, cases)), selected(diff, cases, LOADED)
        assert after.untouched == len(cases) - len(after.pairs)
        assert {pair.reason for pair in after.pairs} <= {path}
        assert after.empty_reason == ("" if after.pairs else ALONE.format(path))
        if not after.pairs:
            every = selected(diff, cases, LOADED, everything=True)
            assert (ids(every), every.untouched, every.empty_reason) == ([*CASES], 0, "")
            assert {pair.reason for pair in every.pairs} == {affected.EVERYTHING}
        return " | ".join(" ".join(names) or "none" for names in (before, ids(after)))

    assert_said("affected", cases_of)


def test_what_more_than_the_observed_requests_may_run_counts_as_loaded() -> None:
    """Commands, a server whose settings are a Python file, code that it loads, paths left out."""
    changes: tuple[dict[str, Any], ...] = (
        {"before": ("python migrate.py",)}, {"after": ("python reset.py",)},
        {"server": "gunicorn"}, {"server_args": ("--loop=own:loop",)},
        {"endpoint_paths": ("/x",) * 30},
    )  # fmt: skip
    for more in (*changes, {}):
        diff = Diff(files={"src/more.py": {"*": 1}})
        assert ids(selected(diff, [make_case(ONE, **more)], LOADED)) == [ONE] * bool(more)


def test_packages_and_interpreters_affect_their_cases() -> None:
    cases = [make_case(ONE), make_case(TWO, stack="other"), make_case("two/py3.14t")]
    files, versions = {"src/more.py": {"*": 1}}, {"3.14t": "3.14.7 → 3.14.8"}
    for before, after in (("1.0", "1.1"), (None, "1.1"), ("1.0", None)):
        move = moved("h11", before, after)
        actual = selected(Diff(packages=(move,)), cases, LOADED)
        assert [pair.reason for pair in actual.pairs] == [str(move)] * 2
        assert actual.untouched == 1
    diff = Diff(files=files, packages=(moved("h11"),), interpreters=versions)
    assert [(pair.case.id, pair.reason) for pair in selected(diff, cases, LOADED).pairs] == [
        (ONE, "h11 1.0 → 1.1"),
        ("two/py3.14t", "interpreter 3.14t: 3.14.7 → 3.14.8; h11 1.0 → 1.1; src/more.py"),
    ]
    assert selected(Diff(packages=(moved("h11"),)), cases[1:2]).empty_reason == (
        "no measured case has the packages that moved (h11 1.0 → 1.1)."
    )
    assert selected(Diff(), cases).empty_reason == "base and head do not differ."
    diff = Diff(files={"src/more.py": {"f": 1}, "tests/test_more.py": {"g": 1}})  # which none runs
    covered = affected.cover(selected(diff, cases), diff, {ONE: frozenset()})
    assert covered is not None
    assert (covered.missed, covered.alone) == (("f in src/more.py",), False)


def test_interpreters_of_the_same_name_differ_by_version_or_build() -> None:
    made = InterpreterRecord(
        name="3.16", version="3.14.7", build="-O3", origin="source", free_threaded=False
    )
    base = [made.model_copy(update={"name": name}) for name in ("3.14", "3.15", "3.16")]
    newer = base[0].model_copy(update={"version": "3.14.8"})
    other = base[1].model_copy(update={"build": "-O2"})
    sentence = {"3.14": "3.14.7 → 3.14.8", "3.15": "built differently"}
    assert affected.interpreter_changes(base, [newer, other, made]) == sentence


def test_cases_are_compared_with_themselves_only() -> None:
    load = Load(connections=256, duration=8, timeout=10)
    base = [make_case("one/a", env={"NEW": "1"}), make_case("one/b"), make_case("one/old")]
    longer = base[0].load.model_copy(update={"duration": 30.0, "timeout": 60.0})
    renamed = {"endpoint_app": "other:app", "endpoint_takes": 0.5}
    head = [
        make_case("one/a", load=longer, env={"NEW": "1"}, **renamed),
        make_case("one/b", load=load, env={"WAIT": "3"}),
        make_case("one/new"),
    ]
    pairs, missing = match(base, head, Scope((), QUIET, Path()))
    assert pairs == [(base[0], head[0])]
    assert [(item.case, item.reason) for item in missing] == [
        ("one/b", "only head declares it like this"),
        ("one/new", "only head declares it like this"),
        ("one/old", "only base declares it like this"),
    ]
    both = side("base", ()), side("head", (head[0],))
    sides = Sides(*both, Path(), make_pairs(*both), tuple(missing))
    actual = affected.find(sides, Diff())
    assert (actual.missing, actual.untouched) == (tuple(missing), 1)


BASE = """\
import json
__version__ = "1.0"
API = "1.0"

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


def test_code_differs_by_what_it_executes(tmp_path: Path) -> None:
    """In functions, each without those inside it, or outside of them; `?` cannot be read.

    Functions that use another import differ themselves.
    """
    roots = tmp_path / "base", tmp_path / "head"
    write_all(roots[0], {"a.txt": "1", "gone.py": "", "pyproject.toml": "", "shop.py": BASE})
    write_all(roots[1], {"a.txt": "1"})

    def differs(changes: str) -> str:
        old, new = ("\n".join(re.findall(rf"^\{sign} ?(.*)$", changes, re.M)) for sign in "-+")
        assert BASE.count(old) == 1
        write_all(roots[1], {"shop.py": BASE.replace(old, new)})
        found, back = (affected.differing("shop.py", *each).keys() for each in (roots, roots[::-1]))
        assert found == back
        return " ".join(name or "outside" for name in sorted(found)) or "nothing"

    assert_said("differs", differs)
    for each in (roots, roots[::-1]):
        assert affected.differing("a.txt", *each)
        assert affected.differing("gone.py", *each)
    assert affected.differing("nowhere.py", *roots) == {}
    for tool, keys in (("duetbench", set()), ("other", {"*"})):
        write_all(roots[1], {"pyproject.toml": f"[tool.{tool}]\nx = 1\n"})
        assert affected.differing("pyproject.toml", *roots).keys() == keys
    for root, names in zip(roots, ("ab", "ba"), strict=True):  # the first route that fits answers
        write_all(root, {"routes.py": "".join(f"@route\ndef {name}(): ...\n" for name in names)})
    assert affected.differing("routes.py", *roots).keys() == {"*"}


MAIN: Final = asgi("from shop import items\n", 'body = items.find(scope["path"])')
ITEMS: Final = "def find(path):\n    return path.encode()\n\n\ndef more():\n    return 1\n"


@pytest.mark.real
def test_what_no_request_loads_is_not_measured(bench: Bench) -> None:
    """Neither by the new code nor by the old; what runs before the server may load anything."""
    sessions = note_sessions(bench.patch)
    files = {
        **SHOP, "shop/__init__.py": "", "shop/main.py": MAIN, "shop/items.py": ITEMS,
        "shop/tools.py": "x = 1\n",
    }  # fmt: skip
    root = work_in(bench.folder / "shop", files, bench.patch)
    for file, text, entered in (
        ("shop/tools.py", "x = 2\n", None),
        ("shop/items.py", ITEMS.replace("1", "2"), 0),
        ("shop/items.py", ITEMS.replace("1", "2").replace("path.", "path.lower()."), 1),
    ):
        commit(root, "A change", **{file: text})
        for sides in (("HEAD~1", "HEAD"), ("HEAD", "HEAD~1")):
            result = bench("compare", *sides, "--app", "shop.main:app", "--path", "/a")
            assert (result.code, result.err) == (3 * (entered is not None), ""), result
            if entered is None:
                sentence = ALONE.format(file)
                assert (sessions, sentence in " ".join(result.out.split())) == ([], True), result
            else:
                session = sessions.pop()
                assert [pair.reason for pair in session.sides.pairs] == [file]
                assert session.coverage is not None
                assert (session.coverage.entered, session.coverage.alone) == (entered, True)
