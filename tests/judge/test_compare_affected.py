"""What a change can affect: never too little, and not everything."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest
from packaging.requirements import Requirement

from bench import all_cases
from duetbench.core.model import Case, InterpreterRecord, Load, LoadModel
from duetbench.host import paths
from duetbench.judge import affected, dependencies, matching
from duetbench.judge.affected import Diff
from duetbench.judge.dependencies import Dependencies, Installed
from duetbench.judge.pairs import Sides
from duetbench.measure.assembly import assemble
from duetbench.measure.testbed import Testbed
from duetbench.project import stacks
from duetbench.project.project import Project
from duetbench.store.comparison import PackageChange
from fake_sessions import make_pairs, side
from synthetic import make_case, make_testbed

ROOT = paths.project_root()
EXPERIMENTS: Final = frozenset(path.parent.name for path in ROOT.glob("apps/*/experiment.toml"))
Loaded = dict[str, Dependencies]
PLATFORM = MappingProxyType(dependencies.marker_environment("3.14.7"))


@pytest.fixture(scope="module")
def cases() -> tuple[Case, ...]:
    usual = Project(ROOT).configuration.usual
    declared = {case.id: case for case in all_cases("quick", "nightly") if case.python in usual}
    return tuple(declared.values())


@pytest.fixture(scope="module")
def loaded(cases: tuple[Case, ...], tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    reader = dependencies.Reader(
        ROOT, assemble(Project.here(), cases, tmp_path_factory.mktemp("logs"))
    )
    return {case.id: reader.read(case) for case in cases}


def selected(
    diff: Diff, cases: Sequence[Case], loaded: Loaded, *, everything: bool = False
) -> Sides:
    both = side("base", ()), side("head", tuple(cases))
    sides = Sides(*both, ROOT, make_pairs(*both), ())
    return affected.select(sides, diff, loaded, everything=everything)


def package(name: str, before: str | None, after: str | None, stack: str) -> PackageChange:
    return PackageChange(stack=stack, package=name, base=before, head=after)


def moved(name: str, before: str | None = "1.0", after: str | None = "1.1") -> Diff:
    stacks_ = ("current", "pydantic-v1", "pydantic-v2", "order-service", "servers")
    return Diff(packages=tuple(package(name, before, after, stack) for stack in stacks_))


WHICH: dict[str, Callable[[Case], bool]] = {
    "asgi": lambda case: case.endpoint.interface == "asgi",
    "wsgi": lambda case: case.endpoint.interface == "wsgi",
    "granian": lambda case: case.server == "granian",
    "uvicorn": lambda case: case.server == "uvicorn",
    "uvloop": lambda case: case.loop == "uvloop",
    "core": lambda case: case.endpoint.interface == "asgi" and case.stack != "pydantic-v1",
    "one": lambda case: case.experiment == "asgi-wsgi",
    "half": lambda case: (case.experiment, case.endpoint.interface) == ("asgi-wsgi", "asgi"),
    "all": lambda _: True,
    "none": lambda _: False,
}


@pytest.mark.real
@pytest.mark.parametrize(
    ("what", "which"),
    [
        ("granian", "granian"), ("uvicorn", "uvicorn"), ("h11", "uvicorn"),
        ("httptools", "uvicorn"), ("uvloop", "uvloop"), ("flask", "wsgi"), ("markupsafe", "wsgi"),
        ("fastapi", "asgi"), ("starlette", "asgi"), ("pydantic", "asgi"), ("pydantic-core", "core"),
        ("click", "all"), ("watchfiles", "none"), ("websockets", "none"),
        ("apps/asgi-wsgi/asgi_app.py", "half"), ("apps/asgi-wsgi/answers.json", "one"),
        ("apps/answers.json", "all"),
        ("apps/asgi-wsgi/unused.py", "none"), ("apps/asgi-wsgi/README.md", "none"),
        ("apps/asgi-wsgi/experiment.toml", "none"), ("apps/stacks/current.txt", "none"),
        ("scripts/duetbench/measure/launch.py", "none"), ("benchmarks/gil.py", "none"),
    ],
)  # fmt: skip
def test_a_package_or_file_affects_the_cases_that_load_it(
    what: str, which: str, cases: tuple[Case, ...], loaded: Loaded
) -> None:
    file = "/" in what
    change = Diff(files=(what,), experiments=EXPERIMENTS) if file else moved(what)
    found = selected(change, cases, loaded)
    expected = {case.id for case in cases if WHICH[which](case)}
    assert {pair.case.id for pair in found.pairs} == expected
    assert {pair.reason for pair in found.pairs} <= {what if file else f"{what} 1.0 → 1.1"}
    assert found.untouched == len(cases) - len(found.pairs)


@pytest.mark.real
def test_nothing_of_our_applications_is_unknown(loaded: Loaded) -> None:
    assert {one.unknown for one in loaded.values()} == {""}


@pytest.mark.real
@pytest.mark.parametrize(
    ("files", "packages", "sentence"),
    [
        ("", (), "base and head do not differ."),
        ("README.md tests/test_x.py", (),
         "only documents and the harness differ, and no measured case depends on them."),
        ("apps/stacks/current.txt", moved("watchfiles").packages[:1],
         ("no measured case loads the packages that moved (watchfiles 1.0 → 1.1); only files of "
          "applications differ, and no measured case depends on them.")),
    ],
)  # fmt: skip
def test_nothing_to_judge_is_said_in_words(
    files: str,
    packages: tuple[PackageChange, ...],
    sentence: str,
    cases: tuple[Case, ...],
    loaded: Loaded,
) -> None:
    change = Diff(files=tuple(files.split()), packages=packages, experiments=EXPERIMENTS)
    found = selected(change, cases, loaded)
    assert found.empty_reason == f"Nothing to judge: {sentence}"
    assert found.untouched == len(cases)
    every = selected(change, cases, loaded, everything=True)
    assert (len(every.pairs), every.untouched, every.empty_reason) == (len(cases), 0, "")
    assert {pair.reason for pair in every.pairs} == {affected.EVERYTHING}


def test_what_came_or_went_unasked_affects_the_whole_stack() -> None:
    cases = [make_case("one/a"), make_case("one/b", stack="other")]
    loaded = {case.id: Dependencies(packages=frozenset({"uvicorn"})) for case in cases}
    for before, after in ((None, "1.0"), ("1.0", None)):
        found = selected(moved("orjson", before, after), cases, loaded)
        assert [pair.case.id for pair in found.pairs] == ["one/a"]
    assert not selected(moved("orjson"), cases, loaded).pairs
    # What is required somewhere came because of that.
    loaded["one/c"] = Dependencies(packages=frozenset({"orjson"}))
    found = selected(moved("orjson", None), [*cases, make_case("one/c")], loaded)
    assert [pair.case.id for pair in found.pairs] == ["one/c"]


def test_the_unknown_counts_as_affected() -> None:
    case = make_case("one/a")
    loaded = {case.id: Dependencies(unknown="app.py loads code with import_module")}
    (pair,) = selected(moved("anything"), [case], loaded).pairs
    assert pair.reason == "anything 1.0 → 1.1; app.py loads code with import_module"
    both = frozenset({"one", "two"})
    # It may import what another experiment has as well.
    for file in ("apps/one/other.py", "apps/two/shared.py"):
        (pair,) = selected(Diff(files=(file,), experiments=both), [case], loaded).pairs
        assert pair.reason == f"{file}; app.py loads code with import_module"
    assert not selected(Diff(files=("README.md",)), [case], loaded).pairs


NEVER = (
    "README.md docs/how.rst results/runs/one.json .github/workflows/ci.yml .gitignore "
    "apps/one/experiment.toml apps/stacks/current.txt"
)
UNKNOWN = "src/stock/other.py scripts/release.py benchmarks/bench.py apps/two/answers.json"
ALWAYS = "src/shop/api.py src/shop/prices.json uv.lock pyproject.toml"


@pytest.mark.parametrize(
    ("paths_", "known", "unknown"),
    [(NEVER, False, False), (UNKNOWN, False, True), (ALWAYS, True, True)],
)
def test_around_the_applications_of_others_anything_may_be_read(
    paths_: str, known: bool, unknown: bool
) -> None:
    case, both = make_case("one/a"), frozenset({"one", "two"})
    for path, (doubt, expected) in product(
        paths_.split(), (("", known), ("app.py loads code with exec", unknown))
    ):
        loaded = {case.id: Dependencies(frozenset({"src/shop/api.py"}), frozenset(), doubt)}
        found = selected(Diff(files=(path,), experiments=both, own=False), [case], loaded)
        assert bool(found.pairs) is expected, path
        assert "harness" not in found.empty_reason
    # Ours: only what lies at the top of our repository is the harness.
    change = Diff(files=("lib/shop.py",), experiments=both)
    loaded = {case.id: Dependencies(unknown="app.py loads code with exec")}
    assert selected(change, [case], loaded).pairs
    loaded = {case.id: Dependencies()}
    assert selected(change, [case], loaded).empty_reason == (
        "Nothing to judge: only files that no application imports differ, "
        "and no measured case depends on them."
    )


CODE = """\
import os
__version__ = "1.0"
LIMIT = 10
def entered(a):
    return a + LIMIT
