"""The interpreter of somebody's project."""

import io
import os
import platform
import sys
from pathlib import Path

import pytest
from rich.console import Console

from bare import QUIET
from duetbench.core.errors import SetupError
from duetbench.host.console import Narrator
from duetbench.project import interpreters, stacks, target_python, tools
from duetbench.project.project import Project
from duetbench.project.schema import InterpreterSpec
from duetbench.project.target_python import PythonRequest
from repos import borrow_cache, write
from tiny_index import serving


@pytest.mark.parametrize(
    ("text", "fitting", "unfitting"),
    [
        ("3.13", ["3.13.5"], ["3.13.5t", "3.12.9", "3.130.1", "3.13.5-jit"]),
        ("3.13t", ["3.13.5t"], ["3.13.5"]),
        ("3.13+freethreaded", ["3.13.5t"], ["3.13.5"]),
        ("3.15-jit", ["3.15.2-jit"], ["3.15.2", "3.15.2t", "3.14.7-jit"]),
        ("3.13.5", ["3.13.5"], ["3.13.6"]),
        ("cpython-3.12.8-linux-x86_64-gnu", ["3.12.8"], ["3.12.9"]),
        (">=3.9,<3.13", ["3.10.2"], ["3.9.2", "3.13.0"]),
        ("~=3.12", ["3.14.0"], ["3.11.0", "3.14.0t"]),
    ],
)
def test_a_request_is_read_as_uv_reads_it(
    text: str, fitting: list[str], unfitting: list[str]
) -> None:
    asked = target_python.read(text, ".python-version")
    for names, fits in ((fitting, True), (unfitting, False)):
        for name in names:
            assert asked.fits(spec(name)) is fits, name


def spec(name: str) -> InterpreterSpec:
    """3.15.2-jit as an interpreter."""
    version, end = name.rstrip("-jit"), name[len(name.rstrip("-jit")) :]
    return InterpreterSpec(version=version, free_threaded=end == "t", jit=end == "-jit")


def test_who_asks_for_no_version_gets_the_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever optional one was made on this machine; who asks for that one gets it."""
    monkeypatch.setattr(interpreters, "locate", lambda *_: None)  # all are there
    configured = Project.here().configuration
    for text, name in ((">=3.10", "3.14"), ("3.15", "3.15"), ("3.15-jit", "3.15-jit")):
        asked = target_python.read(text, "")
        chosen = target_python.choose(asked, configured, QUIET)
        assert (target_python.name_of(chosen), chosen.optional) == (name, False)


def test_the_nearest_word_decides(tmp_path: Path) -> None:
    assert target_python.request(tmp_path).text == "any"
    write(tmp_path, "pyproject.toml", '[project]\nrequires-python = ">=3.11"\n')
    assert (found := target_python.request(tmp_path)).source == "requires-python"
    assert found.fits(spec("3.14.1"))
    write(tmp_path, ".python-version", "# for all of us\n3.12.8  # exactly\n3.11\n")
    assert target_python.request(tmp_path).text == "3.12.8"
    assert target_python.request(tmp_path, "3.13t").source == "--python"


@pytest.mark.real
def test_one_of_the_machine_is_found_and_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever Python the machine has beside ours, or behind a script: the harness runs on one."""
    place = borrow_cache(tmp_path / "cache", monkeypatch)
    (place / "interpreters").unlink()
    write(tmp_path, "shims/python3", f'#!/bin/sh\nexec {Path(sys.executable).resolve()} "$@"\n')
    (tmp_path / "shims" / "python3").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "shims"), prepend=os.pathsep)
    asked = target_python.read("<3.14", "requires-python")
    spec = target_python.choose(asked, Project.here().configuration, QUIET)
    name = target_python.name_of(spec)
    known = Project.here().configuration.model_copy(update={"interpreters": {name: spec}})
    found = interpreters.locate(name, known)
    assert (found.origin, found.version, found.free_threaded) == ("found", spec.version, False)
    assert tools.version(found.executable) == f"Python {spec.version}"
    assert found.executable.read_bytes()[:4] == b"\x7fELF"  # no script that starts it
    assert found.record().origin == "found"
    assert not (found.executable.parent.parent / "pyvenv.cfg").exists()


