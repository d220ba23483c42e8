"""Trials of the instrument: comparisons whose right answer is known beforehand.

A trial keeps, besides what was said, the figures of every duet, so that other ways of judging can
be held against the very same launches.
"""

from collections import Counter
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from pydantic import Field

from duetbench.core.metrics import LEADING
from duetbench.core.model import Artefact, Frozen
from duetbench.store import files
from duetbench.store.comparison import CaseComparison, Comparison, MicroComparison, Verdict, add_up

FORMAT_VERSION: Final = 2
"""Version of the trial file. 1: duets of two stages, as in comparisons (2026-11). 2: of one."""

FOLDER: Final = "selftest"
"""Below `results/`: one file per trial, by machine, never rewritten."""

OFFSETS: Final = "installations"
"""Below a machine's trials: one file per installation that was held against the original."""

Kind = Literal["aa", "busy", "cache", "dependency", "memory", "queue", "wait"]

CPU_METRIC: Final = "server_cpu_per_request"
INSIDE_METRIC: Final = "seconds"
"""Of benchmarks inside the process, whose case is the name of their series."""


class Installation(Frozen):
    """In what a second installation differs from the first one, besides its inodes and places."""

    path: int = Field(description="Characters by which its paths are longer, about.")
    padding: int = Field(description="Bytes that the environment of its servers holds more.")
    interpreter: bool = Field(description="Whether the interpreter was copied, too.")


class Offset(Artefact):
    """A second installation, or the original itself, held against the original by duets."""

    what: ClassVar[str] = "an offset between installations"
    indent: ClassVar[int | None] = None

    format: Literal[1] = 1
    session: str = Field(description="When the first of those began that have one original.")
    installation: Installation | None = Field(
        default=None, description="The second one; null: the original was held against itself."
    )
    machine: str
    commit: str | None
    started: str
    ratios: dict[str, tuple[float, ...]] = Field(
        description="Case → CPU per request, copy over original, of every usable duet."
    )


class Said(Frozen):
    """What the comparison said of one case and metric."""

    case: str
    metric: str
    verdict: Verdict
    ratio: float | None
    low: float | None
    high: float | None
    detectable: float | None
    duets: int
    reason: str = ""


class Figures(Frozen):
    """One case's figures of both sides, one entry per usable duet."""

    case: str
    metric: str
    base: tuple[float, ...]
    head: tuple[float, ...]


def _from_format_1(document: dict[str, Any]) -> dict[str, Any]:
    add_up(document["said"])
    seconds = document.pop("screening_seconds") + document.pop("confirmation_seconds")
    return {**document, "format": 2, "duet_seconds": seconds}


class Trial(Artefact):
    """One comparison whose right answer is known."""

    what: ClassVar[str] = "a trial"
    indent: ClassVar[int | None] = None
    upgrades: ClassVar = {1: _from_format_1}

    format: Literal[2] = FORMAT_VERSION
    id: str
    kind: Kind
    size: float = Field(
        default=0.0, description="Planted relative growth; for `queue` the requests at once."
    )
    planted: str = Field(default="", description="The case that was changed; empty for A/A.")
    instructions: float | None = Field(
        default=None, description="Ratio of the instructions per request, head over base."
    )
    share: float | None = Field(
        default=None,
        description="Part of base's CPU per request that the application takes without a server.",
    )
    sequential: float | None = Field(
        default=None,
        description="Ratio of the CPU per request in sequential launches (ABBA), head over base.",
    )
    installation: Installation | None = Field(
        default=None, description="Head's, against base's; null: both sides were one."
    )
    method: int = Field(default=1, description="Version of the method; see comparisons.")
    again: str | None = Field(
        default=None, description="Id of the trial that was made again, with other copies."
    )
    machine: str
    commit: str | None
    started: str
    duet_seconds: float = Field(description="Wall time of all duets.")
    wall_seconds: float
    planned: int = Field(description="Cases that were to be judged.")
    said: tuple[Said, ...]
    figures: tuple[Figures, ...]
    flags: dict[str, int] = Field(
        default_factory=dict, description="Validity flag → how many duets it was raised in."
    )
    memory: str | None = Field(
        default=None,
        description="How the duets' memory is to be read; null: shared pages count half.",
    )

    @property
    def predicted(self) -> float | None:
        """Ratio of the CPU per request that follows from the instructions; None without a count.

        Instructions are those of the application alone, while a request's CPU is the server's and
        the kernel's too: a growth of the one is a smaller growth of the other.
        """
        if self.instructions is None or self.share is None:
            return None
        return 1 + (self.instructions - 1) * self.share


