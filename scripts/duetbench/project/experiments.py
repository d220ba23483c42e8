"""The experiments: each `apps/*/experiment.toml`, with its cases in every profile."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from duetbench.core.model import Case, Profile
from duetbench.host import paths
from duetbench.project import settings
from duetbench.project.expand import Expansion, Known
from duetbench.project.schema import FILE, Declaration, read_toml, validated
from duetbench.project.servers import SERVERS


@dataclass(frozen=True, slots=True)
class Experiment:
    """One question with one moving axis: a folder with its applications, and cases per profile.

    `titles` are what people call what the cases serve, by the cases' ids; empty: not declared.
    """

    name: str
    folder: Path
    declared: Declaration
    cases: Mapping[Profile, tuple[Case, ...]]
    titles: Mapping[str, str] = field(default_factory=dict)


def load_experiments(root: Path, known: Known | None = None) -> tuple[Experiment, ...]:
    """Read all experiments of a checkout, by name.

    Raises:
        DeclarationError: One of them is wrong; says where, what was found and what is allowed.
        UsageError: There is none.
    """
    known = known or registered(root)
    declared = sorted((root / "apps").glob(f"*/{FILE}"))
    if not declared:
        raise paths.undeclared(root, f"no apps/*/{FILE}")
    return tuple(
        _read(path.parent.name, path.parent, shown, read_toml(path, shown), known)
        for path in declared
        for shown in [path.relative_to(root).as_posix()]
    )


def expand_all(experiments: Iterable[Experiment], profile: Profile) -> tuple[Case, ...]:
    """The cases of several experiments in a profile, one experiment after the other."""
    return tuple(case for experiment in experiments for case in experiment.cases[profile])


def registered(root: Path) -> Known:
    """The registries of interpreters, stacks and servers of a checkout."""
    return Known(settings.load(root).interpreters, settings.stacks(root), SERVERS)


def _read(name: str, folder: Path, shown: str, written: dict[str, Any], known: Known) -> Experiment:
    declared = validated(Declaration, written, shown)
    expansion = Expansion(name, shown, declared, written, known, folder=folder)
    cases = expansion.all_cases()
    return Experiment(name, folder, declared, cases, expansion.titles)
