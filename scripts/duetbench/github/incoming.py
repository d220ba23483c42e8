"""Files from other machines, read strictly and bound to what was asked for.

Our own machines are trusted with their figures: nobody else has seen them. Nobody is trusted with
the number, size and shape of files, with names, or with texts that act on a terminal, a log or
Markdown. Where a file belongs follows from what is in it, which the kinds of stored files say. An
artifact counts as a whole or not at all, and a bad one costs the others nothing.
"""

import json
import math
import re
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, TypeVar

from pydantic import Field

from duetbench.core.errors import ArtifactError
from duetbench.core.model import Artefact, Run
from duetbench.core.text import printable
from duetbench.github import archives
from duetbench.github.archives import Acceptance, Files, reason
from duetbench.store import files as files_
from duetbench.store import run_files
from duetbench.store.attribution import Attribution
from duetbench.store.change import INPROCESS, Cause, Change
from duetbench.store.comparison import Comparison
from duetbench.store.kinds import final, kind_of
from duetbench.store.night import NightPlan
from duetbench.store.points import CANARY, Points
from duetbench.trend.nights import outcome, sentences

COMPARISON: Final = "comparison.json"
UPGRADE: Final = "upgrade.json"
WHY: Final = "attribution.json"

_OF_NIGHTS: Final = (Run, Points, None)  # None: files of asv's
_OF_CHANGES: Final = (Change, Comparison, Attribution)
_CLOCKS: Final = timedelta(days=1)
"""How far a clock may be wrong. A run from the future would stay the latest one until then."""

_LIST: Final = "asv/benchmarks.json"
_LARGEST: Final = 1e18
_Kind = TypeVar("_Kind", bound=Artefact)


class Upgrade(Artefact):
    """What came of the search for the release that moved an application, on an upgrade branch."""

    noun: ClassVar[str] = "what an upgrade's search found"

    format: Literal[1] = 1
    cause: Cause | None = Field(default=None, description="Null: nothing was searched for.")
    note: str = Field(default="", description="Why there is no cause.")


def night(
    plan: NightPlan,
    source: Path,
    target: Path,
    locks: Mapping[str, str],
    now: datetime,
    shard: int | None = None,
) -> Acceptance:
    """Check what the shards of a night have sent, one folder per artifact, and write what is right.

    `locks` are the SHA-256 of the checkout's locks, by stack. With a `shard`, no other is missing.
    ArtifactError: the folder has far too much in it.
    """
    accepted: dict[str, bytes] = {}
    sent: list[Run | Points] = []

    def check(artifact: str, files: Files) -> None:
        # asv's list of its benchmarks is made again from the suites.
        contents = {final(path): data for path, data in files.items() if path != _LIST}
        values = {path: _stored(path, data, _OF_NIGHTS) for path, data in contents.items()}
        ours = [value for value in values.values() if isinstance(value, Run | Points)]
        if not ours:
            raise ArtifactError("expected a run or anchored points, found none")
        for value in ours:
            _require_planned(value, plan, locks, now)
            if (match := re.fullmatch(r"shard-(\d+)", artifact)) is not None:
                require(f"shard of artifact {artifact}", int(match[1]), value.shard)
        keys = [(type(value), value.shard) for value in (*sent, *ours)]
        if len(set(keys)) != len(keys):
            raise ArtifactError("a second run, or file of points, of one shard")
        machines = {value.machine.id for value in ours}
        require("machines of a shard", 1, len(machines))
        for path, value in values.items():
            if isinstance(value, dict):
                require("machine of asv's results", {path.split("/")[1]}, machines)
                commit = value.get("commit_hash", plan.commit)
                require("commit of asv's results", plan.commit, commit)
        sent.extend(ours)
        # One machine may have had two shards: what it measured first is as good.
        accepted.update({**contents, **accepted})

    refused = _each(source, check)
    _write(target, accepted)
    record = outcome(plan, [entry for entry in sent if isinstance(entry, Run)])
    if shard is not None:
        awaited = tuple(entry for entry in record.shards if entry.shard == shard)
        record = record.model_copy(update={"shards": awaited})
    missing = sentences(record) if record.missing else ()
    return Acceptance(tuple(accepted), refused, missing)


