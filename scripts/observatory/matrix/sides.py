"""Prepares base and head of a checkout's experiments, and heads beside its anchor."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from packaging.utils import canonicalize_name

from duetbench.core.errors import DeclarationError, SetupError, UsageError
from duetbench.core.model import Case, Missing
from duetbench.host.console import Narrator
from duetbench.judge import deployment, preparation, revisions
from duetbench.judge.pairs import Side, Sides
from duetbench.judge.preparation import Part, Scope
from duetbench.judge.revisions import Revision
from duetbench.project import interpreters, setting, stacks
from duetbench.project import plan as planning
from duetbench.project.configuration import Configuration, Interpreter
from duetbench.project.servers import SERVERS
from duetbench.project.setting import Contrast
from duetbench.project.stacks import Stack
from observatory.matrix import declared_interpreters
from observatory.matrix.anchor import Anchor
from observatory.matrix.checkout import Checkout


def prepare(checkout: Checkout, contrast: Contrast, scope: Scope) -> Sides:
    """Prepare base and head of a checkout with experiments; raises as `preparation.join`.

    Each value of theirs must be given for both sides, as their cases declare several.
    """
    settings = contrast.settings
    keys = [{word.partition("=")[0] for word in words} for words in (contrast.base, contrast.head)]
    for name in sorted((keys[0] ^ keys[1]) & {"python", *setting.OPTIONS}):
        raise UsageError(
            f"{name}: expected --base {name}=VALUE and --head {name}=VALUE, as the experiments "
            "declare several"
        )
    pythons = tuple(side.python for side in settings if side.python)
    declared = checkout.configuration.interpreters
    if unknown := [python for python in pythons if python not in declared]:
        raise UsageError(f"python: no interpreter {unknown[0]!r}; declared are {sorted(declared)}")

    states, parts = preparation.copy_states(checkout.root, contrast, scope), []
    for (place, state), side in zip(states, settings, strict=True):
        own = replace(checkout, root=place, extra_pythons=pythons)
        require_readable(own, state.label or "the checkout")
        cases = own.cases(side)
        if side.python:
            cases = tuple(case for case in cases if case.python == side.python)
        if side.lock:
            _lock(own, deployment.lock_at(checkout.root, side.lock, scope.copies).file)
        part = _part(own, state, cases, scope)
        parts.append(replace(part, python=side.python or ""))
    return preparation.join(checkout.root, contrast, scope, parts)


def _part(own: Checkout, state: Revision, cases: tuple[Case, ...], scope: Scope) -> Part:
    lacks = partial(
        unattainable, configured=own.configuration, lock=own.lock, narrator=scope.narrator
    )

    def interpreters_of(names: Sequence[str]) -> Mapping[str, Interpreter]:
        settings = own.configuration.adding(names)
        with suppress(SetupError):
            return {name: interpreters.locate(name, settings) for name in names}
        declared_interpreters.ensure(settings, scope.narrator)  # one is not installed yet
        return {name: interpreters.locate(name, settings) for name in names}

    record = preparation.record_of(state)
    return Part(record, own, cases, interpreters_of, state.tree, lacks=lacks)


def require_readable(checkout: Checkout, whose: str) -> None:
    """Read a checkout's experiments; UsageError if this version cannot."""
    try:
        _ = checkout.experiments
    except DeclarationError as error:
        raise UsageError(f"this duetbench cannot read {whose}: {error}") from error


def _lock(own: Checkout, file: Path) -> None:
    """Put a lock in the place of the one of its stack; raises UsageError if there is none."""
    own.pythons(file.stem)
    preparation.put_lock(own, file.stem, file.read_text("utf-8"))


