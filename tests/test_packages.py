"""System packages: installed where that is allowed, told where it is not, never an error."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from servebench.progress import Narrator
from servebench.toolchain import packages
from servebench.toolchain.packages import CHROMIUM, VALGRIND, Package, ensure


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with nothing on it but what a test puts there, and a cache for the logs."""
    made = tmp_path / "bin"
    made.mkdir()
    monkeypatch.setenv("PATH", str(made))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return made


@pytest.fixture
def heard() -> io.StringIO:
    return io.StringIO()


def narrator(heard: io.StringIO) -> Narrator:
    return Narrator(Console(file=heard, width=1000))


def script(folder: Path, name: str, text: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def as_root(monkeypatch: pytest.MonkeyPatch, uid: int = 0) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)


def test_what_is_there_is_left_alone(
    folder: Path, heard: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that is found is not installed, whoever we are; its version is the one it says."""
    as_root(monkeypatch)
    script(folder, "apt-get", "exit 9")
    script(folder, "valgrind", "echo valgrind-3.19.0")
    script(folder, "chromium-browser", "echo Chromium 150.0")
    assert ensure(VALGRIND, narrator(heard)) is False
    assert ensure(CHROMIUM, narrator(heard)) is False
    assert heard.getvalue() == ""
    assert VALGRIND.version() == "3.19.0"
    assert CHROMIUM.find() == folder / "chromium-browser"


@pytest.mark.parametrize(("apt", "uid"), [(True, 1000), (False, 0)])
def test_what_may_not_be_installed_is_told(
    folder: Path, heard: io.StringIO, monkeypatch: pytest.MonkeyPatch, apt: bool, uid: int
) -> None:
    """Without root, and without apt, one sentence has the command; apt-get is not called."""
    as_root(monkeypatch, uid)
    if apt:
        script(folder, "apt-get", f"echo called > {folder}/called")
    assert ensure(VALGRIND, narrator(heard)) is None
    assert heard.getvalue() == (
        "valgrind is not here; instructions are counted with it. "
        "To have it: `apt-get install --no-install-recommends valgrind`\n"
    )
    assert not (folder / "called").exists()


def test_old_lists_of_packages_are_renewed(
    folder: Path, heard: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package is not known at first: the lists are fetched, then it is installed."""
    as_root(monkeypatch)
    script(
        folder,
        "apt-get",
        f"""case "$*" in
update) echo updated > {folder}/updated;;
*install*valgrind) [ -e {folder}/updated ] || exit 100
  printf '#!/bin/sh\\necho valgrind-3\\n' > {folder}/valgrind
  /bin/chmod +x {folder}/valgrind;;
esac""",
    )
    assert ensure(VALGRIND, narrator(heard)) is True
    assert "valgrind: installing it: instructions are counted with it" in heard.getvalue()
    assert ensure(VALGRIND, narrator(heard)) is False


def test_a_failing_installation_is_no_error(
    folder: Path, heard: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without network apt fails: its words are in the sentence, and set-up goes on."""
    as_root(monkeypatch)
    script(folder, "apt-get", "echo 'E: Temporary failure: could not resolve host'; exit 100")
    assert ensure(Package("sl", ("sl",), "trains run on it"), narrator(heard)) is None
    sentence = heard.getvalue().splitlines()[-1]
    assert sentence.startswith("sl is not here (apt-get update failed (exit code 100): the network")
    assert sentence.endswith("To have it: `apt-get install --no-install-recommends sl`")


def test_only_tests_want_a_browser() -> None:
    """What measuring wants is installed without being asked for; the browser is not."""
    assert [package.name for package in packages.PACKAGES if not package.tests_only] == ["valgrind"]


def test_in_ci_sudo_makes_us_root(
    folder: Path, heard: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hosted machine's user may become root without a password; nobody else is asked to."""
    as_root(monkeypatch, 1000)
    script(folder, "sudo", f'echo "$1 $2 $3" > {folder}/asked; shift 3; exec "$@"')
    script(
        folder,
        "apt-get",
        f"printf '#!/bin/sh\\n' > {folder}/valgrind; /bin/chmod +x {folder}/valgrind",
    )
    monkeypatch.delenv("CI", raising=False)
    assert ensure(VALGRIND, narrator(heard)) is None
    assert not (folder / "asked").exists()
    monkeypatch.setenv("CI", "true")
    assert ensure(VALGRIND, narrator(heard)) is True
    asked = (folder / "asked").read_text()
    assert asked == "--non-interactive env DEBIAN_FRONTEND=noninteractive\n"
