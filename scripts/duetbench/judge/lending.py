"""What one revision is lent of another, whose declarations hold for both.

Head's declarations (`experiment.toml`: cases, loads, what is right) hold for both sides, so that a
change of them alone changes nothing, and what head declares for the first time can be compared with
older code. Applications, locks and interpreters are what is compared: of these a side is lent only
what it does not have at all, and the report says so.
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
from duetbench.project.experiments import Experiment
from duetbench.project.project import Project
from duetbench.project.published import FILE as PUBLISHED
from duetbench.project.schema import FILE, EndpointTable
from duetbench.project.settings import ANCHOR, Settings
from duetbench.project.stacks import Stack
from duetbench.project.target_locks import module_files, source_folders

_APART: Final = {"app", "takes"}
"""Fields of an endpoint that each side declares itself: its application, and how long it takes."""

_DECLARING: Final = frozenset({FILE, PUBLISHED, ANCHOR, "pyproject.toml"})
"""Files that are not lent: the declarer's hold anyway."""

_NAMED: Final = 5  # things that a note names


def lend_module(module: str, to: Path, source: Path) -> tuple[str, ...]:
    """Copy the module that has a target's application to a copy that has no such module.

    Gives the files, from the copy's root; none: it has one, or the source has none either.
    """
    files = module_files(module)

    def lying(root: Path) -> Path | None:
        places = (Path(place, file) for place in source_folders(root, module) for file in files)
        return next((place for place in places if (root / place).is_file()), None)

    there = lying(source)
    if there is None or lying(to) is not None:
        return ()
    around = [folder / "__init__.py" for folder in there.parents]
    return tuple(_lend([there, *around], source, to))


def _lend(places: Iterable[Path], source: Path, to: Path) -> list[str]:
    """Copy files that only the source has; gives them from the copy's root."""
    lent = [one for one in places if (source / one).is_file() and not (to / one).exists()]
    for place in lent:
        (to / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / place, to / place)
    return [place.as_posix() for place in lent]


def declares(root: Path) -> bool:
    """Whether a state of a repository says what is to be measured of it."""
    apps = root / "apps"
    declared = (apps / "pyproject.toml").is_file() and any(apps.glob(f"*/{FILE}"))
    return declared and paths.declares(root)


@dataclass(slots=True)
class Borrower:
    """A revision of which another state, the declarer, says what is measured of it.

    `files` are those that it is lent; `others`: what else of the declarer's it is measured with.
    """

    label: str
    project: Project
    declarer: Project
    whose: str
    files: list[str] = field(default_factory=list)
    others: dict[str, None] = field(default_factory=dict)

    @property
    def declared(self) -> bool:
        return declares(self.project.root)  # whatever it is lent: no declarations

    @property
    def notes(self) -> tuple[str, ...]:
        names = [*self.files, *self.others]
        listed = some(names, _NAMED)
        note = f"{self.label} lacks {listed}: those of {self.whose} are used on both sides"
        return (note,) if names else ()

    def cases(self, profile: Profile) -> tuple[Case, ...]:
        """The cases of a profile, as this side plays them, or else declares them itself."""
        declared = self.declarer.cases(profile)
        if self.project.root == self.declarer.root:
            return declared
        own = self._own()
        before = {case.id: case for one in own or () for case in one.cases[profile]}
        mine, theirs = _endpoints(own or ()), _endpoints(self.declarer.experiments)
        played = []
        for case in declared:
            key = case.experiment, case.endpoint.name
            other = before.pop(case.id, None)
            played.append(self._played(case, theirs[key], mine.get(key), own is None) or other)
        return (*filter(None, played), *before.values())

    def lock(self, name: str) -> Stack:
        """The lock of a stack; errors as of `Project.lock`."""
        own = self.project.lock_file(name)
        if own.is_file():
            return self.declarer.read_lock(name, own)
        self.others[own.relative_to(self.project.root).as_posix()] = None
        return self.declarer.lock(name)

    def settings(self, python: str) -> Settings:
        """The settings that declare an interpreter."""
        try:
            own = self.project.settings if paths.declares(self.project.root) else None
        except DeclarationError:
            own = None  # of another time: we cannot read it
        if own is not None and python in own.interpreters:
            return own
        self.others[f"interpreter {python}"] = None
        return self.declarer.settings

    def _own(self) -> tuple[Experiment, ...] | None:
        """Experiments that it declares itself; None if that is not known."""
        if not self.declared:
            return ()
        try:
            return self.project.experiments
        except (DeclarationError, UsageError):
            return None

    def _played(
        self, case: Case, table: EndpointTable, own: EndpointTable | None, unknown: bool
    ) -> Case | None:
        """The case as this side plays it; None if it has another endpoint of that name, or none."""
        if own and own.model_dump(exclude=_APART) == table.model_dump(exclude=_APART):
            endpoint = case.endpoint.model_copy(update={"app": own.app})
            return case.model_copy(update={"endpoint": endpoint})
        here, there = self.project.root, self.declarer.root
        files = module_files(case.endpoint.app.partition(":")[0])
        places = [
            path
            for folder in (Path("apps", case.experiment), Path("apps"))
            for path in (folder / file for file in files)
            if (there / path).is_file()
        ]
        if not places:
            return case  # an installed one: its answers will tell
        module = places[0]
        if (here / module).is_file():
            same = unknown or filecmp.cmp(here / module, there / module, shallow=False)
            return case if same else None
        if own is not None:
            return None
        # Lent is what the case's application consists of, where this side has nothing.
        apps = there / "apps"
        files_ = sorted((*(apps / case.experiment).rglob("*"), *apps.iterdir()))
        places = [file.relative_to(there) for file in files_ if file.name not in _DECLARING]
        self.files += _lend(places, there, here)
        return case


def _endpoints(experiments: Iterable[Experiment]) -> dict[tuple[str, str], EndpointTable]:
    return {
        (experiment.name, name): table
        for experiment in experiments
        for name, table in experiment.declared.endpoints.items()
    }
