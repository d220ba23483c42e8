"""`servebench dev`: verbs for those who work on servebench itself."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Annotated

from rich.table import Table
from typer import Exit, Option

from servebench import committed, launch, overhead, paths, store, units
from servebench import plan as planning
from servebench.cli.options import DEFAULT_SEED, JsonOption, SeedOption, machine
from servebench.errors import LaunchError, UsageError
from servebench.history import growth
from servebench.model import Case, LoadModel
from servebench.overhead import Interval
from servebench.printing import Console, errors, print_json
from servebench.rig import assemble
from servebench.signals import interruptible
from servebench.site import pictures, synthetic
from servebench.site.build import Order, build
from servebench.toolchain.narrator import Narrator

_WINDOW = 0.4
"""Seconds of a warm-up window; by hand the same five of them in one piece."""


def overhead_command(
    case_id: Annotated[
        str, Option("--case", help="A closed-loop case.")
    ] = "asgi-wsgi/asgi-json/py3.14/w1/c128",
    seconds: Annotated[float, Option("--seconds", min=0.5, help="Load per launch.")] = 2.0,
    width: Annotated[
        float, Option("--width", min=0.001, help="Half-width of the interval to reach.")
    ] = 0.01,
    limit: Annotated[
        float, Option("--limit", min=1, help="Minutes after which to end anyway.")
    ] = 40.0,
) -> None:
    """Measure one case by hand and by servebench in turns: their ratio should be 1.

    Exit code 0: the interval is narrow enough and contains 1. 1: it is narrow enough and does not.
    3: the limit came first.
    """
    console = Console()
    case = _shortened(case_id, seconds)
    rig = assemble([case], paths.state_dir() / "logs")
    folder = rig.logs / "overhead"
    folder.mkdir(parents=True, exist_ok=True)
    numbers = count()

    def by_servebench() -> float:
        options = launch.Options(window=_WINDOW)
        outcome = launch.perform(case, rig, options, folder / f"{next(numbers):04d}.log")
        for flag in outcome.flags:
            if flag.severity == "fail":
                raise LaunchError(flag.name, flag.detail)
        return outcome.metrics["throughput"]

    def by_hand() -> float:
        log = folder / f"{next(numbers):04d}.log"
        return overhead.by_hand(case, rig, warm_up=5 * _WINDOW, log=log)

    def told(pair: int, bare: float, ours: float, interval: Interval | None) -> None:
        text = f"pair {pair}: by hand {bare:,.0f}/s, servebench {ours:,.0f}/s, {ours / bare:.4f}"
        if interval is not None:
            text += f"; median {interval.median:.4f} [{interval.low:.4f}, {interval.high:.4f}]"
        console.say(text)

    with machine():
        found = overhead.compare(
            by_hand=by_hand, by_servebench=by_servebench, width=width, limit=60 * limit, told=told
        )
    console.print(
        f"servebench / by hand: {found.median:.4f}, 95 % [{found.low:.4f}, {found.high:.4f}]"
    )
    if found.half_width >= width:
        raise Exit(3)
    if not found.low <= 1 <= found.high:
        raise Exit(1)


def _shortened(case_id: str, seconds: float) -> Case:
    plan = planning.lasting(planning.make_plan("quick", [case_id], 1, 1), seconds)
    case = plan.cases[0]
    if len(plan.cases) > 1 or case.load.model is not LoadModel.CLOSED:
        raise UsageError(f"{case_id}: expected one closed-loop case of the quick profile")
    return case


def history_command(
    output: Annotated[
        Path, Option("--output", "-o", help="Folder that is made: a results folder.")
    ],
    years: Annotated[float, Option("--years", min=0.01, max=50, help="So many.")] = 5.0,
    series: Annotated[int, Option("--series", min=1, help="Cases times metrics.")] = 2000,
    seed: SeedOption = DEFAULT_SEED,
) -> None:
    """Make up a history: nights with planted changes, gaps, breaks, failures, and their records.

    To see what the site does with years of nights. Nothing of it was measured.
    """
    if output.is_dir() and any(output.iterdir()):
        raise UsageError(
            f"{output}: expected a folder that is empty or not there, so that what was made up "
            "never stands beside what was measured; choose another one"
        )
    imagined = synthetic.imagine(years, series, seed)
    written = synthetic.write(imagined, output)
    Console().say(
        f"{output}: {written} nights of {series} series, {len(imagined.planted)} changes planted"
    )


def pictures_command(
    output: Annotated[
        Path | None, Option("--output", "-o", help="Folder; default: docs/ of the checkout.")
    ] = None,
    check: Annotated[
        bool, Option("--check", help="Take none: say whether those there show the site.")
    ] = False,
) -> None:
    """Build the site of the committed results and take the README's pictures of it, light and dark.

    What was measured here and is not committed is not in them. A test fails while they show
    something else than the site does. Exit code 1, with --check: they do not.
    """
    console = Console()
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
                console.say(str(path))
            return
        sentences = pictures.stale(site, docs)
    for sentence in sentences:
        console.say(sentence)
    if sentences:
        raise Exit(1)


def growth_command(
    years: Annotated[float, Option("--years", min=0.01, max=50, help="So many.")] = 5.0,
    run: Annotated[str, Option("--run", help="The run that each night is as large as.")] = "",
    as_json: JsonOption = False,
    seed: SeedOption = DEFAULT_SEED,
) -> None:
    """Make up years of nights on a branch, and measure what cloning and pulling them takes.

    Each night is a copy of a recorded run with figures that scatter. A few minutes for five years.
    """
    results = paths.results_dir()
    path = store.find(results, run) if run else store.latest(results, profile="nightly")
    with tempfile.TemporaryDirectory(prefix="servebench-growth-") as folder, interruptible():
        found = growth.measure(
            store.load(path), max(1, round(365 * years)), Path(folder), seed=seed, told=errors().say
        )
    if as_json:
        print_json(asdict(found))
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
        shown = "" if seconds is None else units.seconds(seconds)
        table.add_row(what, "" if size is None else units.size(size), shown)
    Console().print(table)
