"""An application that nobody has declared: copies of its repository, alike on both sides."""

import gc
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

import pytest

import duetbench
from bench import Bench
from duetbench.app import deployment, stacks
from duetbench.app.setting import Contrast
from duetbench.app.subject import Subject
from duetbench.app.target import Target
from duetbench.app.testbed import SideCase
from duetbench.core.errors import UsageError
from duetbench.core.metrics import CPU
from duetbench.core.model import Verdict
from duetbench.judge import affected, preparation
from duetbench.judge.instruments import Rotation
from duetbench.judge.pairs import Side, Sides
from duetbench.load import duet, loads
from fake_sessions import side
from observatory.matrix.checkout import Checkout
from repos import BUILD, SHOP, asgi, backend, commit, git, prepared, work_in, write
from synthetic import make_case

APP = asgi("from shop import items\n", 'body = items.find(scope["path"])')
ITEMS = "def find(path):\n    return path.encode()\n"
SLOWER = "def find(path):\n    sum(range(20_000))\n    return path.encode()\n"
PYPROJECT = SHOP["pyproject.toml"]


@pytest.fixture
def shop(bench: Bench) -> Iterator[Path]:
    """A repository of somebody's, without a word of ours; its second commit is slower."""
    files = {
        **SHOP, "src/shop/__init__.py": "", "src/shop/main.py": APP, "src/shop/items.py": ITEMS,
        "tests/test_shop.py": "import shop\n", ".gitignore": "__pycache__/\n",
    }  # fmt: skip
    root = work_in(bench.folder / "shop", files, bench.patch)
    commit(root, "Slower", **{"src/shop/items.py": SLOWER})
    bench.patch.chdir(root / "src")
    bench.patch.setattr("duetbench.host.command.free_gb", lambda _: 0.0)  # for no copies
    yield root
    assert not git(root, "status", "--porcelain")


Prepare: TypeAlias = Callable[[], Sides]


@pytest.fixture
def both(shop: Path) -> Iterator[Prepare]:
    """What prepares the last commit and the files as they are."""
    keys = {"app": "shop.main:app", "requests": ("GET /items/7",), "env": {"SECRET": "words"}}
    project = Subject(shop, target=Target.model_validate(keys))
    with ExitStack() as stack:
        yield lambda: stack.enter_context(prepared(project, Contrast(("HEAD~1", None))))


@pytest.mark.real
def test_revisions_that_declare_nothing_are_prepared(shop: Path, both: Prepare) -> None:
    """Each with its code; interface, server and interpreter are found out once, for both."""
    sides = both()
    (case,) = sides.head.cases
    assert sides.base.cases == sides.head.cases
    assert case.id == "shop/get-items-7/py3.14/c32"
    assert (case.endpoint.interface, case.server, case.stack) == ("asgi", "granian", "project")
    assert case.env_names == ("SECRET",)
    base, head = (side.testbed.stacks["project"] for side in (sides.base, sides.head))
    assert base.digest == head.digest
    assert "granian" in head.packages
    assert deployment.describe(sides.head.subject) == (
        f"shop.main:app by granian {head.packages['granian']}, workers: 1, asyncio, "
        f"32 connections, Python {sides.head.testbed.interpreters['3.14'].version}, "
        "packages from pyproject.toml"
    )
    actual = affected.find(sides)
    assert [(p.case.id, p.reason) for p in actual.pairs] == [(case.id, "src/shop/items.py")]
    # A lock whose packages are the same.
    commit(shop, "A lock", **{"requirements.txt": "granian\n"})
    assert affected.find(both()).pairs == ()
    output = {"pyproject.toml": PYPROJECT.replace("0.1", "0.2"), "src/shop/main.py": f"# 2\n{APP}"}
    commit(shop, "A release", **output)
    assert affected.find(both()).empty_reason == (
        "same code: only comments, layout, requirements or the version differ in "
        "pyproject.toml, src/shop/main.py."
    )
    commit(shop, "Metadata", **{"pyproject.toml": PYPROJECT.replace("shop", "stall")})
    assert [pair.reason for pair in affected.find(both()).pairs] == ["pyproject.toml"]


