"""What recent runs say of machines and cases: who measured what, how often, and how long it took.

Of each machine the newest run files of a profile are read; what cannot be read counts as not there,
since a damaged file must not stop a night.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

from servebench import store
from servebench.errors import RecordError
from servebench.model import Profile, Run
from servebench.night.sharing import Recorded

RECENT: Final = 10
"""Run files per machine: two weeks without a machine, and its cases still find back to it."""

_SHARDS: Final = 3  # a machine may have measured several shards of a night, each with a file


def recorded(results: Path, profile: Profile) -> Recorded:
    """Read what recent runs say.

    Args:
        results: The results folder.
        profile: Only of its runs; loads of other profiles last otherwise.
    """
    by_machine: dict[str, list[Path]] = defaultdict(list)
    for path in store.runs(results, profile=profile):
        by_machine[path.parent.parent.name].append(path)
    runs: list[Run] = []
    for paths in by_machine.values():
        for path in paths[-RECENT * _SHARDS :]:
            try:
                runs.append(store.load(path))
            except RecordError:
                continue
    return of_runs(runs)


def of_runs(runs: list[Run]) -> Recorded:
    """What these runs say, whatever their order. Pure."""
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    nights: Counter[tuple[str, str]] = Counter()
    latest: dict[tuple[str, str], str] = {}
    for run in sorted(runs, key=lambda run: run.id):
        for result in run.results:
            if result.launches:
                key = run.machine.id, result.case.id
                # The newest run decides how long: what a case does may have changed since.
                seconds[key] = [launch.seconds for launch in result.launches]
                nights[key] += 1
                latest[key] = run.id
    means = {key: statistics.fmean(many) for key, many in seconds.items()}
    return Recorded(seconds=means, nights=nights, latest=latest)
