"""What is an extra of duetbench: packages that only some verbs need."""

import shlex
from collections.abc import Sequence
from importlib import metadata
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_DISTRIBUTION: Final = "duetbench"


def of(module: str) -> str | None:
    """The extra that brings a module, as the installed duetbench says; None: it is of none."""
    wanted = canonicalize_name(module.partition(".")[0])
    package = metadata.metadata(_DISTRIBUTION)
    for text in package.get_all("Requires-Dist") or ():
        requirement = Requirement(text)
        if requirement.marker is None or canonicalize_name(requirement.name) != wanted:
            continue
        for extra in package.get_all("Provides-Extra") or ():
            if requirement.marker.evaluate({"extra": extra}):
                return str(extra)
    return None


def lacking(error: ModuleNotFoundError, words: Sequence[str]) -> str | None:
    """What to say of a module that was not found, to somebody who has given these words.

    None: it belongs to no extra, so that it is missing is a mistake of ours.
    """
    extra = of(error.name) if error.name else None
    if extra is None:
        return None
    whole = f"{_DISTRIBUTION}[{extra}]"
    again = shlex.join(["uvx", "--from", whole, _DISTRIBUTION, *words])
    return f"this needs {error.name}, which is not installed; it comes with {whole}: {again}"
