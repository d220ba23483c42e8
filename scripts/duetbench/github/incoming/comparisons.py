"""Checks the comparisons that a machine sent, and the conclusions that it drew from them.

Other people's code ran on that machine, so nothing is taken over that does not follow from its own
evidence or from our checkout.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from duetbench.core.errors import ArtifactError, RecordError
from duetbench.core.metrics import METRICS, TIME_INSIDE
from duetbench.core.model import Artefact
from duetbench.core.text import one_line, shown
from duetbench.github.incoming import folder
from duetbench.github.incoming.facts import (
    Checkout,
    decoded,
    require,
    require_commands,
    require_machine,
    require_time,
)
from duetbench.github.incoming.folder import ArtifactFile
from duetbench.github.upgrades import Upgrade
from duetbench.project.names import INSIDE
from duetbench.store import comparison_store, reproduce
from duetbench.store import files as record_files
from duetbench.store.attribution import FOLDER as ATTRIBUTIONS
from duetbench.store.attribution import Attribution
from duetbench.store.change import DISMISSED, Candidate, ChangeRecord, Dismissal, SeriesName
from duetbench.store.change import FOLDER as CHANGES
from duetbench.store.comparison import Comparison
from duetbench.store.points import INSTRUCTIONS
from duetbench.trend.bisect.cause import follows
from duetbench.trend.conclude import conclude

LIMIT: Final = 32_000_000
"""Bytes of a comparison file; a real one of a hundred cases has a tenth of it."""

_LIMITS: Final = folder.Limits(entries=1, depth=0, file_bytes=LIMIT, total_bytes=LIMIT)
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
_MOST_CASES: Final = 2000
_Model = TypeVar("_Model", bound=Artefact)


def comparison(
    data: bytes, base: str, head: str, trusted: Checkout, now: datetime, machine: str | None = None
) -> Comparison:
    """Read and check a comparison of two commits (40 hex digits), by a machine if that is known.

    Whatever in it comes from the head's own declarations (names of cases, packages, addresses) is
    its author's, and shown as foreign text.

    Raises:
        ArtifactError: It is not the comparison that was asked for.
    """
    found = decode(data)
    for side, commit, record in (("base", base, found.base), ("head", head, found.head)):
        require(f"kind of {side}", "revision", record.kind)
        require(f"commit of {side}", commit, record.commit)
        require(f"uncommitted changes of {side}", False, record.dirty)
    require("comparison of two interpreters", False, found.cross)
    require_ours(found, trusted, now, machine)
    return found


def require_ours(
    found: Comparison, trusted: Checkout, now: datetime, machine: str | None = None
) -> None:
    """Check what holds for every comparison, whatever is compared; raises ArtifactError."""
    trusted.require_tools(found.duetbench, found.oha)
    require_machine(found.machine)
    if machine is not None:
        require("machine", machine, found.machine.id)
    if not _ID.fullmatch(found.id):
        raise ArtifactError(f"the id {shown(found.id)}")
    require_time("start of the comparison", found.started, None, now)
    if len(found.cases) > _MOST_CASES:
        raise ArtifactError(f"{len(found.cases):,} cases, expected at most {_MOST_CASES:,}")
    for case in found.cases:
        require_commands(case.commands, case.case, found.machine)
    ours = reproduce.rebuilt(found)
    if found.reproduce and found.reproduce != (ours,):
        raise ArtifactError(f"the command {shown(found.reproduce[0])}, expected {ours}")


def decode(data: bytes) -> Comparison:
    """Read a comparison that is exactly what our own encoder writes, with plain texts.

    ArtifactError: it is not.
    """
    found = _decoded(Comparison, data)
    if record_files.encode(found) != data:
        raise ArtifactError("a comparison that is written otherwise than ours are")
    return found


def read(path: Path, head: str) -> Comparison:
    """Read the comparison of a certain commit (40 hex digits), to show it.

    Nothing in it decides where it is shown, and its words are shown as text.

    Raises:
        ArtifactError: It is not there, no plain file, or too large.
        RecordError: It is no comparison, or one of another commit.
    """
    comparison = _shown(Comparison, path)
    side = comparison.head
    if side.commit != head or side.dirty:
        raise RecordError(
            f"{path.name}: expected a comparison of {head[:12]}, found one of "
            f"{shown((side.commit or 'no commit')[:12])}"
            f"{' with uncommitted changes' * side.dirty}"
        )
    return comparison


def attribution(path: Path, comparison: Comparison) -> Attribution:
    """Read which code a comparison's change of instructions is in, to show it.

    Raises:
        ArtifactError: It is not there, no plain file, or too large.
        RecordError: It is no attribution, or one of something else.
    """
    found = _shown(Attribution, path)
    if found.comparison != comparison.id:
        raise RecordError(
            f"{path.name}: expected an attribution of {shown(comparison.id)}, found one of "
            f"{shown(str(found.comparison))}"
        )
    return found


def explanation(
    data: bytes, comparison: Comparison, trusted: Checkout, now: datetime
) -> Attribution:
    """Read and check which code a comparison's change of instructions is in.

    Which functions it names nobody can check from here.

    Raises:
        ArtifactError: It is none, or one of something else.
    """
    found = _decoded(Attribution, data)
    require("comparison of an attribution", comparison.id, found.comparison)
    require("version", trusted.duetbench, found.duetbench)
    require_time("time of an attribution", found.when.astimezone(UTC).isoformat(), None, now)
    if found.case not in {one.case.id for one in comparison.cases}:
        raise ArtifactError(f"the case {shown(found.case)}, which was not compared")
    return found


def _shown(kind: type[_Model], path: Path) -> _Model:
    if not path.exists():
        raise RecordError(f"{path.name}: expected {kind.what}, and none has arrived")
    found = folder.read(path.parent, path.name, _LIMITS)
    if len(found) != 1:
        raise RecordError(f"{path.name}: expected {kind.what}, found an empty folder")
    try:
        return record_files.parse(kind, found[0].data, path.name, quoted=False)
    except RecordError as error:
        raise RecordError(one_line(str(error))) from error


def upgrade(data: bytes, comparison: Comparison) -> Upgrade:
    """Read and check what was found of an upgrade that a comparison is about.

    Raises:
        ArtifactError: It is none, or blames packages that do not differ there.
    """
    found = _decoded(Upgrade, data)
    if found.cause is None:
        return found
    cause = found.cause
    moved = {(one.package, one.base, one.head) for one in comparison.packages}
    named = [release for share in cause.shares for release in share.releases]
    for one in named:
        if (one.package, one.previous, one.version) not in moved:
            raise ArtifactError(f"{shown(one.package)} as a cause, which does not differ so")
    if foreign := sorted(set(cause.suspects) - {name for name, _, _ in moved}):
        raise ArtifactError(f"{shown(foreign[0])} as a suspect, which does not differ")
    if max(len(named), len(cause.suspects)) > len(moved):
        raise ArtifactError("a cause that names a package twice")
    for effect in (cause.whole, cause.rest, *cause.shares):
        if effect is None:
            continue
        ends = (1 / LARGEST, effect.low, effect.ratio, effect.high, LARGEST)
        if list(ends) != sorted(ends):
            raise ArtifactError(f"an effect of {effect.low:g} to {effect.high:g}")
    return found


Conclusion = ChangeRecord | Dismissal
_ARTIFACT: Final = "confirmed-"
CASE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*(/[A-Za-z0-9][A-Za-z0-9._+-]*)+")
_MOST_SERIES: Final = 2000  # series that one change may move
LARGEST: Final = 1000.0
"""No release makes anything a thousand times slower without breaking it."""


def conclusions(
    files: Sequence[ArtifactFile],
    artifact: str,
    trusted: Checkout,
    now: datetime,
    candidates: Mapping[str, Candidate] | None = None,
) -> dict[str, bytes]:
    """Check all that one machine has sent: changes, dismissals, comparisons and attributions.

    Where candidates (by id) are given, each judgement must be what follows from its evidence. Which
    functions an attribution names nobody can check from here: it has to be of a judged change.

    Returns:
        What to write: path below a results folder → bytes.

    Raises:
        ArtifactError: Something else, something wrong, or a judgement without its evidence.
    """
    machine = artifact.removeprefix(_ARTIFACT) if artifact.startswith(_ARTIFACT) else None
    evidence: dict[str, Comparison] = {}
    judged: list[Conclusion] = []
    checked: dict[str, bytes] = {}
    attributed: list[Attribution] = []
    value: Comparison | Conclusion | Attribution
    for file in files:
        place, _, name = file.path.rpartition("/")
        if place == comparison_store.FOLDER:
            value = evidence_ = decode(file.data)
            require_ours(evidence_, trusted, now, machine)
            evidence[evidence_.id] = evidence_
        elif place == ATTRIBUTIONS:
            value = found_ = _decoded(Attribution, file.data)
            attributed.append(found_)
        elif place in {CHANGES, DISMISSED}:
            kind: type[Conclusion] = ChangeRecord if place == CHANGES else Dismissal
            value = _decoded(kind, file.data)
            _require_possible(value, machine, now)
            judged.append(value)
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
    known = {one.id: one for one in judged}
    for found_ in attributed:
        _require_attribution(found_, known.get(found_.id), trusted, now)
    return checked


def _require_attribution(
    found: Attribution, judged: Conclusion | None, trusted: Checkout, now: datetime
) -> None:
    if judged is None:
        raise ArtifactError(f"an attribution of {shown(found.id)}, which was not judged")
    require("change of an attribution", judged.id, found.change)
    require("version", trusted.duetbench, found.duetbench)
    require_time("time of an attribution", found.when.astimezone(UTC).isoformat(), None, now)
    if isinstance(judged, ChangeRecord):
        require("base of an attribution", judged.base, found.base)
        require("head of an attribution", judged.head, found.head)
        require("packages of an attribution", judged.packages, found.packages)
    if not CASE.fullmatch(found.case):
        raise ArtifactError(f"the case {shown(found.case)}")


def _decoded(kind: type[_Model], data: bytes) -> _Model:
    return decoded(partial(record_files.parse, kind), data)


def _require_possible(found: Conclusion, machine: str | None, now: datetime) -> None:
    moved: Iterable[SeriesName]
    if isinstance(found, ChangeRecord):
        moved = (found.series, *found.others, *found.unplayed)
        if not 1 / LARGEST <= found.low <= found.high <= LARGEST:
            raise ArtifactError(f"ratios between {found.low:g} and {found.high:g}")
    else:
        moved = found.series
        if machine is not None:
            require("machine", machine, found.machine)
    for number, series in enumerate(moved):
        if number > _MOST_SERIES:
            raise ArtifactError(f"a change of more than {_MOST_SERIES:,} series")
        if machine is not None:
            require("machine", machine, series.machine)
        inside = series.inprocess
        if not (INSIDE if inside else CASE).fullmatch(series.case):
            raise ArtifactError(f"the case {shown(series.case)}")
        if series.metric not in {*METRICS, INSTRUCTIONS, *([TIME_INSIDE.name] if inside else [])}:
            raise ArtifactError(f"the metric {shown(series.metric)}, which is none of ours")
    require_time("time of the change", found.when.astimezone(UTC).isoformat(), None, now)


def _require_conclusion(
    found: Conclusion, comparison: Comparison, candidates: Mapping[str, Candidate]
) -> None:
    candidate = candidates.get(found.id)
    if candidate is None:
        raise ArtifactError(f"{shown(found.id)}, which was no candidate")
    require("machine", candidate.machine, comparison.machine.id)
    for which, wanted, side in (
        ("base", candidate.base, comparison.base), ("head", candidate.head, comparison.head),
    ):  # fmt: skip
        # As far as any case was played.
        digests = {stack.digest for stack in side.stacks if stack.name == wanted.stack}
        if digests and digests != {wanted.digest}:
            raise ArtifactError(f"evidence with another lock as {which} than that of the change")
    ours = conclude(candidate, comparison)
    # The cause may have been searched for since, which adds to the record in words of ours.
    match found, ours:
        case ChangeRecord(), ChangeRecord() if follows(found, ours):
            return
    if found != ours:
        raise ArtifactError(f"{found.id} says something else than its evidence")
