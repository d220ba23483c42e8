"""What recent runs say of machines and cases: who measured what, how often, and how long it took.

Of each machine the newest run files of a profile are read; what cannot be read counts as not there,
since a damaged file must not stop a night.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from servebench import store
from servebench.errors import RecordError
from servebench.model import Profile, Run
from servebench.night.sharing import Recorded

RECENT: Final = 10
"""Run files per machine: two weeks without a machine, and its cases still find back to it."""

AWAY: Final = timedelta(days=7)
"""A machine whose newest night is older than that of any other by more has left."""

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
            with suppress(RecordError):
                runs.append(store.load(path))
    return of_runs(runs)


def present(latest: Mapping[str, str]) -> frozenset[str]:
    """The machines that still measure nights. Pure.

    What has moved on another one nobody could confirm: the job would wait for it, night by night.

    Args:
        latest: Machine → id of its newest run, which begins with the time.
    """
    began: dict[str, datetime] = {}
    for machine, run in latest.items():
        with suppress(ValueError):  # no id of ours
            began[machine] = datetime.strptime(run.partition("-")[0], "%Y%m%dT%H%M%S%z")
    last = max(began.values(), default=None)
    return frozenset(
        machine for machine, when in began.items() if last is not None and last - when <= AWAY
    )


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
