"""Making everything that measuring needs, in the order in which it fails fastest."""

from __future__ import annotations

from dataclasses import dataclass

from servebench import interpreters, paths, settings, stacks
from servebench.errors import SetupError
from servebench.toolchain import cpython, oha
from servebench.toolchain.narrator import Narrator


@dataclass(frozen=True, slots=True)
class Outcome:
    """What set-up did: the names of what was made now, and of what was there and right."""

    made: tuple[str, ...]
    ready: tuple[str, ...]


def set_up(narrator: Narrator) -> Outcome:
    """Make what is missing and check what is there. Can be interrupted and repeated at any time.

    Reaches for the network only for what is missing.

    Raises:
        DeclarationError: The declarations are wrong.
        SetupError: Something cannot be made; what was made before is kept.
    """
    try:
        return _set_up(narrator)
    except OSError as error:
        raise SetupError(
            f"{error.filename or paths.cache_dir()}: {error.strerror or error}: the cache must be "
            "a folder that can be written; set XDG_CACHE_HOME to choose another"
        ) from error


def _set_up(narrator: Narrator) -> Outcome:
    configured = settings.load()
    wanted = [(stacks.read(name), stacks.pythons(name)) for name in stacks.names()]
    made: dict[str, bool] = {}
    names = ", ".join(configured.interpreters)
    made[f"interpreters {names}"] = cpython.ensure(configured, narrator)
    located = {name: interpreters.locate(name) for name in configured.interpreters}
    for stack, pythons in wanted:
        for python in pythons:
            made[f"stack {stack.name} for {python}"] = stacks.make_environment(
                stack, located[python], narrator
            )
    made[f"oha {configured.oha.version}"] = oha.ensure(configured, narrator)
    return Outcome(
        made=tuple(what for what, now in made.items() if now),
        ready=tuple(what for what, now in made.items() if not now),
    )
