"""What years of nights cost: the site's build and asv's, on the same points, as processes.

The points are made up (`synthetic`). Both programs are run as people run them, one after the other,
with the wall time and the largest memory that the kernel saw.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from servebench import git
from servebench.errors import SetupError
from servebench.site.nights import SUFFIX, Night
from servebench.site.reading import NIGHTS

BUILD_SECONDS: Final = 10.0
BUILD_BYTES: Final = 2**30
NIGHT_SECONDS: Final = 2.0
FASTER: Final = 5.0
"""What is asked of five years of 2,000 series: see `verdicts`."""

_MACHINE: Final = {
    "machine": "scale", "os": "Linux", "arch": "x86_64", "cpu": "made up", "num_cpu": "2",
    "ram": "8 GiB",
}  # fmt: skip
_VERBS: Final = "from servebench.cli import main; main()"
_ASV: Final = (sys.executable, "-m", "asv")


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process took.

    Attributes:
        seconds: Wall time, with its start.
        cpu: Core time of it and all that it started, s.
        peak: Largest resident set of one process, bytes.
    """

    seconds: float
    cpu: float
    peak: int


@dataclass(frozen=True, slots=True)
class Scale:
    """All costs of one history.

    Attributes:
        nights: How many there are.
        points: Figures in them.
        first: The site, from nothing.
        again: The site, with one more night than before.
        same: The site, with nothing new.
        asv: asv's publishing of the same points; None: it was not asked.
        night_seconds: Wall time of the build with one more night, without the start of Python,
            which `servebench site --serve` has behind it.
        size: Bytes of the site.
        files: How many it has.
    """

    nights: int
    points: int
    first: Cost
    again: Cost
    same: Cost
    asv: Cost | None
    night_seconds: float
    size: int
    files: int

    @property
    def faster(self) -> float | None:
        """How many times as long asv takes, in core time, which other work does not disturb."""
        return None if self.asv is None else self.asv.cpu / self.first.cpu

    def verdicts(self) -> tuple[tuple[str, bool], ...]:
        """What is asked of five years of 2,000 series, and whether it holds here."""
        found = [
            (f"built in {BUILD_SECONDS:g} s", self.first.seconds <= BUILD_SECONDS),
            ("built in 1 GiB", self.first.peak <= BUILD_BYTES),
            (
                f"one more night in {NIGHT_SECONDS:g} s",
                self.again.seconds <= NIGHT_SECONDS,
            ),
        ]
        if self.faster is not None:
            found.append((f"{FASTER:g} times as fast as asv publish", self.faster >= FASTER))
        return tuple(found)


def measure(root: Path, nights: Sequence[Night], results: Path, scratch: Path) -> Scale:
    """Measure the site's build of a folder of made-up nights, and asv's of the same points.

    Args:
        root: The checkout, for its declarations.
        nights: What asv is handed; empty: asv is not asked.
        results: The folder with the same nights, as `synthetic.write` made it.
        scratch: A folder for all that is made.

    Raises:
        SetupError: One of the programs fails.
    """
    files = sorted((results / NIGHTS).rglob(f"*{SUFFIX}"), key=lambda path: path.name)
    last = files[-1]
    aside = scratch / last.name
    site = scratch / "site"
    env = {**os.environ, "SERVEBENCH_ROOT": str(root), "XDG_CACHE_HOME": str(scratch / "cache")}
    verb = (sys.executable, "-c", _VERBS, "site", "--no-asv", "--json")
    build = (*verb, "--results", str(results), "-o", str(site))
    last.rename(aside)
    try:
        first = run(build, cwd=scratch, env=env, log=scratch / "site.log")
    finally:
        aside.rename(last)
    again = run(build, cwd=scratch, env=env, log=scratch / "site.log")
    told = json.loads((scratch / "site.log").read_bytes())
    same = run(build, cwd=scratch, env=env, log=scratch / "site.log")
    found = [path.stat().st_size for path in site.rglob("*") if path.is_file()]
    asv = None
    if nights:
        folder = scratch / "asv"
        hand_to_asv(nights, folder)
        publish = (*_ASV, "publish", "--no-pull")
        asv = run(publish, cwd=folder, env=env, log=scratch / "asv.log")
    return Scale(
        nights=len(files),
        points=sum(int((~np.isnan(night.mean)).sum()) for night in nights),
        first=first,
        again=again,
        same=same,
        asv=asv,
        night_seconds=float(told["seconds"]),
        size=sum(found),
        files=len(found),
    )


