"""A second installation is one: files of its own, an interpreter of its own, the same answers."""

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from duetbench.judge.instruments import Real
from duetbench.judge.selftest import injected, installations
from duetbench.judge.selftest.bench import chosen
from duetbench.measure import testbed
from duetbench.measure.duet import SideCase
from duetbench.measure.instructions import counting
from duetbench.project.project import Project
from duetbench.store.comparison import Instructions
from duetbench.store.trial import Installation

CASE = "asgi-wsgi/asgi-json/py3.14/w1/c128"
PAIR = ("current", "3.14")
BARE = """\
routes = {}

def get(path):
    return lambda handler: routes.setdefault(path, handler)

@get("/json")
async def message():
    return b'{"message": "Hello, world!"}'

async def app(scope, receive, send):
    body = await routes[scope["path"]]()
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
"""


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> testbed.Rig:
    return testbed.assemble(Project.here(), chosen([CASE]), tmp_path_factory.mktemp("logs"))


@pytest.fixture(scope="module")
def copy(rig: testbed.Rig, tmp_path_factory: pytest.TempPathFactory) -> testbed.Rig:
    made = Installation(path=160, padding=700, interpreter=True)
    return installations.install(rig, {PAIR}, made, tmp_path_factory.mktemp("copy"))


def said(python: Path, code: str) -> str:
    done = subprocess.run(
        [python, "-I", "-c", f"import sys; {code}"], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_no_file_of_a_second_installation_is_one_of_the_first(
    rig: testbed.Rig, copy: testbed.Rig
) -> None:
    root = copy.apps.parent
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    originals = {
        path.stat().st_ino
        for side in (rig.apps, rig.pythons[PAIR].parents[1])
        for path in side.rglob("*")
    }
    assert len(files) > 1500
    assert {path.stat().st_nlink for path in files} == {1}
    assert not originals & {path.stat().st_ino for path in files}
    links = [path.resolve() for path in root.rglob("*") if path.is_symlink()]
    assert all(root in link.parents for link in links)


def test_a_second_installation_runs_on_its_own_interpreter_and_libraries(copy: testbed.Rig) -> None:
    python, root = copy.pythons[PAIR], copy.apps.parent
    prefix, module, cached = said(
        python, "import fastapi; print(sys.base_prefix, fastapi.__file__, fastapi.__cached__)"
    ).split()
    assert Path(prefix) == root / "interpreters" / "3.14"
    assert root in Path(module).parents
    assert Path(cached).is_file()
    assert Path(said(python, "import json; print(json.__cached__)")).is_file()
    assert copy.interpreters["3.14"].executable == Path(prefix) / "bin" / "python3.14"
    (case,) = chosen([CASE])
    assert copy.environment(case)["DUETBENCH_PADDING"] == "x" * 700
    assert len(str(root)) > 160
    assert (root / "benchmarks" / "handlers.py").is_file()
    assert copy.folder(case) == root / "apps" / "asgi-wsgi"


def test_an_interpreter_may_be_shared(rig: testbed.Rig, tmp_path: Path) -> None:
    made = Installation(path=0, padding=0, interpreter=False)
    copy = installations.install(rig, {PAIR}, made, tmp_path)
    original = rig.interpreters["3.14"].executable.resolve()
    assert said(copy.pythons[PAIR], "print(sys.base_prefix)") == str(original.parents[1])
    assert copy.inherited == rig.inherited


def test_every_kind_of_installation_gets_its_turn() -> None:
    drawn = [installations.drawn(number) for number in range(1, 9)]
    assert len({(one.path, one.interpreter) for one in drawn}) == 4
    assert len({one.padding for one in drawn}) == 8
    assert drawn[0] == installations.drawn(1)


@pytest.mark.skipif(
    counting.missing() is not None and "CI" not in os.environ, reason=f"{counting.missing()}"
)
def test_a_walk_through_memory_runs_the_same_instructions_near_and_far(
    rig: testbed.Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the real counter: within 0.05 %, where 60 steps are by far the most of a request.

    Application and interpreter have no framework, and the table is small: to import the one and
    to fill the other takes the counter most of a minute.
    """
    monkeypatch.setattr(injected, "FAR", 2**20)
    (case,) = chosen([CASE])
    pythons = {PAIR: rig.interpreters["3.14"].executable}
    sides = []
    for region in (injected.NEAR, injected.FAR):
        apps = tmp_path / str(region) / "apps"
        (apps / "asgi-wsgi").mkdir(parents=True)
        for name in ("pyproject.toml", "asgi-wsgi/experiment.toml"):
            shutil.copy(rig.apps / name, apps / name)
        (apps / "asgi-wsgi" / "asgi_app.py").write_text(BARE, "utf-8")
        injected.into_walk(apps, case, 60, region)
        sides.append(SideCase(case, replace(rig, apps=apps, pythons=pythons)))
    (found,) = Real(tmp_path).instructions([(sides[0], sides[1])], 300.0)
    assert isinstance(found, Instructions)
    assert found.base > 60 * 100
    assert found.ratio == pytest.approx(1, abs=0.0005)
