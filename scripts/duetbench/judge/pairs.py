"""Base and head of a comparison, and the pairs of their cases."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path

from duetbench.app.inside.programs import MOST_PATHS
from duetbench.app.setting import SERVED, Contrast
from duetbench.app.subject import Subject
from duetbench.app.testbed import BothSides, SideCase, Testbed, server_of
from duetbench.core.comparison import PackageChange, SideRecord
from duetbench.core.errors import UsageError
from duetbench.core.model import Case, Missing
from duetbench.judge.samples import CaseDuets, Mode


@dataclass(eq=False)
class Pair(CaseDuets):
    """One case as each side serves it, why the change can affect it, and what is known of it.

    `case` is as head defines it. `label` names head's stack if several are measured against one
    base. With `start`, each sample is one start of each side. `alike`: both sides execute the same
    for a request, and differ only in how they are served.
    """

    base: SideCase
    head: SideCase
    reason: str = ""
    label: str = ""
    start: bool = False
    alike: bool = False

    def __post_init__(self) -> None:
        mode = Mode.START if self.start else Mode.ALONE if self._compete() else Mode.TOGETHER
        loads = {side.case.load.connections for side in self.sides}
        super().__init__(self.head.case, mode, timed=len(loads) > 1)
        self.partial = len(self.case.endpoint.paths) >= MOST_PATHS

    @property
    def sides(self) -> tuple[SideCase, SideCase]:
        return self.base, self.head

    @property
    def unequal(self) -> bool:
        """Whether the declarations give the sides unequal workers, threads or connections."""
        cases = [side.case for side in self.sides]
        return len({(case.workers, case.threads, case.load.connections) for case in cases}) > 1

    def _compete(self) -> bool:
        """Whether two servers at once would keep each other from cores that one could use.

        Several workers, or threads without the GIL, compute at once on several cores. Sides with
        unequal workers, threads or connections, or with other servers, share no core equally.
        """
        cases = [side.case for side in self.sides]
        computing = {case.workers * (case.threads or 1 if case.free_threaded else 1)
                     for case in cases}  # fmt: skip
        several = len(self.head.testbed.server_cores(self.head.case)) > 1
        return (
            self.unequal
            or len({case.server for case in cases}) > 1
            or len(computing) > 1
            or any(case.scales for case in cases)
            or (several and max(computing) > 1 and not self.head.case.endpoint.floor)
        )

    @property
    def server(self) -> Hashable:
        """Key that is equal for cases that one launch of each side can serve."""
        # The canary has the anchor twice.
        places = [part.testbed.subject.root for part in self.sides]
        own = "" if self.mode is Mode.TOGETHER else self.case.id
        return (self.label, own, *places, *(server_of(part.case) for part in self.sides))


@dataclass(frozen=True, slots=True)
class Side:
    """Base or head, ready to be measured."""

    record: SideRecord
    testbed: Testbed  # for the cases that both sides have
    cases: tuple[Case, ...]
    tree: str | None = None  # the git tree of `root`; None if it is no revision

    @property
    def subject(self) -> Subject:
        """The copy that its applications are read from."""
        return self.testbed.subject

    @property
    def root(self) -> Path:
        return self.subject.root


@dataclass(frozen=True, slots=True)
class Sides:
    """Both sides and their pairs of cases: all common ones, or those to judge.

    `affected` selects the pairs to judge, and sets the fields from `packages` on.
    """

    base: Side
    head: Side
    repository: Path  # the checkout that the command runs in
    pairs: tuple[Pair, ...]
    missing: tuple[Missing, ...]  # cases that one side lacks or defines differently
    cross: bool = False  # whether the sides are a choice of interpreters or settings, not a change
    notes: tuple[str, ...] = ()
    packages: tuple[PackageChange, ...] = ()
    untouched: int = 0  # common cases that the change cannot affect
    empty_reason: str = ""  # a sentence on why there is nothing to judge, if so

    @property
    def to_observe(self) -> tuple[BothSides, ...]:
        """The pairs to judge, without those whose sides execute the same."""
        return tuple(pair.sides for pair in self.pairs if not pair.alike)


def require_code(option: str, contrast: Contrast) -> None:
    """Refuse an option about the code if both sides execute the same; raises UsageError."""
    if contrast.kinds == {"setting"} and contrast.crossing <= SERVED:
        raise UsageError(f"{option}: both sides execute the same for a request: leave it out")