@pytest.mark.real
def test_locks_are_found_here_and_in_other_revisions(shop: Path, tmp_path: Path) -> None:
    commit(shop, "A lock", **{"requirements.txt": "granian==1\n"})
    write(shop, "requirements.txt", "granian==2\n")
    write(shop.parent, "new/requirements.txt", "granian==3\n")
    for named, version in {
        "../requirements.txt": 2, "requirements.txt": 2, "requirements.txt@HEAD": 1,
        str(shop.parent / "new" / "requirements.txt"): 3,
    }.items():  # fmt: skip
        actual = preparation.lock_at(shop, named, tmp_path)
        assert actual.file.read_text() == f"granian=={version}\n", named
        assert actual.label == named
    git(shop, "checkout", "--quiet", "requirements.txt")
    for named, sentence in {
        "uv.lock": r"lock=uv\.lock: expected a file, or FILE@REV such as uv\.lock@main",
        "uv.lock@HEAD": r"lock=uv\.lock@HEAD: HEAD has no file uv\.lock",
        "uv.lock@nowhere": "'nowhere' is no revision here",
    }.items():
        with pytest.raises(UsageError, match=sentence):
            preparation.lock_at(shop, named, tmp_path)


WAITS = """\
import asyncio, contextlib, time

LOCK = {lock}


async def find(path):
    {work}
    async with LOCK:
        await asyncio.sleep({seconds})
    return path.encode()
"""


Slower: TypeAlias = tuple[str, tuple[float, float], str]
"""What head's handler holds, the seconds that base's and head's sleep, and what head's computes."""
FREE: Final = "contextlib.nullcontext()"


@pytest.mark.real
@pytest.mark.parametrize(
    ("slower", "most", "swapped"),
    [
        ((FREE, (0.04, 0.08), "0"), 512, True),  # which keep the cores of any machine busy
        (("asyncio.Lock()", (0.02, 0.02), "0"), 64, False),
        pytest.param(
            (FREE, (0, 0), "sum(range(30_000_000))"), None, True, marks=pytest.mark.thorough
        ),
    ],
)
def test_handlers_that_wait_leave_cores_idle_unless_they_wait_for_each_other(
    slower: Slower, most: int | None, shop: Path, both: Prepare, tmp_path: Path, *, swapped: bool
) -> None:
    """Twice as long is twice the median; behind a lock requests come one by one.

    The slower side decides how many connections load both: of 64 that are answered last, after each
    has had its turn, none would be in time.
    """
    lock, seconds, work = slower
    for of in zip((FREE, lock), seconds, ("0", work), strict=True):
        text = WAITS.format(**dict(zip(("lock", "seconds", "work"), of, strict=True)))
        app = {"src/shop/main.py": APP.replace("items.find", "await items.find")}
        commit(shop, "It waits", **app, **{"src/shop/items.py": text})
    (pair,) = both().pairs
    load = pair.case.load
    load = load.model_copy(update={"connections": most or load.connections})
    case = pair.case.model_copy(update={"load": load})
    base, head = (replace(part, case=case) for part in pair.sides)
    parts = (head, base) if swapped else (base, head)
    (actual,) = duet.perform([parts], lambda side: tmp_path / f"{side}.log", head_first=swapped)
    quick, slow = (actual.head, actual.base) if swapped else (actual.base, actual.head)
    if lock == FREE and work == "0":
        assert actual.usable or actual.disturbed, actual
        assert actual.wait is not None
        assert 0.06 < actual.wait < 0.16  # a busy machine adds to it
        assert (actual.connections or 512) < 512
        assert 1.4 < slow["response_p50"] / quick["response_p50"] < 2.2  # as much to both
        return
    assert not [actual.failures(side) for side in actual.failed], actual
    assert slow["throughput"] < quick["throughput"] / 5
    if lock == FREE:
        assert (actual.connections or 64) <= 8
    else:
        assert actual.wait is None
        assert actual.connections in range(30, 51)  # each waits 20 ms: 50 are answered in a second


