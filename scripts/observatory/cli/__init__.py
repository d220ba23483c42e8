"""The commands: arguments in, sentences out."""

from typing import Final

from duetbench.cli import main as run
from duetbench.cli.verbs import Table, make_group

VERBS: Final[Table] = {
    "measure": ("measure", "Measure experiments: launch their servers, and load them."),
    "compare": ("compare", "Compare two versions of the experiments."),
    "anchor": ("anchor", "Measure stacks of today, or of the past, against the anchor: trends."),
    "inprocess": ("inprocess", "Measure inside one process: threads, handlers, Pydantic."),
    "lock": ("setup", "Resolve stacks again, and write their locks."),
    "detect": ("detect", "Find series that moved for good."),
    "confirm": ("detect", "Judge by duets what moved, and search for the releases behind it."),
    "site": ("site", "Build a site from results/: trends, experiments, changes, packages."),
    "findings": ("site", "Answer each experiment's question from the reference runs."),
    "accept": ("github", "Check artifacts of measuring machines, and copy the valid ones."),
    "slash": ("github", "Answer a comment that says `/bench COMMIT`, and start the comparison."),
    "comment": ("github", "Comment on a pull request with what the started comparison found."),
    "sandbox": ("github", "Run a command where untrusted code may run."),
    "setup": ("setup", "Install interpreters, load generator and environments, or check them."),
}
"""All commands, as `duetbench.cli.verbs.VERBS`: to add one, add a row."""

app = make_group(
    "observatory",
    "The continuous benchmark of this repository: nights, trends, releases and their site. It "
    "measures with duetbench, and only a checkout has it.",
    VERBS,
    __package__,
)


def main() -> None:
    """Run the command line."""
    run(app, "observatory")
