"""`servebench dev`: verbs for those who work on servebench itself."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from servebench import committed, paths, store, units
from servebench.cli.options import DEFAULT_SEED, SeedOption
from servebench.cli.scale import scale_command
from servebench.cli.show import findings_command, schema_command
from servebench.errors import UsageError
from servebench.printing import Console
from servebench.progress import Narrator
from servebench.signals import interruptible

dev_app = typer.Typer(no_args_is_help=True, help="For those who work on servebench itself.")


@dev_app.callback()
def _group() -> None:
    """For those who work on servebench itself."""


dev_app.command("site-scale")(scale_command)
dev_app.command("findings")(findings_command)
dev_app.command("schema")(schema_command)


@dev_app.command("history")
def history_command(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder that is made: a results folder.")
    ],
    years: Annotated[float, typer.Option("--years", min=0.01, max=50, help="So many.")] = 5.0,
    series: Annotated[int, typer.Option("--series", min=1, help="Cases times metrics.")] = 2000,
    seed: SeedOption = DEFAULT_SEED,
) -> None:
    """Make up a history: nights with planted changes, gaps, breaks, failures, and their records.

    To see what the site does with years of nights. Nothing of it was measured.
    """
    from servebench.site import synthetic  # noqa: PLC0415 - only this verb waits for numpy

    if output.is_dir() and any(output.iterdir()):
        raise UsageError(
            f"{output}: expected a folder that is empty or not there, so that what was made up "
            "never stands beside what was measured; choose another one"
        )
    imagined = synthetic.imagine(years, series, seed)
    written = synthetic.write(imagined, output)
    Console(highlight=False).print(
        f"{output}: {written} nights of {series} series, {len(imagined.planted)} changes planted",
        markup=False,
        soft_wrap=True,
    )


@dev_app.command("pictures")
def pictures_command(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder; default: docs/ of the checkout.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Take none: say whether those there show the site.")
    ] = False,
) -> None:
    """Build the site of the committed results and take the README's pictures of it, light and dark.

    What was measured here and is not committed is not in them. A test fails while they show
    something else than the site does. Exit code 1, with --check: they do not.
    """
    from servebench.site import pictures  # noqa: PLC0415 - only this verb waits for numpy
    from servebench.site.build import Order, build  # noqa: PLC0415

    console = Console(highlight=False)
    root = paths.project_root()
    docs = output or root / "docs"
    with tempfile.TemporaryDirectory(prefix="servebench-pictures-") as folder:
        site = Path(folder) / "site"
        order = Order(
            root=root,
            results=committed.results(root, Path(folder)),
            output=site,
            cache=paths.cache_dir() / "site",
            with_asv=False,
            with_parquet=False,
        )
        build(order, Narrator(Console(quiet=True)))
        if not check:
            for path in pictures.take(site, docs):
                console.print(str(path), markup=False, soft_wrap=True)
            return
        sentences = pictures.stale(site, docs)
    for sentence in sentences:
        console.print(sentence, markup=False, soft_wrap=True)
    if sentences:
        raise typer.Exit(1)


@dev_app.command("growth")
def growth_command(
    years: Annotated[float, typer.Option("--years", min=0.01, max=50, help="So many.")] = 5.0,
    run: Annotated[str, typer.Option("--run", help="The run that each night is as large as.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    seed: SeedOption = DEFAULT_SEED,
) -> None:
    """Make up years of nights on a branch, and measure what cloning and pulling them takes.

    Each night is a copy of a recorded run with figures that scatter. A few minutes for five years.
    """
    from servebench.history import growth  # noqa: PLC0415 - only this verb waits for it

    results = paths.results_dir()
    path = store.find(results, run) if run else store.latest(results, profile="nightly")
    errors = Console(stderr=True, highlight=False)
    with tempfile.TemporaryDirectory(prefix="servebench-growth-") as folder, interruptible():
        found = growth.measure(
            store.load(path),
            max(1, round(365 * years)),
            Path(folder),
            seed=seed,
            told=lambda sentence: errors.print(sentence, markup=False),
        )
    if as_json:
        typer.echo(json.dumps(asdict(found)))
        return
    table = Table("what", "size", "time", title=f"{found.nights} nights", title_justify="left")
    rows: tuple[tuple[str, float | None, float | None], ...] = (
        ("a run file", found.run_bytes, None),
        ("the same, compressed", found.compressed_bytes, None),
        ("the remote", found.remote_bytes, None),
        ("full clone", found.clone_bytes, found.clone_seconds),
        ("shallow clone", found.shallow_bytes, found.shallow_seconds),
        ("history pull, first", None, found.pull_seconds),
        ("history push of a night", None, found.push_seconds),
        ("history pull of that night", None, found.next_pull_seconds),
    )
    for what, size, seconds in rows:
        table.add_row(
            what,
            units.size(size) if size is not None else "",
            units.seconds(seconds) if seconds is not None else "",
        )
    Console(highlight=False).print(table)
