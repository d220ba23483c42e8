"""Trials as files: one each, never rewritten, below `results/selftest/<machine>/`."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from servebench.codec import first_problem
from servebench.compare.trials import Trial
from servebench.errors import RecordError
from servebench.store import replace

FOLDER = "selftest"


def save(results: Path, trial: Trial) -> Path:
    """Write a trial.

    Raises:
        RecordError: It cannot be written.
    """
    name = f"{trial.id.split('-')[0]}-{trial.kind}.json"
    path = results / FOLDER / trial.machine / name
    replace(path, (trial.model_dump_json() + "\n").encode())
    return path


def load(results: Path) -> tuple[Trial, ...]:
    """Read all trials, oldest first; none is left out.

    Raises:
        RecordError: A file is no trial that this version knows.
    """
    return tuple(_read(path) for path in sorted((results / FOLDER).glob("*/*.json")))


def _read(path: Path) -> Trial:
    try:
        return Trial.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise RecordError(
            f"{path}: expected a trial of format 1: {first_problem(error)}"
        ) from error
