"""Trials of attributions: changes whose function is known beforehand, and pairs without a change.

Files are `results/selftest/<machine>/attributions/<id>.json`, one per try, never rewritten.
"""

from pathlib import Path
from typing import ClassVar, Final, Literal

from pydantic import Field

from duetbench.core.model import Artefact
from duetbench.store import files
from duetbench.store.attribution import FOLDER as ATTRIBUTIONS
from duetbench.store.attribution import Attribution, Row, Totals
from duetbench.store.trial import FOLDER

FIRST: Final = 3
"""Rows among which the function that was changed has to be: what an issue shows."""


class AttributionTrial(Artefact):
    """One attribution whose right answer is known."""

    what: ClassVar[str] = "a trial of an attribution"

    format: Literal[1] = 1
    id: str
    plant: str = Field(description="Name of what was planted, or of the pair without a change.")
    told: str = Field(description="The same in words.")
    unchanged: bool = Field(description="Whether both sides are one, but for where they lie.")
    functions: tuple[str, ...] = Field(
        description="Qualified names, one of which has to be named; none: nothing may be."
    )
    case: str
    python: str
    machine: str
    commit: str | None
    duetbench: str
    started: str
    totals: Totals = Field(description="Of plain counts.")
    threshold: float = Field(ge=0, description="Share of the total from which a row is told.")
    runs: int = Field(ge=1, description="Trampolined counts of each side.")
    seconds: float = Field(ge=0, description="What it took, without making the copies.")
    named: int = Field(ge=0, description="Rows that are not below the threshold.")
    rows: tuple[Row, ...] = Field(max_length=FIRST, description="The first ones.")

    @property
    def place(self) -> int | None:
        """Which row names what was planted, from 1 on; None: none of the first ones."""
        names = [row.function.name for row in self.rows]
        return next((n for n, name in enumerate(names, 1) if name in self.functions), None)

    @property
    def right(self) -> bool:
        """Whether it said what it should."""
        return self.place is not None if self.functions else not self.named


def of_attribution(
    found: Attribution, plant: str, told: str, functions: tuple[str, ...], *,
    unchanged: bool, python: str, machine: str, commit: str | None,
) -> AttributionTrial:  # fmt: skip
    """Keep of an attribution what the self-test needs."""
    started = f"{found.when:%Y-%m-%dT%H:%M:%SZ}"
    stamp = started.translate({ord("-"): None, ord(":"): None})
    least = found.threshold * found.counted.base
    named = tuple(row for row in found.rows if abs(row.head - row.base) >= least)
    return AttributionTrial(
        id=f"{stamp}-{plant}-py{python}", plant=plant, told=told, unchanged=unchanged,
        functions=functions, case=found.case, python=python, machine=machine, commit=commit,
        duetbench=found.duetbench, started=started, totals=found.totals,
        threshold=found.threshold, runs=found.runs, seconds=found.seconds,
        named=len(named), rows=named[:FIRST],
    )  # fmt: skip


def path_of(trial: AttributionTrial) -> Path:
    """Where a trial is kept, below `results/`."""
    return Path(FOLDER, trial.machine, ATTRIBUTIONS, f"{trial.id}.json")


def pattern(machine: str, plant: str, python: str) -> str:
    """Glob, below `results/`, of a machine's trials of one plant on one interpreter."""
    return f"{FOLDER}/{machine}/{ATTRIBUTIONS}/*Z-{plant}-py{python}.json"


def save(results: Path, trial: AttributionTrial) -> Path:
    """Write a trial; RecordError if it cannot be written."""
    return files.write(results / path_of(trial), trial)


def load(results: Path) -> tuple[AttributionTrial, ...]:
    """Read all trials, oldest first; RecordError if one of the files is none."""
    found = sorted((results / FOLDER).glob(f"*/{ATTRIBUTIONS}/*.json"))
    return tuple(files.read(AttributionTrial, path, named=True) for path in found)
