"""A setting: how one side of a comparison is served differently from the other, as by its server.

Options name a server, an event loop, or numbers; variables and arguments are those of the server.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from duetbench.core.errors import UsageError
from duetbench.core.model import Case
from duetbench.core.units import count
from duetbench.project import target
from duetbench.project.servers import misfit

_VARIABLE: Final = "env."  # prefix of the names of variables in records
ARGUMENTS: Final = "server-arg"
"""Name of the arguments in records, and of their option."""

_COUNT: Final = re.compile(r"[1-9]\d{0,4}")

_DIFFERING: Final = (option for option in target.OPTIONS.values() if option.by_side)

OPTIONS: Final = {
    option.name: option for option in sorted(_DIFFERING, key=lambda option: not option.choices)
}
"""Options whose values may differ, names before numbers, as labels have them. Each sets the field
of that name, of a case or of its load."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What differs from the declaration: values of options by name, and variables of the server.

    Its `arguments` follow the declared ones.
    """

    values: Mapping[str, str | int] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()

    @classmethod
    def read(cls, record: Mapping[str, str]) -> Self:
        """Read a setting as records have it: each option's text, and each variable's."""
        variables = {
            name.removeprefix(_VARIABLE): text
            for name, text in record.items()
            if name.startswith(_VARIABLE)
        }
        values = {n: value(n, record[n]) for n in OPTIONS if n in record}
        return cls(values, variables, tuple(shlex.split(record.get(ARGUMENTS, ""))))

    def record(self) -> dict[str, str]:
        """Return the setting as records have it."""
        variables = {f"{_VARIABLE}{name}": text for name, text in self.env.items()}
        arguments = {ARGUMENTS: shlex.join(self.arguments)} if self.arguments else {}
        values = {name: str(value) for name, value in self.values.items()}
        return {**values, **arguments, **variables}

    def __bool__(self) -> bool:
        return bool(self.values or self.env or self.arguments)

    def apply(self, case: Case) -> Case:
        """Return a case with the setting's variables, which override private ones, and arguments.

        Raises UsageError if duetbench sets one of the arguments itself.
        """
        private = tuple(name for name in case.env_names if name not in self.env)
        served = case.model_copy(
            update={
                "env": {**case.env, **self.env},
                "env_names": private,
                "server_args": (*case.server_args, *self.arguments),
            }
        )
        if self.arguments and (fault := misfit(served)):
            key, actual, allowed = fault
            raise UsageError(f"--{key} {actual}: expected {allowed}")
        return served

    def label(self, other: "Setting", version: str = "") -> str:
        """Name a side by its setting, `granian 2.8.7` or `2 workers`, beside another setting."""
        return ", ".join(self._words(other, version))

    def _words(self, other: "Setting", version: str) -> Iterator[str]:
        for name, own in self.values.items():
            if isinstance(own, int):
                yield f"{count(own)} {name if own != 1 else name.removesuffix('s')}"
            else:
                yield f"{own} {version}".strip() if name == "server" else own
        if self.arguments:
            yield shlex.join(self.arguments)
        elif other.arguments:
            yield f"no {shlex.join(other.arguments)}"
        for name in dict.fromkeys((*self.env, *other.env)):
            yield f"{name}={self.env[name]}" if name in self.env else f"no {name}"


_PLACES: Final = {name: name if name in Case.model_fields else f"load.{name}" for name in OPTIONS}

SERVED: Final = frozenset({*_PLACES.values(), "server_args"})
"""Fields that say how an application is served, which do not change what a request executes."""

AS_DECLARED: Final = Setting()


def allowed_values(name: str) -> str:
    """Describe the allowed values of an option."""
    choices = OPTIONS[name].choices
    return f"one of {', '.join(sorted(choices))}" if choices else "a number from 1 on"


def fits(name: str, text: str) -> bool:
    """Whether a text is a valid value of an option."""
    choices = OPTIONS[name].choices
    return text in choices if choices else bool(_COUNT.fullmatch(text))


def value(name: str, text: str) -> str | int:
    """Return an option's value: a name, or a number."""
    return text if OPTIONS[name].choices else int(text)


def options(*sides: Setting) -> tuple[str, ...]:
    """List the command-line options in which sides differ."""
    names = dict.fromkeys(f"--{name}" for side in sides for name in side.values)
    arguments = [f"--head-{ARGUMENTS}"] if any(side.arguments for side in sides) else []
    return (*names, *arguments, *(["--head-env"] if any(side.env for side in sides) else []))


def crossing(*sides: Setting) -> frozenset[str]:
    """List the fields of a case in which sides with these settings differ."""
    names = {_PLACES[name] for side in sides for name in side.values}
    names |= {"server_args"} if any(side.arguments for side in sides) else set()
    return frozenset({*names, *(["env"] if any(side.env for side in sides) else [])})
