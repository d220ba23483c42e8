"""The Python API: what `duetbench` has at its root."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import typer
from rich.console import Console

from duetbench.cli import app
from duetbench.cli.options import machine
from duetbench.core.errors import UsageError
from duetbench.core.model import Run
from duetbench.host import paths
from duetbench.judge import comparison as comparisons
from duetbench.judge.comparison import Contrast, Extent
from duetbench.judge.duet_loop import Reporter
from duetbench.project import target as targets
from duetbench.project.project import Project
from duetbench.project.settings import Target
from duetbench.show.tidy import tables
from duetbench.store import files, kinds
from duetbench.store.comparison import Comparison
from duetbench.store.points import Points

__all__ = [
    "Comparison",
    "Contrast",
    "Extent",
    "Points",
    "Run",
    "Target",
    "compare",
    "load",
    "run",
    "tables",
]


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


def compare(
    contrast: Contrast | str | None = None,
    target: Target | None = None,
    extent: Extent | None = None,
    *,
    root: Path | None = None,
    reporter: Reporter | None = None,
) -> Comparison:
    """Compare two sides of a repository on this machine; it takes minutes, and prints nothing.

    Args:
        contrast: How base and head differ; a text is the revision of base, with the files as they
            are as head.
        target: The application; default: what the repository declares.
        extent: Which cases, and for how long.
        root: The repository; default: the one around the working directory.
        reporter: Gets what is done meanwhile.

    Returns:
        The comparison, which is also saved. That something got slower is a verdict, and no error.

    Raises:
        DuetbenchError: Nothing can be compared; the message says what to do.
    """
    if not isinstance(contrast, Contrast):
        contrast = Contrast((contrast, None))
    project = _project(root, target)
    with machine():
        return comparisons.compare(
            project, contrast, extent or Extent(), reporter or Reporter(Console(quiet=True))
        )


def _project(root: Path | None, target: Target | None) -> Project:
    """Return a repository with its target, whose other keys the repository may declare."""
    project = Project(root.resolve() if root else paths.project_root(stand_in=False))
    if target is None and any((project.root / "apps").glob("*/experiment.toml")):
        return project
    given = target.model_dump(by_alias=True, exclude_unset=True) if target else {}
    if (known := targets.of(project.root, given)) is None:
        raise paths.undeclared(project.root, "no target, no [tool.duetbench], no experiments")
    return replace(project, target=known)


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
