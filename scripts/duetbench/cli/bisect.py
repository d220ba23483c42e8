"""`duetbench bisect`: which release, or which commit, caused a change?"""

from functools import partial
from typing import Annotated

from cyclopts import Parameter

from duetbench.app.declarations import results_dir
from duetbench.app.setting import Contrast
from duetbench.cli.compare import BaseOption, HeadOption
from duetbench.cli.options import (
    DECLARED,
    JsonOption,
    TargetOptions,
    WaitOption,
    Words,
    budget_option,
    budget_seconds,
    left_out,
    machine,
    repetition,
    with_options,
)
from duetbench.core.change import Cause
from duetbench.core.errors import UsageError
from duetbench.core.model import Run
from duetbench.host import paths, result_files
from duetbench.host.console import Console, print_json
from duetbench.judge import causes
from duetbench.judge.bisection import MEANS
from duetbench.judge.comparison import compare
from duetbench.judge.duet_loop import Reporter
from duetbench.judge.repetition import contrast_of
from duetbench.report.cause import cause_lines, commit_lines


def bisect_command(
    names: Annotated[Words, Parameter(metavar="[COMPARISON | GOOD BAD]")] = (),
    /,
    *,
    of_base: BaseOption = (),
    of_head: HeadOption = (),
    select: Annotated[str, Parameter(metavar="GLOB", show_default=False)] = "*",
    tests: Annotated[Words, Parameter(metavar="PATH")] = (),
    budget: Annotated[str, budget_option("Time for the search")] = "30m",
    as_json: JsonOption = False,
    wait: WaitOption = None,
    application: TargetOptions = DECLARED,
) -> Cause:
    """Find the release, or the commit, that caused a change.

    $ duetbench bisect --base lock=uv.lock@main --app shop.main:app --path /items/7
    $ duetbench bisect COMPARISON --budget 20m
    $ duetbench bisect v1.4 main --app shop.main:app --path /items/7
    $ duetbench bisect v1.4 main --tests tests/api

    Each question compares the state before with one in between: by what a request does, by counts
    of instructions where it does the same, and by duets if neither shows anything. Each answer
    halves the candidates. The last one is compared alone before it is named. The largest change is
    searched first, then what is left without it.

    Between two commits, each has its own lock. A commit that does not start is skipped. Of a branch
    that was merged, only the merge is looked at.

    Between the packages of two sides, the state in between is a lock in which half of them have
    changed. Packages that cannot be installed apart are named as one. For a comparison, duets
    search the clearest change that they have shown.

    Args:
        names: A comparison: its id, part of it, or its file. Or two commits.
        select: The case to measure; default: the clearest change.
        tests: Between commits: tests of BAD, as of compare --tests; repeatable.
    """
    console, options = Console(stderr=as_json), application.read()
    here, limit = paths.project_root(stand_in=False), budget_seconds(budget) or 0.0
    contrast, metric = Contrast(base=of_base, head=of_head), ""
    ends, words = names, bool(of_base or of_head)
    if len(ends) != 2 - words * 2 and (words or len(ends) != 1):
        raise UsageError("expected GOOD BAD, a comparison, or --base lock=FILE: choose one")
    if tests and len(ends) != 2:
        raise UsageError("--tests search between commits: expected GOOD BAD")
    if words and contrast.kinds != {"stack"}:
        raise UsageError("bisect: expected packages: PACKAGE==VERSION, lock=FILE or as-of=DATE")
    if len(ends) == 1:
        comparison = result_files.load(ends[0], results_dir(here))
        if isinstance(comparison, Run):
            raise UsageError(f"{ends[0]} is a run: expected a comparison, by its id or file")
        contrast = contrast_of(comparison)
        select, metric = causes.clearest_case(comparison, select)
    reporter = Reporter(console)
    with machine(wait, console):
        if len(ends) == 2:
            if tests:
                between, means = causes.by_tests(here, tests, ends[1], options["env"]), MEANS[:1]
            else:
                between, means = partial(compare, with_options(here, options)), MEANS
            cause = causes.search_commits(here, ends, between, select, limit, reporter, means)
            again = [word for path in tests for word in ("--tests", path)]
            lines = commit_lines(cause, *ends, [*again, *repetition(options)[0]])
            lines = (*lines, *left_out(options))
        else:
            project = with_options(here, options)
            cause = causes.search_packages(project, contrast, select, limit, reporter, metric)
            lines = cause_lines(cause)
    if as_json:
        print_json(cause.model_dump(mode="json"))
    else:
        for line in lines:
            console.say(line)
    return cause
