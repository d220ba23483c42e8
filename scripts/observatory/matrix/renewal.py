"""Renews the locks of stacks: uv resolves each again."""

from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path

from packaging.version import Version

from duetbench.host.console import Narrator
from duetbench.project import stacks
from duetbench.project.locks import resolve
from duetbench.store.comparison import PackageChange, differences
from observatory.matrix.checkout import Checkout


def renew(
    subject: Checkout,
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
