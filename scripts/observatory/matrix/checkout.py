"""A checkout with experiments: the subject of the observatory, by what its files declare."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from functools import cache, cached_property
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Annotated, ClassVar, Self

from pydantic import StringConstraints

from duetbench.app import case_names, stacks
from duetbench.app.case_names import CaseName
from duetbench.app.declarations import read_toml, validate
from duetbench.app.interpreters import Interpreter
from duetbench.app.stacks import Stack
from duetbench.app.subject import Subject
from duetbench.app.target import AS_DECLARED, Setting
from duetbench.core.errors import DuetbenchError, HistoryError, UsageError
from duetbench.core.model import Case, Frozen, Plan, Profile
from duetbench.host import git, paths
from duetbench.host.console import Narrator
from observatory.matrix import declared_interpreters
from observatory.matrix.declared_interpreters import Declared
from observatory.matrix.experiments import (
    FILE,
    PUBLISHED,
    Experiment,
    load_experiments,
    load_stacks,
)
from observatory.store.points import Name


class Anchor(Frozen):
    """A frozen state of applications, locks and interpreters, to which points are relative.

    It is a commit of this repository. Against another one trends begin again.
    """

    name: Name
    commit: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]


@dataclass(frozen=True)
class Checkout(Subject):
    """A repository with settings, experiments and locks; a command creates one.

    Attributes:
        profile: Whose cases are measured.
    """

    fixed: ClassVar[bool] = True
    profile: Profile = "quick"
    search: tuple[str, ...] = field(default=(".", ".."), kw_only=True)

    @classmethod
    def here(cls, profile: Profile = "quick") -> Self:
        """Create that of the current repository; see `paths.project_root`."""
        return cls(paths.project_root(), profile)

    @cached_property
    def declared(self) -> Declared:
        """The interpreters of its experiments."""
        return declared_interpreters.load()

    @property
    def anchor_file(self) -> Path:
        """The file that declares its anchor."""
        return self.code / "anchor.toml"

    @property
    def anchor(self) -> Anchor:
        """Its anchor; raises DeclarationError if there is none, or it is invalid."""
        return validate(Anchor, read_toml(self.anchor_file), str(self.anchor_file))

    @cached_property
    def experiments(self) -> tuple[Experiment, ...]:
        """Its experiments, by name; raises like `experiments.load_experiments`."""
        return load_experiments(self.root, self.declared.interpreters, load_stacks(self.root))

    @cached_property
    def stacks(self) -> Mapping[str, tuple[str, ...]]:
        """Stack → the usual interpreters it is made for; raises like `experiments.load_stacks`."""
        return {
            name: tuple(python for python in spec.interpreters if python in self.declared.usual)
            for name, spec in load_stacks(self.root).items()
        }

    def pythons(self, stack: str) -> tuple[str, ...]:
        """List the usual interpreters of a stack; raises UsageError if there is no such stack."""
        if stack not in self.stacks:
            raise UsageError(f"no stack {stack!r}: there are {', '.join(self.stacks) or 'none'}")
        return self.stacks[stack]

    @property
    def version(self) -> str:
        return next(iter(self.declared.interpreters.values())).version

    def interpreter(self, name: str) -> Interpreter:
        return declared_interpreters.locate(name, self.declared)

    def cases(self, setting: Setting = AS_DECLARED) -> tuple[Case, ...]:
        own, profile = (setting.values, setting.python), self.profile
        return tuple(
            setting.apply(case)
            for e in self.experiments
            for case in (e.cases_with(profile, *own) if any(own) else e.cases[profile])
        )

    def plan(self, select: Sequence[str] = (), launches: int = 1, seed: int = 1) -> Plan:
        """Choose the cases of its profile that match a glob, or all; raises as `select`."""
        cases = case_names.select(self.cases(), select)
        return Plan(profile=self.profile, launches=launches, seed=seed, cases=cases)

    def folder(self, case: Case) -> Path:
        return self.code / case.experiment

    @property
    def depth(self) -> int:
        return 1

    @property
    def code(self) -> Path:
        return self.root / "apps"

    def lock(self, stack: str) -> Stack:
        self.pythons(stack)
        return super().lock(stack)

    def lock_file(self, stack: str) -> Path:
        return self.code / "stacks" / f"{stack}.txt"

    def sources(self, stack: str) -> tuple[str | Path, ...]:
        return "--group", f"{self.code / 'pyproject.toml'}:{stack}"

    def lock_at(self, stack: str, commit: str) -> bytes | None:
        """Return the lock of a stack at a commit; None if there is none."""
        place = f"{commit}:{self.lock_file(stack).relative_to(self.root).as_posix()}"
        with suppress(HistoryError):
            return git.run(["-C", str(self.root), "cat-file", "blob", place])
        return None

    def reads(self, path: str, case: Case) -> bool:
        """Whether it may: a file of an experiment affects its own cases, one beside them all.

        Declarations and locks affect nothing: the cases and packages that they lead to are
        compared. Around the experiments is the harness, which both sides share.
        """
        first, *below = PurePosixPath(path).parts
        if first != "apps" or below[0] in {"stacks", "pyproject.toml", self.anchor_file.name}:
            return False
        if not (self.code / below[0] / FILE).is_file():
            return True
        return below[0] == case.experiment and below[1:] not in ([FILE], [PUBLISHED])


def lock_stacks(
    checkout: Checkout,
    narrator: Narrator,
    names: Sequence[str] | None = None,
    as_of: date | None = None,
) -> None:
    """Resolve stacks again (default: all), and write all their locks or none.

    Locks are as of the end of a date (UTC), of a moment, or of now.

    Raises UsageError if there is no such stack, and SetupError if uv cannot resolve it or reach
    its index; then no lock was changed.
    """
    texts: dict[Path, str] = {}
    for name in names or checkout.stacks:
        checkout.pythons(name)
        with narrator.step(f"stack {name}", f"resolving it as of {as_of or 'now'}") as tick:
            texts[checkout.lock_file(name)] = stacks.compile_lock(
                checkout.sources(name), f"stack {name}", tick, as_of=as_of, version=checkout.version
            )
    for file, text in texts.items():
        stacks.write_lock(file, text)


def _name(case: str) -> CaseName | None:
    """Return what the checkout calls a case."""
    try:
        return _names(paths.project_root()).get(case)
    except DuetbenchError:  # code that needs the declarations themselves reports what is wrong
        return None


@cache
def _names(root: Path) -> Mapping[str, CaseName]:
    cases = {}
    for experiment in Checkout(root).experiments:
        for case in chain.from_iterable(experiment.cases.values()):
            if what := experiment.titles[case.id]:
                stack = experiment.stacks[case.stack].title
                cases[case.id] = case_names.build(case, f"{what} with {stack}" if stack else what)
    return cases


case_names.declared.append(_name)