def unattainable(
    cases: Sequence[Case],
    configured: Configuration,
    lock: Callable[[str], Stack],
    narrator: Narrator,
) -> Mapping[str, str]:
    """Make the optional interpreters of cases and their environments, as far as possible.

    Returns case → reason why it cannot be measured here.
    """
    reasons: dict[tuple[str, str], str] = {}
    for python, stack in sorted({(case.python, case.stack) for case in cases}):
        if python in configured.usual:
            continue
        try:
            declared_interpreters.ensure(configured.adding({python}), narrator)
            stacks.make_environment(lock(stack), interpreters.locate(python, configured), narrator)
        except SetupError as error:
            reasons[python, stack] = f"no {python}: {error}"
            narrator.say(f"not measured: {reasons[python, stack]}")
    by_case = {case.id: reasons.get((case.python, case.stack)) for case in cases}
    return {case: reason for case, reason in by_case.items() if reason}


def require_packages(cases: Sequence[Case], lock: Callable[[str], Stack]) -> None:
    """Check that locks have what the servers of the cases import; DeclarationError if not."""
    locked = {name: lock(name) for name in sorted({case.stack for case in cases})}
    for case in cases:
        server, stack = SERVERS[case.server], locked[case.stack]
        names = {server.name, *server.loads(case)}
        if absent := sorted(names - {canonicalize_name(name) for name in stack.packages}):
            raise DeclarationError(
                str(stack.lock),
                "packages",
                f"no {' and no '.join(absent)}",
                f"what {case.id} needs, served by {server.name} on the loop {case.loop}: "
                f"{', '.join(sorted(names))}; add it to the dependency group {case.stack} of "
                f"apps/pyproject.toml, then `observatory stack lock {case.stack}`",
            )


@dataclass(frozen=True, slots=True)
class Anchored:
    """A revision ready to be measured as base, which also prepares heads with other locks of it."""

    base: Side
    missing: tuple[Missing, ...]  # cases that cannot be served on this machine
    _part: Part
    _scope: Scope
    _generator: Path
    environments: list[Path] = field(default_factory=list)  # those that were not there before

    def head(self, label: str, lock: Callable[[str], Stack]) -> tuple[Side, tuple[Missing, ...]]:
        """Prepare the same applications with another lock of each stack, from `lock` by its name.

        If a stack cannot be resolved or installed, its cases are missing, with the reason.
        """
        reasons: dict[tuple[str, str], str] = {}
        locked: dict[str, Stack] = {}
        pairs = sorted({(case.stack, case.python) for case in self.base.cases})
        for name, python in pairs:
            try:
                if name not in locked:
                    locked[name] = lock(name)
                interpreter = self.base.testbed.interpreters[python]
                if stacks.make_environment(locked[name], interpreter, self._scope.narrator):
                    self.environments.append(stacks.place(locked[name], interpreter))
            except SetupError as error:
                reasons[name, python] = str(error)
        cases = [case for case in self.base.cases if (case.stack, case.python) not in reasons]
        record = self._part.record.model_copy(update={"label": label, "kind": "stack"})
        part = replace(self._part, record=record)
        lost = tuple(
            Missing(case=case.id, reason=reason)
            for case in self.base.cases
            if (reason := reasons.get((case.stack, case.python)))
        )
        scope, lock = self._scope, locked.__getitem__
        side = preparation.side_of(part, cases, scope, self._generator, lock)
        return side, (*self.missing, *lost)


def of_anchor(checkout: Checkout, anchor: Anchor, scope: Scope) -> Anchored:
    """Prepare the revision that stacks of other times are measured against.

    Raises:
        UsageError: There is no such revision, or it cannot be read.
        SetupError: An interpreter or environment cannot be made.
    """
    generator = preparation.generator_of(checkout, scope)
    revision = revisions.resolve(checkout.root, anchor.commit)
    place = Checkout(revisions.lay_out(checkout.root, revision, scope.copies), checkout.profile)
    require_readable(place, revision.label)
    part = _part(place, revision, place.cases(), scope)
    part = replace(part, record=part.record.model_copy(update={"kind": "revision"}))
    cases = planning.select(part.cases, scope.select)
    lost = part.lacks(cases)
    cases = tuple(case for case in cases if case.id not in lost)
    missing = tuple(Missing(case=case, reason=reason) for case, reason in lost.items())
    base = preparation.side_of(part, cases, scope, generator)
    return Anchored(base, missing, part, scope, generator)
