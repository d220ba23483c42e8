"""The commands: arguments in, sentences out."""

from typing import Final

from duetbench.cli import main as run
from duetbench.cli.verbs import Table, make_group

VERBS: Final[Table] = {
    "plan": ("night", "Divide a night's cases among the machines that measure them."),
    "measure": ("night", "Measure experiments, or a machine's share of a night."),
    "compare": ("compare", "Compare two versions of the experiments."),
    "anchor": ("night", "Measure a shard of a night against the anchor: points of trends."),
    "inprocess": ("inprocess", "Measure inside one process: threads, handlers, Pydantic."),
    "backfill": ("backfill", "Measure stacks of past dates: years of trend on day one."),
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
