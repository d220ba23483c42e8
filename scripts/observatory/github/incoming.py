"""Files from other machines, checked strictly against what was requested.

The figures of the project's own machines are trusted: nothing else could verify them. The number,
size and shape of files, names, and texts that could act on a terminal, a log or Markdown are not
trusted. A file's content determines its place, as the kinds of stored files define it. An artifact
is accepted as a whole or not at all, and a bad one does not affect the others.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from duetbench.ci import archives
from duetbench.ci.archives import Files, reason
from duetbench.ci.proposals import require, require_moved
from duetbench.core.comparison import Comparison
from duetbench.core.errors import ArtifactError
from duetbench.core.model import Artefact, Case, Run, StackRecord
from duetbench.core.text import printable
from duetbench.host import files
from observatory.store.asv_files import AsvFile, AsvMachine, AsvResults
from observatory.store.asv_results import LIST
from observatory.store.change import Change
from observatory.store.kinds import kind_of, parse
from observatory.store.points import Points

_OF_NIGHTS: Final = (Run, Points, AsvResults, AsvMachine)
_OF_CHANGES: Final = (Change, Comparison)
_OF_CANDIDATES: Final = ("when", "before_run", "after_run", "base", "head", "packages")
"""What a conclusion leaves as its candidate has it."""

_CLOCKS: Final = timedelta(days=1)
"""Largest error of a clock. A run dated in the future would be the latest one until then."""

_MOST_OF_NIGHT: Final = 4_000_000
"""Bytes of a machine's files, ten times those of a large night: they stay, and are on the site."""

Locks = Mapping[str, StackRecord]
"""The locks of a checkout, by stack, with the packages of every platform."""

RUNNER: Final = "duetbench"
"""The label of every runner: the machine that has taken a job is known by its id only."""


class Night(NamedTuple):
    """What a night measures: a commit's cases with its locks; the name of its anchor."""

    commit: str | None
    anchor: str | None
    cases: Sequence[Case]
    locks: Locks


class Acceptance(NamedTuple):
    """Files accepted, by their places; and why artifacts are refused: nothing of them is used."""

    accepted: Files
    refused: Mapping[str, str]


def night(asked: Night, sent: Mapping[str, Files], now: datetime) -> Acceptance:
    """Check the artifacts of a night's machines, by their names, `night-` and the machine's id."""

    def check(artifact: str, files: Files) -> Files:
        if sum(map(len, files.values())) > _MOST_OF_NIGHT:
            raise ArtifactError(f"expected at most {_MOST_OF_NIGHT:,} bytes of a night, found more")
        # A killed machine's run is kept as a partial one.
        names = {path: re.sub(r"\.partial\.json$", ".json", path) for path in files}
        # The list is that of this code's suites, with which it is published.
        contents = {name: files[path] for path, name in names.items() if path != LIST}
        values = [_stored(path, data, _OF_NIGHTS) for path, data in contents.items()]
        results = [value for value in values if isinstance(value, Run | Points)]
        if not results or len({type(value) for value in results}) < len(results):
            raise ArtifactError("expected a run or anchored points, found none, or a second one")
        for value in results:
            _require_asked(value, asked, now)
        machines = {value.machine.id for value in results}
        if (label := artifact.removeprefix("night-")) != RUNNER:
            machines.add(label)
        require("machines of an artifact", 1, len(machines))
        for value in values:
            if isinstance(value, AsvFile):
                require("machine of asv's results", {value.path.split("/")[1]}, machines)
            if isinstance(value, AsvResults):
                require("commit of asv's results", asked.commit, value.commit_hash)
        return contents

    return _accept(sent, check)


