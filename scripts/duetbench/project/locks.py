"""Locks of stacks: uv resolves one again, as of a date or with other versions."""

from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.version import Version

from duetbench.host import cache
from duetbench.host.command import Tick
from duetbench.host.console import Narrator
from duetbench.project import stacks
from duetbench.project.deployed_target import DeployedTarget
from duetbench.project.stacks import Stack
from duetbench.project.subject import Subject
from duetbench.store.comparison import PackageChange, differences

_NEVER: Final = "9999-01-01"
"""A date before which everything was released."""


def resolve(
    subject: Subject,
    stack: str,
    as_of: date | None,
    tick: Tick = lambda _: None,
    *,
    keep: str = "",
    pins: Sequence[str] = (),
    exempt: Collection[str] = (),
) -> str:
    """Resolve one stack with uv; return the lock's text. Dates and errors as for `renew`.

    The date does not apply to `exempt` packages. Versions in `keep`, the text of a lock, are
    kept if possible. `pins` are requirements such as `granian==2.7.8` that limit what is installed.
    """
    argv = [*subject.sources(stack)]
    if as_of is not None:
        argv += ["--exclude-newer", as_of.isoformat()]
        argv += [
            word
            for package in exempt
            for word in ("--exclude-newer-package", f"{package}={_NEVER}")
        ]
    return stacks.compile_lock(
        argv,
        f"stack {stack}",
        stack,
        tick,
        subject.code,
        version=subject.version,
        keep=keep,
        pins=pins,
        config=isinstance(subject, DeployedTarget),  # which may have an index of its own
    )


def resolve_stack(
    subject: Subject,
    name: str,
    narrator: Narrator,
    day: date | None = None,
    pins: Sequence[Requirement] = (),
) -> Stack:
    """Resolve a stack as of the end of a date (UTC), or with other versions of some packages.

    With pins, other packages move only if they must; without date and pins it stays as locked.

    Raises:
        SetupError: uv finds no such set of packages.
    """
    if day is None and not pins:
        return subject.lock(name)
    texts = [str(pin) for pin in pins]
    keep = "" if day else subject.lock_file(name).read_text("utf-8")
    how = f"as of {day}" if day else f"with {', '.join(texts)}"
    with narrator.step(f"stack {name}", f"resolving it {how}") as tick:
        text = resolve(subject, name, day, tick, keep=keep, pins=texts)
    return save(subject, name, text)


def save(subject: Subject, name: str, text: str) -> Stack:
    """Save a lock in the cache, as a stack that can be installed."""
    lock = stacks.kept_place(cache.digest(text), name)
    stacks.write_lock(lock, text)
    return subject.read_lock(name, lock)


def renew(
    subject: Subject,
    narrator: Narrator,
    names: Sequence[str] | None = None,
    as_of: date | None = None,
) -> tuple[PackageChange, ...]:
    """Resolve stacks again (default: all) and write all their locks or none; return the moves.

    Locks are as of the end of a date (UTC), of a moment, or of now. A package that is locked
    already does not go back to a moment, since that would report two changes without a cause.

    Raises UsageError if there is no such stack, and SetupError if uv cannot resolve it or reach
    its index; then no lock was changed.
    """
    selection = tuple(names or subject.stacks)
    for name in selection:
        subject.pythons(name)  # refuses unknown names before anything is resolved
    moves: list[PackageChange] = []
    texts: dict[Path, str] = {}
    for name in selection:
        file = subject.lock_file(name)
        before = subject.lock(name).packages if file.exists() else {}
        with narrator.step(f"stack {name}", f"resolving it as of {as_of or 'now'}") as tick:
            text = resolve(subject, name, as_of, tick)
            after = stacks.parse(text, str(file), subject.version)
            older = {
                package: before[package]
                for package, version in after.items()
                if package in before and Version(version) < Version(before[package])
            }
            if isinstance(as_of, datetime) and older:
                pins = [f"{package}<={version}" for package, version in older.items()]
                text = resolve(subject, name, as_of, tick, exempt=older, pins=pins)
                after = stacks.parse(text, str(file), subject.version)
            texts[file] = text
        moves += differences(name, before, after)
    for file, text in texts.items():
        stacks.write_lock(file, text)
    return tuple(moves)


def cooldown(subject: Subject) -> datetime | None:
    """The latest release time that nights may lock; None: any."""
    days = subject.configuration.cooldown_days
    return datetime.now(UTC).replace(microsecond=0) - timedelta(days=days) if days else None