def of_comparison(
    comparison: Comparison,
    kind: Kind,
    *,
    size: float = 0.0,
    planted: str = "",
    share: float | None = None,
) -> Trial:
    """Keep of a comparison what the self-test needs."""
    changed = next((one for one in comparison.cases if one.case.id == planted), None)
    counted = changed.instructions if changed else None
    sequential = (changed.absolute_base, changed.absolute_head) if changed else ({}, {})
    base, head = (figures.get(CPU_METRIC) for figures in sequential)
    duets = [duet for case in comparison.cases for duet in case.duets]
    flags = Counter(
        name
        for duet in duets
        for name in {str(flag.name) for flag in (*duet.flags_base, *duet.flags_head)}
    )
    return Trial(
        id=comparison.id,
        kind=kind,
        size=size,
        planted=planted,
        instructions=counted.head / counted.base if counted else None,
        share=share,
        sequential=head / base if base and head else None,
        method=int(comparison.method.get("version", 1)),
        machine=comparison.machine.id,
        commit=comparison.head.commit,
        started=comparison.started,
        duet_seconds=sum(duet.seconds for duet in duets),
        wall_seconds=comparison.wall_seconds,
        planned=comparison.planned,
        said=tuple(
            Said(case=case.case.id, **judged.model_dump(include=set(Said.model_fields) - {"case"}))
            for case in comparison.cases
            for judged in case.judgements
        )
        + tuple(_inside(micro) for micro in comparison.micro),
        figures=tuple(
            found
            for case in comparison.cases
            for metric in LEADING
            if (found := _figures(case, metric)).base
        )
        + tuple(
            Figures(case=micro.series, metric=INSIDE_METRIC, base=micro.base, head=micro.head)
            for micro in comparison.micro
        ),
        flags=dict(sorted(flags.items())),
        memory=str(comparison.method["memory"]) if "memory" in comparison.method else None,
    )


def _inside(micro: MicroComparison) -> Said:
    judged = micro.judgement.model_dump(include=set(Said.model_fields) - {"case", "metric"})
    return Said(case=micro.series, metric=INSIDE_METRIC, **judged)


def _figures(case: CaseComparison, metric: str) -> Figures:
    usable = [duet for duet in case.duets if duet.usable and metric in duet.base.keys() & duet.head]
    return Figures(
        case=case.case.id,
        metric=metric,
        base=tuple(duet.base[metric] for duet in usable),
        head=tuple(duet.head[metric] for duet in usable),
    )


def trial_path(trial: Trial) -> Path:
    """Where a trial is kept, below `results/`."""
    return Path(FOLDER, trial.machine, f"{trial.id.split('-')[0]}-{trial.kind}.json")


def save_trial(results: Path, trial: Trial) -> Path:
    """Write a trial; RecordError if it cannot be written."""
    return files.write(results / trial_path(trial), trial)


def save_offset(results: Path, offset: Offset) -> Path:
    """Write an offset; RecordError if it cannot be written."""
    stamp = offset.started.translate({ord("-"): None, ord(":"): None})
    return files.write(results / FOLDER / offset.machine / OFFSETS / f"{stamp}.json", offset)


def load_offsets(results: Path) -> tuple[Offset, ...]:
    """Read all offsets, oldest first; errors as of `load_trials`."""
    found = sorted((results / FOLDER).glob(f"*/{OFFSETS}/*.json"))
    return tuple(files.read(Offset, path) for path in found)


def load_trials(results: Path) -> tuple[Trial, ...]:
    """Read all trials, oldest first; RecordError if one of the files is none."""
    return tuple(files.read(Trial, path) for path in sorted((results / FOLDER).glob("*/*.json")))
