"""`duetbench audit`: a published table against ceilings, Little's law and counts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from duetbench.cli.options import JsonOption, tell
from duetbench.core.errors import NothingMeasuredError, UsageError
from duetbench.host.console import write
from duetbench.measure.audit import audit
from duetbench.project import published_table
from duetbench.project.published_table import Terms
from duetbench.show import audit as report


def audit_command(
    file: Annotated[Path, Argument(help="The table: CSV with a header, or JSON.")],
    units: Annotated[
        list[str] | None,
        Option(
            "--unit",
            metavar="NAME=UNIT",
            help="The unit of a column, or of all times: mean=ms, time=ms, cpu=%.",
        ),
    ] = None,
    common: Annotated[
        list[str] | None,
        Option(
            "--set",
            metavar="NAME=VALUE",
            help="What all rows share and the table does not say: connections=128, wait=10ms, "
            "workers=2, duration=30s, streams=4 (requests at once on each connection), "
            "model=open.",
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        Option(
            "--column",
            metavar="HEADING=NAME",
            help="What a column is, where its heading does not say so: 'latency=p50', or "
            "'notes=label'.",
        ),
    ] = None,
    as_json: JsonOption = False,
    as_markdown: Annotated[bool, Option("--markdown", help="Print Markdown.")] = False,
) -> None:
    """Hold a published table against ceilings, Little's law and counts: which cells cannot be?

    Columns are rate, connections, mean, min, max, p50 and other percentiles, wait (what no answer
    beats), slots, workers, threads, cores, cpu, sent, answered, good, errors, duration, offered,
    streams, model. Times and CPU need a unit: in the heading (mean (ms)), in the cell (4.2ms), or
    by --unit. Nothing is rejected that rounding explains. Exit code 1 if a cell cannot be.
    """
    if as_json and as_markdown:
        raise UsageError("--json and --markdown were both given; choose one")
    terms = Terms(_pairs("--column", columns), _pairs("--unit", units), _pairs("--set", common))
    found = audit(published_table.read(file, terms))
    if as_markdown:
        write(report.as_markdown(found), None)
    else:
        tell(report.lines(found), lambda: report.as_json(found), as_json=as_json)
    if found.count("impossible"):
        raise typer.Exit(1)
    if found.count("unchecked") == len(found.rows):
        raise NothingMeasuredError(
            f"{file}: no law could be checked: every one needs a column that is not there; "
            "see above, and --set and --column"
        )


def _pairs(option: str, given: Sequence[str] | None) -> dict[str, str]:
    pairs = {}
    for text in given or ():
        name, equals, value = text.rpartition("=") if option == "--column" else text.partition("=")
        if not (name and equals and value):
            raise UsageError(f"{option} {text!r}: expected NAME=VALUE")
        pairs[name.strip()] = value.strip()
    return pairs
