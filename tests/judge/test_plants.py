"""Planted slowdowns: one known change to a copy, and the application still answers right."""

import ast
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

from duetbench.core.errors import SetupError, UsageError
from duetbench.core.model import Case
from duetbench.host import paths
from duetbench.judge.selftest import injected
from duetbench.project import experiments
from duetbench.project.project import Project

ROOT = paths.project_root()


@pytest.fixture
def apps(tmp_path: Path) -> Path:
    copy = tmp_path / "apps"
    shutil.copytree(ROOT / "apps", copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def case(endpoint: str) -> Case:
    cases = experiments.expand_all(Project.here().experiments, "quick")
    return next(c for c in cases if (c.experiment, c.endpoint.name) == ("asgi-wsgi", endpoint))


def source(apps: Path, of: Case) -> str:
    return (apps / of.experiment / f"{of.endpoint.app.partition(':')[0]}.py").read_text()


def flask_app(apps: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:

    class Flask:
        def __init__(self, name: str) -> None: ...

        def get(self, _path: str) -> object:
            return lambda function: function

    fake = ModuleType("flask")
    vars(fake).update(Flask=Flask, Response=lambda body, **_: body)
    monkeypatch.setitem(sys.modules, "flask", fake)
    monkeypatch.syspath_prepend(str(apps))
    module = ModuleType("planted")
    exec((apps / "asgi-wsgi" / "wsgi_app.py").read_text(), vars(module))
    return module


def test_a_busy_handler_loops_first_and_answers_the_same(
    apps: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    json = case("wsgi-json")
    injected.into_handler(apps, json, 57)
    assert source(apps, json).count(repr(bytes(57))) == 1
    module = flask_app(apps, monkeypatch)
    assert module.greet() == {"message": "Hello, world!"}
    assert repr(bytes(57)) not in source(apps, case("asgi-json"))


@pytest.mark.parametrize("name", ["wsgi-io", "asgi-io"])
def test_a_queue_stands_around_the_whole_handler(apps: Path, name: str) -> None:
    io = case(name)
    injected.into_queue(apps, io, 1)
    text = source(apps, io)
    assert text.count("_gate(__import__(") == 1
    assert text.index("_gate(__import__(") < text.index("sleep(")
    compile(text, "planted", "exec")


def test_the_queue_lets_only_so_many_in(apps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    io = case("wsgi-io")
    injected.into_queue(apps, io, 1)
    module = flask_app(apps, monkeypatch)
    gate = module._gate(__import__("threading").Semaphore)
    seen: list[bool] = []
    monkeypatch.setattr(module.time, "sleep", lambda _: seen.append(gate.acquire(blocking=False)))
    assert module.wait() == "Hello, waiter!"
    assert seen == [False]
    assert gate.acquire(blocking=False)


def test_ballast_is_held_and_touched(apps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    injected.into_memory(apps, case("wsgi-json"), 4096)
    ballast = flask_app(apps, monkeypatch)._BALLAST
    assert len(ballast) == 4096
    assert set(ballast) == {ord("x")}


def test_a_slower_dependency_is_one_method_of_the_framework(tmp_path: Path) -> None:
    package = tmp_path / "env" / "lib" / "python3.14" / "site-packages" / "flask"
    package.mkdir(parents=True)
    text = "class Flask:\n    def full_dispatch_request(self):\n        return 1\n"
    (package / "app.py").write_text(text)
    injected.into_dependency(tmp_path / "env", case("wsgi-json"), 9)
    planted = ast.parse((package / "app.py").read_text())
    assert ast.unparse(planted).count(repr(bytes(9))) == 1
    with pytest.raises(SetupError, match=r"expected flask/app\.py"):
        injected.into_dependency(tmp_path, case("wsgi-json"), 9)


def test_a_walk_reads_lines_that_are_scattered_over_its_region(
    apps: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every step reads another place of a far region, and one of few of a near one."""

    class Table:
        def __init__(self) -> None:
            self.read: list[int] = []

        def __getitem__(self, place: int) -> int:
            self.read.append(place)
            return 1

    read = []
    for region in (injected.FAR, injected.NEAR):
        original = source(apps, case("wsgi-json"))
        injected.into_walk(apps, case("wsgi-json"), 1000, region)
        module = flask_app(apps, monkeypatch)
        assert len(module._TABLE) == injected.FAR
        assert set(module._TABLE[:: injected.FAR // 8]) == {1}
        table = Table()
        monkeypatch.setattr(module, "_TABLE", table)
        assert module.greet() == {"message": "Hello, world!"}
        read.append(table.read)
        (apps / "asgi-wsgi" / "wsgi_app.py").write_text(original)
    far, near = read
    assert len(set(far)) > 950
    assert max(far) - min(far) > 0.9 * injected.FAR
    assert set(near) <= set(range(1024, injected.NEAR, 64))
    # What Python does not have to make, an integer up to 1024, neither of them indexes with.
    assert min(far + near) >= 1024
    assert [place & (injected.NEAR - 1) for place in far] == near


def test_a_longer_wait_is_the_handlers_own(apps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    injected.into_wait(apps, case("wsgi-io"), 100)
    module = flask_app(apps, monkeypatch)
    slept: list[float] = []
    monkeypatch.setattr(module.time, "sleep", slept.append)
    module.wait()
    assert slept == [pytest.approx(0.0101)]
    with pytest.raises(UsageError, match="calls sleep"):
        injected.into_wait(apps, case("wsgi-json"), 100)


def test_a_case_without_such_a_handler_is_refused(apps: Path) -> None:
    json = case("wsgi-json")
    elsewhere = json.model_copy(
        update={"endpoint": json.endpoint.model_copy(update={"path": "/nowhere"})}
    )
    with pytest.raises(UsageError, match="'/nowhere'"):
        injected.into_handler(apps, elsewhere, 1)
