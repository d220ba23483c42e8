"""Prebuilt interpreters: the real uv, installing from archives made of what set-up made."""

from __future__ import annotations

import hashlib
import json
import platform
import tarfile
from pathlib import Path

import pytest
from rich.console import Console

from servebench import interpreters, settings
from servebench.interpreters import Interpreter
from servebench.toolchain import archive, cpython
from servebench.toolchain.narrator import Narrator

_LEFT_OUT = ("__pycache__", "/test/", "config-3", "libpython3", "idlelib", "tkinter", "made.json")


def offer(interpreter: Interpreter, folder: Path) -> tuple[str, dict[str, object]]:
    """Pack an interpreter as the prebuilt ones are packed; its row in uv's list of downloads."""
    packed = folder / f"{interpreter.name}.tar.gz"

    def keep(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        return None if any(part in member.name for part in _LEFT_OUT) else member

    with tarfile.open(packed, "w:gz", compresslevel=1) as out:
        out.add(interpreter.executable.parent.parent, "python", filter=keep)
    major, minor, patch = map(int, interpreter.version.split("."))
    variant = "freethreaded" if interpreter.free_threaded else None
    key = f"cpython-{interpreter.version}{f'+{variant}' if variant else ''}-linux-"
    return f"{key}{platform.machine()}-gnu", {
        "name": "cpython",
        "arch": {"family": platform.machine(), "variant": None},
        "os": "linux",
        "libc": "gnu",
        "major": major,
        "minor": minor,
        "patch": patch,
        "prerelease": "",
        "url": packed.as_uri(),
        "sha256": hashlib.sha256(packed.read_bytes()).hexdigest(),
        "variant": variant,
        "build": "20260101",
    }


@pytest.fixture
def downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A list of downloads that has both interpreters, and a cache in which nothing was made."""
    made = [interpreters.locate(name) for name in interpreters.declared()]
    listed = tmp_path / "downloads.json"
    listed.write_text(json.dumps(dict(offer(each, tmp_path) for each in made)))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS_JSON_URL", listed.as_uri())
    monkeypatch.delenv(archive.VARIABLE, raising=False)
    return listed


def test_prebuilt_ones_are_preferred(downloads: Path) -> None:
    """Both are installed, proven, of one origin, and not asked for again."""
    narrator = Narrator(Console(quiet=True))
    assert cpython.ensure(settings.load(), narrator)
    found = [interpreters.locate(name) for name in interpreters.declared()]
    assert {interpreter.origin for interpreter in found} == {"prebuilt"}
    for interpreter in found:
        spec = interpreters.declared()[interpreter.name]
        assert interpreters.mismatch(spec, interpreters.prove(interpreter.executable)) is None
    downloads.unlink()
    assert not cpython.ensure(settings.load(), narrator)


def test_one_that_cannot_be_had_spoils_both(
    downloads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged archive of the second sends all to the source build, the first with it."""
    listed = json.loads(downloads.read_text())
    for row in listed.values():
        if row["variant"]:
            row["sha256"] = "0" * 64
    downloads.write_text(json.dumps(listed))
    built: list[str] = []
    monkeypatch.setattr(cpython, "_from_source", lambda name, *_: built.append(name))
    assert cpython.ensure(settings.load(), Narrator(Console(quiet=True)))
    assert built == list(interpreters.declared())
