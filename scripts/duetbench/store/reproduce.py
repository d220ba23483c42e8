"""The command that asks for a comparison again: written from its values, never copied. Pure.

A comparison may come from a machine on which other people's code ran, and people copy what a report
tells them to run. So the sides and the time are taken from the comparison's own values, and of the
recorded line only what these do not hold: the selection, the profile and the seed.
"""

import re
import shlex
from collections.abc import Sequence
from itertools import dropwhile
from typing import Final

from duetbench.core.units import TIME, read_time
from duetbench.store.comparison import Comparison, SideRecord

LOCKED: Final = "stacks as locked"
"""What a side is called whose stacks are those of the checkout."""

AS_OF: Final = "stacks as of "
"""Before the date of a side whose stacks are those of a day."""


_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_PIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9._+!-]*")
_INTERPRETER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_OPTIONS: Final = {
    "--select": re.compile("[!-,.-~][ -~]{0,299}"),
    "--profile": re.compile("[a-z]+"),
    "--seed": re.compile(r"-?\d{1,20}"),
    "--budget": TIME,
    "--app": re.compile(r"[\w.]{1,200}:[\w.]{1,200}", re.ASCII),
    "--path": re.compile("/[ -~]{0,999}"),
    "--request": re.compile("[A-Z/][ -~]{0,999}"),
    "--expect-status": re.compile(r"\d{3}"),
    "--interface": re.compile("[a-z]+"),
    "--server": re.compile("[a-z]+"),
    "--loop": re.compile("[a-z]+"),
    "--workers": re.compile(r"\d{1,4}"),
    "--threads": re.compile(r"\d{1,4}"),
    "--connections": re.compile(r"\d{1,6}"),
    "--rate": re.compile(r"\d{1,9}(\.\d{1,6})?"),
    "--python": _INTERPRETER,
}
"""Options with one value that say what is measured, none of which writes or installs anything."""

_FLAGS: Final = frozenset({"--all", "--factory"})


def command(base: SideRecord, head: SideRecord, options: Sequence[str]) -> str | None:
    """The command for two sides; None: nothing on a command line is called like these."""
    sides = _sides(base, head)
    return None if sides is None else shlex.join(["duetbench", "compare", *sides, *options])


def rebuilt(comparison: Comparison) -> str | None:
    """The command that asks for a comparison again; None: its record has none that can be."""
    if len(comparison.reproduce) != 1:
        return None
    try:
        words = shlex.split(comparison.reproduce[0])
    except ValueError:
        return None
    starts = {*_OPTIONS, *_FLAGS}
    if comparison.head.kind == "interpreter":
        starts.remove("--python")  # which names the sides there
    options = list(dropwhile(lambda word: word not in starts, words))
    rest = iter(options)
    seconds: float | None = None
    for option in rest:
        if option in _FLAGS:
            continue
        value = next(rest, "")
        found = _OPTIONS[option].fullmatch(value) if option in _OPTIONS else None
        if found is None or not value:
            return None
        if option == "--budget":
            seconds = read_time(value)
    if seconds != comparison.budget_seconds:
        return None
    return command(comparison.base, comparison.head, options)


def _sides(base: SideRecord, head: SideRecord) -> list[str] | None:
    """The words for two sides, wherever branches and locks are by then."""
    labels = [base.label, head.label]
    if {base.kind, head.kind} == {"interpreter"}:
        return ["--python", *labels] if all(map(_INTERPRETER.fullmatch, labels)) else None
    if {base.kind, head.kind} == {"stack"}:
        pins = [[] if label == LOCKED else label.split(", ") for label in labels]
        if any(pins) and all(_PIN.fullmatch(pin) for many in pins for pin in many):
            options = "--base-with", "--with"
            both = zip(options, pins, strict=True)
            return [word for option, many in both for pin in many for word in (option, pin)]
        days = ["locked" if label == LOCKED else label.removeprefix(AS_OF) for label in labels]
        if all(day == "locked" or _DATE.fullmatch(day) for day in days):
            return [word for day in days for word in ("--stack-as-of", day)]
        return None
    # What is not committed has no name: HEAD stays the files as they are.
    commits = [side.commit or "" for side in (base, head) if not side.dirty]
    if {base.kind, head.kind} != {"revision"} or not all(map(_COMMIT.fullmatch, commits)):
        return None
    return [commit[:12] for commit in commits]
