"""`duetbench compare`: is HEAD faster or slower than BASE, and what could have been seen?"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import Parameter

from duetbench.app import declarations, target
from duetbench.app.setting import Contrast
from duetbench.cli.options import (
    DECLARED,
    Options,
    ReportsOption,
    TargetOptions,
    WaitOption,
    Words,
    budget_option,
    budget_seconds,
    left_out,
    machine,
    repetition,
    reports,
    repository,
    with_options,
    write_reports,
)
from duetbench.core import units
from duetbench.core.comparison import Comparison
from duetbench.core.errors import UsageError
from duetbench.core.metrics import MATERIAL, Concern
from duetbench.host.console import STANDARD, Console, write_summary
from duetbench.host.files import encode

if TYPE_CHECKING:
    from duetbench.judge.comparison import Session
    from duetbench.judge.duet_loop import Reporter
    from duetbench.judge.preparation import Extent

_OTHERWISE: Final = "KEY=VALUE, of python, server, lock, env.NAME, …, or PACKAGE==VERSION"

BaseOption = Annotated[
    Words,
    Parameter("--base", metavar="WORD", help=f"What base has otherwise: {_OTHERWISE}; repeatable."),
]

HeadOption = Annotated[
    Words,
    Parameter("--head", metavar="WORD", help="What head has otherwise, likewise; repeatable."),
]

_OF_TESTS: Final = "duetbench.judge.suites:compare"
_EXPLAIN: Final = "duetbench.judge.attribute:explain"
_PAGE: Final = "duetbench.report.html.comparison_page:one_file"
"""By name, as most comparisons load none of them."""

_USUAL: Final = "tests", "test"
_TEST: Final = re.compile(r"^\s*(?:async )?def test", re.MULTILINE)
_LIMITS: Final = (
    "What is worse: more by a size that you act on "
    f"({', '.join(f'{name}={100 * size:g}%' for name, size in MATERIAL.items())}), sql=N: more SQL "
    "statements than base and N, answers: any other answer; repeatable."
)


def compare_command(
    base: str | None = None,
    head: str | None = None,
    /,
    *,
    of_base: BaseOption = (),
    of_head: HeadOption = (),
    only: Literal["effects", "counts"] | None = None,
    tests: Annotated[Words, Parameter(metavar="PATH")] = (),
    call: Annotated[Words, Parameter(metavar="MODULE:FUNCTION")] = (),
    start: bool = False,
    budget: Annotated[
        str | None, budget_option("Stop after this time", "Default: when all is decided.")
    ] = None,
    wait: WaitOption = None,
    limit: Annotated[Words, Parameter(metavar="WHAT=SIZE", help=_LIMITS)] = (),
    why: bool = False,
    output: ReportsOption = (),
    control: bool = False,
    application: TargetOptions = DECLARED,
) -> int:
    """Compare HEAD with BASE on this machine, measured together, in all cases that can differ.

    $ duetbench compare HEAD~1 --app shop.main:app --path /items/7
    $ duetbench compare main --tests tests/api
    $ duetbench compare --base lock=uv.lock@main --app shop.main:app
    $ duetbench compare --head granian==2.7.8 --head workers=4 --budget 5m

    Exit code 0: all that was planned was judged, and nothing got worse by a size you act on; or
    there was nothing to judge. 1: something did, or no longer works. 3: nothing did, but something
    was not judged or not decided: a longer --budget may help. 4: nothing could be measured. 5: the
    machine is busy.

    Args:
        base: A revision; default: where HEAD left main.
        head: A revision; default: the files as they are.
        only: effects: what a request does; counts: that, and its instructions. Neither loads a
            server: it takes seconds, on any machine.
        tests: Tests of the project, a file or folder: what each of their requests does, in the
            environment in which they run, without --app and without a server; repeatable.
        call: The same of a function without arguments: a task, a job, a command; with --only counts
            it is called some hundred times; repeatable.
        start: Compare how long the servers take to start, without load.
        why: Find the functions behind the clearest change: a minute more.
        control: Measure cases that cannot differ, too; without revisions, HEAD against itself: what
            this machine makes of no change.
    """
    from duetbench.judge.preparation import Extent

    written = reports(output, ".json", ".md", ".html")
    console, options = Console(stderr=STANDARD in written), application.read()
    root = repository(console)
    if control and not (base or of_base or of_head):
        base = head = "HEAD"
    contrast = Contrast((base, head), of_base, of_head)
    extent = Extent(everything=control, start=start, only=only or "")
    asked = start or why or budget or control or only == "counts" or of_base or of_head or call
    if not (tests or asked or application.app):
        tests = tuple(default_tests(root))
    project = root if tests or call else with_options(root, options)
    return run(
        console, project, contrast, extent, options, budget=budget, limits=limit, why=why,
        files=written, wait=wait, calls=call, tests=tests,
    )  # fmt: skip


def run(
    console: Console,
    project: Any,
    contrast: Contrast,
    extent: "Extent",
    options: Options,
    *,
    budget: str | None,
    limits: Sequence[str],
    why: bool,
    files: Sequence[Path],
    wait: str | None,
    tests: Sequence[str] = (),
    calls: Sequence[str] = (),
    words: Sequence[str] = (),
    keep: Callable[[Comparison], object] = id,
    **how: Any,
) -> int:
    """Compare and report, for the command of any package; return the exit code.

    For `tests` and `calls`, `project` is its folder. `options` are a target's, and `words` repeat
    what else was chosen. `keep` gets a complete comparison. `how` is for `comparison.compare`.
    """
    from duetbench.judge.comparison import InterruptedComparison, compare
    from duetbench.judge.duet_loop import Reporter
    from duetbench.judge.findings import exit_code
    from duetbench.judge.pairs import require_code
    from duetbench.report.report import as_markdown, check_line, print_comparison, side_text

    sizes, statements, answers = _limits(limits)
    extent = replace(extent, seconds=budget_seconds(budget), material=sizes)
    if why:
        require_code("--why", contrast)
    count = extent.only == "counts"
    others = {"--start": extent.start, "--only counts": count and tests, "--why": why,
              "--budget": budget}  # fmt: skip
    suite = bool(tests or calls)
    if suite and (given := [name for name, value in others.items() if value]):
        raise UsageError(f"--tests and --call only observe: expected no {' and no '.join(given)}")
    again = (
        *words,
        *["--control"] * extent.everything,
        *["--start"] * extent.start,
        *(["--only", extent.only] if extent.only else []),
        *(["--budget", budget] if budget else []),
        *(word for text in limits for word in ("--limit", text)),
        *(word for text in tests for word in ("--tests", text)),
        *(word for text in calls for word in ("--call", text)),
        *repetition(options)[0],
    )
    reporter, interruption = Reporter(console), None
    if why:
        how["explain"] = partial(resolve_name(_EXPLAIN), narrator=reporter)
    measure: Callable[[], Comparison] = (
        partial(
            resolve_name(_OF_TESTS), project, contrast, tests, extent, reporter,
            calls=calls, env=options["env"], words=again,
        )
        if suite
        else partial(
            compare, project, contrast, extent, reporter,
            words=again, notes=left_out(options), announce=partial(announce, reporter), **how,
        )
    )  # fmt: skip
    seen = (suite and not count) or extent.only == "effects"
    with machine(wait, console, timed=not seen):
        try:
            comparison = measure()
        except InterruptedComparison as problem:
            comparison, interruption = problem.comparison, problem
    code = exit_code(comparison, effects=seen, answers=answers, statements=statements)
    text = as_markdown(comparison, lead=(check_line(code),))
    write_summary(text)
    try:
        write_reports(files, texts_of(comparison) | {".md": lambda: text})
    finally:
        if suite:
            console.say(" → ".join(map(side_text, (comparison.base, comparison.head))))
        print_comparison(console, comparison, details=False)
        # In a job or a sandbox the folder may be gone when somebody reads this.
        if console.is_terminal:
            console.say("\nSaved; the whole report: duetbench show latest")
        if comparison.status == "complete":
            keep(comparison)
    if interruption is not None:
        raise interruption
    return code


def _limits(texts: Sequence[str]) -> tuple[dict[Concern, float], float | None, bool]:
    """Read --limit: sizes to act on, SQL statements, and whether answers count.

    Raises UsageError.
    """
    sizes, concerns = dict[Concern, float](), {str(name): name for name in MATERIAL}
    statements, answers = None, False
    for text in texts:
        name, _, size = text.partition("=")
        if text == "answers":
            answers = True
        elif name == "sql" and size.isdecimal():
            statements = float(size)
        else:
            try:
                sizes[concerns[name]] = units.read_share(size)
            except (KeyError, ValueError) as error:
                known = ", ".join(concerns)
                raise UsageError(
                    f"--limit {text}: expected one of {known} with a share, sql=N or answers"
                ) from error
    return sizes, statements, answers


def announce(reporter: "Reporter", session: "Session") -> None:
    """Say what is compared, and how much of the change the requests run."""
    from duetbench.report import findings
    from duetbench.report.report import side_text

    sides = session.sides
    if session.coverage:
        reporter.say(findings.covers(session.coverage))
    if sides.empty_reason:
        return
    reporter.say(" → ".join(map(side_text, (sides.base.record, sides.head.record))))
    for pair in sides.pairs:
        if seen := session.seen.effects.get(pair.case.id):
            for line in findings.announce(pair.case, seen):
                reporter.say(line)


def texts_of(comparison: Comparison) -> dict[str, Callable[[], str]]:
    """Return how a comparison is written, by the suffix."""
    from duetbench.report import report

    return {
        ".json": lambda: encode(comparison).decode(),
        ".md": lambda: report.as_markdown(comparison),
        ".html": lambda: str(resolve_name(_PAGE)(comparison)),
    }


def default_tests(root: Path) -> Sequence[str]:
    """Return the tests that a project without a declared application is compared by.

    Those that it declares, or the folder in which projects keep them; empty if there are none.
    """
    table = declarations.read_table(root)[1]
    return () if "app" in table else target.configuration(root).tests or _usual(root)


def _usual(root: Path) -> list[str]:
    """Return the folder in which projects keep their tests; empty if there are none."""
    for name in _USUAL:
        files = (root / name).rglob("*test*.py")
        if any(_TEST.search(file.read_text("utf-8", "replace")) for file in files):
            return [name]
    return []
