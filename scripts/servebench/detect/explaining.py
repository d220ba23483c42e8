"""The attribution of a change between two states of a stack: which function did it.

Instructions are counted, so that it needs no quiet machine.
"""

from collections.abc import Callable
from pathlib import Path

from servebench.core.errors import CountError, HistoryError, SetupError, UsageError
from servebench.record import attribution
from servebench.record.attribution import Attribution
from servebench.record.change import Candidate, ChangeRecord

Explain = Callable[[Candidate | ChangeRecord], Attribution]
"""Attributes a change; raises what `keep` tells as notes."""


def keep(
    explain: Explain, change: Candidate | ChangeRecord, results: Path, told: Callable[[str], None]
) -> None:
    """Attribute a change that has no attribution yet, and keep it.

    A change is none the less one where this fails: the reason is told.
    """
    if (results / attribution.FOLDER / f"{change.id}.json").exists():
        return
    try:
        attribution.save(results, explain(change))
    except (CountError, HistoryError, SetupError, UsageError) as problem:
        told(f"note: {change.id}: its code was not looked at: {problem}")
