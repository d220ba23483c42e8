"""Programs of the system's packages, and those that Go builds: told where they cannot be had."""

import io
import os
from pathlib import Path

import pytest

from bare import Programs
from duetbench.host.console import Narrator
from duetbench.project import setup, tools
from duetbench.project.project import Project
from duetbench.project.tools import CHROMIUM, VALGRIND, Package, ensure
from duetbench.project.types import GoToolSpec

SPEC = GoToolSpec(package="example.org/tool/cmd/tool", version="1.2.3")
# Builds a script instead.
GO = r"""
echo "$@" >> "$(dirname "$0")/calls"
mkdir -p "$GOBIN"
printf '#!/bin/sh\necho tool\n' > "$GOBIN/tool"
chmod +x "$GOBIN/tool"
"""


@pytest.fixture(autouse=True)
def _root(monkeypatch: pytest.MonkeyPatch, empty_cache: Path) -> None:
    assert not empty_cache.exists()
    monkeypatch.setattr(os, "geteuid", lambda: 0)


def test_what_is_there_is_left_alone(
    programs: Programs, heard: io.StringIO, narrator: Narrator
) -> None:
    """A program that is found is not installed; its version is the one it says."""
    programs.write("apt-get", "exit 9")
    programs.write("valgrind", "echo valgrind-3.19.0")
    browser = programs.write("chromium-browser", "echo Chromium 150.0")
    assert (ensure(VALGRIND, narrator), ensure(CHROMIUM, narrator)) == (False, False)
    assert heard.getvalue() == ""
    assert (VALGRIND.version(), CHROMIUM.find()) == ("3.19.0", browser)
    # What measuring wants is installed without being asked for; the browser is not.
    assert [package.name for package in tools.PACKAGES if not package.tests_only] == ["valgrind"]


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


def test_old_lists_of_packages_are_renewed(
    programs: Programs, heard: io.StringIO, narrator: Narrator
) -> None:
    """The package is not known at first: the lists are fetched, then it is installed."""
    programs.write(
        "apt-get",
        f"""cd {programs.folder}; case "$*" in
update) echo updated > updated;;
*install*valgrind) [ -e updated ] || exit 100
  printf '#!/bin/sh\\necho valgrind-3\\n' > valgrind; /bin/chmod +x valgrind;;
esac""",
    )
    assert ensure(VALGRIND, narrator) is True
    assert "valgrind: installing it: instructions are counted with it" in heard.getvalue()
    assert ensure(VALGRIND, narrator) is False


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


def test_go_builds_once_and_then_it_is_only_looked_at(
    programs: Programs, narrator: Narrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the pinned version, of the pinned package; the second time Go is not asked."""
    monkeypatch.setenv("PATH", f"{programs.folder}:/usr/bin:/bin")
    programs.write("go", GO)
    assert setup.ensure_go_tool("tool", SPEC, narrator) is True
    calls = programs.said("calls")
    assert str(calls).startswith("install -trimpath example.org/tool/cmd/tool@v1.2.3\n")
    assert setup.ensure_go_tool("tool", SPEC, narrator) is False
    assert programs.said("calls") == calls
    place = setup.go_place("tool", SPEC)
    assert tools.fault("tool", place) is None
    (place / "bin" / "tool").write_text("#!/bin/sh\necho another\n")
    assert tools.fault("tool", place) == "its program is not the one that was made"


@pytest.mark.usefixtures("programs")
def test_without_go_it_is_told_and_no_error(heard: io.StringIO, narrator: Narrator) -> None:
    """Tests that need it skip themselves; ours are declared as a checksum database says them."""
    assert setup.ensure_go_tool("tool", SPEC, narrator) is None
    assert "tool is not here (go is needed to build tool, and is not on PATH" in heard.getvalue()
    assert set(Project.here().settings.go_tools) == {"act", "actionlint"}
