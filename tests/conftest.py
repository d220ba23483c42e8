"""Shared fixtures."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from bench import Bench, make_checkout
from fake_github import FakeGitHub
from servebench.host import machine_lock, paths
from servebench.measure import verify
from servebench.record import store
from steps import Step

if TYPE_CHECKING:  # most tests need no browser
    from playwright.sync_api import Browser, Page

    from browsing import NewPage
    from servebench.site.pages.site import Site


def pytest_configure() -> None:
    """Hear Ctrl-C: a shell's background jobs ignore it, and so would all that tests start.

    Tests measure beside each other, so each process of theirs has a lock of its own for that.
    """
    os.environ[machine_lock.LOCK] = f"servebench-tests-{os.getpid()}"
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first: at the end a worker that has nothing to do would wait for them."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture
def patient_verification(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than a launch asks whether requests overlap: several tests share the cores."""
    monkeypatch.setattr(verify, "_OVERLAP_SECONDS", 30.0)


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


@pytest.fixture(scope="session")
def reference_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The committed results, without what somebody has measured in this checkout; to be read."""
    return store.copy_committed(paths.project_root(), tmp_path_factory.mktemp("committed"))


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
    monkeypatch.setenv("SERVEBENCH_ROOT", str(checkout))
    bench = Bench(checkout, tmp_path, token, capsys, monkeypatch)
    yield bench
    for process in bench.alive():  # none, unless the test has failed
        with suppress(psutil.NoSuchProcess):
            process.kill()


@pytest.fixture(scope="session")
def github_server() -> Iterator[FakeGitHub]:
    """A stand-in for GitHub on a real socket; stopping one takes longer than most tests."""
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
