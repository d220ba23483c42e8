"""What the repository says of its results does not depend on what was measured in a checkout."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from servebench.core.errors import SetupError
from servebench.record import store


def test_what_was_measured_here_is_left_out(tmp_path: Path) -> None:
    """A run that is not added is not there; one that was removed is no error."""
    root, folder = tmp_path / "checkout", tmp_path / "copy"
    folder.mkdir()
    runs = root / "results" / "runs" / "machine"
    runs.mkdir(parents=True)
    for name in ("kept.json", "gone.json", "zwölf Läufe.json"):
        (runs / name).write_text(name)
    (root / "elsewhere.json").write_text("")
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", "-C", str(root), *words], check=True)
    (runs / "own.json").write_text("measured here")
    (runs / "gone.json").unlink()

    copy = store.copy_committed(root, folder)
    found = {path.relative_to(copy).as_posix() for path in copy.rglob("*.json")}
    assert found == {"runs/machine/kept.json", "runs/machine/zwölf Läufe.json"}
    assert (copy / "runs" / "machine" / "kept.json").read_text() == "kept.json"


def test_a_folder_that_is_no_checkout_is_told(tmp_path: Path) -> None:
    """With git's words."""
    with pytest.raises(SetupError, match=r"cannot list the results of .*not a git repository"):
        store.copy_committed(tmp_path, tmp_path)
