"""Checks the comparisons of a stack with itself that came with a night's runs. Pure.

They are few each night, and counted for ever. A machine can lie about its own, within the words
that a comparison has; it cannot bring planted ones, or speak for another machine or commit.
"""

from collections.abc import Iterable
from datetime import datetime
from functools import partial

from duetbench.core.errors import ArtifactError
from duetbench.core.metrics import METRICS
from duetbench.core.model import Run
from duetbench.core.text import shown
from duetbench.github.incoming.comparisons import CASE
from duetbench.github.incoming.facts import decoded, require, require_time
from duetbench.github.incoming.folder import ArtifactFile
from duetbench.project.names import INSIDE
from duetbench.store import files as record_files
from duetbench.store.night import NightPlan
from duetbench.store.trial import FOLDER, INSIDE_METRIC, Trial, trial_path


def belongs(path: str) -> bool:
    """Whether a file of an artifact is a trial, by its path below the artifact."""
    return path.startswith(f"{FOLDER}/")


def check(
    files: Iterable[ArtifactFile],
    runs: Iterable[Run],
    night: NightPlan,
    now: datetime,
) -> dict[str, bytes]:
    """Check all that one machine has sent of its self-test; raises ArtifactError.

    Returns:
        What to write: path below a results folder → bytes.
    """
    machines = sorted({run.machine.id for run in runs})
    created = datetime.fromisoformat(night.created)
    checked = {}
    for file in files:
        found = decoded(partial(record_files.parse, Trial), file.data)
        require("machines of a self-test", machines, [found.machine])
        require("commit of a self-test", night.commit, found.commit)
        require("what is planted", ("aa", ""), (found.kind, found.planted))
        require_time("start of a self-test", found.started, created, now)
        require("name of a file", trial_path(found).as_posix(), file.path)
        names = {(one.case, one.metric) for one in found.said}
        for case, metric in names | {(one.case, one.metric) for one in found.figures}:
            inside = metric == INSIDE_METRIC
            if not (INSIDE if inside else CASE).fullmatch(case):
                raise ArtifactError(f"the case {shown(case)}")
            if not inside and metric not in METRICS:
                raise ArtifactError(f"the metric {shown(metric)}, which is none of ours")
        checked[file.path] = record_files.encode(found)
    return checked
