"""Copies of installations take turns, and map nothing of the original."""

import gc
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from duetbench.judge.instruments import Rotation
from duetbench.measure.testbed import SideCase
from duetbench.project import stacks
from duetbench.project.project import Project
from fake_sessions import side
from synthetic import make_case

MAPPED = """\
import pydantic_core, _asyncio, granian
print(sorted({line.split()[-1] for line in open("/proc/self/maps") if "x" in line.split()[1]}))
"""


def both_in(python: Path, program: Path) -> tuple[SideCase, SideCase]:
    """Both sides in one environment of an interpreter with this program."""
    interpreter = Project.here().interpreter("3.14").model_copy(update={"executable": program})
    case = make_case("a/b/py3.14")
    testbed = replace(
        side("base", (case,)).testbed, pythons={("current", "3.14"): python},
        interpreters={"3.14": interpreter},
    )  # fmt: skip
    return SideCase(case, testbed), SideCase(case, testbed)


@pytest.mark.real
def test_each_duet_has_another_pair_of_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three copies: 0 0, 1 1, 2 2, then each with its neighbour."""
    (tmp_path / "environment" / "bin").mkdir(parents=True)
    (tmp_path / "environment" / "bin" / "program").touch()
    (tmp_path / "environment" / "pyvenv.cfg").write_text("home = elsewhere\n")
    python = tmp_path / "environment" / "bin" / "python"
    python.symlink_to(tmp_path / "python3.14")
    both = both_in(python, tmp_path / "python3.14")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rotation = Rotation(copies=3)
    turns = [rotation.turn(*both) for _ in range(6)]
    used = [tuple(one.pythons["current", "3.14"] for one in turn) for turn in turns]
    base, head = zip(*used, strict=True)
    assert base[:3] == base[3:]
    assert (head[3], head[4], head[5]) == (head[1], head[2], head[0])
    assert len({*base, *head}) == 6


@pytest.mark.real
def test_a_copy_maps_nothing_of_the_original(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interpreter, stack = Project.here().interpreter("3.14"), Project.here().lock("current")
    python = stacks.executable(stack, interpreter)
    both = both_in(python, interpreter.executable)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    rotation = Rotation(copies=1)
    made = [one.pythons["current", "3.14"] for one in rotation.turn(*both)]
    assert len({python, *made}) == 3
    said = subprocess.run(
        [made[0], "-c", MAPPED], capture_output=True, text=True, check=True
    ).stdout
    (copies,) = tmp_path.rglob("rotation-*")
    for name in ("bin/python3.14", "_asyncio", "_pydantic_core", "_granian"):
        (place,) = (one for one in said.split("'") if name in one)
        assert place.startswith(str(copies))
    assert python.exists()  # nothing of the original was touched
    assert subprocess.run([python, "-c", "import granian"], check=True).returncode == 0
    del rotation
    gc.collect()
    assert not copies.exists()


def test_without_room_nothing_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("duetbench.host.command.free_gb", lambda _: 4.0)
    one, other = (SideCase(make_case("a/b"), side(name, ()).testbed) for name in ("base", "head"))
    assert Rotation().turn(one, other) == (one.testbed, other.testbed)
