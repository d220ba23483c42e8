"""The line that repeats a comparison: its own words, where a report may have them. Pure.

A comparison may come from a machine that ran other people's code, and people copy commands from
reports. So a recorded line is shown only if each of its words is harmless.
"""

import re
import shlex
from collections.abc import Sequence
from itertools import chain
from typing import Final

from duetbench.app import setting, target
from duetbench.app.setting import Contrast
from duetbench.app.target import LINE, WORD
from duetbench.core.comparison import SIDES, Comparison, SideRecord
from duetbench.core.errors import UsageError

_OF_TARGET: Final = {
    option: option.safe for option in target.OPTIONS.values() if option.safe is not None
}

_OF_SIDE: Final = "|".join(
    (
        rf"(?:python|{'|'.join(setting.OPTIONS)})={WORD.pattern}",
        r"as-of=\d{4}-\d\d-\d\d",
        rf"arg={target.ARGUMENT.pattern}",
        # A path is not allowed: it could name a program or library.
        r"env\.[A-Za-z_]\w{0,59}=[\w.:+-]{0,199}",
        r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9._+!-]*",
    )
)
"""A word of a side. A lock is none: who wrote the record could have chosen a file."""

_OF_BOTH: Final = "|".join(
    re.escape(option.name) + f"=(?:{safe.pattern})" * (option.kind is not bool)
    for option, safe in _OF_TARGET.items()
    if option.word
)

_SAFE: Final = {
    "--select": LINE,
    "--limit": re.compile(r"answers|[a-z]{1,20}=[0-9.]{1,10} ?%?"),
    "--only": re.compile("effects|counts"),
    "--tests": re.compile(r"\w[\w./:-]{0,199}"),
    **dict.fromkeys(("--base", "--head"), re.compile(_OF_SIDE, re.ASCII)),
    **dict.fromkeys(("--profile", "--seed", "--budget"), WORD),
    **{f"--{option.name}": safe for option, safe in _OF_TARGET.items() if not option.word},
    "--with": re.compile(_OF_BOTH, re.ASCII),
}
"""Options with one value that select what is measured. None of them writes or installs anything."""

_ALONE: Final = re.compile("--all|--start|[0-9a-f]{12}")
"""Words without a value: flags, and the commits of the sides."""

_BEGIN: Final = (("duetbench", "compare"), ("observatory", "compare"))

_NOT_OF_WHY: Final = frozenset({"--seed", "--budget", "--limit", "--only", "--all"})


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


def why_command(comparison: Comparison, case: str = "") -> str | None:
    """The command that ranks the functions behind a change; None if both sides run the same code.

    `case` is one of several cases.
    """
    parts = _parts(comparison.reproduce)
    if parts is None or comparison.cross:
        return None
    (program, _), *rest = parts
    left_out = _NOT_OF_WHY | {"--select"} if case else _NOT_OF_WHY
    words = chain(*(part for part in rest if part[0] not in left_out))
    verb = ("why",) if program == "duetbench" else ("compare", "--why")
    return shlex.join([program, *verb, *words, *(("--select", case) if case else ())])


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
        if not alone and not (word in _SAFE and _SAFE[word].fullmatch(parts[-1][1])):
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
