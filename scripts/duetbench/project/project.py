"""A project: a repository, and the application in it that is measured."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from duetbench.core.errors import UsageError
from duetbench.host import paths
from duetbench.project import configuration, pyproject, target
from duetbench.project.configuration import Configuration
from duetbench.project.target import Target


@dataclass(frozen=True)
class Repository:
    """A repository, or a copy of one, with its settings."""

    root: Path

    @classmethod
    def here(cls, *, stand_in: bool = True) -> Self:
        """Create that of the current folder; see `paths.project_root`."""
        return cls(paths.project_root(stand_in=stand_in))

    @cached_property
    def configuration(self) -> Configuration:
        """Its settings; raises DeclarationError if they are invalid."""
        return configuration.load(self.root)

    @property
    def results(self) -> Path:
        return pyproject.results_dir(self.root)


@dataclass(frozen=True)
class Project(Repository):
    """A repository with the application to measure."""

    target: Target

    @classmethod
    def of(cls, root: Path, options: Mapping[str, Any]) -> Self:
        """Create that of a repository's keys and of options; raises as `target.of`.

        UsageError if neither names an application.
        """
        if (found := target.of(root, options)) is None:
            raise UsageError(
                f"{root} declares nothing to measure (no --app, no [tool.duetbench] with an app): "
                "name its application, as in `--app shop.main:app --path /items/7`, or keep that "
                "in [tool.duetbench] of pyproject.toml, which `duetbench init` writes"
            )
        return cls(root, found)
