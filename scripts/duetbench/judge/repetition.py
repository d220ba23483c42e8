"""What repeats a comparison, from its record: the command, or its sides. Pure."""

import re
import shlex
from collections.abc import Sequence
from itertools import chain, dropwhile
from typing import Final

from duetbench.app import setting, target
from duetbench.app.setting import Contrast
from duetbench.app.target import LINE, WORD
from duetbench.core.comparison import SIDES, Comparison, SideRecord
from duetbench.core.errors import UsageError
from duetbench.core.units import read_time

_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_OF_TARGET: Final = [option for option in target.OPTIONS.values() if option.safe is not None]

_WORDS: Final = "|".join(
    (
        rf"(?:python|{'|'.join(setting.OPTIONS)})={WORD.pattern}",
        r"as-of=\d{4}-\d\d-\d\d",
        rf"arg={target.ARGUMENT.pattern}",
        # A path is not allowed: it could name a program or library.
        r"env\.[A-Za-z_]\w{0,59}=[\w.:+-]{0,199}",
        r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9._+!-]*",
    )
)
_WORD_OF_SIDE: Final = re.compile(_WORDS, re.ASCII)
"""A word of `--base` or `--head`. A lock is none: who wrote the record could have chosen a file."""

_SAFE: Final = {
    "--select": LINE,
    "--limit": re.compile(r"answers|[a-z]{1,20}=[0-9.]{1,10} ?%?"),
    "--only": re.compile("effects|counts"),
    **dict.fromkeys(("--profile", "--seed", "--budget"), WORD),
    **{f"--{option.name}": option.safe for option in _OF_TARGET if not option.word},
    "--with": re.compile(
        "|".join(
            re.escape(option.name) + f"=(?:{option.safe.pattern})" * (option.kind is not bool)
            for option in _OF_TARGET
            if option.word and option.safe
        ),
        re.ASCII,
    ),
}
"""Options with one value that select what is measured. None of them writes or installs anything."""

_OF_EXPERIMENTS: Final = "--profile"
"""An option that only `observatory compare` has, and always records."""

_FLAGS: Final = frozenset({"--all", "--start"})


_NOT_OF_WHY: Final = frozenset({"--profile", "--seed", "--budget", "--limit", "--only", "--all"})

# A comparison may come from a machine that ran other people's code, and people copy commands from
# reports. So the sides and the time come from the comparison's own values. Only what these lack
# comes from the recorded line: the selection, the profile and the seed.


def command(
    base: SideRecord, head: SideRecord, options: Sequence[str], verb: str = "compare"
) -> str | None:
    """The command that compares two sides; None if no command line can name them."""
    sides = _sides(base, head)
    program = "observatory" if _OF_EXPERIMENTS in options else "duetbench"
    return None if sides is None else shlex.join([program, verb, *sides, *options])


def rebuilt(comparison: Comparison, budget: str = "") -> str | None:
    """The command that repeats a comparison; None if its record has no usable one.

    `budget` is another time for it.
    """
    options = _options(comparison)
    if options is None:
        return None
    if budget:
        options = [option for option in options if option[0] != "--budget"]
        options.append(("--budget", budget))
    return command(comparison.base, comparison.head, [*chain(*options)])


def why_command(comparison: Comparison, case: str = "") -> str | None:
    """The command that ranks the functions behind a change; None if both sides run the same code.

    `case` is one of several cases.
    """
    options = _options(comparison)
    if options is None or comparison.cross:
        return None
    left_out = _NOT_OF_WHY | {"--select"} if case else _NOT_OF_WHY
    words = [*chain(*(option for option in options if option[0] not in left_out))]
    words += ["--select", case] if case else []
    again = command(comparison.base, comparison.head, words, "why")
    ours = any(option[0] == _OF_EXPERIMENTS for option in options)
    return again.replace("duetbench", "observatory", 1) if again and ours else again


def _options(comparison: Comparison) -> list[tuple[str, ...]] | None:
    """The options of the recorded command, each with its value; None if any is not harmless."""
    try:
        (line,) = comparison.reproduce
        words = shlex.split(line)
    except ValueError:
        return None
    options: list[tuple[str, ...]] = []
    rest = dropwhile(lambda word: word not in {*_SAFE, *_FLAGS}, words)
    seconds: float | None = None
    for name in rest:
        if name in _FLAGS:
            options.append((name,))
            continue
        value, pattern = next(rest, ""), _SAFE.get(name)
        if pattern is None or pattern.fullmatch(value) is None:
            return None
        if name == "--budget" and (seconds := read_time(value)) is None:
            return None
        options.append((name, value))
    return options if seconds == comparison.budget_seconds else None


def contrast_of(comparison: Comparison) -> Contrast:
    """Return the sides of a comparison, as its commits and words name them; UsageError: none do."""
    base, head = comparison.base, comparison.head
    if comparison.start:
        raise UsageError(
            f"{comparison.id}: expected a comparison of requests, found one of starts, whose "
            "imports `python -X importtime` times"
        )
    of_commits = head.kind in {"revision", "several"}
    commits = (base.commit, head.commit) if of_commits else (None, None)
    unnamed = head.dirty if of_commits else not (base.words or head.words)
    if unnamed:
        raise UsageError(
            f"{comparison.id}: expected two commits, or sides that words name, found {base.label} "
            f"and {head.label}: give both sides themselves (--base, --head)"
        )
    return Contrast(commits, base.words, head.words)


def _sides(base: SideRecord, head: SideRecord) -> list[str] | None:
    """The words that name two sides, even after branches and locks have moved."""
    words: list[str] = []
    if base.kind in {"revision", "several"}:
        # Uncommitted files have no name: without a second commit, head is the files as they are.
        commits = [side.commit or "" for side in (base, head) if not side.dirty]
        if not all(map(_COMMIT.fullmatch, commits)):
            return None
        words = [commit[:12] for commit in commits]
    for name, side in zip(SIDES, (base, head), strict=True):
        for word in side.words:
            if _WORD_OF_SIDE.fullmatch(word) is None:
                return None
            words += [f"--{name}", word]
    return words or None
