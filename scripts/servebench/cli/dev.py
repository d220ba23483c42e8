"""`servebench dev`: verbs for those who work on servebench itself."""

from __future__ import annotations

import tempfile
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from servebench import committed, paths
from servebench import plan as planning
from servebench.cli.show import findings_command, schema_command
from servebench.errors import LaunchError, UsageError
from servebench.exclusive import measuring
from servebench.model import Case, LoadModel
from servebench.printing import Console
from servebench.rig import assemble
from servebench.signals import interruptible
from servebench.toolchain.narrator import Narrator

if TYPE_CHECKING:
    from servebench.overhead import Interval

dev_app = typer.Typer(no_args_is_help=True, help="For those who work on servebench itself.")

_WINDOW = 0.4
"""Seconds of a warm-up window; by hand the same five of them in one piece."""


@dev_app.callback()
def _group() -> None:
    """For those who work on servebench itself."""


@dev_app.command("overhead")
def overhead_command(
    case_id: Annotated[
        str, typer.Option("--case", help="A closed-loop case.")
    ] = "asgi-wsgi/asgi-json/py3.14/w1/c128",
    seconds: Annotated[float, typer.Option("--seconds", min=0.5, help="Load per launch.")] = 2.0,
    width: Annotated[
        float, typer.Option("--width", min=0.001, help="Half-width of the interval to reach.")
    ] = 0.01,
    limit: Annotated[
        float, typer.Option("--limit", min=1, help="Minutes after which to end anyway.")
    ] = 40.0,
) -> None:
    """Measure one case by hand and by servebench in turns: their ratio should be 1.

    Exit code 0: the interval is narrow enough and contains 1. 1: it is narrow enough and does not.
    3: the limit came first.
    """
    from servebench import launch, overhead  # noqa: PLC0415 - what asks servers takes a while

    console = Console(highlight=False)
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
        console.print(text, markup=False, soft_wrap=True)

    with interruptible(), measuring():
        found = overhead.compare(
            by_hand=by_hand,
            by_servebench=by_servebench,
            width=width,
            limit=60 * limit,
            told=told,
        )
    console.print(
        f"servebench / by hand: {found.median:.4f}, 95 % [{found.low:.4f}, {found.high:.4f}]"
    )
    if found.half_width >= width:
        raise typer.Exit(3)
    if not found.low <= 1 <= found.high:
        raise typer.Exit(1)


def _shortened(case_id: str, seconds: float) -> Case:
    plan = planning.lasting(planning.make_plan("quick", [case_id], 1, 1), seconds)
    case = plan.cases[0]
    if len(plan.cases) > 1 or case.load.model is not LoadModel.CLOSED:
        raise UsageError(f"{case_id}: expected one closed-loop case of the quick profile")
    return case


dev_app.command("findings")(findings_command)
dev_app.command("schema")(schema_command)


@dev_app.command("pictures")
def pictures_command(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder; default: docs/ of the checkout.")
    ] = None,
) -> None:
    """Build the site of the committed results and take the README's pictures of it, light and dark.

    What was measured here and is not committed is not in them.
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
        )
        build(order, Narrator(Console(quiet=True)))
        for path in pictures.take(site, docs):
            console.print(str(path), markup=False, soft_wrap=True)
