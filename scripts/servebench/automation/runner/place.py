"""What a prepared machine says of itself: the policy's file, where root has put it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from servebench.core.errors import SetupError
from servebench.record.files import first_problem

VARIABLE: Final = "SERVEBENCH_FLEET"
"""Names another file than the usual one, for trying out. The runner's hook never looks at it."""

FILE: Final = Path("/etc/servebench/fleet.json")
LIBRARY: Final = Path("/usr/local/lib/servebench")


class RunnerConfig(BaseModel):
    """What `servebench ci fleet` needs of the file; the hook reads the rest."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    user: str = Field(pattern=r"^[a-z][a-z0-9_-]*$", description="Foreign code runs as this user.")
    room: Path = Field(description="A folder of that user's own, emptied around each comparison.")
    passes: tuple[str, ...] = Field(
        default=(), description="Variables that foreign code gets of the runner's, as a proxy's."
    )


def file() -> Path:
    """Where the file is."""
    return Path(os.environ.get(VARIABLE) or FILE)


def read(path: Path | None = None) -> RunnerConfig:
    """Read it; raises SetupError."""
    path = path or file()
    try:
        place = RunnerConfig.model_validate_json(path.read_bytes())
    except OSError as error:
        raise SetupError(
            f"{path}: {error.strerror}: this machine is not prepared to run foreign code; "
            "scripts/prepare-runner.sh does that (docs/runners.md)"
        ) from error
    except ValidationError as error:
        raise SetupError(
            f"{path}: {first_problem(error)}; run scripts/prepare-runner.sh"
        ) from error
    if not place.room.is_absolute() or len(place.room.parts) < 3:
        raise SetupError(
            f"{path}: room: expected the absolute path of a folder that may be emptied, found "
            f"{place.room}"
        )
    return place
