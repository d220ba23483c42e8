"""Checks changes that a machine has confirmed, with their evidence, for the history. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, TypeVar

from servebench.automation.incoming import comparisons
from servebench.automation.incoming.facts import Checkout, problem, require, require_time
from servebench.automation.incoming.folder import ArtifactFile
from servebench.compare import inprocess
from servebench.core.errors import ArtifactError, RecordError
from servebench.core.metrics import METRICS
from servebench.core.model import Artefact
from servebench.core.text import require_plain, shown
from servebench.detect.conclude import conclude, follows
from servebench.record import comparison_store
from servebench.record import files as files_
from servebench.record.candidate import DISMISSED, Candidate, Dismissal
from servebench.record.change import FOLDER as CHANGES
from servebench.record.change import ChangeRecord, SeriesName, StackState
from servebench.record.comparison import Comparison, SideRecord

Conclusion = ChangeRecord | Dismissal
_Model = TypeVar("_Model", bound=Artefact)
_ARTIFACT: Final = "confirmed-"
_CASE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*(/[A-Za-z0-9][A-Za-z0-9._+-]*)+")
_MOST: Final = 2000  # series that one change may move
_LARGEST: Final = 1000.0
"""No release makes anything a thousand times slower without breaking it."""


def check(
    files: Sequence[ArtifactFile],
    artifact: str,
    trusted: Checkout,
    now: datetime,
    candidates: Mapping[str, Candidate] | None = None,
) -> dict[str, bytes]:
    """Check all that one machine has sent: `changes/…`, `dismissed/…` and `comparisons/…`.

    Where candidates (by id) are given, each judgement must be what follows from its evidence.

    Returns:
        What to write: path below a results folder → bytes.

    Raises:
        ArtifactError: Something else, something wrong, or a judgement without its evidence.
    """
    machine = artifact.removeprefix(_ARTIFACT) if artifact.startswith(_ARTIFACT) else None
    evidence: dict[str, Comparison] = {}
    judged: list[Conclusion] = []
    checked: dict[str, bytes] = {}
    value: Comparison | Conclusion
    for file in files:
        folder, _, name = file.path.rpartition("/")
        if folder == comparison_store.FOLDER:
            compared = comparisons.decode(file.data)
            comparisons.require_ours(compared, trusted, now, machine)
            evidence[compared.id] = compared
            value = compared
        elif folder in {CHANGES, DISMISSED}:
            is_change = folder == CHANGES
            one: Conclusion = (
                _decoded(ChangeRecord, file.data) if is_change else _decoded(Dismissal, file.data)
            )
            _require_possible(one, machine, now)
            judged.append(one)
            value = one
        else:
            raise ArtifactError(f"{shown(file.path)}, which is no result of a confirmation")
        require("name of a file", f"{value.id}.json", name)
        checked[file.path] = (value.model_dump_json(indent=1) + "\n").encode()
    for one in judged:
        found = evidence.get(one.evidence or "")
        if found is None:
            raise ArtifactError(f"{shown(one.id)} without its evidence {shown(str(one.evidence))}")
        if candidates is not None:
            _require_conclusion(one, found, candidates)
    return checked


def _decoded(kind: type[_Model], data: bytes) -> _Model:
    try:
        found = files_.parse(kind, data, "the file")
    except RecordError as error:
        raise ArtifactError(problem(error)) from error
    require_plain(json.loads(data))
    return found


def _require_possible(found: Conclusion, machine: str | None, now: datetime) -> None:
    moved: Iterable[SeriesName]
    if isinstance(found, ChangeRecord):
        moved = (found.series, *found.others, *found.unplayed)
        if not 1 / _LARGEST <= found.low <= found.high <= _LARGEST:
            raise ArtifactError(f"ratios between {found.low:g} and {found.high:g}")
    else:
        moved = found.series
        if machine is not None:
            require("machine", machine, found.machine)
    for number, series in enumerate(moved):
        if number > _MOST:
            raise ArtifactError(f"a change of more than {_MOST:,} series")
        if machine is not None:
            require("machine", machine, series.machine)
        inside = series.metric == inprocess.SECONDS
        if not (inprocess.is_series(series.case) if inside else _CASE.fullmatch(series.case)):
            raise ArtifactError(f"the case {shown(series.case)}")
        if not inside and series.metric not in METRICS:
            raise ArtifactError(f"the metric {shown(series.metric)}, which is none of ours")
    require_time("time of the change", found.when.astimezone(UTC).isoformat(), None, now)


def _require_conclusion(
    found: Conclusion, comparison: Comparison, candidates: Mapping[str, Candidate]
) -> None:
    candidate = candidates.get(found.id)
    if candidate is None:
        raise ArtifactError(f"{shown(found.id)}, which was no candidate")
    require("machine", candidate.machine, comparison.machine.id)
    _require_stack("base", candidate.base, comparison.base)
    _require_stack("head", candidate.head, comparison.head)
    concluded = conclude(candidate, comparison)
    # The cause may have been searched for since, which adds to the record in words of ours.
    searched = (
        isinstance(found, ChangeRecord)
        and isinstance(concluded, ChangeRecord)
        and follows(found, concluded)
    )
    if found != concluded and not searched:
        raise ArtifactError(f"{found.id} says something else than its evidence")


def _require_stack(which: str, wanted: StackState, side: SideRecord) -> None:
    """The evidence must be of the candidate's two stacks, as far as any case was played."""
    digests = {stack.digest for stack in side.stacks if stack.name == wanted.stack}
    if digests and digests != {wanted.digest}:
        raise ArtifactError(f"evidence with another lock as {which} than that of the change")
