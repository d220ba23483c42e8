"""Whether what a machine has confirmed may join the history: changes, and their evidence. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, TypeVar

from servebench import files as files_
from servebench.artifacts import comparisons
from servebench.artifacts.folder import Found
from servebench.artifacts.trusted import Trusted, require, require_time
from servebench.changes import FOLDER as CHANGES
from servebench.changes import ChangeRecord, SeriesName, StackState
from servebench.compare import inprocess, keeping
from servebench.compare.model import Comparison, SideRecord
from servebench.detect.conclude import conclude
from servebench.detect.model import DISMISSED, Candidate, Dismissal
from servebench.detect.suspects import follows
from servebench.errors import ArtifactError, RecordError
from servebench.metrics import METRICS
from servebench.model import Artefact
from servebench.text import require_plain, shown

Judged = ChangeRecord | Dismissal
_Model = TypeVar("_Model", bound=Artefact)
_ARTIFACT: Final = "confirmed-"
_CASE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*(/[A-Za-z0-9][A-Za-z0-9._+-]*)+")
_REASON: Final = 400
_MOST: Final = 2000  # series that one change may move
_LARGEST: Final = 1000.0
"""No release makes anything a thousand times slower without breaking it."""


def check(
    files: Sequence[Found],
    artifact: str,
    trusted: Trusted,
    now: datetime,
    candidates: Mapping[str, Candidate] | None = None,
) -> None:
    """Check all that one machine has sent.

    Args:
        files: `changes/…`, `dismissed/…` and `comparisons/…`, each named by its id.
        artifact: Name of the artifact: `confirmed-<machine>`.
        trusted: What the checkout says.
        now: With an offset.
        candidates: By id, what was to be judged, as detection on our own side found it. Then
            each judgement must be what follows from its evidence, and nothing else.

    Raises:
        ArtifactError: Something else, something wrong, or a judgement without its evidence.
    """
    machine = artifact.removeprefix(_ARTIFACT) if artifact.startswith(_ARTIFACT) else None
    evidence: dict[str, Comparison] = {}
    judged: list[Judged] = []
    for file in files:
        folder, _, name = file.path.rpartition("/")
        if folder == keeping.FOLDER:
            compared = comparisons.decode(file.data)
            comparisons.require_ours(compared, trusted, now, machine)
            evidence[compared.id] = compared
            identity = compared.id
        elif folder in {CHANGES, DISMISSED}:
            one: Judged = (
                _parsed(ChangeRecord, file.data)
                if folder == CHANGES
                else _parsed(Dismissal, file.data)
            )
            _require_possible(one, machine, now)
            judged.append(one)
            identity = one.id
        else:
            raise ArtifactError(f"{shown(file.path)}, which is no result of a confirmation")
        require("name of a file", f"{identity}.json", name)
    for one in judged:
        found = evidence.get(one.evidence or "")
        if found is None:
            raise ArtifactError(f"{shown(one.id)} without its evidence {shown(str(one.evidence))}")
        if candidates is not None:
            _require_conclusion(one, found, candidates)


def _parsed(kind: type[_Model], data: bytes) -> _Model:
    try:
        found = files_.parse(kind, data, "the file")
    except RecordError as error:
        raise ArtifactError(shown(str(error), _REASON)) from error
    if files_.encode(found) != data:
        raise ArtifactError(f"a {kind.__name__} that is written otherwise than ours are")
    require_plain(json.loads(data))
    return found


def _require_possible(found: Judged, machine: str | None, now: datetime) -> None:
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
        inside = inprocess.key(series.case) is not None
        if not inside and not _CASE.fullmatch(series.case):
            raise ArtifactError(f"the case {shown(series.case)}")
        if series.metric not in ({inprocess.SECONDS} if inside else METRICS):
            raise ArtifactError(f"the metric {shown(series.metric)}, which is none of ours")
    require_time("time of the change", found.when.astimezone(UTC).isoformat(), None, now)


def _require_conclusion(
    found: Judged, comparison: Comparison, candidates: Mapping[str, Candidate]
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
