"""The interpreter of somebody's project."""

import os
import sys
from pathlib import Path

import pytest
from packaging.version import Version

from bare import QUIET
from duetbench.project import interpreters, target_python, tools
from duetbench.project.project import Project
from repos import borrow_cache, write


@pytest.mark.parametrize(
    ("text", "fitting", "unfitting"),
    [
        ("3.13", [("3.13.5", False)], [("3.13.5", True), ("3.12.9", False), ("3.130.1", False)]),
        ("3.13t", [("3.13.5", True)], [("3.13.5", False)]),
        ("3.13+freethreaded", [("3.13.5", True)], [("3.13.5", False)]),
        ("3.13.5", [("3.13.5", False)], [("3.13.6", False)]),
        ("cpython-3.12.8-linux-x86_64-gnu", [("3.12.8", False)], [("3.12.9", False)]),
        (">=3.9,<3.13", [("3.10.2", False)], [("3.9.2", False), ("3.13.0", False)]),
        ("~=3.12", [("3.14.0", False)], [("3.11.0", False), ("3.14.0", True)]),
    ],
)  # fmt: skip
def test_a_request_is_read_as_uv_reads_it(
    text: str, fitting: list[tuple[str, bool]], unfitting: list[tuple[str, bool]]
) -> None:
    asked = target_python.read(text, ".python-version")
    for versions, fits in ((fitting, True), (unfitting, False)):
        for version, free in versions:
            assert asked.fits(Version(version), free_threaded=free) is fits, version


def test_the_nearest_word_decides(tmp_path: Path) -> None:
    assert target_python.request(tmp_path).text == "any"
    write(tmp_path, "pyproject.toml", '[project]\nrequires-python = ">=3.11"\n')
    assert (found := target_python.request(tmp_path)).source == "requires-python"
    assert found.fits(Version("3.14.1"), free_threaded=False)
    write(tmp_path, ".python-version", "# for all of us\n3.12.8  # exactly\n3.11\n")
    assert target_python.request(tmp_path).text == "3.12.8"
    assert target_python.request(tmp_path, "3.13t").source == "--python"


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
    spec = target_python.choose(asked, Project.here().settings, QUIET)
    name = target_python.name_of(spec)
    known = Project.here().settings.model_copy(update={"interpreters": {name: spec}})
    found = interpreters.locate(name, known)
    assert (found.origin, found.version, found.free_threaded) == ("found", spec.version, False)
    assert tools.version(found.executable) == f"Python {spec.version}"
    assert found.executable.read_bytes()[:4] == b"\x7fELF"  # no script that starts it
    assert found.record().origin == "found"
    assert not (found.executable.parent.parent / "pyvenv.cfg").exists()
