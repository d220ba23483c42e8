"""What a search for the cause says in a change's record, and whether a record says just that."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from servebench.detect.conclude import culprit
from servebench.record.change import ChangeRecord
from servebench.record.comparison import PackageChange

ONLY_CAME_OR_WENT: Final = "packages only came or went, which cannot be tried apart"
NOT_DECIDED: Final = "the duets did not decide"
ALONE_NOT_DECIDED: Final = "alone the duets did not decide"
NOT_ALONE: Final = "{} alone does not show the change"

_NOTE: Final = re.compile(r"The cause is among ([^:]+): ([^:]+)\.")


@dataclass(frozen=True, slots=True)
class Suspects:
    """The packages among which the cause is; `reason`: why there may be more than one."""

    packages: tuple[PackageChange, ...]
    reason: str = ""


def blamed(record: ChangeRecord, suspects: Suspects) -> ChangeRecord:
    """The record with its culprit, or with what is known of it, in place of an earlier search's."""
    before = _NOTE.sub("", record.note).strip()
    if not suspects.reason and (found := culprit(suspects.packages)) is not None:
        return record.model_copy(update={"culprit": found, "note": before})
    names = ", ".join(move.package for move in suspects.packages)
    note = f"The cause is among {names}: {suspects.reason}."
    return record.model_copy(update={"note": " ".join(filter(None, (before, note)))})


def named(record: ChangeRecord) -> frozenset[str]:
    """The packages among which a search left the cause; empty: it left one, or there was none."""
    said = _NOTE.search(record.note)
    return frozenset(said[1].split(", ")) if said and record.culprit is None else frozenset()


def follows(found: ChangeRecord, concluded: ChangeRecord) -> bool:
    """Whether a record is what was concluded, but for what a search for its cause may add.

    Which of the packages it names, nobody can check from here; that it is one of them, and that the
    words are ours, can be.
    """
    if found == concluded:
        return True
    if concluded.culprit is not None:
        return False
    names = {move.package for move in concluded.packages}
    releases = [culprit((move,)) for move in concluded.packages]
    bare = found.model_copy(update={"culprit": None, "note": concluded.note})
    if bare != concluded:
        return False
    if found.culprit is not None:
        return found.culprit in releases and found.note == concluded.note
    added = found.note.removeprefix(concluded.note).lstrip()
    said = _NOTE.fullmatch(added) if found.note.startswith(concluded.note) else None
    return (
        said is not None
        and set(said[1].split(", ")) <= names
        and said[2] in _reasons(sorted(names))
    )


def _reasons(names: Sequence[str]) -> set[str]:
    return {ONLY_CAME_OR_WENT, NOT_DECIDED, ALONE_NOT_DECIDED} | {
        NOT_ALONE.format(name) for name in names
    }
