"""A project: a repository, or a copy of one, with what it declares to be measured, and how."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.version import Version

from duetbench.core.errors import UsageError
from duetbench.core.model import Case, Profile
from duetbench.host import cache, paths
from duetbench.host.command import Tick
from duetbench.host.console import Narrator
from duetbench.project import experiments, interpreters, settings, stacks, target
from duetbench.project.experiments import Experiment
from duetbench.project.schema import InterpreterSpec
from duetbench.project.setting import AS_DECLARED, Setting, values, with_variables
from duetbench.project.settings import FOLDER, STACK, Interpreter, Settings, Target
from duetbench.project.stacks import Move, Stack

_NEVER: Final = "9999-01-01"
"""A date before which everything was released."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """How a target is served in a copy of its repository.

    Attributes:
        repository: What it is a copy of.
        imports: Folders, from the copy's root, on the search path of the application.
        packages: Where its packages come from, for people: `uv.lock`.
        within: Which folder of the repository it is; `.`: all of it.
    """

    repository: Path
    interpreters: Mapping[str, InterpreterSpec]
    imports: tuple[str, ...]
    packages: str
    cases: Mapping[Profile, tuple[Case, ...]]
    within: Path = Path()


@dataclass(frozen=True)
class Project:
    """What is measured and with what; made once by a verb, and passed.

    Attributes:
        root: The repository, or a copy of it.
        target: What is measured of it, if not its experiments.
        deployment: How that is served; None: `root` is no copy that was prepared for it.
        asked: Optional interpreters that are like the others.
    """

    root: Path
    target: Target | None = None
    deployment: Deployment | None = None
    asked: tuple[str, ...] = ()

    @classmethod
    def here(cls, *, stand_in: bool = True) -> "Project":
        """The repository around us; see `paths.project_root`."""
        return cls(paths.project_root(stand_in=stand_in))

    @cached_property
    def settings(self) -> Settings:
        """DeclarationError: they are wrong."""
        if self.deployment is None:
            return settings.load(self.root).asking(self.asked)
        declared = settings.load(self.deployment.repository)
        return declared.model_copy(update={"interpreters": dict(self.deployment.interpreters)})

    @cached_property
    def experiments(self) -> tuple[Experiment, ...]:
        """Its experiments, by name; errors as `experiments.load_experiments`."""
        declared = settings.load(self.root).interpreters
        made_for = settings.stacks(self.root)
        return experiments.load_experiments(self.root, declared, made_for, self.asked)

    @cached_property
    def stacks(self) -> Mapping[str, tuple[str, ...]]:
        """Stack → the usual interpreters that it is made for; errors as `settings.stacks`."""
        if self.deployment is not None:
            return {STACK: tuple(self.deployment.interpreters)}
        return {
            name: tuple(python for python in spec.interpreters if python in self.settings.usual)
            for name, spec in settings.stacks(self.root).items()
        }

    @property
    def known_stacks(self) -> Mapping[str, tuple[str, ...]]:
        """Its stacks; none where it declares nothing to measure."""
        try:
            return self.stacks
        except UsageError:
            return {}

    @property
    def repository(self) -> Path:
        """What it is, or is a copy of."""
        return self.deployment.repository if self.deployment else self.root

    @property
    def results(self) -> Path:
        return paths.results_dir(self.repository)

    def cases(self, profile: Profile, setting: Setting = AS_DECLARED) -> tuple[Case, ...]:
        """All cases of a profile, of a target or of experiments; errors as `experiments`.

        With a setting: those that can be served so; UsageError: the target cannot.
        """
        if not setting:
            if self.deployment is not None:
                return self.deployment.cases[profile]
            return tuple(case for one in self.experiments for case in one.cases[profile])
        chosen = values(setting)
        if self.deployment is None or self.target is None:
            made = tuple(c for one in self.experiments for c in one.cases_with(profile, chosen))
        else:
            case = self.deployment.cases[profile][0]
            made = target.cases(
                self.target.model_copy(update=chosen),
                self.repository,
                interface=case.endpoint.interface,
                server=str(chosen.get("server", case.server)),
                pythons=tuple(self.deployment.interpreters),
            )[profile]
        return tuple(with_variables(case, setting) for case in made)

    def pythons(self, stack: str) -> tuple[str, ...]:
        """The usual interpreters that a stack is made for; UsageError: no such stack."""
        if stack not in self.stacks:
            raise UsageError(
                f"no stack {stack!r}: the dependency groups of apps/pyproject.toml are "
                f"{', '.join(self.stacks) or 'none'}"
            )
        return self.stacks[stack]

    def lock_file(self, stack: str) -> Path:
        folder = FOLDER if self.deployment is not None else "apps/stacks"
        return self.root / folder / f"{stack}.txt"

    def lock(self, stack: str) -> Stack:
        """Read a declared stack's lock.

        UsageError: no such stack. SetupError: it was never locked. DeclarationError: the lock has
        lines that are not pinned packages.
        """
        self.pythons(stack)
        return self.read_lock(stack, self.lock_file(stack))

    def read_lock(self, stack: str, file: Path) -> Stack:
        """Read a lock, wherever it is; errors as in `lock`."""
        home = self.root if self.deployment else None
        return stacks.read_lock(stack, file, self.version, home)

    @property
    def version(self) -> str:
        """The version of Python that locks are read for: of its first interpreter."""
        return next(iter(self.settings.interpreters.values())).version

    def interpreter(self, name: str) -> Interpreter:
        """Find an interpreter that set-up made; errors as `interpreters.locate`."""
        return interpreters.locate(name, self.settings_for(name))

    def settings_for(self, python: str) -> Settings:
        """The settings by which an interpreter is made; those of a target may differ in origin."""
        if self.deployment is None:
            return self.settings
        only = {python: self.settings.interpreters[python]}
        return self.settings.model_copy(update={"interpreters": only})

    def resolve(
        self,
        stack: str,
        as_of: date | None,
        tick: Tick = lambda _: None,
        *,
        keep: str = "",
        pins: Sequence[str] = (),
        exempt: Collection[str] = (),
    ) -> str:
        """Resolve one stack with uv; the lock's text. Dates and errors as `renew_locks`.

        No date is for packages that are `exempt`. The versions of `keep`, a lock's text, are kept
        where they can be; `pins`, requirements such as `granian==2.7.8`, hold for what is
        installed.
        """
        apps = self.root / "apps"
        argv: list[str | Path] = ["--group", f"{apps / 'pyproject.toml'}:{stack}"]
        foreign = self.deployment is not None  # somebody's project, whose own index it may take
        if foreign:
            argv = [self.lock_file(stack).with_suffix(".in")]
        if as_of is not None:
            argv += ["--exclude-newer", as_of.isoformat()]
            argv += [
                word
                for package in exempt
                for word in ("--exclude-newer-package", f"{package}={_NEVER}")
            ]
        return stacks.compiled(
            argv,
            f"stack {stack}",
            stack,
            tick,
            self.root if foreign else apps,
            version=self.version,
            keep=keep,
            pins=pins,
            config=foreign,
        )

    def resolve_stack(
        self,
        name: str,
        narrator: Narrator,
        day: date | None = None,
        pins: Sequence[Requirement] = (),
    ) -> Stack:
        """Resolve a stack as of the end of a date (UTC), or with some packages in other versions.

        With pins, other packages move only if they must; with neither it is as locked.

        Raises:
            SetupError: uv finds no such set of packages.
        """
        if day is None and not pins:
            return self.lock(name)
        texts = [str(pin) for pin in pins]
        keep = "" if day else self.lock_file(name).read_text("utf-8")
        how = f"as of {day}" if day else f"with {', '.join(texts)}"
        with narrator.step(f"stack {name}", f"resolving it {how}") as tick:
            text = self.resolve(name, day, tick, keep=keep, pins=texts)
        return self.keep_lock(name, text)

    def keep_lock(self, name: str, text: str) -> Stack:
        """Keep a lock in the cache, as a stack that can be made."""
        lock = stacks.kept_place(cache.digest(text), name)
        stacks.write_lock(lock, text)
        return self.read_lock(name, lock)

    def renew_locks(
        self,
        narrator: Narrator,
        names: Sequence[str] | None = None,
        as_of: date | None = None,
    ) -> tuple[Move, ...]:
        """Resolve stacks again (all if none are named), write all their locks or none: what moved.

        It is as of the end of a date (UTC), of a moment, or of now. What is locked already is not
        taken back to a moment: that would be two changes of nothing.

        UsageError: no such stack. SetupError: uv cannot resolve it, or reach its index; no lock was
        changed.
        """
        chosen = tuple(names or self.stacks)
        for name in chosen:
            self.pythons(name)  # refuses unknown names before anything is resolved
        moved: list[Move] = []
        resolved: dict[Path, str] = {}
        for name in chosen:
            file = self.lock_file(name)
            before = self.lock(name).packages if file.exists() else {}
            with narrator.step(f"stack {name}", f"resolving it as of {as_of or 'now'}") as tick:
                text = self.resolve(name, as_of, tick)
                after = stacks.parse(text, str(file), self.version)
                older = {
                    package: before[package]
                    for package, version in after.items()
                    if package in before and Version(version) < Version(before[package])
                }
                if isinstance(as_of, datetime) and older:
                    pins = [f"{package}<={version}" for package, version in older.items()]
                    text = self.resolve(name, as_of, tick, exempt=older, pins=pins)
                    after = stacks.parse(text, str(file), self.version)
                resolved[file] = text
            moved += stacks.moves(before, after, name)
        for file, text in resolved.items():
            stacks.write_lock(file, text)
        return tuple(moved)

    @property
    def cooldown(self) -> datetime | None:
        """Until when a release has to be out for nights to lock it; None: any."""
        days = self.settings.cooldown_days
        return datetime.now(UTC).replace(microsecond=0) - timedelta(days=days) if days else None
