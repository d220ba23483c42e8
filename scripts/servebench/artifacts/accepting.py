"""From a folder of artifacts to a folder of checked files.

An artifact counts as a whole or not at all: where one file is not what it should be, the others
come from the same hand. Each is read, checked and written by itself, so that a bad one costs the
others nothing. Where a file goes follows from what has been checked in it, never from its name, and
what is written is what was checked, byte for byte.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

from servebench import files as files_
from servebench import store
from servebench.artifacts import comparisons, folder, inside, nights, records
from servebench.artifacts.folder import Found, Limits
from servebench.artifacts.trusted import Trusted
from servebench.detect.model import Candidate
from servebench.errors import ArtifactError
from servebench.model import Frozen, Run
from servebench.night import outcome
from servebench.night.model import NightPlan
from servebench.text import shown

COMPARISON: Final = "comparison.json"
_REASON: Final = 400


class Refusal(Frozen):
    """An artifact of which nothing is used."""

    artifact: str
    reason: str


class Acceptance(Frozen):
    """What came of a folder of artifacts."""

    accepted: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0: all is there and accepted; 1: something is refused or missing; 3: nothing is left."""
        if not self.accepted:
            return 3 if self.refused or self.missing else 0
        return 1 if self.refused or self.missing else 0


def require_digest(path: Path, digest: str) -> None:
    """Refuse a file that is not the one whose SHA-256 its maker has told.

    A measuring machine can replace an artifact of its own workflow run, but not a job's output.

    Raises:
        ArtifactError: It is another one, larger than any of ours, or not there.
    """
    try:
        with path.open("rb") as file:
            data = file.read(Limits().file_bytes + 1)
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > Limits().file_bytes:
        raise ArtifactError(f"{path}: expected at most {Limits().file_bytes:,} bytes, found more")
    found = hashlib.sha256(data).hexdigest()
    if found != digest:
        raise ArtifactError(f"{path}: expected SHA-256 {digest}, found {found}: it was replaced")


def night(
    plan: NightPlan,
    source: Path,
    target: Path,
    trusted: Trusted,
    now: datetime,
    shard: int | None = None,
) -> Acceptance:
    """Check what the shards of a night have sent, and write their runs and what came with them.

    Args:
        plan: The night's.
        source: One folder per artifact.
        target: A results folder.
        trusted: What the checkout says.
        now: With an offset.
        shard: The only one that can be missing; None: all of them.

    Raises:
        ArtifactError: The folder cannot be read, or has far too much in it.
        RecordError: A run cannot be written.
    """
    runs: list[Run] = []
    beside: dict[str, bytes] = {}
    refused: list[Refusal] = []
    for name in folder.names(source):
        try:
            files = [
                replace(_json(file), path=_below(file.path, name))
                for file in _some(folder.read(source, name))
            ]
            found = [
                nights.run(file.data, name, plan, trusted, now)
                for file in files
                if not inside.belongs(file.path)
            ]
            _require_new(found, runs)
            came = [file for file in files if inside.belongs(file.path)]
            figures = inside.check(came, found, plan, trusted, now)
        except Exception as error:  # whatever it is, it is this artifact's
            refused.append(_refusal(error, shown(name)))
        else:
            runs += found
            # One machine may have had two shards: what it measured first is as good.
            beside = figures | beside
    written = [store.finalise(target, run) for run in runs]
    for path, data in beside.items():
        files_.replace(target / path, data)
    record = outcome.outcome(plan, runs)
    awaited = tuple(one for one in record.shards if shard in {None, one.shard})
    record = record.model_copy(update={"shards": awaited})
    return Acceptance(
        accepted=(*(path.relative_to(target).as_posix() for path in written), *beside),
        refused=tuple(refused),
        missing=outcome.sentences(record) if record.missing else (),
    )


def comparison(
    source: Path,
    target: Path,
    base: str,
    head: str,
    trusted: Trusted,
    now: datetime,
) -> Acceptance:
    """Check the one comparison of a folder, and write it.

    Args:
        source: The folder that holds `comparison.json`, and nothing else.
        target: Where its checked copy goes.
        base: The commit that was asked for.
        head: The same.
        trusted: What the checkout says.
        now: With an offset.

    Raises:
        RecordError: It cannot be written.
    """
    try:
        data = _only(folder.read(source), COMPARISON)
        comparisons.comparison(data, base, head, trusted, now)
    except Exception as error:  # whatever it is
        return Acceptance(refused=(_refusal(error, "comparison"),))
    files_.replace(target / COMPARISON, data)
    return Acceptance(accepted=(COMPARISON,))


def confirmed(
    source: Path,
    target: Path,
    trusted: Trusted,
    now: datetime,
    candidates: Mapping[str, Candidate] | None = None,
) -> Acceptance:
    """Check the changes that machines have confirmed, with their evidence, and write them.

    Args:
        source: One folder per artifact.
        target: A results folder.
        trusted: What the checkout says.
        now: With an offset.
        candidates: By id, what was to be judged; None: not known.

    Raises:
        ArtifactError: The folder cannot be read, or has far too much in it.
        RecordError: A file cannot be written.
    """
    kept: dict[str, bytes] = {}
    refused: list[Refusal] = []
    for name in folder.names(source):
        try:
            found = folder.read(source, name)
            below = [replace(file, path=_below(file.path, name)) for file in found]
            records.check(below, name, trusted, now, candidates)
            _require_absent(kept, below)
        except Exception as error:  # whatever it is, it is this artifact's
            refused.append(_refusal(error, shown(name)))
        else:
            kept |= {file.path: file.data for file in below}
    for path, data in kept.items():
        files_.replace(target / path, data)
    return Acceptance(accepted=tuple(kept), refused=tuple(refused))


def _refusal(error: Exception, artifact: str) -> Refusal:
    """Why nothing of an artifact is used; also where a check stumbles over it."""
    reason = str(error)
    if not isinstance(error, ArtifactError):
        reason = shown(f"{type(error).__name__}: {' '.join(reason.split())}", _REASON)
    return Refusal(artifact=artifact, reason=reason)


def _below(path: str, artifact: str) -> str:
    return path.removeprefix(f"{artifact}/")


def _require_absent(kept: Collection[str], found: Iterable[Found]) -> None:
    for file in found:
        if file.path in kept:
            raise ArtifactError(f"{shown(file.path)}, which another machine has sent")


def _only(found: tuple[Found, ...], name: str) -> bytes:
    if [file.path for file in found] != [name]:
        listed = ", ".join(shown(file.path) for file in found[:3]) or "nothing"
        raise ArtifactError(f"expected {name} and nothing else, found {listed}")
    return found[0].data


def _some(found: tuple[Found, ...]) -> tuple[Found, ...]:
    if not found:
        raise ArtifactError("expected at least one file, found none")
    return found


def _json(file: Found) -> Found:
    if not file.name.endswith(".json"):
        raise ArtifactError(f"expected results (*.json) only, found {shown(file.path)}")
    return file


def _require_new(found: list[Run], before: list[Run]) -> None:
    """One artifact per shard, and no run twice."""
    known = {(run.machine.id, run.id) for run in before}
    if len({run.id for run in found}) != len(found) or any(
        (run.machine.id, run.id) in known for run in found
    ):
        raise ArtifactError("a run that is there already")
    taken = {run.shard for run in before} & {run.shard for run in found}
    if taken or len({run.shard for run in found}) > 1:
        raise ArtifactError("runs of a shard that has sent its own")
