"""Finds breaks, new stacks and missing nights of a table. Pure."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

import numpy as np

from duetbench.store.comparison import PackageChange
from duetbench.trend.table import Table

_LONG: Final = 2.5  # so many usual distances between two nights are a gap
_FEW: Final = 4  # nights that it takes to say what the usual distance is

Circumstance = Literal["machine", "interpreter", "case"]
_CIRCUMSTANCES: Final[tuple[Circumstance, ...]] = ("machine", "interpreter", "case")


@dataclass(frozen=True, slots=True)
class Break:
    """Something besides the stack changed: what is on either side cannot be compared.

    Unless it is a ratio (`Track.ratio`). `night` is the place of the first one after it; `before`
    and `after` say in words what was different.
    """

    night: int
    what: Circumstance
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Bump:
    """A stack changed before the night at this place; no packages: only hashes did."""

    night: int
    stack: str
    packages: tuple[PackageChange, ...]


@dataclass(frozen=True, slots=True)
class Events:
    """Breaks by case, bumps of all stacks, and pairs of nights between which some are missing."""

    breaks: dict[str, tuple[Break, ...]]
    bumps: tuple[Bump, ...]
    gaps: tuple[tuple[int, int], ...]


def events(table: Table) -> Events:
    """All of them, looked through once."""
    return Events(breaks(table), bumps(table), gaps(table))


def breaks(table: Table) -> dict[str, tuple[Break, ...]]:
    """By case: where the machine, the interpreter's build or the case's definition changed."""
    by_case: dict[str, list[Break]] = {case: [] for case in table.cases}
    known: dict[str, tuple[str, str, str]] = {}
    for night, header in enumerate(table.nights):
        for case, python, definition in zip(
            header.cases, header.pythons, header.definitions, strict=True
        ):
            now = (header.fingerprint, header.interpreters.get(python, python), definition)
            before = known.setdefault(case, now)
            if now != before:
                by_case[case] += [
                    Break(night, what, *differing(old, new))
                    for what, old, new in zip(_CIRCUMSTANCES, before, now, strict=True)
                    if old != new
                ]
                known[case] = now
    return {case: tuple(many) for case, many in by_case.items()}


def differing(before: str, after: str) -> tuple[str, str]:
    """Only the parts that differ; circumstances are `key value; key value; …`."""
    old, new = before.split("; "), after.split("; ")
    gone = "; ".join(part for part in old if part not in new)
    come = "; ".join(part for part in new if part not in old)
    return gone or "nothing", come or "nothing"


def bumps(table: Table) -> tuple[Bump, ...]:
    """Find where a stack's lock changed, oldest first."""
    result: list[Bump] = []
    digests: dict[str, str] = {}
    packages: dict[str, dict[str, str]] = {}
    for place, night in enumerate(table.nights):
        for stack, digest in night.stacks.items():
            if digests.setdefault(stack, digest) != digest:
                changed = differences(stack, packages[stack], night.packages.get(stack, {}))
                result.append(Bump(place, stack, changed))
            digests[stack] = digest
            packages[stack] = night.packages.get(stack, {})
    return tuple(result)


def differences(
    stack: str, before: dict[str, str], after: dict[str, str]
) -> tuple[PackageChange, ...]:
    """The packages that differ between two states of a stack, by name."""
    return tuple(
        PackageChange(stack=stack, package=name, base=before.get(name), head=after.get(name))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    )


def gaps(table: Table) -> tuple[tuple[int, int], ...]:
    """Pairs of neighbouring nights further apart than usual; none of fewer than four nights."""
    times = [night.time for night in table.nights]
    if len(times) < _FEW:
        return ()
    usual = float(np.median(np.diff(times)))
    return tuple(
        (place, place + 1)
        for place, (one, other) in enumerate(pairwise(times))
        if other - one > _LONG * usual
    )