def _require_planned(
    value: Run | Points, plan: NightPlan, locks: Mapping[str, str], now: datetime
) -> None:
    """Refuse another night, shard, machine, commit, lock or case than planned: ArtifactError."""
    require("night", plan.id, value.night)
    shard = None if value.shard is None else plan.shard(value.shard)
    if shard is None:
        raise ArtifactError(f"shard {value.shard}, which the plan does not have")
    require("commit", plan.commit, value.commit)
    if shard.machine is not None:
        require(f"machine of shard {shard.number}", shard.machine, value.machine.id)
    elif value.machine.id in {other.machine for other in plan.shards}:
        raise ArtifactError(f"machine {value.machine.id}, which has a shard of its own")
    for stack in value.stacks:
        require(f"lock of stack {printable(stack.name)}", locks.get(stack.name), stack.digest)
    planned = {case.id: case for case in shard.plan.cases}
    if isinstance(value, Points):
        require("anchor", plan.anchor, value.anchor)
        require_past(max(value.started, value.when), now)
        names = [case.case for case in value.cases]
        if not value.id.endswith(f"-s{shard.number}"):
            raise ArtifactError(f"id of points: expected one of shard {shard.number}")
        foreign = [
            name
            for name in names
            if not name.startswith(INPROCESS) and name.removeprefix(CANARY) not in planned
        ]
    else:
        require_past(datetime.fromisoformat(value.started), now)
        require("uncommitted changes", False, value.dirty)
        start = run_files.run_id(value.started, value.profile, value.commit)
        require("id of the run", f"{start}-s{shard.number}", value.id)
        names = [result.case.id for result in value.results]
        foreign = [r.case.id for r in value.results if planned.get(r.case.id) != r.case]
    if len(set(names)) != len(names):
        raise ArtifactError("a case twice")
    if foreign:
        raise ArtifactError(f"{printable(foreign[0])}, which is no case of shard {shard.number}")


def confirmed(source: Path, target: Path, now: datetime, candidates: Collection[str]) -> Acceptance:
    """Check what machines have concluded of candidates, with the evidence, and write it.

    Nothing but candidates, by their ids, may be judged. ArtifactError: the folder has far too much
    in it.
    """
    accepted: dict[str, bytes] = {}

    def check(artifact: str, files: Files) -> None:
        values = [_stored(path, data, _OF_CHANGES) for path, data in files.items()]
        evidence = {value.id for value in values if isinstance(value, Comparison)}
        for value in values:
            if isinstance(value, Comparison):
                machine = artifact.removeprefix("confirmed-")
                require("machine", machine, value.machine.id)
            elif value.id not in candidates:
                raise ArtifactError(f"{printable(value.id)}, which was no candidate")
            if isinstance(value, Change):
                require_past(value.when, now)
                if value.evidence not in evidence:
                    raise ArtifactError(f"{printable(value.id)} without its evidence")
        if twice := accepted.keys() & files.keys():
            raise ArtifactError(f"{printable(min(twice))}, which another machine has sent")
        accepted.update(files)

    refused = _each(source, check)
    _write(target, accepted)
    return Acceptance(tuple(accepted), refused)


