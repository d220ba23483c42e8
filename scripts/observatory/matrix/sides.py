"""Prepares base and head of a checkout's experiments, and heads beside its anchor.

A case is compared only with itself. If its id means something else on the other side (another
load, path or expected answer), the case counts as missing, like one that only one side has.
"""

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast

from duetbench.app import case_names, revisions, setting, stacks
from duetbench.app.setting import Contrast
from duetbench.app.stacks import Stack
from duetbench.core.comparison import Missing
from duetbench.core.errors import SetupError, UsageError
from duetbench.core.model import Case
from duetbench.host import cache
from duetbench.host.console import Narrator
from duetbench.judge import preparation
from duetbench.judge.pairs import Side, Sides
from duetbench.judge.preparation import Pairs, Part, Scope
from observatory.matrix import declared_interpreters
from observatory.matrix.checkout import Anchor, Checkout


def prepare(checkout: Checkout, contrast: Contrast, scope: Scope) -> Sides:
    """Prepare base and head of a checkout with experiments; raises as `preparation.join`.

    Each value of theirs must be given for both sides, as their cases declare several.
    """
    settings = contrast.settings
    keys = [{word.partition("=")[0] for word in words} for words in (contrast.base, contrast.head)]
    if lone := sorted((keys[0] ^ keys[1]) & {"python", *setting.OPTIONS}):
        raise UsageError(
            f"{lone[0]}: expected --base {lone[0]}=VALUE and --head {lone[0]}=VALUE, as the "
            "experiments declare several"
        )
    declared = checkout.declared.interpreters
    if unknown := {side.python for side in settings if side.python}.difference(declared):
        raise UsageError(f"python: no interpreter {min(unknown)!r}; declared are {[*declared]}")
    states, parts = preparation.copy_states(checkout.root, contrast, scope), list[Part]()
    for (place, state), side in zip(states, settings, strict=True):
        own = replace(checkout, root=place)
        cases = own.cases(side)
        if side.lock:
            file = preparation.lock_at(checkout.root, side.lock, scope.copies).file
            own.pythons(file.stem)  # raises for a stack that there is not
            stacks.write_lock(own.lock_file(file.stem), file.read_text("utf-8"))
        parts.append(Part(state, own, cases))
    pairs, absent = match(parts[0].cases, parts[1].cases, scope, contrast.crossing)
    lost = dict[str, str]()
    for index, part in enumerate(parts):
        heads = {pair[index].id: pair[1].id for pair in pairs}
        cases = tuple(case for case in part.cases if case.id in heads)
        unserved = unmeasurable(cases, cast("Checkout", part.subject), scope.narrator)
        lost |= {heads[name]: reason for name, reason in unserved.items()}
    left = [pair for pair in pairs if pair[1].id not in lost]
    if pairs and not left:
        raise SetupError(f"no selected case can be served on both sides: {min(lost.values())}")
    both = preparation.join(checkout.root, contrast, scope, parts, left)
    return replace(both, missing=(*absent, *missing(lost)))


def match(
    base: Sequence[Case], head: Sequence[Case], scope: Scope, crossing: Collection[str] = ()
) -> tuple[Pairs, tuple[Missing, ...]]:
    """Match the selected cases of both sides, in head's order, and list those without a partner.

    `crossing` names fields in which the sides differ on purpose, such as the interpreter. Then a
    case's partner is the one that differs in nothing else. A pair is selected by either id; raises
    UsageError if nothing is.
    """

    def selects(*names: str) -> bool:
        return not scope.select or any(fnmatchcase(n, glob) for n in names for glob in scope.select)

    partners, pairs, absent = {_key(case, crossing): case for case in base}, [], dict[str, str]()
    for case in head:
        if old := partners.pop(_key(case, crossing), None):
            pairs.append((old, case))
        else:
            absent[case.id] = "only head declares it like this"
    for case in partners.values():
        absent.setdefault(case.id, "only base declares it like this")
    chosen = [pair for pair in pairs if selects(pair[0].id, pair[1].id)]
    absent = {name: reason for name, reason in absent.items() if selects(name)}
    if not (chosen or absent):
        case_names.select(head, scope.select)  # says what may be meant
    return chosen, missing(absent)