"""


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (CODE, CODE.replace("1.0", "1.1rc1"), True),
        (CODE, "# What for.\n\n" + CODE.replace("a + LIMIT", "(a  # both\n + LIMIT)"), True),
        # Each of these is executed otherwise.
        (CODE, CODE.replace("10", "11"), False),
        (CODE, CODE.replace("10", "10.0"), False),
        (CODE, CODE.replace('"1.0"', "1.0"), False),
        (CODE, CODE.replace("1.0", "fast"), False),
        (CODE.replace("__version__", "API"), CODE.replace('__version__ = "1', 'API = "2'), False),
        (CODE, CODE.replace("(a)", "(a=None)"), False),
        (CODE, CODE.replace("import os", "import sys"), False),
        (CODE, CODE.replace("    return", "    'Add.'\n    return"), False),
        # A version that not every import has.
        ("if x:\n  __version__ = '1'\n", "if x:\n  __version__ = '2'\n", False),
        # What cannot be read.
        ("print 1\n", "print  1\n", False),
        (f"x = {'(' * 400}{')' * 400}\n", f"x =  {'(' * 400}{')' * 400}\n", False),
    ],
)
def test_code_is_the_same_where_it_is_executed_as_such(
    before: str, after: str, expected: bool, tmp_path: Path
) -> None:
    roots = tmp_path / "base", tmp_path / "head"
    write_all(roots[0], {"a.py": before, "a.txt": "1", "gone.py": ""})
    write_all(roots[1], {"a.py": after, "a.txt": "1"})
    for sides_ in (roots, roots[::-1]):
        assert affected.same_code("a.py", *sides_) is expected
        assert not affected.same_code("a.txt", *sides_)
        assert not affected.same_code("gone.py", *sides_)


def test_metadata_are_the_same_but_for_version_and_requirements(tmp_path: Path) -> None:
    base, head = tmp_path / "base", tmp_path / "head"
    for text, expected in (
        ('[project]\nname = "a"\nversion = "2"\n', True),
        ('[project]\nname = "a"\ndependencies = ["b>2"]\n[dependency-groups]\nx = ["b"]\n', True),
        ('[project]\nname = "a"\nversion = "1"\nrequires-python = ">3"\n', True),
        ('[project]\nname = "a"\nversion = "2"\nscripts = {b = "b:c"}\n', False),
        ('[project]\nname = "a"\nversion = "1"\n[tool.hatch]\nx = 1\n', False),
    ):
        for path in ("pyproject.toml", "lib/pyproject.toml"):
            write_all(base, {path: '[project]\nname = "a"\nversion = "1"\n'})
            write_all(head, {path: text})
            assert affected.same_code(path, base, head) is expected
    for root in (base, head):
        write_all(root, {"pyproject.toml": "[broken\n"})
    assert not affected.same_code("pyproject.toml", base, head)


def installed(folder: Path, lock: str, **files: str) -> Testbed:
    """A testbed with a lock of digests, and what it installs: package → content."""
    text = "".join(f"{line} --hash=sha256:{lock.encode().hex()}\n" for line in lock.split(", "))
    write_all(folder, {"current.txt": text})
    for package, content in files.items():
        home = f"{package}-1.dist-info"
        record = f"{package}.py,{content}\n{home}/METADATA,{lock}\n{home}/RECORD,,\n"
        write_all(folder, {f"lib/python3.14/site-packages/{home}/RECORD": record})
    return replace(
        make_testbed(),
        stacks={"current": stacks.read_lock("current", folder / "current.txt", "3.14.0")},
        pythons={("current", "3.14"): folder / "bin/python"},
    )


@pytest.mark.parametrize(
    ("lock", "files", "moves"),
    [
        ("a==1, b==1", {"a": "x", "b": "y"}, ""),
        ("a==1, b==1, c==1 ; sys_platform == 'win32'", {"a": "x", "b": "y"}, ""),
        ("a==1, b==1", {"a": "x", "b": "rebuilt"}, "b 1, other files"),
        ("a==1, b @ file:///b-1-py3-none-any.whl", {"a": "x", "b": "y"}, ""),
        ("a==1, b @ file:///b-1-py3-none-any.whl", {"a": "x", "b": "own"}, "b 1, other files"),
        ("a==2, b==1", {"a": "x", "b": "y"}, "a 1 → 2"),
        ("b==1, c==1", {"b": "y", "c": "z"}, "a 1 → gone; c new → 1"),
    ],
)
def test_packages_differ_by_version_or_by_what_is_installed_here(
    lock: str, files: dict[str, str], moves: str, tmp_path: Path
) -> None:
    """Not by hashes of other platforms' files, nor by metadata or by where they came from."""
    base = installed(tmp_path / "base", "a==1, b==1 ; python_version > '3'", a="x", b="y")
    head = installed(tmp_path / "head", lock, **files)
    found = matching.package_changes(base, head)
    assert "; ".join(map(str, found)) == moves
    assert matching.relocked(base, head) == ["current"]
    assert matching.package_changes(base, base) == () == tuple(matching.relocked(base, base))
    case = make_case("one/a")
    sides = selected(Diff(packages=found, relocked=True), [case], {case.id: Dependencies()})
    same = "Nothing to judge: both locks install the same files here."
    assert (sides.empty_reason == same) is (moves == "")


