"""`duetbench why`: which function does a change of instructions lie in?"""

from duetbench.cli.compare import BaseOption, HeadOption, compare_command
from duetbench.cli.options import DECLARED, ReportsOption, TargetOptions, WaitOption


def why_command(
    base: str | None = None,
    head: str | None = None,
    /,
    *,
    of_base: BaseOption = (),
    of_head: HeadOption = (),
    output: ReportsOption = (),
    wait: WaitOption = None,
    application: TargetOptions = DECLARED,
) -> int:
    """Count the instructions of requests on both sides, and rank the functions that differ.

    $ duetbench why HEAD~1 --app shop.main:app --path /items/7
    $ duetbench why --head granian==2.7.8 --app shop.main:app

    It is `compare --only counts --why`, and ends with its exit codes. Needs Valgrind, a C compiler
    and CPython 3.12 or newer. Of several requests, the one with the clearest change is ranked.

    Args:
        base: A revision; default: where HEAD left main.
        head: A revision; default: the files as they are.
    """
    return compare_command(
        base, head, of_base=of_base, of_head=of_head, only="counts", why=True, output=output,
        wait=wait, application=application,
    )  # fmt: skip
