"""Programs of the system's packages, and those that Go builds: told where they cannot be had."""

import io
import os
from pathlib import Path

import pytest

from bare import Programs
from duetbench.host.console import Narrator
from duetbench.project.tools import VALGRIND, Package, ensure


# Builds a script instead.
@pytest.fixture(autouse=True)
def _root(monkeypatch: pytest.MonkeyPatch, empty_cache: Path) -> None:
    assert not empty_cache.exists()
    monkeypatch.setattr(os, "geteuid", lambda: 0)


@pytest.mark.parametrize(("apt", "uid"), [(True, 1000), (False, 0)])
def test_what_may_not_be_installed_is_told(
    programs: Programs,
    heard: io.StringIO,
    narrator: Narrator,
    monkeypatch: pytest.MonkeyPatch,
    apt: bool,
    uid: int,
) -> None:
    """Without root, and without apt, one sentence has the command; apt-get is not called."""
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    if apt:
        programs.write("apt-get", f"echo called > {programs.folder}/called")
    assert ensure(VALGRIND, narrator) is None
    assert heard.getvalue() == (
        "valgrind is not here; instructions are counted with it. "
        "To have it: `apt-get install --no-install-recommends valgrind`\n"
    )
    assert programs.said("called") is None


def test_a_failing_installation_is_no_error(
    programs: Programs, heard: io.StringIO, narrator: Narrator
) -> None:
    """Without network apt fails: its words are in the sentence, and set-up goes on."""
    programs.write("apt-get", "echo 'E: Temporary failure: could not resolve host'; exit 100")
    assert ensure(Package("sl", ("sl",), "trains run on it"), narrator) is None
    sentence = heard.getvalue().splitlines()[-1]
    assert sentence.startswith("sl is not here (apt-get update failed (exit code 100): the network")
    assert sentence.endswith("To have it: `apt-get install --no-install-recommends sl`")


def test_in_ci_sudo_makes_us_root(
    programs: Programs, narrator: Narrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hosted machine's user may become root without a password; nobody else is asked to."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    made = programs.folder / "valgrind"
    programs.write("sudo", f'echo "$1 $2 $3" > {made.parent}/asked; shift 3; exec "$@"')
    programs.write("apt-get", f"printf '#!/bin/sh\\n' > {made}; /bin/chmod +x {made}")
    monkeypatch.delenv("CI", raising=False)
    assert ensure(VALGRIND, narrator) is None
    assert programs.said("asked") is None
    monkeypatch.setenv("CI", "true")
    assert ensure(VALGRIND, narrator) is True
    asked = "--non-interactive env DEBIAN_FRONTEND=noninteractive\n"
    assert programs.said("asked") == asked
