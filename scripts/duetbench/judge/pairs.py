"""Pairs the cases of two revisions, and decides whose files hold.

A case is compared with itself only. An id that means something else on the other side (another
load, another path, another answer) is missing there, as is one that the other side does not have.

Head's declarations (`experiment.toml`: cases, loads, what is right) hold for both sides, so that a
change of them alone changes nothing, and what head declares for the first time can be compared with
older code. Applications, locks and interpreters are what is compared: of these a side is lent only
what it does not have at all, and the report says so.
"""

import filecmp
import shutil
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from duetbench.core.errors import DeclarationError, UsageError
from duetbench.core.model import Case, Missing, Profile
from duetbench.host import paths
from duetbench.project.anchor import FILE as ANCHOR
from duetbench.project.experiments import Experiment, expand_all
from duetbench.project.project import Project
from duetbench.project.published import FILE as PUBLISHED
from duetbench.project.schema import FILE, EndpointTable
from duetbench.project.types import Settings, Stack

_MAY_DIFFER: Final = frozenset({"endpoint.app", "endpoint.takes", "load.duration", "load.timeout"})
"""Fields that a case may define differently and stay the same question: where its application is,
and what planning knows of its duration (a duet has its own)."""

_BY_INTERPRETER: Final = frozenset({"id", "python", "slots", "endpoint.overlap"})
"""Fields that differ between two interpreters because of them."""

_LONGEST: Final = 40  # characters of a value in a sentence


@dataclass(frozen=True, slots=True)
class Pair:
    """One case as each side defines it, and why the change can affect it."""

    base: Case
    head: Case
    reason: str = ""


def paired(
    base: Sequence[Case], head: Sequence[Case], *, cross: bool = False
) -> tuple[tuple[Pair, ...], tuple[Missing, ...]]:
    """Match the cases of the two sides, in head's order, and tell what has no partner.

    Between two interpreters (`cross`) a case belongs to the one that differs in nothing else.
    """
    partners = {_key(case, cross): case for case in base}
    pairs: list[Pair] = []
    missing: list[Missing] = []
    for case in head:
        other = partners.pop(_key(case, cross), None)
        if other is None:
            missing.append(Missing(case=case.id, reason="only head has it"))
        elif different := differences(other, case, cross=cross):
            reason = f"defined otherwise on head: {'; '.join(different)}"
            missing.append(Missing(case=case.id, reason=reason))
        else:
            reason = f"Python {case.python} instead of {other.python}" if cross else ""
            pairs.append(Pair(other, case, reason))
    missing += [Missing(case=case.id, reason="only base has it") for case in partners.values()]
    return tuple(pairs), tuple(missing)


def differences(base: Case, head: Case, *, cross: bool = False) -> tuple[str, ...]:
    """Tell in what two cases are defined otherwise: `load.connections 128 → 256`."""
    before, after = _flat(base), _flat(head)
    ignored = _MAY_DIFFER | (_BY_INTERPRETER if cross else frozenset())
    return tuple(
        f"{name} {_shown(before.get(name))} → {_shown(after.get(name))}"
        for name in sorted((before.keys() | after.keys()) - ignored)
        if before.get(name) != after.get(name)
    )


def some(names: Sequence[str], at_most: int, kind: str) -> str:
    """Name the first few and count the others."""
    first, others = names[:at_most], len(names) - at_most
    if others < 1:
        return ", ".join(first)
    return f"{', '.join(first)} and {others} more {kind}{'s' if others > 1 else ''}"


def _key(case: Case, cross: bool) -> Hashable:
    if not cross:
        return case.id
    load = case.load
    return (
        case.experiment, case.endpoint.name, case.stack, case.server, case.loop, case.workers,
        case.threads, load.model, load.connections, load.rate, case.cores,
        tuple(sorted(case.env.items())),
    )  # fmt: skip


def _flat(case: Case) -> dict[str, object]:
    """A case's fields; those of endpoint and load by their path, an expected body as one value."""
    fields = case.model_dump()
    for part in ("endpoint", "load"):
        fields |= {f"{part}.{name}": value for name, value in fields.pop(part).items()}
    return fields


def _shown(value: object) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


_APART: Final = {"app", "takes"}
"""Fields of an endpoint that each side declares itself: its application, and how long it takes."""

_KEPT: Final = frozenset({FILE, PUBLISHED, ANCHOR, "pyproject.toml"})
"""Files that declare, and are not lent: the declarer's hold anyway."""

_NAMED: Final = 5  # things that a note names


def declares(root: Path) -> bool:
    """Whether a state of a repository says what is to be measured of it."""
    apps = root / "apps"
    declared = (apps / "pyproject.toml").is_file() and any(apps.glob(f"*/{FILE}"))
    return declared and paths.declares(root)


@dataclass(frozen=True, slots=True)
class Declarer:
    """The state whose declarations hold."""

    label: str
    project: Project


@dataclass(slots=True)
class SideSource:
    """One side: what it has itself, and the `files` that it is lent."""

    label: str
    project: Project
    declarer: Declarer
    files: list[str] = field(default_factory=list)
    _others: dict[str, None] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        return self.project.root

    @property
    def declared(self) -> bool:
        return declares(self.root)  # whatever it is lent: no declarations

    @property
    def notes(self) -> tuple[str, ...]:
        names = [*self.files, *self._others]
        listed = some(names, _NAMED, "file")
        note = f"{self.label} lacks {listed}: those of {self.declarer.label} are used on both sides"
        return (note,) if names else ()

    def cases(self, profile: Profile) -> tuple[Case, ...]:
        """The cases of a profile, as this side plays them, or else declares them itself."""
        declared = self.declarer.project.cases(profile)
        if self.root == self.declarer.project.root:
            return declared
        own = self._own()
        before = {case.id: case for case in expand_all(own or (), profile)}
        mine, theirs = _endpoints(own or ()), _endpoints(self.declarer.project.experiments)
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
            return self.declarer.project.read_lock(name, own)
        self._others[own.relative_to(self.root).as_posix()] = None
        return self.declarer.project.lock(name)

    def settings(self, python: str) -> Settings:
        """The settings that declare an interpreter."""
        try:
            own = self.project.settings if paths.declares(self.root) else None
        except DeclarationError:
            own = None  # of another time: we cannot read it
        if own is not None and python in own.interpreters:
            return own
        self._others[f"interpreter {python}"] = None
        return self.declarer.project.settings

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
        name = Path(*case.endpoint.app.partition(":")[0].split("."))
        places = [
            path
            for folder in (Path("apps", case.experiment), Path("apps"))
            for path in (folder / name.with_suffix(".py"), folder / name / "__init__.py")
            if (self.declarer.project.root / path).is_file()
        ]
        if not places:
            return case  # an installed one: its answers will tell
        ours, theirs = (root / places[0] for root in (self.root, self.declarer.project.root))
        if ours.is_file():
            return case if unknown or filecmp.cmp(ours, theirs, shallow=False) else None
        if own is not None:
            return None
        # Lent is what the case's application consists of, where this side has nothing.
        apps = self.declarer.project.root / "apps"
        for source in sorted((*(apps / case.experiment).rglob("*"), *apps.iterdir())):
            path = source.relative_to(self.declarer.project.root)
            if not source.is_file() or source.name in _KEPT or (self.root / path).exists():
                continue
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, self.root / path)
            self.files.append(path.as_posix())
        return case


def _endpoints(experiments: Iterable[Experiment]) -> dict[tuple[str, str], EndpointTable]:
    return {
        (experiment.name, name): table
        for experiment in experiments
        for name, table in experiment.declared.endpoints.items()
    }