FEW = "def f7(a):\n    return {'k7': [a, 7], 'n': a + 7}\n"
WEB = asgi(
    """\
import json
from pathlib import Path

from much import functions, version

Path(__file__).with_name("state.db").write_text(version.VERSION)
""",
    "body = json.dumps(functions.f7(1)).encode()",
    "application/json",
)
BUILT = """
[project]
name = "much"
version = "1"
dependencies = ["granian"]
"""
MADE = """\
import pathlib
pathlib.Path("src/much/version.py").write_text("VERSION = '1'")
"""


def contents(side: Side) -> dict[str, bytes]:
    """What a side's copy has: of compiled modules without their sources' time."""
    return {
        path.relative_to(side.root).as_posix(): path.read_bytes()[16 * (path.suffix == ".pyc") :]
        for path in side.root.rglob("*")
        if path.is_file() and ".dist-info" not in path.parent.name  # which names the place
    }


@pytest.mark.real
def test_both_sides_are_prepared_alike(bench: Bench) -> None:
    """File by file, variable by variable, under one interpreter, however they are named.

    The build makes a module, and each import leaves traces.
    """
    files = {
        "pyproject.toml": BUILD + BUILT, "backend.py": MADE + backend("much", "1", {}),
        ".python-version": "3.14\n",
        "src/much/__init__.py": "", "src/much/functions.py": FEW, "src/much/web.py": WEB,
        "src/much/template.py": "{{ name }} = no Python\n", "tests/test_much.py": "import much\n",
    }  # fmt: skip
    root = work_in(bench.folder / "much", files, bench.patch)
    project = Subject(root, target=Target(app="much.web:app", requests=("GET /one",)))
    for words in (
        Contrast(("HEAD", "HEAD")),
        Contrast(base=["lock=pyproject.toml"], head=["lock=pyproject.toml@HEAD"]),
        Contrast(base=["granian==2.8.7"], head=["granian==2.8.7"]),
    ):
        with prepared(project, words, loaded=False) as both:
            base, head = contents(both.base), contents(both.head)
            assert base == head
            compiled = {name.partition(".cpython")[0] for name in base if name.endswith(".pyc")}
            package = "src/much/__pycache__"
            assert compiled >= {f"{package}/functions", f"{package}/web", f"{package}/version"}
            assert not {name for name in base if "state.db" in name}
            (pair,) = both.pairs
            roots = [str(side.root) for side in (both.base, both.head)]
            assert len(roots[0]) == len(roots[1])
            base_has, head_has = (str(sorted(side.environment().items())) for side in pair.sides)
            assert base_has.replace(roots[0], "") == head_has.replace(roots[1], "")
            assert pair.base.testbed.pythons == pair.head.testbed.pythons
    assert not git(root, "status", "--porcelain")


@pytest.mark.thorough
@pytest.mark.real
def test_without_a_load_generator_there_is_all_that_needs_none(shop: Path, bench: Bench) -> None:
    """It is worse by its instructions; what was not loaded is no verdict."""
    bench.patch.setattr("duetbench.app.tools.oha_place", lambda _: shop.parent / "none")
    bench.patch.setenv("DUETBENCH_OHA_RELEASES", "")
    result = bench("compare", "HEAD~1", "--app", "shop.main:app", "--path", "/items/7")
    assert result.code == 1, result
    assert "Partial: ▼ worse: GET /items/7 executes" in result.out
    assert "no server was loaded: a prebuilt oha" in result.out


