"""What a pull request's measuring job sends, checked strictly against what was requested.

Its author may have written all of it. The number, size and shape of files, names, and texts that
could act on a terminal, a log or Markdown are not trusted.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from packaging.version import InvalidVersion, Version

from duetbench.ci import archives, comments
from duetbench.ci.archives import Files, reason
from duetbench.core.change import Cause
from duetbench.core.comparison import SIDES, Comparison, PackageChange, Release
from duetbench.core.errors import ArtifactError
from duetbench.core.model import Artefact
from duetbench.core.text import printable
from duetbench.host import result_files

COMPARISON: Final = "comparison.json"
CAUSE: Final = "cause.json"

_Kind = TypeVar("_Kind", bound=Artefact)


def proposal(sent: Files, base: str, head: str) -> str:
    """Return the text of a comparison of two commits, whose author may have written all of it.

    It may come with its cause. Raises ArtifactError if it is not what was requested, or has values
    that cannot be shown; then nothing of it may be shown.
    """
    try:
        files = dict(sent)
        data = files.pop(CAUSE, None)
        require("files", [COMPARISON], list(files))
        comparison = _parse(Comparison, files[COMPARISON])
        for side, commit in zip(SIDES, (base, head), strict=True):
            record = getattr(comparison, side)
            require(f"kind of {side}", "revision", record.kind)
            require(f"commit of {side}", commit, record.commit)
            require(f"uncommitted changes of {side}", False, record.dirty)
        cause = None if data is None else _parse(Cause, data)
        if cause:
            releases = [release for share in cause.shares for release in share.releases]
            require_moved(releases, cause.suspects, comparison.packages)
        return comments.report(comparison, cause)
    except Exception as error:  # of any kind
        raise ArtifactError(reason(error)) from error


def require_moved(
    releases: Sequence[Release], suspects: Sequence[str], moves: Iterable[PackageChange]
) -> None:
    """Refuse a cause that is no release on the way of a package that moved; ArtifactError.

    A package has at most one, so there are never more of them than packages that moved.
    """
    moved = [*moves]
    others = [r.package for r in releases if not any(_passed(move, r) for move in moved)]
    others += {*suspects} - {move.package for move in moved}
    if others:
        package = printable(others[0])
        raise ArtifactError(f"{package} as a cause, or a suspect, whose versions do not differ so")
    for names in ([release.package for release in releases], suspects):
        if len({*names}) < len(names):
            raise ArtifactError("a package twice as a cause, or a suspect")


def _passed(move: PackageChange, release: Release) -> bool:
    """Whether a package that moved has passed a release, perhaps on the way to a later one.

    A release between the ends has its usual spelling: there are endless others of each, with words
    of any kind after a plus sign.
    """
    ends, step = (move.base, move.head), (release.previous, release.version)
    if move.package != release.package or step == ends:
        return move.package == release.package
    try:
        base, head, before, after = (Version(text or "") for text in (*ends, *step))
    except InvalidVersion:  # or none: the package is new, or gone
        return False
    is_usual = all(text in (*ends, Version(text or "").public) for text in step)
    return is_usual and (base <= before < after <= head or base >= before > after >= head)


def require(name: str, expected: object, value: object) -> None:
    """Raise ArtifactError if a value is not the expected one."""
    if expected != value:
        raise ArtifactError(f"{name}: expected {expected}, found {printable(str(value))}")


def _parse(kind: type[_Kind], data: bytes) -> _Kind:
    """Read a file whose texts are plain; raises RecordError or ArtifactError."""
    value = result_files.parse(kind, data, "the file")
    archives.require_plain(json.loads(data))
    return value
