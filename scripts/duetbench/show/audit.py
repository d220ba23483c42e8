"""An audit of a published table: as lines, as Markdown and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from duetbench.core import units
from duetbench.measure.audit import Audit, RowAudit
from duetbench.measure.laws import LAWS, Problem
from duetbench.show import markdown

_VERDICTS: Final = {"impossible": "cannot be", "suspicious": "suspicious", "fine": "fine",
                    "unchecked": "not checked"}  # fmt: skip
_FORMATS: Final = {"1/s": units.rate, "s": units.seconds, "cores": units.cores}
_PROBLEMS: Final = ("impossible", "suspicious")


def headline(audit: Audit) -> str:
    """What became of the rows, in one sentence."""
    found = {words: audit.count(verdict) for verdict, words in _VERDICTS.items()}
    many = len(audit.rows)
    rows = ", ".join(f"{n} {words}" for words, n in found.items() if n)
    return f"{audit.table.source}: of {many} row{'s' * (many != 1)}, {rows}"


def lines(audit: Audit) -> Iterator[str]:
    """The audit for a terminal: problems with their arithmetic, then what was taken for what."""
    yield headline(audit)
    for verdict in _PROBLEMS:
        rows = [row for row in audit.rows if any(p.verdict == verdict for p in row.problems)]
        if rows:
            yield ""
            yield _VERDICTS[verdict]
        for row in rows:
            yield f"  {_name(row)}"
            for problem in row.problems:
                if problem.verdict == verdict:
                    yield f"    {problem.law} ({', '.join(problem.cells)}): {problem.arithmetic}"
                    yield f"      {_size(problem)}"
                    yield f"      {problem.ask}"
    yield ""
    yield from _notes(audit)


def as_markdown(audit: Audit) -> str:
    """The audit as Markdown: one table of the problems, and the notes."""
    rows = [
        (_name(row), _VERDICTS[problem.verdict], problem.law, problem.arithmetic,
         f"{_size(problem)}; {problem.ask}")
        for row in audit.rows for problem in row.problems
    ]  # fmt: skip
    head = ("row", "verdict", "law", "arithmetic", "by how much, and why")
    grid = f"{markdown.grid(head, ('---',) * len(head), rows)}\n\n" if rows else ""
    notes = "\n".join(f"- {markdown.escape(note)}" for note in _notes(audit))
    return f"## {markdown.escape(headline(audit))}\n\n{grid}{notes}\n"


def as_json(audit: Audit) -> dict[str, Any]:
    """The audit for programs: figures in SI units, every problem with its arithmetic."""
    table = audit.table
    return {
        "source": table.source,
        "columns": dict(table.columns),
        "labels": list(table.labels),
        "counts": {verdict: audit.count(verdict) for verdict in _VERDICTS},
        "rows": [
            {
                "place": row.row.place,
                "label": row.row.label,
                "model": row.row.model,
                "verdict": row.verdict,
                "figures": {name: figure.value for name, figure in row.row.figures.items()},
                "problems": [
                    {
                        "law": problem.law,
                        "verdict": problem.verdict,
                        "cells": list(problem.cells),
                        "unit": problem.unit,
                        "expected": problem.expected,
                        "found": problem.found,
                        "limit": problem.limit,
                        "arithmetic": problem.arithmetic,
                        "ask": problem.ask,
                    }
                    for problem in row.problems
                ],
                "fine": list(row.fine),
                "unchecked": dict(row.unchecked),
            }
            for row in audit.rows
        ],
    }


def _name(row: RowAudit) -> str:
    return f"{row.row.place}: {row.row.label}" if row.row.label else row.row.place


def _size(problem: Problem) -> str:
    """By how much, and what would still have passed."""
    write = _FORMATS.get(problem.unit, lambda value: units.significant(value, 4))
    over = problem.found > problem.expected
    share = problem.found / problem.expected if problem.expected else 0.0
    times = f"{units.significant(share)} times that; " if share else ""
    return f"{times}{write(problem.limit)} and {'less' if over else 'more'} would pass"


def _notes(audit: Audit) -> Iterator[str]:
    table = audit.table
    columns = table.columns.items()
    taken = ", ".join(f"{head} = {name}" for head, name in columns if head.lower() != name)
    if taken:
        yield f"taken: {taken}"
    if table.labels:
        yield f"not a figure: {', '.join(table.labels)}"
    models = {row.row.model for row in audit.rows}
    yield f"load: {' and '.join(sorted(models))}" + (
        ", unless --set model=open (or paced) says another" if models == {"closed"} else ""
    )
    held = [law.name for law in LAWS if any(law.name in row.fine for row in audit.rows)]
    if held:
        yield f"holds elsewhere: {', '.join(held)}"
    missing = []
    for law in LAWS:
        lacking = [row.unchecked[law.name] for row in audit.rows if law.name in row.unchecked]
        if lacking:
            where = "" if len(lacking) == len(audit.rows) else f" of {len(lacking)} rows"
            missing.append(f"{law.name}{where} (needs {lacking[0]})")
    if missing:
        yield f"not checked: {'; '.join(missing)}"