def test_interpreters_of_the_same_name_differ_by_version_or_build() -> None:
    made = InterpreterRecord(
        name="3.16", version="3.14.7", build="-O3", origin="source", free_threaded=False
    )
    base = [made.model_copy(update={"name": name}) for name in ("3.14", "3.15", "3.16")]
    newer = base[0].model_copy(update={"version": "3.14.8"})
    other = base[1].model_copy(update={"build": "-O2"})
    told = {"3.14": "3.14.7 → 3.14.8", "3.15": "built differently"}
    assert affected.interpreter_changes(base, [newer, other, made]) == told


def test_cases_are_compared_with_themselves_only() -> None:
    load = Load(model=LoadModel.CLOSED, connections=256, duration=8, timeout=10)
    longer = make_case("one/a").load.model_copy(update={"duration": 30.0, "timeout": 60.0})
    renamed = make_case("one/a").endpoint.model_copy(update={"app": "other:app", "takes": 0.5})
    base = [make_case("one/a", env={"OLD": "1"}), make_case("one/b"), make_case("one/old")]
    head = [
        make_case("one/a", load=longer, endpoint=renamed, env={"NEW": "1"}),
        make_case("one/b", load=load, env={"WAIT": "3"}),
        make_case("one/new"),
    ]
    pairs, missing = matching.match_cases(base, head)
    assert pairs == ((base[0], head[0]),)
    assert [(one.case, one.reason) for one in missing] == [
        ("one/b", "differs on head: env {} → {'WAIT': '3'}; load.connections 128 → 256"),
        ("one/new", "only head has it"),
        ("one/old", "only base has it"),
    ]
    both = side("base", ()), side("head", (head[0],))
    sides = Sides(*both, ROOT, make_pairs(*both), missing)
    found = affected.select(sides, Diff(), {"one/a": Dependencies()})
    assert (found.missing, found.untouched) == (missing, 1)


