"""`benchmarks/gil_in_process.toml`: what the source of experiment 4 published, and how to show it.

The counterpart of an experiment's `published.toml` for figures that asv measures: parts (a
benchmark and its table), published seconds, and statements about the shape.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Self

from pydantic import Field, model_validator

from servebench.declarations import read_toml, validated
from servebench.formulas import FormulaError, evaluate
from servebench.model import Frozen

FILE: Final = "benchmarks/gil_in_process.toml"
LEAST_NAMES: Final = ("serial", "tasks", "cores", "slowest")
"""What the shortest possible time may be a formula over: seconds, counts, cores, seconds."""


class SourceText(Frozen):
    """Where the experiment comes from."""

    title: str
    date: str
    setting: str


class Part(Frozen):
    """One benchmark, whose parameter `mode` says in which way the same work is done."""

    title: str
    benchmark: str
    keys: tuple[str, ...] = Field(default=(), description="Its parameters besides `mode`.")
    least: str | None = Field(
        default=None, description="Formula for the shortest possible time, in seconds."
    )
    slowest: str | None = Field(
        default=None, description="The benchmark that tracks the slowest single round."
    )

    @model_validator(mode="after")
    def _formula(self) -> Self:
        if self.least is not None:
            try:
                evaluate(self.least, dict.fromkeys(LEAST_NAMES, 1.0))
            except FormulaError as problem:
                raise ValueError(str(problem)) from problem
        return self


class PublishedSeconds(Frozen):
    """What the source measured in one run, by mode, in seconds."""

    part: str
    run: str | None = None
    where: dict[str, str] = Field(default_factory=dict)
    seconds: dict[str, float]


class Side(Frozen):
    """One of two figures."""

    mode: str
    python: str


class GilShape(Frozen):
    """`above` takes at least, at most so many times as long as `below`."""

    statement: str
    part: str
    where: dict[str, str] = Field(default_factory=dict)
    above: Side
    below: Side
    least: float | None = None
    most: float | None = None
    if_not: str | None = None

    @model_validator(mode="after")
    def _limited(self) -> Self:
        if self.least is None and self.most is None:
            raise ValueError("a shape needs least or most, or both")
        return self


class Declared(Frozen):
    """The file."""

    question: str
    deviations: tuple[str, ...]
    source: SourceText
    parts: dict[str, Part]
    published: tuple[PublishedSeconds, ...]
    shapes: tuple[GilShape, ...]

    @model_validator(mode="after")
    def _known_parts(self) -> Self:
        items: list[PublishedSeconds | GilShape] = [*self.published, *self.shapes]
        for item in items:
            if item.part not in self.parts:
                raise ValueError(f"no part {item.part!r}; declared: {', '.join(self.parts)}")
            if set(item.where) != set(self.parts[item.part].keys):
                raise ValueError(
                    f"part {item.part}: expected `where` to name {list(self.parts[item.part].keys)}"
                    f", found {sorted(item.where)}"
                )
        return self

    def seconds(self, part: str, where: dict[str, str], *modes: str) -> list[tuple[float, ...]]:
        """Published seconds of several modes together, one tuple per run that has all of them."""
        return [
            tuple(row.seconds[mode] for mode in modes)
            for row in self.published
            if row.part == part and row.where == where and all(m in row.seconds for m in modes)
        ]

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """All benchmarks that are shown."""
        named = [(part.benchmark, part.slowest) for part in self.parts.values()]
        return tuple(name for pair in named for name in pair if name)


def read_declared(root: Path) -> Declared:
    """Read the file of a checkout.

    Raises:
        DeclarationError: It is missing, is not TOML, or declares what is not allowed.
    """
    return validated(Declared, read_toml(root / FILE, FILE), FILE, keys="only documented keys")
