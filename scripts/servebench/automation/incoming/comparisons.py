"""Reads and checks the comparison that a measuring machine sent: other people's code ran there."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Final

from servebench.automation.incoming import folder
from servebench.automation.incoming.facts import (
    Checkout,
    problem,
    require,
    require_commands,
    require_machine,
    require_time,
)
from servebench.core.errors import ArtifactError, RecordError
from servebench.core.text import one_line, require_plain, shown
from servebench.record import files, reproduce
from servebench.record.comparison import Comparison

LIMIT: Final = 32_000_000
"""Bytes of a comparison file; a real one of a hundred cases has a tenth of it."""

_LIMITS: Final = folder.Limits(entries=1, depth=0, file_bytes=LIMIT, total_bytes=LIMIT)
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
_MOST_CASES: Final = 2000


def comparison(
    data: bytes,
    base: str,
    head: str,
    trusted: Checkout,
    now: datetime,
    machine: str | None = None,
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
    ours = reproduce.rebuilt(found)
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
        raise ArtifactError(problem(error)) from error
    if files.encode(found) != data:
        raise ArtifactError("a comparison that is written otherwise than ours are")
    require_plain(json.loads(data))
    return found


def read(path: Path, head: str) -> Comparison:
    """Read the comparison of a certain commit (40 hex digits), to show it.

    Nothing in it decides where it is shown, and its words are shown as text.

    Raises:
        ArtifactError: It is not there, no plain file, or too large.
        RecordError: It is no comparison, or one of another commit.
    """
    if not path.exists():
        raise RecordError(f"{path.name}: expected a comparison, and none has arrived")
    found = folder.read(path.parent, path.name, _LIMITS)
    if len(found) != 1:
        raise RecordError(f"{path.name}: expected a comparison, found an empty folder")
    try:
        comparison = files.parse(Comparison, found[0].data, path.name, quoted=False)
    except RecordError as error:
        raise RecordError(one_line(str(error))) from error
    side = comparison.head
    if side.commit != head or side.dirty:
        raise RecordError(
            f"{path.name}: expected a comparison of {head[:12]}, found one of "
            f"{shown((side.commit or 'no commit')[:12])}"
            f"{' with uncommitted changes' * side.dirty}"
        )
    return comparison
