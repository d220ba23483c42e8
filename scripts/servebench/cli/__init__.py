"""The command line."""

from __future__ import annotations

import sys

import typer
from rich.console import Console

from servebench.cli.doctor import doctor_command
from servebench.cli.setup import setup_command
from servebench.cli.stack import stack_app
from servebench.errors import ServebenchError
from servebench.signals import InterruptedRun

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
app.command("setup")(setup_command)
app.command("doctor")(doctor_command)
app.add_typer(stack_app, name="stack")


def main() -> None:
    """Run the command line; errors meant for people become one line and their exit code."""
    try:
        app()
    except ServebenchError as error:
        Console(stderr=True).print(f"servebench: {error}", markup=False, soft_wrap=True)
        sys.exit(error.exit_code)
    except InterruptedRun as interruption:
        sys.exit(interruption.exit_code)
