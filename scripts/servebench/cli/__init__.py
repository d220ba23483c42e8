"""The command line."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console

from servebench import __version__
from servebench.cli.accept import accept_command
from servebench.cli.announce import announce_command, watchdog_command
from servebench.cli.asv import asv_app
from servebench.cli.bisect import bisect_command
from servebench.cli.compare import compare_command
from servebench.cli.deps import deps_command
from servebench.cli.detect import detect_command
from servebench.cli.dev import dev_app
from servebench.cli.doctor import doctor_command
from servebench.cli.fleet import fleet_app
from servebench.cli.github import comment_command, slash_command, status_command
from servebench.cli.history import history_app
from servebench.cli.micro import micro_command
from servebench.cli.plan import plan_command
from servebench.cli.run import run_command
from servebench.cli.screen import screen_command
from servebench.cli.selftest import selftest_app
from servebench.cli.setup import setup_command
from servebench.cli.show import findings_command, schema_command, show_command
from servebench.cli.site import site_command
from servebench.cli.stack import stack_app
from servebench.errors import ServebenchError
from servebench.signals import InterruptedRun

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
app.command("setup")(setup_command)
app.command("doctor")(doctor_command)
app.command("plan")(plan_command)
app.command("run")(run_command)
app.command("compare")(compare_command)
app.command("accept")(accept_command)
app.command("slash")(slash_command)
app.command("comment")(comment_command)
app.command("status")(status_command)
app.command("announce")(announce_command)
app.command("watchdog")(watchdog_command)
app.command("deps")(deps_command)
app.command("detect")(detect_command)
app.command("bisect")(bisect_command)
app.command("screen")(screen_command)
app.command("micro")(micro_command)
app.command("show")(show_command)
app.command("findings")(findings_command)
app.command("schema")(schema_command)
app.command("site")(site_command)
app.add_typer(stack_app, name="stack")
app.add_typer(history_app, name="history")
app.add_typer(asv_app, name="asv")
app.add_typer(selftest_app, name="selftest")
app.add_typer(fleet_app, name="fleet")
app.add_typer(dev_app, name="dev")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    _version_: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Benchmark the Python web stack: what did a change do to it, and how sure is that?

    Start with `servebench doctor` (is everything there?) and `servebench plan` (what would run?),
    then `servebench run` and `servebench show latest`.
    """


def main() -> None:
    """Run the command line; errors meant for people become one line and their exit code."""
    try:
        app()
    except ServebenchError as error:
        Console(stderr=True).print(f"servebench: {error}", markup=False, soft_wrap=True)
        sys.exit(error.exit_code)
    except InterruptedRun as interruption:
        Console(stderr=True).print(f"servebench: interrupted by {interruption}", markup=False)
        sys.exit(interruption.exit_code)