def _require_asked(value: Run | Points, asked: Night, now: datetime) -> None:
    """Refuse another commit, anchor, lock or case than asked for: ArtifactError.

    Each name of a case or package becomes a page, for good.
    """
    fields: dict[str, Any] = {"commit": asked.commit}
    if isinstance(value, Points):
        fields |= {"anchor": asked.anchor, "origin": "night", "release": None}
        begin, most = f"{value.started.astimezone(UTC):%Y%m%dT%H%M%SZ}-night-", r"[0-9a-f]{6}"
        moments = [value.started, value.when]
        names = [entry.case for entry in value.cases]
        others = {*names, *(entry.case for entry in value.missing)}
        others -= {case.id for case in asked.cases}
    else:
        fields |= {"dirty": False}
        begin, most = files.result_id(value.started, value.profile, value.commit), ""
        moments = [datetime.fromisoformat(value.started)]
        names = [result.case.id for result in value.results]
        others = {r.case.id for r in value.results if r.case not in asked.cases}
    for name, expected in fields.items():
        require(name, expected, getattr(value, name))
    for stack in value.stacks:
        require_known("stack", asked.locks, [stack.name])
        lock = asked.locks[stack.name]
        require(f"lock of stack {stack.name}", lock.digest, stack.digest)
        require_known("package", lock.packages, stack.packages)
    if max(moments).astimezone(UTC) > now + _CLOCKS:
        raise ArtifactError(f"{max(moments)} is in the future: is the machine's clock right?")
    if not re.fullmatch(f"{re.escape(begin)}{most}", value.id):
        raise ArtifactError(f"id: expected {begin}…")
    if len({*names}) != len(names):
        raise ArtifactError("a case twice")
    if others:
        raise ArtifactError(f"{printable(min(others))}, which is no case of the night")


def verdicts(candidates: Collection[Change], sent: Mapping[str, Files], locks: Locks) -> Acceptance:
    """Check the machines' conclusions about candidates, with the evidence.

    Only candidates may be judged, and only packages of theirs or of the checkout's locks named.
    """
    by_id = {candidate.id: candidate for candidate in candidates}
    packages = {move.package for candidate in candidates for move in candidate.packages}
    packages |= {name for lock in locks.values() for name in lock.packages}

    def check(artifact: str, files: Files) -> Files:
        values = [_stored(path, data, _OF_CHANGES) for path, data in files.items()]
        evidence = {value.id: value for value in values if isinstance(value, Comparison)}
        if len(evidence) > len(candidates):
            raise ArtifactError("more comparisons than candidates")
        for judged in evidence.values():
            require_known("package", packages, (move.package for move in judged.packages))
            require("machine", artifact.removeprefix("confirmed-"), judged.machine.id)
        for value in (value for value in values if isinstance(value, Change)):
            if (candidate := by_id.get(value.id)) is None:
                raise ArtifactError(f"{printable(value.id)}, which was no candidate")
            if value.evidence not in evidence:
                raise ArtifactError(f"{printable(value.id)} without its evidence")
            _require_concluded(value, candidate)
        return files

    return _accept(sent, check)


def _require_concluded(value: Change, candidate: Change) -> None:
    """Refuse what no comparison of a candidate says: ArtifactError.

    Its series, packages and releases become pages, and a command that readers copy. What moved is
    known from the candidate, not from the evidence beside it.
    """
    for name in _OF_CANDIDATES:
        require(name.replace("_", " "), getattr(candidate, name), getattr(value, name))
    steps = {item for step in candidate.steps for item in (step.series, step.series.judged)}
    for other in {*value.all_series} - steps.union(candidate.all_series):
        raise ArtifactError(f"{printable(other.case)}, which is no series of the candidate")
    if any(share.commits or not share.releases for share in value.cause.shares):
        raise ArtifactError("a share of the cause that is no release")
    require_moved(value.releases, value.cause.suspects, candidate.packages)


def require_known(what: str, known: Collection[str], names: Iterable[str]) -> None:
    """Raise ArtifactError if one of the names is not known."""
    if stranger := next((name for name in names if name not in known), None):
        raise ArtifactError(f"{printable(stranger)}, which is no {what} of this checkout")


def _stored(path: str, data: bytes, models: Collection[type[Artefact]]) -> Any:
    """Read a file of one of these kinds, at its place; raises RecordError or ArtifactError."""
    kind = kind_of(path)
    if kind is None or kind not in models:
        names = dict.fromkeys(model.noun for model in models)
        raise ArtifactError(f"{printable(path)}, which is none of: {', '.join(names)}")
    value = parse(kind, data, path, "the file")
    archives.require_plain(json.loads(data))
    return value


def _accept(sent: Mapping[str, Files], check: Callable[[str, Files], Files]) -> Acceptance:
    """Take the files that `check` returns; of two at one place the first one stays."""
    accepted, refused = dict[str, bytes](), dict[str, str]()
    for name, contents in sent.items():
        try:
            for path, data in check(name, contents).items():
                accepted.setdefault(path, data)
        except Exception as error:  # any error refuses this artifact only
            refused[printable(name)] = reason(error)
    return Acceptance(accepted, refused)
