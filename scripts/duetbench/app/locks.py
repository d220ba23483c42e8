"""Locks of stacks: uv resolves one again, as of a date or with other versions."""

from collections.abc import Sequence
from datetime import date

from packaging.requirements import Requirement

from duetbench.app import stacks
from duetbench.app.stacks import Stack
from duetbench.app.subject import Subject
from duetbench.host import cache
from duetbench.host.command import Tick
from duetbench.host.console import Narrator


def resolve(
    subject: Subject,
    stack: str,
    as_of: date | None,
    tick: Tick = lambda _: None,
    *,
    keep: str = "",
    pins: Sequence[str] = (),
    options: Sequence[str] = (),
) -> str:
    """Resolve one stack with uv; return the lock's text. Dates and errors as for `renew`.

    `options` are uv's. Versions in `keep`, the text of a lock, are kept if possible. `pins` are
    requirements such as `granian==2.7.8` that limit what is installed.
    """
    argv = [*subject.sources(stack), *options]
    if as_of is not None:
        argv += ["--exclude-newer", as_of.isoformat()]
    return stacks.compile_lock(
        argv,
        f"stack {stack}",
        tick,
        version=subject.version,
        keep=keep,
        pins=pins,
        home=subject.home,  # which may have an index of its own
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
    # A search for a cause finds it by its digest.
    lock = stacks.kept_place(cache.digest(text), name)
    stacks.write_lock(lock, text)
    return subject.read_lock(name, lock)