def run(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: Path) -> Cost:
    """Run a program and say what it took.

    Raises:
        SetupError: It fails; its output is in the log.
    """
    with log.open("wb") as said:
        began = time.monotonic()
        process = subprocess.Popen(argv, cwd=cwd, env=env, stdout=said, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)  # waited for already, Popen knows now
    if process.returncode != 0:
        raise SetupError(
            f"{' '.join(argv[:5])} …: exit code {process.returncode}; what it said is in {log}"
        )
    return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def hand_to_asv(nights: Iterable[Night], folder: Path) -> None:
    """Lay out a repository with one commit per night, and the same points as asv's results.

    Raises:
        SetupError: git fails.
    """
    results = folder / "results"
    (results / _MACHINE["machine"]).mkdir(parents=True)
    (folder / "benchmarks").mkdir()
    every = list(nights)
    commits = _commits(folder, [night.header.time for night in every])
    _dump(results / _MACHINE["machine"] / "machine.json", {**_MACHINE, "version": 1})
    names: dict[str, str] = {}
    for night, commit in zip(every, commits, strict=True):
        points = dict(_points(night))
        names |= dict.fromkeys(points, "")
        _dump(
            results / _MACHINE["machine"] / f"{commit[:8]}-scale.json",
            {
                "commit_hash": commit,
                "env_name": "scale",
                "date": night.header.time * 1000,
                "params": {**_MACHINE, "python": "3.14"},
                "python": "3.14",
                "requirements": {},
                "env_vars": {},
                "result_columns": ["result", "params", "version"],
                "results": {name: [[value], [], "1"] for name, value in points.items()},
                "durations": {},
                "version": 2,
            },
        )
    listed = {
        name: {
            "name": name, "code": "", "version": "1", "unit": "unit", "type": "track",
            "params": [], "param_names": [],
        }
        for name in names
    }  # fmt: skip
    _dump(results / "benchmarks.json", {**listed, "version": 2})
    _dump(
        folder / "asv.conf.json",
        {
            "version": 1,
            "project": "scale",
            "repo": ".",
            "dvcs": "git",
            "branches": ["HEAD"],
            "environment_type": "existing",
            "pythons": ["3.14"],
            "benchmark_dir": "benchmarks",
            "results_dir": "results",
            "html_dir": "html",
        },
    )


def _points(night: Night) -> Iterable[tuple[str, float]]:
    header = night.header
    for case, metric in np.argwhere(~np.isnan(night.mean)).tolist():
        name = "".join(c if c.isalnum() else "_" for c in header.cases[case])
        yield f"scale.{name}.{header.metrics[metric]}", float(night.mean[case, metric])


def _commits(folder: Path, times: Sequence[int]) -> list[str]:
    """One commit at each time; their names, oldest first."""
    stream = "".join(
        f"commit refs/heads/main\ncommitter T <t@example.org> {when} +0000\n"
        f"data 5\nnight\nM 100644 inline night\ndata {len(str(number))}\n{number}\n"
        for number, when in enumerate(times)
    )
    git.ask(folder, "init", "--quiet", "--initial-branch", "main")
    git.ask(folder, "fast-import", "--quiet", stdin=stream)
    return git.ask(folder, "log", "--reverse", "--format=%H", "main").split()


def _dump(path: Path, document: Any) -> None:
    path.write_text(json.dumps(document), "utf-8")
