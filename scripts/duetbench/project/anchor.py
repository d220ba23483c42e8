"""The anchor: a frozen state of applications, locks and interpreters, against which points stand.

It is a commit of this repository, with the digests of what it has; `apps/anchor.toml` declares it.
A new one is made by `duetbench anchor renew`, which measures it against the one before, so that
the series goes on.
"""

from datetime import date
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, StringConstraints

from duetbench.core.errors import UsageError
from duetbench.core.model import Frozen
from duetbench.project.schema import read_toml, validated
from duetbench.project.types import Digest, PatchVersion

FILE: Final = "anchor.toml"
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,59}$")]


class Anchor(Frozen):
    """One anchor, as it is declared."""

    name: Name
    commit: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
    since: date
    protocol: int = Field(gt=0, description="Version of the duets' protocol that it began with.")
    previous: Name | None = Field(default=None, description="The anchor that it continues.")
    canary: str | None = Field(
        default=None,
        description="Id of a case that nights also play of the anchor against itself: it stays 1.",
    )
    interpreters: dict[str, PatchVersion] = Field(min_length=1)
    stacks: dict[str, Digest] = Field(min_length=1, description="SHA-256 of each lock.")


def place(root: Path) -> Path:
    """The file that declares a checkout's anchor."""
    return root / "apps" / FILE


def load(root: Path) -> Anchor:
    """Read a checkout's anchor.

    Raises:
        UsageError: It has none.
        DeclarationError: The file is not right.
    """
    file = place(root)
    if not file.is_file():
        raise UsageError(
            f"{file}: expected the anchor that points are held against, found none: declare the "
            "present state as one with `duetbench anchor renew NAME`"
        )
    return validated(Anchor, read_toml(file), str(file))


def text(anchor: Anchor) -> str:
    """The anchor's file."""

    def table(name: str, values: dict[str, str]) -> list[str]:
        return ["", f"[{name}]", *(f'"{key}" = "{value}"' for key, value in values.items())]

    previous = [f'previous = "{anchor.previous}"'] if anchor.previous else []
    canary = [f'canary = "{anchor.canary}"'] if anchor.canary else []
    lines = [
        "# What all trend points are held against; made by `duetbench anchor renew`.",
        f'name = "{anchor.name}"',
        f'commit = "{anchor.commit}"',
        f"since = {anchor.since.isoformat()}",
        f"protocol = {anchor.protocol}",
        *previous,
        *canary,
        *table("interpreters", dict(anchor.interpreters)),
        *table("stacks", dict(anchor.stacks)),
    ]
    return "\n".join(lines) + "\n"
