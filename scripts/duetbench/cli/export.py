"""`duetbench export`: results as tidy tables, for other tools."""

import csv
import importlib
import io
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from duetbench.cli import answers
from duetbench.cli.completion import results_named
from duetbench.cli.options import ResultsOption
from duetbench.core.errors import RecordError, UsageError
from duetbench.host import paths
from duetbench.host.console import errors
from duetbench.show import tidy
from duetbench.show.tidy import Tidy
from duetbench.store import anything


def export_command(
    name: Annotated[
        str,
        Argument(
            metavar="RUN|COMPARISON|POINTS",
            help="Its id (or enough of it), its file, or 'latest' for the latest run.",
            autocompletion=results_named,
        ),
    ],
    as_csv: Annotated[
        Path | None, Option("--csv", metavar="FILE", help="Write CSV; -: standard output.")
    ] = None,
    parquet: Annotated[
        Path | None,
        Option("--parquet", metavar="FILE", help="Write Parquet; takes duetbench[parquet]."),
    ] = None,
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
    if (as_csv is None) == (parquet is None):
        raise UsageError("expected one of --csv FILE and --parquet FILE")
    answers.console_for({"--csv": as_csv, "--parquet": parquet})
    known = tidy.tables(anything.load(name, results or paths.results_dir()))
    if table is not None and table not in known:
        raise UsageError(f"--table {table}: {name} has {' and '.join(known)}")
    chosen = known[table] if table else next(iter(known.values()))
    if parquet is not None:
        _parquet(chosen, parquet)
    answers.put(csv_of(chosen), as_csv)
    where = as_csv if as_csv is not None else parquet
    errors().say(f"{len(chosen.rows)} rows of {chosen.name}: {where}")


def csv_of(table: Tidy) -> str:
    """The table as RFC 4180 has it, but for line ends; no value is an empty cell."""
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    return made.getvalue()


def _parquet(table: Tidy, path: Path) -> None:
    # By name: an extra, whose types nobody installs for a check of ours.
    arrow: Any = importlib.import_module("pyarrow")
    written: Any = importlib.import_module("pyarrow.parquet")
    columns = zip(*table.rows, strict=True) if table.rows else ((),) * len(table.columns)
    made = arrow.table(dict(zip(table.columns, map(list, columns), strict=True)))
    try:
        written.write_table(made, path)
    except OSError as problem:
        raise RecordError(f"{path}: cannot be written: {problem}") from problem
