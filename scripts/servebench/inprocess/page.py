"""What asv measured as a page: one section per question, the newest measurement of each. Pure.

The sections are those of the reports, so they are printed and written by the same code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from servebench.inprocess import gil, tables, validation
from servebench.inprocess.declared import Declared
from servebench.inprocess.readings import Snapshot, newest
from servebench.report.page import Page, Section
from servebench.report.shapes import ShapeResult
from servebench.report.tables import Table
from servebench.summary import RunSummary

TITLE: Final = "Inside the process"
EXPERIMENT: Final = "gil-in-process"
_ONE_BY_ONE: Final = (
    "asv measures one environment after the other: what the machine does in the meantime is in the "
    "differences, so a few per cent between interpreters or stacks decide nothing here"
)


def make_page(
    snapshots: Sequence[Snapshot], declared: Declared, run: RunSummary | None = None
) -> Page:
    """Make the page.

    Args:
        snapshots: Newest first.
        declared: What the source of experiment 4 published.
        run: A run with real servers, to show beside what Pydantic takes alone.
    """
    facts = [("measured", where(snapshot)) for snapshot in snapshots]
    return Page(TITLE, tuple(facts[:1]), sections(snapshots, declared, run))


def sections(
    snapshots: Sequence[Snapshot], declared: Declared, run: RunSummary | None = None
) -> tuple[Section, ...]:
    """The sections that have a figure; arguments as for `make_page`."""
    made: list[Section] = []
    found = newest(snapshots, *declared.benchmarks)
    if found is not None:
        source = declared.source
        made.append(
            _section(
                EXPERIMENT,
                declared.question,
                gil.tables(found, declared),
                found,
                shapes=gil.shapes(found, declared),
                source=f"{source.title}, {source.date} ({source.setting})",
                deviations=declared.deviations,
            )
        )
    found = newest(snapshots, validation.MODULE)
    if found is not None and (table := validation.table(found, run)) is not None:
        question = "What does Pydantic 2 gain alone, and what of it arrives in a response?"
        shape = validation.shape(found, run)
        made.append(_section("pydantic alone", question, (table,), found, shapes=(shape,)))
    for name, prefix, question, make in _SIMPLE:
        found = newest(snapshots, prefix)
        if found is not None and (table := make(found)) is not None:
            made.append(_section(name, question, (table,), found))
    return tuple(made)


def where(snapshot: Snapshot) -> str:
    """When, on what and of which commit."""
    moment = datetime.fromtimestamp(snapshot.started / 1000, UTC)
    described = f" ({snapshot.described})" if snapshot.described else ""
    return (
        f"{moment:%Y-%m-%d %H:%M} UTC by asv on {snapshot.machine}{described}, "
        f"commit {snapshot.commit[:12]}"
    )


def as_json(snapshots: Sequence[Snapshot], page: Page) -> dict[str, Any]:
    """Everything for programs: SI units, and what failed without a figure."""
    return {
        "snapshots": [dataclasses.asdict(snapshot) for snapshot in snapshots],
        "sections": [
            {
                "name": section.experiment,
                "question": section.question,
                "tables": [dataclasses.asdict(table) for table in section.tables],
                "shapes": [shape.model_dump(mode="json") for shape in section.shapes],
                "notes": list(section.notes),
            }
            for section in page.sections
        ],
    }


def _section(
    name: str,
    question: str,
    shown: tuple[Table, ...],
    snapshot: Snapshot,
    *,
    shapes: tuple[ShapeResult, ...] = (),
    source: str | None = None,
    deviations: tuple[str, ...] = (),
) -> Section:
    return Section(
        experiment=name,
        question=question,
        source=source,
        answers=(),
        tables=shown,
        shapes=shapes,
        missing=(),
        notes=(f"measured {where(snapshot)}", _ONE_BY_ONE),
        deviations=deviations,
    )


_SIMPLE: Final[tuple[tuple[str, str, str, Callable[[Snapshot], Table | None]], ...]] = (
    (
        "scaling",
        tables.SCALING,
        "How far does work spread over the threads of one process?",
        tables.scaling,
    ),
    (
        "handlers",
        "handlers",
        "What does a request take inside the process, without a socket?",
        lambda snapshot: tables.cost(snapshot, "handlers", "Time of one request"),
    ),
    (
        "instructions",
        "instructions",
        "How many instructions does it take? They are counted, not timed: noise has no part in it.",
        lambda snapshot: tables.cost(snapshot, "instructions", "Instructions"),
    ),
)