def proposed(
    source: Path, base: str, head: str
) -> tuple[Comparison, Upgrade | None, Attribution | None]:
    """Check the comparison of two commits, whose author may have written all of it.

    With it may come the release that an upgrade's change is put down to, and the code that it is
    in. Commands are left out: people copy what they are told to run.
    ArtifactError: it is not what was asked for, and nothing of it may be shown.
    """
    try:
        sent = dict(archives.folder(source))
        upgrade, why = sent.pop(UPGRADE, None), sent.pop(WHY, None)
        require("files", [COMPARISON], list(sent))
        comparison = _parsed(Comparison, sent[COMPARISON])
        for side, commit, record in (
            ("base", base, comparison.base),
            ("head", head, comparison.head),
        ):
            require(f"kind of {side}", "revision", record.kind)
            require(f"commit of {side}", commit, record.commit)
            require(f"uncommitted changes of {side}", False, record.dirty)
        cases = tuple(case.model_copy(update={"commands": None}) for case in comparison.cases)
        about = None if upgrade is None else _parsed(Upgrade, upgrade)
        _require_moved(about, comparison)
        code = None if why is None else _parsed(Attribution, why)
        if code is not None:
            require("comparison of an attribution", comparison.id, code.comparison)
        return comparison.model_copy(update={"cases": cases}), about, code
    except Exception as error:  # whatever it is
        raise ArtifactError(reason(error)) from error


def _require_moved(upgrade: Upgrade | None, comparison: Comparison) -> None:
    """Refuse to blame packages that do not differ; raises ArtifactError."""
    if upgrade is None or upgrade.cause is None:
        return
    moved = {(release.package, release.base, release.head) for release in comparison.packages}
    releases = [release for share in upgrade.cause.shares for release in share.releases]
    foreign = [
        release.package
        for release in releases
        if (release.package, release.previous, release.version) not in moved
    ]
    foreign += set(upgrade.cause.suspects) - {package for package, *_ in moved}
    if foreign or max(len(releases), len(upgrade.cause.suspects)) > len(moved):
        package = printable(foreign[0]) if foreign else "a package twice"
        raise ArtifactError(f"{package} as a cause, or a suspect, which does not differ so")


def require(name: str, expected: object, value: object) -> None:
    """Refuse what is not as it should be; raises ArtifactError."""
    if expected != value:
        raise ArtifactError(f"{name}: expected {expected}, found {printable(str(value))}")


def require_past(moment: datetime, now: datetime) -> None:
    """Refuse a time that is to come, give or take a clock's error; raises ArtifactError."""
    if moment.astimezone(UTC) > now + _CLOCKS:
        raise ArtifactError(f"{moment.isoformat()} is to come: is the machine's clock right?")


def _parsed(kind: type[_Kind], data: bytes) -> _Kind:
    """A file whose texts are plain; raises RecordError or ArtifactError."""
    value = files_.parse(kind, data, "the file")
    files_.require_plain(json.loads(data))
    return value


def _stored(path: str, data: bytes, models: Collection[type[Artefact] | None]) -> Any:
    """A file of one of these kinds, at its place; raises RecordError or ArtifactError."""
    kind = kind_of(path)
    if kind is None or kind.model not in models:
        names = (model.noun if model else "a file of asv's" for model in models)
        raise ArtifactError(f"{printable(path)}, which is none of: {', '.join(names)}")
    value = kind.read(data, path, "the file")
    document = json.loads(data)
    files_.require_plain(document)
    if kind.model is None:
        _require_figures(document)
    return value


def _require_figures(document: Any) -> None:
    """Refuse figures of asv's that no time, size or count can be; asv writes NaN itself."""
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            waiting += value.values() if isinstance(value, dict) else value
        elif isinstance(value, int | float) and not (math.isnan(value) or abs(value) < _LARGEST):
            raise ArtifactError(f"a figure beyond {_LARGEST:g}")


def _each(source: Path, check: Callable[[str, Files], None]) -> dict[str, str]:
    """Check every artifact of a folder; those that are refused."""
    names = sorted(path.name for path in source.iterdir()) if source.is_dir() else []
    if len(names) > archives.MOST_ARTIFACTS:
        most = archives.MOST_ARTIFACTS
        raise ArtifactError(f"{source}: expected at most {most} artifacts, found more")
    refused = {}
    for name in names:
        try:
            check(name, archives.folder(source / name))
        except Exception as error:  # whatever it is, it is this artifact's
            refused[printable(name)] = reason(error)
    return refused


def _write(target: Path, accepted: Files) -> None:
    for path, data in accepted.items():
        files_.replace(target / path, data)
