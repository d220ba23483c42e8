"""The line that repeats a comparison: its own words, where a report may have them. Pure.

A comparison may come from a machine that ran other people's code, and people copy commands from
reports. So a recorded line is shown only if each of its words is harmless.
"""

import re
import shlex
from collections.abc import Sequence
from itertools import chain
from typing import Final

from duetbench.app.setting import Contrast
from duetbench.app.target import is_harmless
from duetbench.core.comparison import SIDES, Comparison, SideRecord
from duetbench.core.errors import UsageError
from duetbench.core.model import InterpreterRecord

_ALONE: Final = re.compile("--control|--start|[0-9a-f]{12}")
"""Words without a value: flags, and the commits of the sides."""

_BEGIN: Final = (("duetbench", "compare"), ("observatory", "compare"))

_OLD: Final = re.compile(r"3\.1[01](?!\d)")  # CPythons whose functions Callgrind cannot tell apart

_NOT_OF_WHY: Final = frozenset({"--seed", "--budget", "--limit", "--only", "--control"})


def command(base: SideRecord, head: SideRecord, options: Sequence[str]) -> str:
    """The command that compares two sides again, even after branches have moved."""
    program, commits = "observatory" if "--profile" in options else "duetbench", list[str]()
    if base.kind in {"revision", "several"}:
        # Uncommitted files have no name: without a second commit, head is the files as they are.
        commits = [(side.commit or "")[:12] for side in (base, head) if not side.dirty]
    words = [(f"--{name}", word) for name, side in zip(SIDES, (base, head), strict=True)
             for word in side.words]  # fmt: skip
    return shlex.join([program, "compare", *commits, *chain(*words), *options])


def rebuilt(comparison: Comparison, budget: str = "") -> str | None:
    """The command that repeats a comparison; None if its record has no harmless one.

    `budget` is another time for it.
    """
    parts = _parts(comparison.reproduce)
    if parts is not None and budget:
        parts = [*(part for part in parts if part[0] != "--budget"), ("--budget", budget)]
    return None if parts is None else shlex.join(chain(*parts))


def why_command(comparison: Comparison) -> str | None:
    """The command that ranks the functions behind the clearest change; None if there is none.

    That is so if both sides run the same code, or a Python that is too old.
    """
    parts, sides = _parts(comparison.reproduce), (comparison.base, comparison.head)
    old = any(not can_rank(python) for side in sides for python in side.interpreters)
    if parts is None or comparison.cross or old:
        return None
    (program, _), *rest = parts
    verb = ("why",) if program == "duetbench" else ("compare", "--why")
    words = chain(*(part for part in rest if part[0] not in _NOT_OF_WHY))
    return shlex.join([program, *verb, *words])


def can_rank(python: InterpreterRecord) -> bool:
    """Whether an interpreter's instructions can be counted by function."""
    return _OLD.match(python.version) is None


def _parts(line: str) -> list[tuple[str, ...]] | None:
    """Split a recorded command: program and verb, then each option; None if any is not harmless."""
    try:
        words = iter(shlex.split(line))
    except ValueError:
        return None
    parts: list[tuple[str, ...]] = [(next(words, ""), next(words, ""))]
    for word in words:
        alone = _ALONE.fullmatch(word)
        parts.append((word,) if alone else (word, next(words, "")))
        if not alone and not is_harmless(*parts[-1]):
            return None
    return parts if parts[0] in _BEGIN else None


def contrast_of(comparison: Comparison) -> Contrast:
    """Return the sides of a comparison, as its commits and words name them; UsageError: none do."""
    base, head = comparison.base, comparison.head
    if comparison.start:
        raise UsageError(
            f"{comparison.id}: expected a comparison of requests, found one of starts, whose "
            "imports `python -X importtime` times"
        )
    of_commits = head.kind in {"revision", "several"}
    if head.dirty if of_commits else not (base.words or head.words):
        raise UsageError(
            f"{comparison.id}: expected two commits, or sides that words name, found {base.label} "
            f"and {head.label}: give both sides themselves (--base, --head)"
        )
    commits = (base.commit, head.commit) if of_commits else (None, None)
    return Contrast(commits, base.words, head.words)
