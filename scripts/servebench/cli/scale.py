"""`servebench dev site-scale`: what years of nights cost the site, beside asv."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from servebench import paths
from servebench.cli.options import DEFAULT_SEED, SeedOption
from servebench.exclusive import measuring
from servebench.printing import Console
from servebench.signals import interruptible


def scale_command(
    years: Annotated[float, typer.Option("--years", min=0.01, max=20, help="So many.")] = 5.0,
    series: Annotated[int, typer.Option("--series", min=1, help="Cases times metrics.")] = 2000,
    asv: Annotated[
        bool, typer.Option("--asv/--no-asv", help="Publish the same points with asv, too.")
    ] = True,
    seed: SeedOption = DEFAULT_SEED,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Build the site of a made-up history, build it again with one more night, compare with asv.

    Five years of 2,000 series must be built in 10 s and 1 GiB, one more night in 2 s, and five
    times as fast as `asv publish` takes for the same points, which is the longest part of this.
    Exit code 1: one of these does not hold.
    """
    from servebench.site import scale, synthetic  # noqa: PLC0415 - only this verb waits for numpy
    from servebench.site.pages import words  # noqa: PLC0415

    console = Console(highlight=False)
    imagined = synthetic.imagine(years, series, seed)
    with (
        tempfile.TemporaryDirectory(prefix="servebench-scale-") as scratch,
        interruptible(),
        measuring(),
    ):
        folder = Path(scratch)
        results = folder / "results"
        synthetic.write(imagined, results)
        nights = list(synthetic.generate(imagined)) if asv else []
        found = scale.measure(paths.project_root(), nights, results, folder)
    verdicts = found.verdicts()
    if as_json:
        told = {**asdict(found), "faster": found.faster, "verdicts": dict(verdicts)}
        typer.echo(json.dumps(told, indent=2, allow_nan=False))
    else:
        rows = [("the site, from nothing", found.first), ("with one more night", found.again)]
        rows += [("with nothing new", found.same)]
        rows += [("asv publish", found.asv)] if found.asv else []
        console.print(
            f"{found.nights} nights of {series} series; the site: {words.size(found.size)} in "
            f"{found.files} files"
        )
        for label, cost in rows:
            took = f"{cost.seconds:7.2f} s, {cost.cpu:7.2f} s of core time"
            console.print(f"{label:24}{took}, {words.size(cost.peak):>8}", markup=False)
        for label, holds in verdicts:
            console.print(f"{'yes' if holds else 'NO':>4}  {label}", markup=False)
    if not all(holds for _, holds in verdicts):
        raise typer.Exit(1)
