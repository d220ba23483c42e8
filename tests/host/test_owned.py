"""Scratch folders: kept as long as their owner lives, and removed by the next duetbench."""

import subprocess
import sys
from pathlib import Path

from duetbench.host import scratch

_MAKE = "import sys; from pathlib import Path; from duetbench.host import scratch; "
_MAKE += "(scratch.make('sb-x', Path(sys.argv[1])) / 'file').write_text('left')"


def test_what_a_dead_process_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    """Kept: a living owner's, another container's, another prefix', and what has other names."""
    mine, other = scratch.make("sb-x", tmp_path), scratch.make("sb-y", tmp_path)
    subprocess.run([sys.executable, "-c", _MAKE, str(tmp_path)], check=True)
    (left,) = set(tmp_path.iterdir()) - {mine, other}
    dead = left.name.removeprefix("sb-x-")
    namespace, pid, start, _ = dead.split("-")
    foreign = tmp_path / f"sb-x-1-{pid}-{start}-abc"
    odd = tmp_path / f"sb-x-{namespace}-words-{start}-abc"
    elsewhere = tmp_path / f"sb-y-{dead}"
    for folder in (foreign, odd, elsewhere):
        folder.mkdir()
    scratch.sweep("sb-x", tmp_path)
    assert set(tmp_path.iterdir()) == {mine, other, foreign, odd, elsewhere}


def test_a_pid_that_was_given_again_does_not_keep_a_folder(tmp_path: Path) -> None:
    mine = scratch.make("sb-x", tmp_path)
    namespace, pid, start, _ = mine.name.removeprefix("sb-x-").split("-")
    (tmp_path / f"sb-x-{namespace}-{pid}-{int(start) - 1:012}-abc").mkdir()
    scratch.sweep("sb-x", tmp_path)
    assert list(tmp_path.iterdir()) == [mine]
