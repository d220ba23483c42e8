"""A repository with commits, run files and asv's configuration, for tests of what asv shows."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import synthetic
from servebench import store
from servebench.inprocess import export, stubs
from servebench.inprocess.export import Exported
from servebench.model import Case, CaseResult, Run

PROJECT: Final = Path(__file__).parents[1]
FIRST_COMMIT: Final = 1_700_000_000
"""Date of the first commit in s since 1970; each further one is a day later."""


@dataclass(frozen=True)
class History:
    """A repository and its commits, oldest first."""

    root: Path
    commits: tuple[str, ...]

    def record(self, number: int, *results: CaseResult, hour: int = 9, **changes: Any) -> Run:
        """Record a finished nightly run of a commit; its fields can be changed."""
        commit = changes.pop("commit", self.commits[number])
        started = f"2026-11-20T{hour:02d}:00:00+00:00"
        run = synthetic.make_run(
            results,
            id=store.run_id(started, stubs.PROFILE, commit),
            started=started,
            commit=commit,
            **changes,
        )
        store.finalise(self.root / "results", run)
        return run

    def export(self) -> Exported:
        """Export all recorded runs."""
        return export.export(self.root, store.runs(self.root / "results", profile=stubs.PROFILE))


def make(root: Path, commits: int, cases: Sequence[Case]) -> History:
    """Make a repository that declares these cases to asv."""
    root.mkdir()
    _git(root, "init", "--quiet", "--initial-branch", "main")
    stream = "".join(
        f"commit refs/heads/main\ncommitter T <t@example.org> {FIRST_COMMIT + 86400 * day} +0000\n"
        f"data 5\nnight\nM 100644 inline day\ndata {len(str(day))}\n{day}\n"
        for day in range(commits)
    )
    _git(root, "fast-import", "--quiet", given=stream)
    shutil.copy(PROJECT / "asv.conf.json", root)
    folder = root / "benchmarks"
    folder.mkdir()
    (folder / "__init__.py").touch()
    shutil.copy(PROJECT / "benchmarks" / "load_runs.py", folder)
    stubs.write(root, stubs.declare(cases))
    return History(root, tuple(_git(root, "rev-list", "--reverse", "main").split()))


def _git(root: Path, *arguments: str, given: str | None = None) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=root, input=given, capture_output=True, text=True, check=True
    )
    return done.stdout