@pytest.mark.parametrize(
    ("locks", "here", "asked", "right", "why"),
    [
        (["old==1.0\nplain==1.0"], "14 13 12 11", ">=3.9", "3.12", "with wheels of old 1.0"),
        (["old==1.0 ; python_version < '4'"], "14 11", ">=3.9", "3.11", "with wheels of old 1.0"),
        (["old==1.0"], "14 13", ">=3.9", "3.14", ""),  # none has it
        (["old==1.0"], "14 13 12", ">=3.13", "3.14", ""),
        (["stable==1.0\nnowhere==1.0"], "14 13 12", "", "3.14", ""),  # it has none for any of them
        (
            ["stable==1.0", "plain==1.0\nolder==1.0"],
            "14 12 11",
            "",
            "3.11",
            "with wheels of older 1.0",
        ),
        (["old==1.0\nolder==1.0\nnew==1.0"], "14 12", "", "3.12", "with wheels of old 1.0"),
        (["young==1.0"], "12 14", "<3.15", "3.14", ""),
        (["plain==1.0"], "11 12 10", ">=3.10,<3.14", "3.12", ""),
        ([], "11 12", "", "3.12", ""),
        (["only==1.0"], "14 12 11", "", "3.11", "that the locked packages allow"),
        (["unknown==1.0\nold==1.0"], "14 12", "", "3.14", ""),
    ],
)
def test_the_locked_packages_decide_which_interpreter_is_the_newest(
    locks: list[str], here: str, asked: str, right: str, why: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """One that is not here and cannot be installed, as without a network, is passed over."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def choose(need: PythonRequest, *_: object, **__: bool) -> InterpreterSpec:
        fitting = [f"3.{minor}.9" for minor in here.split() if need.fits(spec(f"3.{minor}.9"))]
        if fitting:
            return spec(fitting[0])
        raise SetupError("none")

    monkeypatch.setattr(target_python, "choose", choose)
    configured, said = Project.here().configuration, io.StringIO()
    narrator = Narrator(Console(file=said, width=200))
    need = target_python.read(asked, "it")
    first = spec(f"3.{here.split(maxsplit=1)[0]}.9")
    with serving(monkeypatch, tmp_path / "uv") as index:
        own = f"linux_{platform.machine()}"
        for name, tags in {
            "plain": ["py3-none-any"], "stable": [f"cp38-abi3-{own}"],
            "nowhere": ["cp312-cp312-win32"], "only": [f"cp311-cp311-{own}"],
            "old": [f"cp31{n}-cp31{n}-{own}" for n in (0, 1, 2)], "older": [f"cp311-cp311-{own}"],
            "new": [f"cp31{n}-cp31{n}-{own}" for n in (2, 3, 4)], "young": [f"cp314-cp314-{own}"],
        }.items():  # fmt: skip
            for tag in tags:
                index.add(name, "1.0", "2026-01-10", tag=tag)
            if name != "only":
                index.files[f"{name}-1.0.tar.gz"] = (name, "2026-01-10", b"")
        got = target_python.prefer(need, first, lambda: locks, tmp_path, configured, narrator)
    assert target_python.name_of(got) == right
    assert said.getvalue() == (f"Python {right}.9: the newest here {why}\n" if why else "")
    # The answer is kept: nothing is asked again, and who names a version asks nothing at all.
    again = target_python.prefer(need, first, lambda: locks, tmp_path, configured, QUIET)
    assert again == got
    exact = target_python.read(target_python.name_of(first), ".python-version")
    assert target_python.prefer(exact, first, list, tmp_path, configured, QUIET) == first


def test_only_a_wheel_that_the_lock_names_counts_and_offline_the_first_choice_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with serving(monkeypatch, tmp_path / "uv") as index:
        lock = index.add("old", "1.0", "2026-01-10", tag=f"cp312-cp312-linux_{platform.machine()}")
        assert stacks.without_wheel(lock, "3.12", tmp_path, QUIET) == ()
        other = f"{lock.partition(' ')[0]} --hash=sha256:{'a' * 64}\n"
        assert stacks.without_wheel(other, "3.12", tmp_path, QUIET) == ("old 1.0",)
    configured, any_ = Project.here().configuration, target_python.read("", "it")
    known = spec("3.11.9"), lambda: ["young==1.0"], tmp_path, configured, QUIET
    assert target_python.prefer(any_, *known) == spec("3.11.9")
