"""The command that repeats a comparison, from its record. Pure."""

import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import dropwhile
from typing import Final

from duetbench.core.units import read_time
from duetbench.project import setting, target
from duetbench.project.target import LINE, WORD
from duetbench.store.comparison import AS_OF, LOCKED, Comparison, SideRecord

_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_PIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9._+!-]*")
_OF_TARGET: Final = [option for option in target.OPTIONS.values() if option.safe is not None]

_SAFE: Final = {
    "--select": LINE,
    "--material": re.compile(r"[a-z]{1,20}=[0-9.]{1,10} ?%"),
    **dict.fromkeys(("--profile", "--seed", "--budget", "--python"), WORD),
    **{f"--{option.name}": option.safe for option in _OF_TARGET if option.kind is not bool},
}
"""Options with one value that select what is measured. None of them writes or installs anything."""

_FLAGS: Final = frozenset(
    {"--all", "--counts-only", "--start"}
    | {f"--{option.name}" for option in _OF_TARGET if option.kind is bool}
)

_VARIABLE: Final = re.compile(r"env\.([A-Za-z_]\w{0,59}=[\w.:+-]{0,199})", re.ASCII)
"""A variable of a side. A path is not allowed: it could name a program or library."""


# A comparison may come from a machine that ran other people's code, and people copy commands from
# reports. So the sides and the time come from the comparison's own values. Only what these lack
# comes from the recorded line: the selection, the profile and the seed.


def command(base: SideRecord, head: SideRecord, options: Sequence[str]) -> str | None:
    """The command that compares two sides; None if no command line can name them."""
    sides = _sides(base, head)
    return None if sides is None else shlex.join(["duetbench", "compare", *sides, *options])


def rebuilt(comparison: Comparison) -> str | None:
    """The command that repeats a comparison; None if its record has no usable one."""
    if len(comparison.reproduce) != 1:
        return None
    try:
        words = shlex.split(comparison.reproduce[0])
    except ValueError:
        return None
    starts = {*_SAFE, *_FLAGS}
    if comparison.head.kind == "interpreter":
        starts.remove("--python")  # it names the sides
    settings = {*comparison.base.settings, *comparison.head.settings} - {setting.ARGUMENTS}
    starts -= {f"--{name}" for name in settings}
    options = list(dropwhile(lambda word: word not in starts, words))
    rest = iter(options)
    seconds: float | None = None
    for option in rest:
        if option in _FLAGS:
            continue
        value, pattern = next(rest, ""), _SAFE.get(option)
        if pattern is None or pattern.fullmatch(value) is None:
            return None
        if option == "--budget" and (seconds := read_time(value)) is None:
            return None
    if seconds != comparison.budget_seconds:
        return None
    return command(comparison.base, comparison.head, options)


_NOT_OF_WHY: Final = frozenset(
    {"--profile", "--seed", "--budget", "--material", "--all", "--counts-only", "--select"}
)


def why_command(comparison: Comparison, case: str = "", *, start: bool = False) -> str | None:
    """The command that ranks the functions behind a change; None if both sides run the same code.

    `case` is one of several cases; with `start`, the functions of the application's import.
    """
    again = rebuilt(comparison)
    kinds = {comparison.base.kind, comparison.head.kind}
    words = iter(shlex.split(again or "")[2:])
    if again is None or not kinds <= {"revision", "stack"} or "--stack-as-of" in again:
        return None
    chosen: list[str] = []
    for word in words:
        several = [] if word in _FLAGS or not word.startswith("--") else [next(words)]
        if word not in _NOT_OF_WHY or (word == "--select" and not case):
            chosen += [word, *several]
    chosen += ["--start"] * (start and "--start" not in chosen)
    return shlex.join(["duetbench", "why", *chosen, *(["--select", case] if case else [])])


def _sides(base: SideRecord, head: SideRecord) -> list[str] | None:
    """The words that name two sides, even after branches and locks have moved."""
    labels = [base.label, head.label]
    if {base.kind, head.kind} == {"interpreter"}:
        return ["--python", *labels] if all(map(WORD.fullmatch, labels)) else None
    if {base.kind, head.kind} == {"setting"}:
        return _settings(base.settings, head.settings)
    if {base.kind, head.kind} == {"stack"}:
        return _stacks(labels)
    # Uncommitted files have no name: without a second commit, head is the files as they are.
    commits = [side.commit or "" for side in (base, head) if not side.dirty]
    if {base.kind, head.kind} != {"revision"} or not all(map(_COMMIT.fullmatch, commits)):
        return None
    return [commit[:12] for commit in commits]


def _stacks(labels: Sequence[str]) -> list[str] | None:
    pins = [[] if label == LOCKED else label.split(", ") for label in labels]
    if any(pins) and all(_PIN.fullmatch(pin) for words in pins for pin in words):
        options = "--base-with", "--with"
        pairs = zip(options, pins, strict=True)
        return [word for option, words in pairs for pin in words for word in (option, pin)]
    days = ["locked" if label == LOCKED else label.removeprefix(AS_OF) for label in labels]
    if all(day == "locked" or _DATE.fullmatch(day) for day in days):
        return [word for day in days for word in ("--stack-as-of", day)]
    return None


def _settings(base: Mapping[str, str], head: Mapping[str, str]) -> list[str] | None:
    words: list[str] = []
    for name in dict.fromkeys((*base, *head)):
        option, values = f"--{name}", [side[name] for side in (base, head) if name in side]
        if name in setting.OPTIONS and len(values) == 2 and all(map(WORD.fullmatch, values)):
            words += [option, *values]
            continue
        if name == setting.ARGUMENTS:
            for option, side in ((f"--base-{name}", base), (f"--head-{name}", head)):
                texts, safe = shlex.split(side.get(name, "")), target.OPTIONS[name].safe
                if safe is None or not all(map(safe.fullmatch, texts)):
                    return None
                words += [word for text in texts for word in (option, text)]
            continue
        for option, side in (("--base-env", base), ("--head-env", head)):
            if name in side:
                if (match := _VARIABLE.fullmatch(f"{name}={side[name]}")) is None:
                    return None
                words += [option, match[1]]
    return words or None