def test_the_closure_follows_markers_and_extras() -> None:
    texts = {
        "server": ("Click>=8", "fast_loop; extra == 'speed'", "old; python_version < '3.11'"),
        "app": ("server[speed]", "windows; sys_platform == 'win32'"),
        "click": ("app; extra == 'never'",),
        "fast-loop": ("app",),  # a circle
    }
    environment = Installed({one: tuple(map(Requirement, texts[one])) for one in texts}, {})
    full = {"app", "server", "click", "fast-loop"}
    for roots, found in (
        (["Server"], {"server", "click"}),
        (["app"], full),
        # The extra is asked for when the distribution has been seen without it.
        (["app", "server"], full),
        (["absent"], {"absent"}),
    ):
        assert dependencies.closure(environment, roots, PLATFORM) == found


def write_all(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_imports_are_followed_through_local_modules(tmp_path: Path) -> None:
    write_all(tmp_path, {
        "package/__init__.py": "from . import near\n",
        "package/near.py": "from ..unreal import x\nfrom .far import y\nimport flask\n",
        "package/far.py": "import app\n",
        "package/unused.py": "import numpy\n",
        "app.py": "import asyncio, os.path\nfrom fastapi import FastAPI\nimport package\n"
        "def late():\n    import pydantic.fields\n",
    })  # fmt: skip
    found = dependencies.imports("app", [tmp_path])
    assert {path.name for path in found.files} == {"app.py", "__init__.py", "near.py", "far.py"}
    assert found.names == {"fastapi", "flask", "pydantic", "unreal"}
    assert not found.unknown


def test_code_around_the_applications_is_followed(tmp_path: Path) -> None:
    files = {
        "apps/one/app.py": "import sys\nsys.path.insert(0, 'src')\nfrom shop.api import app\n",
        "src/shop/__init__.py": "",
        "src/shop/api.py": "from . import models\nimport stock, fastapi\n",
        "src/shop/plugins/by_convention.py": "import redis\n",
        "stock.py": "SETTINGS = 'settings.production'\nWORD = 'unused'\n",
        "settings/production.py": "import orjson\n",
    }
    write_all(tmp_path, {**files, "src/other/__init__.py": ""})
    apps, around = tmp_path / "apps", (tmp_path / "src", tmp_path)
    found = dependencies.imports("app", [apps / "one", apps], around)
    assert {path.relative_to(tmp_path).as_posix() for path in found.files} == files.keys()
    assert found.around == {"shop", "stock", "settings"}
    assert found.names - found.around == {"fastapi", "redis", "orjson"}
    assert not found.unknown
    (apps / "one" / "app.py").write_text("import sys\nsys.path.insert(0, 'lib')\nimport django\n")
    found = dependencies.imports("app", [apps / "one", apps], around)
    assert found.unknown == (
        "app.py changes the search path, and what it loads from there is not known"
    )


@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        ("__import__('x')\n", "app.py loads code with __import__"),
        ("def broken(:\n", "app.py cannot be read: "),
    ],
)
def test_imports_that_cannot_be_seen_are_unknown(text: str, doubt: str, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(text)
    assert dependencies.imports("app", [tmp_path]).unknown.startswith(doubt)
