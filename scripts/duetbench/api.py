"""The Python API: what `duetbench` has at its root."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from duetbench.cli import app
from duetbench.core.errors import UsageError
from duetbench.core.model import Run
from duetbench.project.project import Project
from duetbench.show.tidy import tables
from duetbench.store import files, kinds
from duetbench.store.comparison import Comparison
from duetbench.store.points import Points

__all__ = ["Comparison", "Points", "Run", "compare", "load", "run", "tables"]

Option = str | float | Path | bool | None | Sequence[str | Path]
"""A keyword argument as an option: True is a flag, a list an option given several times, a tuple
an option with several values; None and False are no option."""


def load(name: str | Path, results: Path | None = None) -> Run | Comparison | Points:
    """Read a run, a comparison or anchored points.

    Args:
        name: Its file, its id, enough of its id, or `latest` for the latest run.
        results: The results folder; default: that of the repository around the working directory.

    Raises:
        UsageError: Nothing goes by that name, or several things do.
        RecordError: The file cannot be read, or is no result.
    """
    return kinds.load(name, results or Project.here().results)


def compare(base: str | None = None, head: str | None = None, **options: Option) -> Comparison:
    """Compare as `duetbench compare` does: `compare("HEAD~1", app="shop.main:app", path="/")`.

    Takes the command's options by their names, with `_` for `-` and at the end of Python's own
    words (`with_`); it measures, takes minutes, and says meanwhile what it does.

    Raises:
        DuetbenchError: As the command; that something got slower is no error but a verdict.
    """
    return files.parse(Comparison, _called("compare", (base, head), options), "the comparison")


def run(**options: Option) -> Run:
    """Measure as `duetbench run` does, with its options as keyword arguments (see `compare`).

    A launch that failed is recorded, and no error.

    Raises:
        DuetbenchError: As the command.
    """
    return files.parse(Run, _called("run", (), options), "the run")


def _called(verb: str, words: Sequence[str | None], options: Mapping[str, Option]) -> bytes:
    """Run a verb in this process, and give the JSON that it wrote."""
    with tempfile.TemporaryDirectory(prefix="duetbench-") as folder:
        file = Path(folder, "made.json")
        arguments = [word for name, value in options.items() for word in _words(name, value)]
        try:
            app(
                [verb, *filter(None, words), *arguments, "--output", str(file)],
                standalone_mode=False,
            )
        except typer.exceptions.TyperException as wrong:
            raise UsageError(str(wrong)) from wrong
        return files.contents(file)


def _words(name: str, value: Option) -> list[str]:
    option = f"--{name.strip('_').replace('_', '-')}"
    if value is None or value is False:
        return []
    if value is True:
        return [option]
    if isinstance(value, tuple):
        return [option, *map(str, value)]
    if isinstance(value, str | Path) or not isinstance(value, Sequence):
        return [option, str(value)]
    return [word for item in value for word in (option, str(item))]
