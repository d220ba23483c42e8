"""Whatever is missing, set-up ends in one sentence that says what to do."""

import io
import os
from pathlib import Path

import pytest

from bare import Programs
from duetbench.cli.setup import set_up
from duetbench.core.errors import SetupError
from duetbench.host import cache
from duetbench.host.console import Narrator
from duetbench.measure import assembly
from duetbench.project import tools
from duetbench.project.project import Project
from duetbench.project.schema import InterpreterSpec
from duetbench.project.tools import ensure_valgrind
from synthetic import make_case


@pytest.mark.long
@pytest.mark.usefixtures("offline")
def test_all_that_is_missing_is_told_at_once_before_anything_is_built(
    empty_cache: Path,
    programs: Programs,
    heard: io.StringIO,
    narrator: Narrator,
) -> None:
    """With nothing prebuilt in reach: tools, and a cargo that is only a shim, each once."""
    programs.write("cargo", "echo error: no override and no default toolchain set >&2; exit 1")
    with pytest.raises(SetupError) as caught:
        set_up(Project.here(), narrator)
    first, *faults = str(caught.value).splitlines()
    assert first == "4 things are missing, so nothing was built:"
    expected = (
        "git is needed to say what is measured",
        "cc is needed to compile what has to be built",
        "make is needed to build CPython",
        "it does not say its version. With rustup",
    )
    assert all(part in fault for part, fault in zip(expected, faults, strict=True)), faults
    assert "prebuilt interpreters are not available" in heard.getvalue()
    assert "a prebuilt oha 1.16.0 is not available" in heard.getvalue()
    assert not [*empty_cache.glob("downloads/*"), *empty_cache.glob("building/*")]


@pytest.mark.long
@pytest.mark.usefixtures("offline")
def test_an_interpreter_without_its_compiler_leaves_its_cases_unmeasured(
    narrator: Narrator,
) -> None:
    """A JIT without its LLVM: nothing is built for it, and the reason is what its cases have."""
    project = Project.here()
    configured, recipe = project.configuration, project.configuration.source_build["3.14.7"]
    jit = InterpreterSpec(version="3.14.7", free_threaded=False, jit=True, optional=True)
    update = {
        "interpreters": {**configured.usual, "3.14-jit": jit},
        "source_build": {"3.14.7": recipe.model_copy(update={"llvm": ("999", "998")})},
    }
    configured = configured.model_copy(update=update)
    cases = [make_case(f"x/y/py{name}", python=name) for name in ("3.14", "3.14-jit")]
    lost = assembly.unattainable(cases, lambda _: configured, project.lock, narrator)
    assert list(lost) == ["x/y/py3.14-jit"]
    assert "the JIT of 3.14-jit is built by clang and" in lost["x/y/py3.14-jit"]
    assert "LLVM 999 or 998, which are missing: install clang-999" in lost["x/y/py3.14-jit"]


def test_another_program_is_noticed_unstarted(tmp_path: Path) -> None:
    spec = Project.here().configuration.oha
    (tmp_path / "bin").mkdir()
    Programs(tmp_path / "bin").write("oha", "echo oha 1.16.0")
    (tmp_path / cache.STAMP).write_text('{"sha256": "0"}')
    assert tools.oha_fault(spec, tmp_path) == "its program is not the one that was installed"


@pytest.mark.usefixtures("empty_cache")
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
    assert ensure_valgrind(narrator) is None
    assert heard.getvalue() == (
        "valgrind is not installed; duetbench counts instructions with it: "
        "`apt-get install --no-install-recommends valgrind`\n"
    )
    assert programs.read("called") is None


@pytest.mark.usefixtures("empty_cache")
def test_a_failing_installation_is_no_error(
    programs: Programs, heard: io.StringIO, narrator: Narrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without network apt fails: its words are in the sentence, and set-up goes on."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    programs.write("apt-get", "echo 'E: Temporary failure: could not resolve host'; exit 100")
    assert ensure_valgrind(narrator) is None
    sentence = heard.getvalue().splitlines()[-1]
    assert sentence.startswith(
        "valgrind is not installed (apt-get update failed (exit code 100): the network"
    )
    assert sentence.endswith("with it: `apt-get install --no-install-recommends valgrind`")


@pytest.mark.usefixtures("empty_cache")
def test_in_ci_sudo_makes_us_root(
    programs: Programs, narrator: Narrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hosted machine's user may become root without a password; nobody else is asked to."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    made = programs.folder / "valgrind"
    programs.write("sudo", f'echo "$1 $2 $3" > {made.parent}/asked; shift 3; exec "$@"')
    programs.write("apt-get", f"printf '#!/bin/sh\\n' > {made}; /bin/chmod +x {made}")
    monkeypatch.delenv("CI", raising=False)
    assert ensure_valgrind(narrator) is None
    assert programs.read("asked") is None
    monkeypatch.setenv("CI", "true")
    assert ensure_valgrind(narrator) is True
    asked = "--non-interactive env DEBIAN_FRONTEND=noninteractive\n"
    assert programs.read("asked") == asked
