"""`duetbench export`: results as tidy tables, for other tools."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from duetbench.cli import answers
from duetbench.cli.options import ResultsOption
from duetbench.core.errors import UsageError
from duetbench.host.console import errors
from duetbench.project.project import Project
from duetbench.show import tidy
from duetbench.store import kinds


def export_command(
    name: Annotated[
        str,
        Argument(
            metavar="RUN|COMPARISON|POINTS",
            help="Its id (or enough of it), its file, or 'latest' for the latest run.",
        ),
    ],
    as_csv: Annotated[
        Path, Option("--csv", metavar="FILE", help="Write CSV; -: standard output.")
    ] = Path("-"),
    table: Annotated[
        str | None,
        Option(
            "--table",
            help="Of a comparison: 'judgements' (default), or 'duets', with every figure of both "
            "sides.",
        ),
    ] = None,
    results: ResultsOption = None,
) -> None:
    """Write a run, a comparison or anchored points as a tidy table: a row per figure.

    docs/export.md says what each column is, with its unit.
    """
    answers.console_for({"--csv": as_csv})
    tables = tidy.tables(kinds.load(name, results or Project.here().results))
    if table is not None and table not in tables:
        raise UsageError(f"--table {table}: {name} has {' and '.join(tables)}")
    chosen = table or next(iter(tables))
    answers.put(csv_of(tables[chosen]), as_csv)
    errors().say(f"{len(tables[chosen])} rows of {chosen}: {as_csv}")


def csv_of(rows: Sequence[tidy.Row]) -> str:
    """The table as RFC 4180 has it, but for line ends; no value is an empty cell."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [*rows[0]] if rows else (), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
