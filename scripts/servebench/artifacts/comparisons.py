"""Whether a comparison that a machine sent is the one that was asked for. Pure."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Final

from servebench import files
from servebench.artifacts.trusted import (
    Trusted,
    require,
    require_commands,
    require_machine,
    require_time,
)
from servebench.compare import again
from servebench.compare.model import Comparison
from servebench.errors import ArtifactError, RecordError
from servebench.text import require_plain, shown

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
_REASON: Final = 400
_MOST_CASES: Final = 2000


def comparison(
    data: bytes, base: str, head: str, trusted: Trusted, now: datetime, machine: str | None = None
) -> Comparison:
    """Read and check a comparison of two commits.

    Whatever in it comes from the head's own declarations (names of cases, packages, addresses) is
    its author's, and shown as foreign text.

    Args:
        data: The file.
        base: The commit that was asked for, 40 hex digits.
        head: The same.
        trusted: What the checkout that compared says.
        now: With an offset.
        machine: Id of the machine that was to compare; None: any.

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
    found: Comparison, trusted: Trusted, now: datetime, machine: str | None = None
) -> None:
    """Check what holds for every comparison, whatever is compared.

    Raises:
        ArtifactError: It is of other tools or another machine, or gives readers something to run.
    """
    trusted.require_tools(found.servebench, found.oha)
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
    ours = again.rebuilt(found)
    if found.reproduce and found.reproduce != (ours,):
        raise ArtifactError(f"the command {shown(found.reproduce[0])}, expected {ours}")


def decode(data: bytes) -> Comparison:
    """Read a comparison that is exactly what our own encoder writes, with plain texts.

    Raises:
        ArtifactError: It is not.
    """
    try:
        found = files.parse(Comparison, data, "the file")
    except RecordError as error:
        raise ArtifactError(shown(str(error), _REASON)) from error
    if files.encode(found) != data:
        raise ArtifactError("a comparison that is written otherwise than ours are")
    require_plain(json.loads(data))
    return found
