"""How base and head differ: revisions, and what either has otherwise, in words.

`--base` and `--head` take such words, KEY=VALUE or PACKAGE==VERSION:

- `python=3.14t`: the interpreter.
- `granian==2.8.7`, `lock=uv.lock@main`, `as-of=2026-07-01`: the packages.
- `server=granian`, `workers=4`, `env.NAME=VALUE`, `arg=--access-log`, …: how it is served.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final, Literal

from packaging.requirements import InvalidRequirement, Requirement

from duetbench.app import target
from duetbench.app.target import Setting
from duetbench.core.errors import UsageError
from duetbench.core.model import Case

_VARIABLE: Final = "env."
_ARGUMENT: Final = "arg"

OPTIONS: Final = ("server", "loop", "workers", "threads", "connections")
"""Keys of an application that are keys of a side. Each sets the field of that name, of a case or of
its load."""

KEYS: Final = ("python", *OPTIONS, "env.NAME", _ARGUMENT, "lock", "as-of")

_PLACES: Final = {name: name if name in Case.model_fields else f"load.{name}" for name in OPTIONS}

SERVED: Final = frozenset({*_PLACES.values(), "server_args"})
"""Fields that say how an application is served, which do not change what a request executes."""

Kind = Literal["revision", "stack", "interpreter", "setting"]


def read(words: Sequence[str]) -> Setting:
    """Read the words of a side; raises UsageError for a wrong one."""
    env: dict[str, str] = {}
    once: dict[str, str] = {}
    pins, arguments = [], []
    for word in words:
        key, sign, text = word.partition("=")
        if text.startswith("="):
            pins.append(str(read_pin(word)))
        elif key == _ARGUMENT and text:
            arguments.append(text)
        elif key.startswith(_VARIABLE) and key.removeprefix(_VARIABLE).isidentifier() and sign:
            env[key.removeprefix(_VARIABLE)] = text
        elif key in KEYS and text and key not in once:
            once[key] = text
        else:
            raise UsageError(
                f"{word}: expected PACKAGE==VERSION, or KEY=VALUE with one of {', '.join(KEYS)}"
            )
    values: dict[str, str | int] = {
        name: target.read_value(name, once[name]) for name in OPTIONS if name in once
    }
    try:
        day = date.fromisoformat(once["as-of"]) if "as-of" in once else None
    except ValueError as error:
        raise UsageError(f"as-of={once['as-of']}: expected a date: 2026-03-01") from error
    packages = once.get("lock"), day, tuple(pins)
    return Setting(values, env, tuple(arguments), once.get("python"), *packages)


@dataclass(frozen=True, slots=True)
class Contrast:
    """How base and head differ.

    By default head is the files as they are, and base the revision where its branch left main. If
    they differ by their words alone, both are the files as they are.

    Attributes:
        revisions: Of the repository.
        base: Words for base, such as `server=uvicorn`.
        head: Words for head.
    """

    revisions: tuple[str | None, str | None] = (None, None)
    base: Sequence[str] = ()
    head: Sequence[str] = ()

    @property
    def settings(self) -> tuple[Setting, Setting]:
        """The words, read; raises UsageError for a wrong one."""
        return read(self.base), read(self.head)

    @property
    def of_revisions(self) -> bool:
        """Whether the sides are revisions, which may still be the same one."""
        return any(self.revisions) or not (self.base or self.head)

    @property
    def kinds(self) -> set[Kind]:
        """The kinds of things in which the sides differ."""
        sides = self.settings
        kinds: dict[Kind, bool] = {
            "revision": self.of_revisions,
            "stack": any(side.packages for side in sides),
            "interpreter": any(side.python for side in sides),
            "setting": any(side.served for side in sides),
        }
        return {kind for kind, differ in kinds.items() if differ}

    @property
    def crossing(self) -> frozenset[str]:
        """The fields of a case in which the sides differ on purpose."""
        sides = self.settings
        fields = {_PLACES[name] for side in sides for name in side.values}
        others = {"python": "python", "arguments": "server_args", "env": "env"}
        fields |= {to for own, to in others.items() if any(getattr(s, own) for s in sides)}
        return frozenset(fields)


def read_pin(text: str) -> Requirement:
    """Read a requirement such as `granian==2.7.8`; raises UsageError for anything else."""
    expected = f"{text!r}: expected a package and its version, such as 'granian==2.7.8'"
    try:
        pin = Requirement(text)
    except InvalidRequirement as error:
        raise UsageError(expected) from error
    exact = [part.operator for part in pin.specifier] == ["=="] and "*" not in str(pin.specifier)
    if not exact or pin.url or pin.marker or pin.extras:
        raise UsageError(expected)
    return pin
