"""Matches the cases and packages of base and head.

A case is compared only with itself. If its id means something else on the other side (another
load, path or expected answer), the case counts as missing, like one that only one side has.
"""

from collections.abc import Collection, Hashable, Sequence
from typing import Final

from duetbench.core.model import Case, Frozen, Missing
from duetbench.core.text import short
from duetbench.measure.testbed import Testbed
from duetbench.project import stacks
from duetbench.store.comparison import PackageChange

_MAY_DIFFER: Final = frozenset({"endpoint.app", "endpoint.takes", "load.duration", "load.timeout"})
"""Fields in which a case may differ and still be the same question: where its application is, and
how long planning expects it to take (a duet has its own duration)."""

DERIVED: Final = frozenset({"id", "slots", "endpoint.overlap", "env_names"})
"""Fields that follow from those in which sides differ on purpose."""

_CELL: Final = (
    *("experiment", "endpoint.name", "python", "stack", "server", "loop", "workers", "threads"),
    *("load.model", "load.connections", "load.rate", "cores", "env"),
)
"""Fields that identify a case, without its id."""

_LONGEST: Final = 40  # characters of a value in a sentence


def match_cases(
    base: Sequence[Case], head: Sequence[Case], crossing: Collection[str] = ()
) -> tuple[tuple[tuple[Case, Case], ...], tuple[Missing, ...]]:
    """Match the cases of the two sides, in head's order, and list those without a partner.

    `crossing` names fields in which the sides differ on purpose, such as the interpreter. Then a
    case's partner is the one that differs in nothing else.
    """
    partners = {_key(case, crossing): case for case in base}
    pairs: list[tuple[Case, Case]] = []
    missing: list[Missing] = []
    for case in head:
        other = partners.pop(_key(case, crossing), None)
        if other is None:
            missing.append(Missing(case=case.id, reason="only head has it"))
        elif different := _differences(other, case, crossing):
            reason = f"differs on head: {'; '.join(different)}"
            missing.append(Missing(case=case.id, reason=reason))
        else:
            pairs.append((other, case))
    missing += [Missing(case=case.id, reason="only base has it") for case in partners.values()]
    return tuple(pairs), tuple(missing)


def _differences(base: Case, head: Case, crossing: Collection[str]) -> list[str]:
    """List the fields in which two cases differ: `load.connections 128 → 256`."""
    before, after = flat(base), flat(head)
    ignored = _MAY_DIFFER | (DERIVED.union(crossing) if crossing else frozenset())
    if sorted(base.env.values()) == sorted(head.env.values()):
        ignored |= {"env"}  # the code of one side calls its variable something else
    return [
        f"{name} {short(str(before[name]), _LONGEST)} → {short(str(after[name]), _LONGEST)}"
        for name in sorted(after.keys() - ignored)
        if before[name] != after[name]
    ]


def _key(case: Case, crossing: Collection[str]) -> Hashable:
    if not crossing:
        return case.id
    fields = flat(case)
    return tuple(repr(fields[name]) for name in _CELL if name not in crossing)


def flat(case: Case) -> dict[str, object]:
    """Flatten a case's fields: endpoint and load by path, an expected body as one value."""
    fields = _fields(case)
    del fields["endpoint"], fields["load"]
    for part, values in (("endpoint", case.endpoint), ("load", case.load)):
        fields |= {f"{part}.{name}": value for name, value in _fields(values).items()}
    return fields


def _fields(value: Frozen) -> dict[str, object]:
    """Return all fields; files lack some that have their default."""
    return {
        **{name: getattr(value, name) for name in type(value).model_fields},
        **value.model_dump(),
    }


def package_changes(base: Testbed, head: Testbed) -> tuple[PackageChange, ...]:
    """List the packages that differ in common stacks, by version or by the files installed here."""
    changes = []
    for stack in relocked(base, head):
        before, after = base.stacks[stack].packages, head.stacks[stack].packages
        files = [
            (stacks.installed(program), stacks.installed(head.pythons[key]))
            for key, program in base.pythons.items()
            if key[0] == stack and key in head.pythons
        ]
        changes += [
            PackageChange(stack=stack, package=name, base=before.get(name), head=after.get(name))
            for name in sorted(before.keys() | after.keys())
            if before.get(name) != after.get(name)
            or any(old.get(name) != new.get(name) for old, new in files)
        ]
    return tuple(changes)


def relocked(base: Testbed, head: Testbed) -> list[str]:
    """List the common stacks with another lock."""
    common = sorted(base.stacks.keys() & head.stacks.keys())
    return [name for name in common if base.stacks[name].digest != head.stacks[name].digest]
