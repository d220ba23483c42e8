"""Stacks otherwise than they are locked: as of a date, or with some packages in other versions.

The locks of the checkout stay as they are; the others are kept in the cache, each under its digest.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from datetime import date
from pathlib import Path
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from servebench.core.errors import UsageError
from servebench.declare.schema import read_toml
from servebench.host import cache, paths
from servebench.host.progress import Narrator
from servebench.toolchain import locks, stacks
from servebench.toolchain.stacks import Stack

RESOLVING: Final = (
    "UV_CONSTRAINT", "UV_DEFAULT_INDEX", "UV_EXCLUDE", "UV_EXCLUDE_NEWER", "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS", "UV_FORK_STRATEGY", "UV_INDEX", "UV_INDEX_STRATEGY", "UV_INDEX_URL",
    "UV_NO_SOURCES", "UV_OVERRIDE", "UV_PRERELEASE", "UV_RESOLUTION",
)  # fmt: skip
"""Variables of the environment that decide what uv finds, and what of it it takes."""


def as_of(root: Path, name: str, day: date | None, narrator: Narrator) -> Stack:
    """Resolve a stack as of the end of a date (UTC); None: as it is locked.

    Raises:
        SetupError: uv finds no such set of packages.
    """
    if day is None:
        return stacks.read(name, root)
    with narrator.step(f"stack {name}", f"resolving it as of {day}") as tick:
        text = locks.resolve(name, day, tick, root=root)
    return kept(root, name, text)


def with_pins(root: Path, name: str, pins: Sequence[Requirement], narrator: Narrator) -> Stack:
    """Resolve a stack with some packages in other versions; the others move only if they must.

    Raises:
        SetupError: uv finds no such set of packages.
    """
    if not pins:
        return stacks.read(name, root)
    texts = [str(pin) for pin in pins]
    with narrator.step(f"stack {name}", f"resolving it with {', '.join(texts)}") as tick:
        keep = stacks.lock_file(name, root).read_text("utf-8")
        text = locks.resolve(name, None, tick, root=root, keep=keep, pins=texts)
    return kept(root, name, text)


def read_pins(texts: Sequence[str]) -> tuple[Requirement, ...]:
    """Read requirements such as `granian==2.7.8`.

    Raises:
        UsageError: One of them is no package with a version.
    """
    return tuple(map(_read_pin, texts))


def _read_pin(text: str) -> Requirement:
    expected = f"--with {text!r}: expected a package and its version, such as 'granian==2.7.8'"
    try:
        pin = Requirement(text)
    except InvalidRequirement as error:
        raise UsageError(expected) from error
    if not pin.specifier or pin.url or pin.marker or pin.extras:
        raise UsageError(expected)
    return pin


def share_out(
    root: Path, names: Collection[str], pins: Sequence[Requirement]
) -> tuple[dict[str, tuple[Requirement, ...]], tuple[str, ...]]:
    """Decide which pins go into which stacks; sentences say what stays.

    A stack that declares a version of its own for a package keeps it: that is what it is for.

    Raises:
        UsageError: A pin would change no stack.
    """
    shares: dict[str, tuple[Requirement, ...]] = {}
    notes: list[str] = []
    for name in names:
        present = [p for p in pins if canonicalize_name(p.name) in stacks.read(name, root).packages]
        own = {str(pin): _held(root, name, pin) for pin in present}
        notes += [f"stack {name} declares {held} and keeps it" for held in own.values() if held]
        shares[name] = tuple(pin for pin in present if own[str(pin)] is None)
    for pin in pins:
        if not any(pin in many for many in shares.values()):
            why = "; ".join(notes) or f"expected a package of the stacks {', '.join(names)}"
            raise UsageError(f"--with {pin} changes nothing: {why}")
    return shares, tuple(notes)


def _held(root: Path, stack: str, pin: Requirement) -> str | None:
    """The stack's own requirement on a package, if it excludes what is asked for."""
    groups = read_toml(root / "apps" / "pyproject.toml").get("dependency-groups", {})
    asked = [s.version for s in pin.specifier if s.operator == "==" and "*" not in s.version]
    for text in groups.get(stack, ()):
        if not isinstance(text, str):
            continue  # another group, included
        own = Requirement(text)
        if canonicalize_name(own.name) != canonicalize_name(pin.name):
            continue
        exact = any(part.operator == "==" for part in own.specifier)
        excluded = any(not own.specifier.contains(version, prereleases=True) for version in asked)
        if excluded or (exact and not asked):
            return text
    return None


def surroundings() -> tuple[str, ...]:
    """What else a stack was resolved by: a sentence with the variables that were set, if any.

    Their values may be private, and are nobody's business.
    """
    found = [name for name in RESOLVING if os.environ.get(name)]
    if not found:
        return ()
    which = "it" if len(found) == 1 else "them"
    return (f"uv went by {', '.join(found)} of the environment: set {which} again to repeat this",)


def kept(root: Path, name: str, text: str) -> Stack:
    """Keep a lock in the cache, as a stack that can be made."""
    lock = paths.cache_dir() / "resolved" / cache.digest(text) / f"{name}.txt"
    locks.write(lock, text)
    return stacks.read_lock(name, lock, root)