@pytest.mark.real
def test_the_python_api_has_the_steps_of_a_comparison(
    shop: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second commit computes five times as much, opens a file, and answers the same.

    Equal revisions leave nothing to judge, without a load. Nothing is printed.
    """
    work = "open(__file__).close()\n    sum(range(100_000))"
    commit(shop, "It computes", **{"src/shop/items.py": SLOWER.replace("sum(range(20_000))", work)})
    monkeypatch.setattr(duet, "duet_load", lambda case, *_: loads.duet_load(case, 0.6))
    target = Target(app="shop.main:app", requests=("GET /one",))
    with duetbench.prepare(Contrast(("HEAD~1", "HEAD")), target) as both:
        seen = duetbench.observe(both)
        (pair,) = both.pairs
        while len(pair.usable) < 3:  # beside other programs not each is
            assert (duetbench.duet(pair).failed, len(pair.all) < 12) == ((), True)
        actual = {item.subject: item for item in duetbench.decide(both, seen)}
    assert (actual[CPU].ratio or 0) > 2
    assert actual[CPU].verdict is Verdict.WORSE
    assert (actual["read"].base, actual["read"].head) == (0, 1)
    assert actual["answer"].verdict is Verdict.SAME
    same = duetbench.compare(Contrast(("HEAD", "HEAD")), target)
    assert (same.status, same.cases, bool(same.nothing)) == ("complete", (), True)
    with pytest.raises(UsageError, match="speed=5: expected PACKAGE==VERSION, or KEY=VALUE"):
        duetbench.compare(Contrast(("HEAD", None), head=["speed=5"]), target)
    assert capsys.readouterr() == ("", "")


MAPPED = """\
import pydantic_core, _asyncio, granian
print(sorted({line.split()[-1] for line in open("/proc/self/maps") if "x" in line.split()[1]}))
"""


def both_in(python: Path, program: Path) -> tuple[SideCase, SideCase]:
    """Both sides in one environment of an interpreter with this program."""
    interpreter = Checkout.here().interpreter("3.14").model_copy(update={"executable": program})
    case = make_case("a/b/py3.14")
    testbed = replace(
        side("base", (case,)).testbed, pythons={("current", "3.14"): python},
        interpreters={"3.14": interpreter},
    )  # fmt: skip
    return SideCase(case, testbed), SideCase(case, testbed)


@pytest.mark.real
def test_each_duet_has_another_pair_of_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three copies: 0 0, 1 1, 2 2, then each with its neighbour."""
    write(tmp_path, "environment/bin/program", "")
    write(tmp_path, "environment/pyvenv.cfg", "home = elsewhere\n")
    python = tmp_path / "environment" / "bin" / "python"
    python.symlink_to(tmp_path / "python3.14")
    both = both_in(python, tmp_path / "python3.14")
    others = (replace(each, case=make_case("a/b/py3.14", workers=2)) for each in both)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rotation = Rotation(copies=3)
    rotation.turn(*others)  # which have turns of their own
    turns = [rotation.turn(*both) for _ in range(6)]
    used = [tuple(item.pythons["current", "3.14"] for item in turn) for turn in turns]
    base, head = zip(*used, strict=True)
    assert base[:3] == base[3:]
    assert (head[3], head[4], head[5]) == (head[1], head[2], head[0])
    assert len({*base, *head}) == 6


@pytest.mark.real
def test_a_copy_maps_nothing_of_the_original(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interpreter, stack = Checkout.here().interpreter("3.14"), Checkout.here().lock("current")
    python = stacks.executable(stack, interpreter)
    both = both_in(python, interpreter.executable)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    rotation = Rotation(copies=1)
    made = [item.pythons["current", "3.14"] for item in rotation.turn(*both)]
    assert len({python, *made}) == 3
    output = subprocess.check_output([made[0], "-c", MAPPED], text=True)
    (copies,) = tmp_path.rglob("duetbench-tmp-*/*")
    for name in ("bin/python3.14", "_asyncio", "_pydantic_core", "_granian"):
        (place,) = (item for item in output.split("'") if name in item)
        assert place.startswith(str(copies))
    assert python.exists()  # nothing of the original was touched
    assert subprocess.run([python, "-c", "import granian"], check=True).returncode == 0
    del rotation
    gc.collect()
    assert not copies.exists()


def test_without_room_nothing_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("duetbench.host.command.free_gb", lambda _: 4.0)
    item, other = (SideCase(make_case("a/b"), side(name, ()).testbed) for name in ("base", "head"))
    assert Rotation().turn(item, other) == (item.testbed, other.testbed)
