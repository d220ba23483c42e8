"""`observatory measure`: launch the servers of experiments, and record the figures."""

from datetime import UTC, datetime

from duetbench.cli import run as of_tool
from duetbench.cli.options import LaunchesOption, machine, repository
from duetbench.host.console import Console, Narrator
from duetbench.load import runner
from observatory.cli.options import ProfileOption, ResultsOption, SelectOption
from observatory.matrix.checkout import Checkout
from observatory.matrix.sides import unmeasurable


def measure_command(
    *,
    profile: ProfileOption = "quick",
    select: SelectOption = (),
    launches: LaunchesOption = 1,
    results: ResultsOption = None,
) -> int:
    """Measure experiments: launch each case's server, load it, and record the figures.

    $ observatory measure --select 'asgi-wsgi/*/py3.14t/*' --launches 3
    $ observatory measure --profile nightly --results measured

    `observatory findings` shows what was measured beside what was published. The run file is saved
    after every launch. Each day has another order, so that a night that ends early does not always
    lack the same cases. Exit code 0: all launches were valid. 1: some failed, the others are
    recorded; of the profile nightly that counts as a result. 3: none was usable.
    """
    console = Console()
    checkout = Checkout(repository(console), profile)
    plan = checkout.plan(select, launches, seed=datetime.now(UTC).toordinal())
    with machine(None, console):
        absent = unmeasurable(plan.cases, checkout, Narrator(console))
        folder = results or checkout.results
        run = runner.launch_all(plan, checkout, folder, console, missing=absent)
    failed = of_tool.report(run, console)
    return 1 if failed and profile != "nightly" else 0
