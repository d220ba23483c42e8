"""Shared fixtures."""

from __future__ import annotations

import io
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from rich.console import Console

from bare import NOBODY, Programs
from bench import Bench, make_checkout
from duetbench.core import protocol
from duetbench.host import git, machine, paths
from duetbench.host.console import Narrator
from duetbench.judge import dependencies
from duetbench.measure import verify
from duetbench.project import interpreters
from fake_github import FakeGitHub
from steps import Step

if TYPE_CHECKING:  # most tests need no browser
    from playwright.sync_api import Browser, Page

    from browsing import NewPage
    from duetbench.show.site.pages.site import Site


def pytest_configure(config: pytest.Config) -> None:
    """Hear Ctrl-C: a shell's background jobs ignore it, and so would all that tests start.

    Tests measure beside each other, so each process of theirs has a lock of its own for that.
    Version managers' shims are no programs of ours: uv asks each what it is, for three seconds.
    Compiled modules are kept, whatever holds elsewhere: hundreds of processes begin with them.
    Git is nobody's: it reads no configuration but that of the repositories which tests make.
    Of several workers each begins to collect elsewhere: what one has compiled, the others read.
    """
    if (worker := getattr(config, "workerinput", None)) and config.args == ["tests"]:
        tests = Path(__file__).parent
        places = sorted(map(str, (*tests.glob("*/"), *tests.glob("test_*.py"))))
        start = int(worker["workerid"][2:]) * len(places) // worker["workercount"]
        config.args = places[start:] + places[:start]
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    searched = os.environ["PATH"].split(os.pathsep)
    own = str(Path(sys.executable).resolve().parent)  # it may have been found by one of them
    found = [folder for folder in searched if Path(folder).name != "shims"]
    os.environ["PATH"] = os.pathsep.join((*found, own))
    os.environ |= dict.fromkeys(("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"), os.devnull)
    os.environ[machine.LOCK] = f"duetbench-tests-{os.getpid()}"
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first: at the end a worker that has nothing to do would wait for them."""
    items.sort(key=lambda item: (item.get_closest_marker("long") is None, item.path))


@pytest.fixture
def patient_verification(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than a launch asks whether requests overlap: several tests share the cores."""
    monkeypatch.setattr(verify, "_OVERLAP_SECONDS", 30.0)


@pytest.fixture
def unserved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages that are made up have no server: nothing is loaded beyond what is declared."""
    monkeypatch.setattr(
        dependencies, "used_files", lambda _, testbed, __: (frozenset(), testbed.apps)
    )


@pytest.fixture
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for logs and session records of this test alone."""
    home = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    return home


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    import browsing

    with browsing.browser() as found:
        yield found


@pytest.fixture
def new_page(chromium: Browser) -> Iterator[NewPage]:
    """Makes pages, each with a context of its own and the options of one."""
    with ExitStack() as stack:

        def new(width: int = 1280, height: int = 900, **options: Any) -> Page:
            context = chromium.new_context(viewport={"width": width, "height": height}, **options)
            stack.callback(context.close)
            context.set_default_timeout(20_000)
            return context.new_page()

        yield new


@pytest.fixture
def sessions(state_home: Path) -> Path:
    """Where the records of this test's sessions are."""
    return state_home / "duetbench" / "sessions"


@pytest.fixture
def heard() -> io.StringIO:
    """What the narrator says."""
    return io.StringIO()


@pytest.fixture
def narrator(heard: io.StringIO) -> Narrator:
    return Narrator(Console(file=heard, width=1000))


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """A PATH with nothing on it but what a test puts there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return Programs(folder)


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache in which nothing was made, and no archive that somebody has named."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(interpreters.ARCHIVE, raising=False)
    return tmp_path / "cache" / "duetbench"


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies that nobody listens on: every request for the network is refused at once."""
    monkeypatch.setenv("UV_OFFLINE", "1")
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, NOBODY)
        monkeypatch.setenv(name.upper(), NOBODY)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def reference_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The committed results, without what somebody has measured in this checkout; to be read."""
    root, folder = paths.project_root(), tmp_path_factory.mktemp("committed")
    listed = git.run(["-C", str(root), "ls-files", "-z", "--", "results"]).decode()
    for name in filter(None, listed.split("\0")):
        if (root / name).is_file():  # it may have been removed, and that not been committed yet
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name)
    return folder / "results"


@pytest.fixture(scope="session")
def reference_site(tmp_path_factory: pytest.TempPathFactory, reference_results: Path) -> Site:
    """What the pages of the committed results are made from."""
    import site_builds

    folder = tmp_path_factory.mktemp("reference")
    (folder / "results").symlink_to(reference_results)
    return site_builds.gathered(folder)


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with `badapps` as its only experiment."""
    return make_checkout(tmp_path_factory.mktemp("checkout"))


@pytest.fixture
def bench(
    checkout: Path,
    state_home: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Bench]:
    """The command line in that checkout; whatever it starts is found, and ended with the test."""
    assert state_home.parent == tmp_path
    # Servers and generators inherit PATH, so a folder on it that nobody else has marks them.
    token = str(tmp_path / "marked")
    monkeypatch.setenv("PATH", os.pathsep.join((os.environ["PATH"], token)))
    monkeypatch.setenv("DUETBENCH_ROOT", str(checkout))
    monkeypatch.setitem(protocol.WINDOW_SECONDS, "quick", 0.1)  # nobody keeps these figures
    bench = Bench(checkout, tmp_path, token, capsys, monkeypatch)
    yield bench
    for process in bench.alive():  # none, unless the test has failed
        with suppress(psutil.NoSuchProcess):
            process.kill()


@pytest.fixture(scope="session")
def github_server() -> Iterator[FakeGitHub]:
    """A stand-in for GitHub on a real socket, which each step finds as new."""
    with FakeGitHub() as server:
        yield server


@pytest.fixture
def step(
    github_server: FakeGitHub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Step]:
    """A step of a workflow, with a GitHub that knows nothing yet."""
    github_server.reset()
    with Step.on(github_server, tmp_path, monkeypatch, capsys) as step:
        yield step
