"""The anchor: a frozen state to which all points of trends are relative, in `apps/anchor.toml`."""

from datetime import date
from pathlib import Path
from typing import Annotated

from pydantic import Field, StringConstraints

from duetbench.app.declarations import read_toml, validate
from duetbench.core.errors import UsageError
from duetbench.core.model import Frozen
from observatory.matrix.schema import ANCHOR
from observatory.store.points import Name


class Anchor(Frozen):
    """A frozen state of applications, locks and interpreters, to which points are relative.

    It is a commit of this repository. Against another one trends begin again.
    """

    name: Name
    commit: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
    since: date
    protocol: int = Field(gt=0, description="Version of the duets' protocol that it began with.")


def anchor_file(root: Path) -> Path:
    """Return the file that declares a checkout's anchor."""
    return root / "apps" / ANCHOR


def load_anchor(root: Path) -> Anchor:
    """Read a checkout's anchor.

    Raises UsageError if it has none, and DeclarationError if the file is invalid.
    """
    file = anchor_file(root)
    if not file.is_file():
        raise UsageError(
            f"{file}: expected the anchor that points are measured against, found none: declare "
            "one (docs/observatory/automation.md)"
        )
    return validate(Anchor, read_toml(file), str(file))
