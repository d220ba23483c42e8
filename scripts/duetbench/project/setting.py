"""A setting: how one side of a comparison is served differently from the other, as by its server.

Options name a server, an event loop, or numbers; variables are those of the server.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from duetbench.core.model import Case
from duetbench.core.units import count
from duetbench.project import target

_VARIABLE: Final = "env."  # prefix of the names of variables in records
_COUNT: Final = re.compile(r"[1-9]\d{0,4}")

_DIFFERING: Final = (option for option in target.OPTIONS.values() if option.by_side)

OPTIONS: Final = {
    option.name: option for option in sorted(_DIFFERING, key=lambda option: not option.choices)
}
"""Options whose values may differ, names before numbers, as labels have them. Each sets the field
of that name, of a case or of its load."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What differs from the declaration: values of options by name, and variables of the server."""

    values: Mapping[str, str | int] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, record: Mapping[str, str]) -> Self:
        """Read a setting as records have it: each option's text, and each variable's."""
        variables = {
            name.removeprefix(_VARIABLE): text
            for name, text in record.items()
            if name.startswith(_VARIABLE)
        }
        return cls({n: value(n, record[n]) for n in OPTIONS if n in record}, variables)

    def record(self) -> dict[str, str]:
        """Return the setting as records have it."""
        variables = {f"{_VARIABLE}{name}": text for name, text in self.env.items()}
        return {**{name: str(value) for name, value in self.values.items()}, **variables}

    def __bool__(self) -> bool:
        return bool(self.values or self.env)

    def apply(self, case: Case) -> Case:
        """Return a case with the setting's variables, which override private ones."""
        private = tuple(name for name in case.env_names if name not in self.env)
        return case.model_copy(update={"env": {**case.env, **self.env}, "env_names": private})

    def label(self, other: "Setting", version: str = "") -> str:
        """Name a side by its setting, `granian 2.8.7` or `2 workers`, beside another setting."""
        return ", ".join(self._words(other, version))

    def _words(self, other: "Setting", version: str) -> Iterator[str]:
        for name, own in self.values.items():
            if isinstance(own, int):
                yield f"{count(own)} {name if own != 1 else name.removesuffix('s')}"
            else:
                yield f"{own} {version}".strip() if name == "server" else own
        for name in dict.fromkeys((*self.env, *other.env)):
            yield f"{name}={self.env[name]}" if name in self.env else f"no {name}"


_PLACES: Final = {name: name if name in Case.model_fields else f"load.{name}" for name in OPTIONS}

SERVED: Final = frozenset(_PLACES.values())
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
    return (*names, *(["--head-env"] if any(side.env for side in sides) else []))


def crossing(*sides: Setting) -> frozenset[str]:
    """List the fields of a case in which sides with these settings differ."""
    names = {_PLACES[name] for side in sides for name in side.values}
    return frozenset({*names, *(["env"] if any(side.env for side in sides) else [])})