def _key(case: Case, crossing: Collection[str]) -> str:
    """Return what a case and its partner have in common.

    Not where its application is, how long it is loaded, and what follows from a crossed field.
    """
    crossed = {"id", "slots", "env_names", *crossing} if crossing else set()
    load = {"duration", "timeout", *(name.removeprefix("load.") for name in crossing)}
    parts: dict[str, Any] = {"endpoint": {"app", "takes"}, "load": load}
    return case.model_dump_json(exclude={**dict.fromkeys(crossed, True), **parts})


def unmeasurable(
    cases: Iterable[Case],
    checkout: Checkout,
    narrator: Narrator,
    lock: Callable[[str], Stack] | None = None,
    made: Callable[[Path], object] = str,
) -> dict[str, str]:
    """Install what cases run in, and return those for which that is not to be had, with the reason.

    `lock` finds other locks of stacks than the checkout's. `made` gets each new environment.
    """
    reasons = dict[tuple[str, str], str]()
    for stack, python in sorted({(case.stack, case.python) for case in cases}):
        try:
            declared_interpreters.ensure(checkout.declared, narrator, python)
            interpreter = checkout.interpreter(python)
            locked = (lock or checkout.lock)(stack)
            if stacks.make_environment(locked, interpreter, narrator):
                made(stacks.place(locked, interpreter))
        except SetupError as error:
            reasons[stack, python] = str(error)
            narrator.say(f"not measured: {stack} for {python}: {error}")
    served = {case.id: reasons.get((case.stack, case.python)) for case in cases}
    return {case: reason for case, reason in served.items() if reason}


def of_anchor(
    checkout: Checkout, anchor: Anchor, scope: Scope
) -> tuple[Part, Side, tuple[Missing, ...]]:
    """Prepare the anchor as base, for the checkout's selected cases; return also what it lacks.

    Raises:
        UsageError: Nothing is selected, or there is no such revision.
        DeclarationError: Its declarations cannot be read.
        SetupError: There is no load generator.
    """
    wanted = {case.id for case in case_names.select(checkout.cases(), scope.select)}
    revision = revisions.resolve(checkout.root, anchor.commit)
    place = Checkout(revisions.lay_out(checkout.root, revision, scope.copies), checkout.profile)
    part = Part(revision, place, place.cases(), "revision")
    cases = [case for case in part.cases if case.id in wanted]
    lost = dict.fromkeys(wanted.difference(case.id for case in cases), "the anchor lacks it")
    lost |= unmeasurable(cases, place, scope.narrator)
    cases = [case for case in cases if case.id not in lost]
    return part, preparation.side_of(part, cases, scope), missing(lost)


@contextmanager
def beside_anchor(
    part: Part, base: Side, label: str, lock: Callable[[str], Stack], scope: Scope
) -> Iterator[tuple[Side, tuple[Missing, ...]]]:
    """Prepare the anchor's applications as head, with another lock of each stack, by its name.

    If a stack cannot be resolved or installed, its cases are missing, with the reason.
    Environments that this makes are removed at the end.
    """
    made, find = list[Path](), functools.cache(lock)
    try:
        lost = unmeasurable(
            base.cases, cast("Checkout", part.subject), scope.narrator, find, made.append
        )
        part = replace(part, state=replace(part.state, label=label), kind="stack")
        cases = [case for case in base.cases if case.id not in lost]
        yield preparation.side_of(part, cases, scope, find), missing(lost)
    finally:
        for place in made:
            cache.remove(place)


def missing(reasons: Mapping[str, str]) -> tuple[Missing, ...]:
    """Record cases that cannot be served, with the reasons."""
    return tuple(Missing(case=case, reason=reasons[case]) for case in sorted(reasons))
