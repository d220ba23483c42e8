"""From a folder of artifacts to a folder of checked files.

An artifact counts as a whole or not at all: where one file is not what it should be, the others
come from the same hand. A bad one costs the others nothing. Where a file goes follows from what has
been checked in it, never from its name.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from duetbench.core.errors import ArtifactError
from duetbench.core.model import Frozen, Run
from duetbench.core.text import shown
from duetbench.github.incoming import comparisons, folder, inprocess, nights, points
from duetbench.github.incoming.facts import Checkout, problem
from duetbench.github.incoming.folder import ArtifactFile, Refusal
from duetbench.github.upgrades import Upgrade
from duetbench.store import files as files_
from duetbench.store import points as points_
from duetbench.store import store
from duetbench.store.attribution import Attribution
from duetbench.store.change import Candidate
from duetbench.store.comparison import Comparison
from duetbench.store.night import NightPlan
from duetbench.store.points import Points
from duetbench.trend.nights import outcome, sentences

COMPARISON: Final = "comparison.json"
UPGRADE: Final = "upgrade.json"
WHY: Final = "attribution.json"


class Acceptance(Frozen):
    """What came of a folder of artifacts."""

    accepted: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0: all is there and accepted; 1: something is refused or missing; 3: nothing is left."""
        if not (self.refused or self.missing):
            return 0
        return 1 if self.accepted else 3


def night(
    plan: NightPlan,
    source: Path,
    target: Path,
    trusted: Checkout,
    now: datetime,
    shard: int | None = None,
) -> Acceptance:
    """Check what the shards of a night have sent, one folder per artifact, and write what is right.

    With a shard, no other one is missing.

    Raises:
        ArtifactError: The folder cannot be read, or has far too much in it.
        RecordError: A run cannot be written.
    """
    runs: list[Run] = []
    played: list[Points] = []
    beside: dict[str, bytes] = {}

    def check(name: str, files: tuple[ArtifactFile, ...]) -> None:
        if not files:
            raise ArtifactError("expected at least one file, found none")
        if others := [file.path for file in files if not file.path.endswith(".json")]:
            raise ArtifactError(f"expected results (*.json) only, found {shown(others[0])}")
        asv = [file for file in files if inprocess.belongs(file.path)]
        pointed = [file for file in files if points.belongs(file.path)]
        found = [
            nights.run(file.data, name, plan, trusted, now)
            for file in files
            if file not in (*asv, *pointed)
        ]
        _require_new(found, runs)
        machines = {run.machine.id for run in found}
        made = points.check(pointed, machines, name, plan, trusted, now)
        if {one.shard for one in made} & {one.shard for one in played}:
            raise ArtifactError("points of a shard that has sent its own")
        figures = inprocess.check(asv, found, plan, trusted, now)
        runs.extend(found)
        played.extend(made)
        # One machine may have had two shards: what it measured first is as good.
        beside.update(figures | beside)

    refused = _each(source, check)
    written = [store.finalise(target, run) for run in runs]
    written += [points_.save(target, one) for one in played]
    for path, data in beside.items():
        files_.replace(target / path, data)
    record = outcome(plan, runs)
    awaited = tuple(one for one in record.shards if shard in {None, one.shard})
    record = record.model_copy(update={"shards": awaited})
    return Acceptance(
        accepted=(*(path.relative_to(target).as_posix() for path in written), *beside),
        refused=refused,
        missing=sentences(record) if record.missing else (),
    )


def comparison(
    source: Path, target: Path, base: str, head: str, trusted: Checkout, now: datetime
) -> Acceptance:
    """Check the one comparison of a folder, and write it byte for byte; raises RecordError.

    With it may come which code it is.
    """
    try:
        sent = {file.path: file.data for file in folder.read(source)}
        about = sent.pop(WHY, None)
        found = comparisons.comparison(_only(sent, COMPARISON), base, head, trusted, now)
        accepted = {COMPARISON: sent[COMPARISON]}
        if about is not None:
            comparisons.explanation(about, found, trusted, now)
            accepted[WHY] = about
    except Exception as error:  # whatever it is
        return Acceptance(refused=(_refusal(error, "comparison"),))
    for name, data in accepted.items():
        files_.replace(target / name, data)
    return Acceptance(accepted=tuple(accepted))


def proposed(
    source: Path, base: str, head: str, trusted: Checkout, now: datetime
) -> tuple[Comparison, Upgrade | None, Attribution | None]:
    """Check what the job of a pull request has told: a comparison, and what was found out of it.

    Of an upgrade that is its cause, and of what moved, which code it is.

    Raises:
        ArtifactError: It is not what was asked for, and nothing of it may be shown.
    """
    try:
        files = {file.path: file.data for file in folder.read(source)}
        about, code = files.pop(UPGRADE, None), files.pop(WHY, None)
        found = comparisons.comparison(_only(files, COMPARISON), base, head, trusted, now)
        return (
            found,
            None if about is None else comparisons.upgrade(about, found),
            None if code is None else comparisons.explanation(code, found, trusted, now),
        )
    except Exception as error:  # whatever it is
        raise ArtifactError(_refusal(error, "proposed").reason) from error


def confirmed(
    source: Path,
    target: Path,
    trusted: Checkout,
    now: datetime,
    candidates: Mapping[str, Candidate] | None = None,
) -> Acceptance:
    """Check changes that machines have confirmed, with their evidence, and write them.

    Where candidates (by id) are given, nothing else may be judged.

    Raises:
        ArtifactError: The folder cannot be read, or has far too much in it.
        RecordError: A file cannot be written.
    """
    accepted: dict[str, bytes] = {}

    def check(name: str, files: tuple[ArtifactFile, ...]) -> None:
        found = comparisons.conclusions(files, name, trusted, now, candidates)
        if twice := sorted(accepted.keys() & found.keys()):
            raise ArtifactError(f"{shown(twice[0])}, which another machine has sent")
        accepted.update(found)

    refused = _each(source, check)
    for path, data in accepted.items():
        files_.replace(target / path, data)
    return Acceptance(accepted=tuple(accepted), refused=refused)


def _each(
    source: Path, check: Callable[[str, tuple[ArtifactFile, ...]], None]
) -> tuple[Refusal, ...]:  # fmt: skip
    """Check every artifact of a folder; those that are refused."""
    refused = []
    for name in folder.names(source):
        try:
            check(name, folder.read(source, name))
        except Exception as error:  # whatever it is, it is this artifact's
            refused.append(_refusal(error, shown(name)))
    return tuple(refused)


def _refusal(error: Exception, artifact: str) -> Refusal:
    """Why nothing of an artifact is used; also where a check stumbles over it."""
    reason = str(error)
    if not isinstance(error, ArtifactError):
        reason = problem(f"{type(error).__name__}: {reason}")
    return Refusal(artifact=artifact, reason=reason)


def _only(found: Mapping[str, bytes], name: str) -> bytes:
    if list(found) != [name]:
        listed = ", ".join(map(shown, list(found)[:3])) or "nothing"
        raise ArtifactError(f"expected {name} and nothing else, found {listed}")
    return found[name]


def _require_new(found: list[Run], before: list[Run]) -> None:
    """One artifact per shard, and no run twice."""
    known = [(run.machine.id, run.id) for run in (*before, *found)]
    if len(set(known)) != len(known):
        raise ArtifactError("a run that is there already")
    shards = {run.shard for run in found}
    if len(shards) > 1 or shards & {run.shard for run in before}:
        raise ArtifactError("runs of a shard that has sent its own")
