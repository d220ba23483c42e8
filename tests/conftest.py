"""Shared fixtures."""

from __future__ import annotations

import io
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock
import psutil
import pytest
from hypothesis import settings
from rich.console import Console

import observatory.matrix.checkout  # noqa: F401 - whatever runs first, cases have titles
from bare import NOBODY, Programs
from bench import Bench, Once, Shell, make_checkout
from duetbench.app import workspace
from duetbench.host import git, machine, paths
from duetbench.host.console import Narrator
from duetbench.host.process_session import Session
from duetbench.load import launch
from fake_github import FakeGitHub, Step
from tiny_index import Index, serving

if TYPE_CHECKING:  # most tests need no browser
    from playwright.sync_api import Browser, Page

    from browsing import NewPage
    from observatory.show.site.site import Site


def pytest_configure(config: pytest.Config) -> None:
    """Prepare a worker. It has its own lock for measuring, as tests measure at the same time.

    - Workers begin to collect in different places, and read what others have compiled.
    - Python keeps compiled modules, as hundreds of processes load them.
    - PATH has no shims of version managers: uv queries each of them for three seconds.
    - Git reads no configuration except that of the repositories that tests make.
    - Ctrl-C works: a shell's background jobs ignore it, as would all processes of tests.
    - Examples of properties are the same each time, and may take as long as they do.
    """
    settings.register_profile("duetbench", deadline=None, derandomize=True, max_examples=60)
    settings.load_profile("duetbench")
    if (worker := getattr(config, "workerinput", None)) and config.args == ["tests"]:
        tests = Path(__file__).parent
        places = sorted(map(str, (*tests.glob("*/"), *tests.glob("test_*.py"))))
        start = int(worker["workerid"][2:]) * len(places) // worker["workercount"]
        config.args = places[start:] + places[:start]
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    folders = os.environ["PATH"].split(os.pathsep)
    own = str(Path(sys.executable).resolve().parent)  # a shim may have started it
    programs = [folder for folder in folders if Path(folder).name != "shims"]
    os.environ["PATH"] = os.pathsep.join((*programs, own))
    os.environ |= dict.fromkeys(("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"), os.devnull)
    os.environ[machine.LOCK] = f"duetbench-tests-{os.getpid()}"
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest tests first: at the end, idle workers would wait for them."""
    items.sort(key=lambda item: (item.get_closest_marker("long") is None, item.path))


@pytest.fixture
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for logs and session records of one test; what it prepared is removed."""
    home = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    yield home
    workspace.forget(tmp_path)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    import browsing

    with browsing.browser() as actual:
        yield actual


@pytest.fixture
def new_page(chromium: Browser) -> Iterator[NewPage]:
    """A function that makes pages, each with its own context and options."""
    with ExitStack() as stack:

        def new(**options: Any) -> Page:
            context = chromium.new_context(viewport={"width": 1280, "height": 900}, **options)
            stack.callback(context.close)
            context.set_default_timeout(20_000)
            return context.new_page()

        yield new


@pytest.fixture
def sessions(state_home: Path) -> Path:
    return state_home / "duetbench" / "sessions"


@pytest.fixture
def heard() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def narrator(heard: io.StringIO) -> Narrator:
    return Narrator(Console(file=heard, width=1000))


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """An empty PATH, for programs of the test."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return Programs(folder)


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "duetbench"


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies on a closed port, so every request to the network fails at once."""
    monkeypatch.setenv("UV_OFFLINE", "1")
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, NOBODY)
        monkeypatch.setenv(name.upper(), NOBODY)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def index(state_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """An empty package index, the only one that uv knows."""
    with serving(monkeypatch, state_home.parent / "uv") as index:
        yield index


@pytest.fixture
def beta_index(index: Index) -> Index:
    """An index of `alpha`, which needs `beta`, and of three versions of `beta`."""
    index.add("alpha", "1.0", "2026-01-10", ("beta",))
    index.add("beta", "1.0", "2026-01-11")
    index.add("beta", "1.5", "2026-02-11")
    index.add("beta", "2.0", "2026-03-01")
    return index


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """A function that returns a folder of this name, which only the first worker fills."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def folder(name: str, fill: Callable[[Path], object]) -> Path:
        place = shared / name
        with filelock.FileLock(f"{place}.lock"):
            if not (place / "filled").exists():
                shutil.rmtree(place, ignore_errors=True)  # of a worker that failed
                place.mkdir()
                fill(place)
                (place / "filled").touch()
        return place

    return folder


@pytest.fixture(scope="session")
def reference_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the committed results, without other runs in this checkout; for reading only."""
    root, folder = str(paths.project_root()), tmp_path_factory.mktemp("committed")
    git.run(["-C", root, "checkout-index", "--all", f"--prefix={folder}/"])
    return folder / "results"


@pytest.fixture(scope="session")
def reference_site(tmp_path_factory: pytest.TempPathFactory, reference_results: Path) -> Site:
    """The gathered site of the committed results."""
    import sites

    folder = tmp_path_factory.mktemp("reference")
    (folder / "results").symlink_to(reference_results)
    return sites.gather_site(folder)


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with `badapps` as its only experiment."""
    return make_checkout(tmp_path_factory.mktemp("checkout"))


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(capsys, monkeypatch)


@pytest.fixture
def bench(call: Shell, checkout: Path, state_home: Path) -> Iterator[Bench]:
    """The command line in that checkout; all that it starts ends with the test."""
    # Servers and generators inherit PATH, so a folder that only this test has there marks them.
    folder = state_home.parent
    token = str(folder / "marked")
    call.patch.setenv("PATH", os.pathsep.join((os.environ["PATH"], token)))
    call.patch.setenv("DUETBENCH_ROOT", str(checkout))
    call.patch.setattr(launch, "WINDOW_SECONDS", 0.1)  # of a warm-up: nobody keeps the figures
    bench = Bench(call.capture, call.patch, checkout, folder, token)
    yield bench
    for process in bench.alive():  # none, unless the test has failed
        with suppress(psutil.NoSuchProcess):
            process.kill()


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> list[Session]:
    """The servers that a test has started, the first one first."""
    started, real = list[Session](), Session.start

    def start(*arguments: Any, **named: Any) -> Session:
        session = real(*arguments, **named)
        if named["role"] == "server":
            started.append(session)
        return session

    monkeypatch.setattr(Session, "start", start)
    return started


@pytest.fixture(scope="session")
def github_server() -> Iterator[FakeGitHub]:
    """A stand-in for GitHub on a real socket; each step resets it."""
    with FakeGitHub() as server:
        yield server


@pytest.fixture
def step(call: Shell, github_server: FakeGitHub, tmp_path: Path) -> Step:
    """A step of a workflow, with an empty stand-in for GitHub."""
    return Step(call.capture, call.patch, github_server, tmp_path)
