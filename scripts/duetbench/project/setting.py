"""A setting: how one side of a comparison is served differently from the other, as by its server.

It maps names to texts. Names in `FIELDS` are options; `env.NAME` is a variable of the server.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from duetbench.core.model import Case
from duetbench.core.units import count
from duetbench.project.servers import SERVERS

Setting = Mapping[str, str]

AS_DECLARED: Final[Setting] = {}

FIELDS: Final = {
    "server": "server",
    "loop": "loop",
    "workers": "workers",
    "threads": "threads",
    "connections": "load.connections",
}
"""Name of an option → the field of a case that it sets."""

VARIABLE: Final = "env."
"""Prefix of the names of variables."""

SERVED: Final = frozenset(FIELDS.values())
"""Fields that say how an application is served, which do not change what a request executes."""

_COUNT: Final = re.compile(r"[1-9]\d{0,4}")
_WORDS: Final = {
    "server": SERVERS.keys(),
    "loop": frozenset().union(*(server.loops for server in SERVERS.values())),
}


def allowed_values(name: str) -> str:
    """Describe the allowed values of an option of `FIELDS`."""
    return f"one of {', '.join(sorted(_WORDS[name]))}" if name in _WORDS else "a number from 1 on"


def fits(name: str, text: str) -> bool:
    """Whether a text is a valid value of an option of `FIELDS`."""
    return text in _WORDS[name] if name in _WORDS else bool(_COUNT.fullmatch(text))


def values(setting: Setting) -> dict[str, str | int]:
    """Return the setting's options, with numbers as such."""
    return {
        name: text if name in _WORDS else int(text)
        for name, text in setting.items()
        if name in FIELDS
    }


def variables(setting: Setting) -> dict[str, str]:
    """Return the setting's variables."""
    return {
        name.removeprefix(VARIABLE): text
        for name, text in setting.items()
        if name.startswith(VARIABLE)
    }


def options(*sides: Setting) -> tuple[str, ...]:
    """List the command-line options in which sides differ."""
    names = dict.fromkeys(name for side in sides for name in side)
    flags = ("--head-env" if name.startswith(VARIABLE) else f"--{name}" for name in names)
    return tuple(dict.fromkeys(flags))


def crossing(*sides: Setting) -> frozenset[str]:
    """List the fields of a case in which sides with these settings differ."""
    names = {name for side in sides for name in side}
    return frozenset("env" if name.startswith(VARIABLE) else FIELDS[name] for name in names)


def with_variables(case: Case, setting: Setting) -> Case:
    """Return a case with the variables of a setting, which override private ones."""
    own = variables(setting)
    private = tuple(name for name in case.env_names if name not in own)
    return case.model_copy(update={"env": {**case.env, **own}, "env_names": private})


def label(setting: Setting, other: Setting, version: str = "") -> str:
    """Name a side by its setting, `granian 2.8.7` or `2 workers`, beside another setting."""
    return ", ".join(_words(setting, other, version))


def _words(setting: Setting, other: Setting, version: str) -> Iterator[str]:
    for name in dict.fromkeys((*setting, *other)):
        text = setting.get(name)
        if name.startswith(VARIABLE):
            variable = name.removeprefix(VARIABLE)
            yield f"no {variable}" if text is None else f"{variable}={text}"
        elif text is not None and name in _WORDS:
            yield f"{text} {version}".strip() if name == "server" else text
        elif text is not None:
            noun = name if text != "1" else name.removesuffix("s")
            yield f"{count(int(text))} {noun}"
