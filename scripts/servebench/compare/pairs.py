"""Which case of head is which case of base.

A case is compared with itself only. An id that means something else on the other side (another
load, another path, another answer) is missing there, as is one that the other side does not have.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from servebench.core.model import Case
from servebench.record.comparison import Missing

_MAY_DIFFER: Final = frozenset({"endpoint.app", "endpoint.takes", "load.duration", "load.timeout"})
"""What a case may define otherwise and stay the same question: where its application is, and what
planning knows of its duration (a duet has its own)."""

_BY_INTERPRETER: Final = frozenset({"id", "python", "slots", "endpoint.overlap"})
"""What differs between two interpreters because of them."""

_LONGEST: Final = 40  # characters of a value in a sentence


@dataclass(frozen=True, slots=True)
class Pair:
    """One case as each side defines it.

    Attributes:
        base: On base.
        head: On head; its id names the pair.
        reason: Why the change can affect it; empty while that is not known.
    """

    base: Case
    head: Case
    reason: str = ""


def paired(
    base: Sequence[Case], head: Sequence[Case], *, cross: bool = False
) -> tuple[tuple[Pair, ...], tuple[Missing, ...]]:
    """Match the cases of the two sides, in head's order. Pure.

    Between two interpreters (`cross`) a case belongs to the one that differs in nothing else.

    Returns:
        The pairs, and what has no partner.
    """
    partners = {_key(case, cross): case for case in base}
    pairs: list[Pair] = []
    missing: list[Missing] = []
    for case in head:
        other = partners.pop(_key(case, cross), None)
        if other is None:
            missing.append(Missing(case=case.id, reason="only head has it"))
            continue
        different = differences(other, case, cross=cross)
        if different:
            reason = f"defined otherwise on head: {'; '.join(different)}"
            missing.append(Missing(case=case.id, reason=reason))
        else:
            reason = f"Python {case.python} instead of {other.python}" if cross else ""
            pairs.append(Pair(other, case, reason))
    missing += [Missing(case=case.id, reason="only base has it") for case in partners.values()]
    return tuple(pairs), tuple(missing)


def differences(base: Case, head: Case, *, cross: bool = False) -> tuple[str, ...]:
    """Tell in what two cases are defined otherwise: `load.connections 128 → 256`."""
    before, after = dict(_flat(base.model_dump())), dict(_flat(head.model_dump()))
    ignored = _MAY_DIFFER | (_BY_INTERPRETER if cross else frozenset())
    return tuple(
        f"{name} {_shown(before.get(name))} → {_shown(after.get(name))}"
        for name in sorted((before.keys() | after.keys()) - ignored)
        if before.get(name) != after.get(name)
    )


def some(names: Sequence[str], at_most: int, kind: str) -> str:
    """Name the first few and count the others."""
    named, others = names[:at_most], len(names) - at_most
    if others < 1:
        return ", ".join(named)
    return f"{', '.join(named)} and {others} more {kind}{'s' if others > 1 else ''}"


def _key(case: Case, cross: bool) -> Hashable:
    if not cross:
        return case.id
    load = case.load
    return (
        case.experiment, case.endpoint.name, case.stack, case.server, case.loop, case.workers,
        case.threads, load.model, load.connections, load.rate, case.cores,
        tuple(sorted(case.env.items())),
    )  # fmt: skip


def _flat(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Name the fields of endpoint and load by their path; an expected body is one value."""
    for name, value in values.items():
        if prefix == "" and name in {"endpoint", "load"}:
            yield from _flat(value, f"{name}.")
        else:
            yield prefix + name, value


def _shown(value: object) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
