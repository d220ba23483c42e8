"""The interpreter of somebody's project."""

import os
import sys
from pathlib import Path

import pytest

from bare import QUIET
from duetbench.core.errors import UsageError
from duetbench.project import interpreters, target_python, tools
from duetbench.project.project import Project
from duetbench.project.schema import InterpreterSpec
from repos import borrow_cache, write


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
    for name, text, version in (
        ("Dockerfile", "FROM python:3.11 AS build\nFROM our/uv:python3.12.1-slim\n", "3.12"),
        ("runtime.txt", "python-3.13.2\n", "3.13"),
    ):
        write(tmp_path, name, text)
        found = target_python.request(tmp_path)
        assert (found.source, found.text) == (name, version)
    write(tmp_path, ".python-version", "# for all of us\n3.12.8  # exactly\n3.11\n")
    assert target_python.request(tmp_path).text == "3.12.8"
    assert target_python.request(tmp_path, "3.13t").source == "--python"


def test_a_python_that_is_too_old_to_be_measured_is_named_with_its_file(tmp_path: Path) -> None:
    write(tmp_path, "Pipfile", '[requires]\npython_version = "3.7"\n')
    with pytest.raises(
        UsageError, match=r"^Pipfile 3\.7: expected Python 3\.10 or newer; .*--python"
    ):
        target_python.request(tmp_path)


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
