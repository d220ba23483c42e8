"""From asv's results to readings: figures worked out by hand, and nothing where nothing was."""

import math
from pathlib import Path
from typing import Any

import pytest

from foreign import COMMIT, DATE, LISTED, MACHINES, asv_files, inside
from observatory.store import asv_results
from repos import write_all

(NAME,) = LISTED


def write(folder: Path, results: dict[str, Any]) -> None:
    write_all(folder, {name: content.decode() for name, content in asv_files(results).items()})


def test_samples_become_a_median_and_what_failed_no_figure(tmp_path: Path) -> None:
    """0.5 and 0.7: median 0.6, quartiles 0.55 and 0.65; None is failed, NaN does not apply."""
    results = inside()
    results["results"][NAME][0][2] = math.nan
    write(tmp_path, results)
    (snapshot,) = asv_results.read(tmp_path)
    assert (snapshot.machine, snapshot.commit) == (MACHINES[0].id, COMMIT)
    assert "2 cores" in snapshot.described
    first, failed = snapshot.of("gil.Cpu")
    assert (first.python, first.stack, first.unit) == ("3.14", "current", "seconds")
    assert first.params == {"mode": "serial", "tasks": "1"}
    assert (first.value, first.samples) == (0.6, (0.5, 0.7))
    assert first.spread == pytest.approx(0.05 / 0.6)
    assert (failed.value, failed.spread, failed.samples) == (None, None, ())
    assert not snapshot.of("gil.C")


def test_the_newest_commit_comes_first_and_old_versions_do_not_count(tmp_path: Path) -> None:
    """Whenever it was measured: history is often measured backwards. Of one day, the later one."""
    for commit, hour, version, committed in (
        ("a", 8, "1", DATE), ("b", 9, "1", DATE), ("c", 10, "0", DATE), ("d", 20, "1", DATE - 1),
    ):  # fmt: skip
        results = inside(commit_hash=commit * 40, date=committed)
        results["results"][NAME][2:4] = version, DATE + hour
        write(tmp_path, results)
    snapshots = asv_results.read(tmp_path)
    assert [s.commit[0] for s in snapshots] == ["c", "b", "a", "d"]
    assert [s.commit[0] for s in snapshots if s.has("gil")] == ["b", "a", "d"]
