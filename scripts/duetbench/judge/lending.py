"""Lends one revision what it lacks of another, whose declarations hold for both.

Head's declarations (`experiment.toml`: cases, loads, right answers) hold for both sides. So a
change of them alone changes nothing, and a case that head declares first can be compared with older
code. Applications, locks and interpreters are what is compared: a side borrows only those that it
lacks completely, and the report says so.
"""

import filecmp
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from duetbench.core.errors import DeclarationError, UsageError
from duetbench.core.model import Case, Profile
from duetbench.core.text import some
from duetbench.host import paths
from duetbench.project.configuration import Configuration
from duetbench.project.experiments import Experiment
from duetbench.project.project import Project
from duetbench.project.schema import ANCHOR, FILE, PUBLISHED, EndpointTable
from duetbench.project.setting import AS_DECLARED, Setting
from duetbench.project.stacks import Stack
from duetbench.project.target_locks import module_files, source_folders

_APART: Final = {"app", "takes"}
"""Fields of an endpoint that each side declares itself: its application, and its duration."""

_DECLARING: Final = frozenset({FILE, PUBLISHED, ANCHOR, "pyproject.toml"})
"""Files that are not lent, since the declarer's always apply."""

_NAMED: Final = 5  # things to name in a note


def lend_module(module: str, to: Path, source: Path) -> tuple[str, ...]:
    """Copy the module with a target's application to a copy of a revision without that module.

    Returns the files, from the copy's root; none if it has the module, or the source lacks it too.
    """
    files = module_files(module)

    def locate(root: Path) -> Path | None:
        places = (Path(place, file) for place in source_folders(root, module) for file in files)
        return next((place for place in places if (root / place).is_file()), None)

    origin = locate(source)
    if origin is None or locate(to) is not None:
        return ()
    around = [folder / "__init__.py" for folder in origin.parents]
    return tuple(_lend([origin, *around], source, to))


def _lend(places: Iterable[Path], source: Path, to: Path) -> list[str]:
    """Copy files that only the source has, and return them as paths from the copy's root."""
    files = [place for place in places if (source / place).is_file() and not (to / place).exists()]
    for place in files:
        (to / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / place, to / place)
    return [place.as_posix() for place in files]


def lend_experiments(source: Project, to: Project, profile: Profile) -> tuple[Case, ...]:
    """Lend the files of experiments that only the source has, and return their cases."""
    own, apps = {experiment.name for experiment in to.experiments}, source.root / "apps"
    cases = tuple(case for case in source.cases(profile) if case.experiment not in own)
    for name in {case.experiment for case in cases}:
        files = (*(apps / name).rglob("*"), *apps.glob("*.py"))
        _lend((file.relative_to(source.root) for file in files), source.root, to.root)
    return cases


def declares(root: Path) -> bool:
    """Whether a state of a repository declares what to measure."""
    return has_experiments(root) and paths.declares(root)


def has_experiments(root: Path) -> bool:
    """Whether a state has experiments, if only in a project that had another name then."""
    apps = root / "apps"
    return (apps / "pyproject.toml").is_file() and any(apps.glob(f"*/{FILE}"))


@dataclass(slots=True)
class Borrower:
    """A revision measured by the declarations of another state, the declarer.

    `files` are the files that it borrows; `others` what else it uses of the declarer.
    """

    label: str
    project: Project
    declarer: Project
    owner: str
    files: list[str] = field(default_factory=list)
    others: dict[str, None] = field(default_factory=dict)

    @property
    def declared(self) -> bool:
        return declares(self.project.root)  # borrowed files never include declarations

    @property
    def notes(self) -> tuple[str, ...]:
        names = [*self.files, *self.others]
        listed = some(names, _NAMED)
        note = f"{self.label} lacks {listed}: those of {self.owner} are used on both sides"
        return (note,) if names else ()

    def cases(self, profile: Profile, setting: Setting = AS_DECLARED) -> tuple[Case, ...]:
        """List a profile's cases as this side serves them, or else as it declares them itself."""
        declared = self.declarer.cases(profile, setting)
        if self.project.root == self.declarer.root:
            return declared
        own = self._own()
        before = {case.id: case for experiment in own or () for case in experiment.cases[profile]}
        if setting.served:
            before = {}  # its own declarations are served otherwise
        own_tables, tables = _endpoints(own or ()), _endpoints(self.declarer.experiments)
        cases = []
        for case in declared:
            key = case.experiment, case.endpoint.name
            other = before.pop(case.id, None)
            cases.append(self._serve(case, tables[key], own_tables.get(key), own is None) or other)
        return (*filter(None, cases), *before.values())

    def lock(self, name: str) -> Stack:
        """Read the lock of a stack; raises like `Project.lock`."""
        own = self.project.lock_file(name)
        if own.is_file():
            return self.declarer.read_lock(name, own)
        self.others[own.relative_to(self.project.root).as_posix()] = None
        return self.declarer.lock(name)

    def configuration_for(self, python: str) -> Configuration:
        try:
            own = self.project.configuration if paths.declares(self.project.root) else None
        except DeclarationError:
            own = None  # an old format that this version cannot read
        if own is not None and python in own.interpreters:
            return own
        self.others[f"interpreter {python}"] = None
        return self.declarer.configuration

    def _own(self) -> tuple[Experiment, ...] | None:
        """Return the experiments that it declares itself; None if they cannot be read."""
        if not has_experiments(self.project.root):
            return ()
        try:
            return self.project.experiments
        except (DeclarationError, UsageError):
            return None

    def _serve(
        self, case: Case, table: EndpointTable, own: EndpointTable | None, unknown: bool
    ) -> Case | None:
        """Return the case as this side serves it; None if it lacks the endpoint, or has another."""
        if own and own.model_dump(exclude=_APART) == table.model_dump(exclude=_APART):
            endpoint = case.endpoint.model_copy(update={"app": own.app})
            return case.model_copy(update={"endpoint": endpoint})
        own_root, root = self.project.root, self.declarer.root
        files = module_files(case.endpoint.app.partition(":")[0])
        places = [
            path
            for folder in (Path("apps", case.experiment), Path("apps"))
            for path in (folder / file for file in files)
            if (root / path).is_file()
        ]
        if not places:
            return case  # an installed module; the answers show whether it is right
        module = places[0]
        if (own_root / module).is_file():
            same = unknown or filecmp.cmp(own_root / module, root / module, shallow=False)
            return case if same else None
        if own is not None:
            return None
        # This side has nothing, so it borrows all files of the case's application.
        apps = root / "apps"
        files_ = sorted((*(apps / case.experiment).rglob("*"), *apps.iterdir()))
        places = [file.relative_to(root) for file in files_ if file.name not in _DECLARING]
        self.files += _lend(places, root, own_root)
        return case


def _endpoints(experiments: Iterable[Experiment]) -> dict[tuple[str, str], EndpointTable]:
    return {
        (experiment.name, name): table
        for experiment in experiments
        for name, table in experiment.declaration.endpoints.items()
    }
