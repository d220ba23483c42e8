"""The commands: a function NAME_command each, in a module that is imported when it is called.

What only a call of a command needs is imported in its function, if that is slow: a command's
`--help` imports the rest.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from cyclopts import App, Parameter
from cyclopts.help import DefaultFormatter

Table = Mapping[str, tuple[str, str]]
"""Command → its module, and what it does."""

VERBS: Final[Table] = {
    "compare": ("compare", "Compare two versions, measured together: what changed, and how sure?"),
    "bisect": ("bisect", "Find the release that caused a change."),
    "why": ("why", "Find the functions behind a change."),
    "run": ("run", "Measure one version: how fast is it?"),
    "soak": ("soak", "Load one server for a long time: does its memory grow for good?"),
    "show": ("show", "Show a run, a comparison, or points of a trend."),
    "explain": ("explain", "Explain a word of the reports, a flag, or a metric."),
    "init": ("init", "Write into pyproject.toml how this repository's application is measured."),
    "doctor": ("doctor", "Show what is missing here, and how to fix it."),
    "setup": ("setup", "Install the load generator, or check it."),
}
"""All commands, as `help/duetbench.txt` lists them. To add a command, add a row there and here."""

CI: Final[Table] = {
    "sides": ("pull_request", "Find what to compare a pull request or a push with."),
    "compare": ("pull_request", "Compare both sides, and find an upgrade's cause."),
    "report": ("pull_request", "Comment on a pull request with the results."),
}
"""The commands of `duetbench ci`."""


class Help(DefaultFormatter):
    """Help whose sentences fit any width; examples and lists keep their lines."""

    def render_description(self, console: Any, options: Any, description: Any) -> None:  # noqa: ARG002
        text = re.sub(r"(?<=\S)\n(?=[^\s$-])", " ", str(description.primary_renderable))
        console.print(f"{text}\n", markup=False, highlight=False)


def make_group(name: str, purpose: str, table: Table, package: str = __package__) -> App:
    """Make a group of commands from a table, with modules in a package."""
    lines = "\n".join(f"- {verb:<10}  {line}" for verb, (_, line) in table.items())
    group = App(
        name=name,
        help=f"{purpose}\n\n{lines}",
        help_format="plaintext",
        help_formatter=Help(),
        usage="",
        help_flags="--help",
        version_flags="--version",
        default_parameter=Parameter(
            negative=(), allow_repeating=True, show_default=lambda value: value or None
        ),
        exit_on_error=False,
        print_error=False,
        result_action="return_value",
    )
    group["--help"].show = group["--version"].show = False
    for verb, (module, _) in table.items():
        # A list of commands imports none of them.
        group.command(f"{package}.{module}:{verb}_command", name=verb, show=False, version_flags=())
    return group
