"""`duetbench compare`: is HEAD faster or slower than BASE, and what could have been seen?"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from typer import Argument, Exit, Option

from duetbench.cli.options import (
    COMPARED,
    DEFAULT_SEED,
    EXIT_CODE,
    EXTENT,
    REPORT,
    DetailsOption,
    HtmlOption,
    JsonOption,
    MarkdownOption,
    OutputOption,
    ProfileOption,
    SeedOption,
    SelectOption,
    WaitOption,
    budget_option,
    budget_seconds,
    clean_up,
    console_for,
    document,
    machine,
    put,
    put_html,
    repository,
)
from duetbench.cli.side_options import AS_LOCKED, BaseWithOption, LockOption, WithOption, days
from duetbench.cli.target_options import (
    Options,
    left_out,
    repetition,
    unrecorded,
    with_options,
    with_target,
)
from duetbench.cli.verbs import hook
from duetbench.core import units
from duetbench.core.errors import UsageError
from duetbench.core.metrics import MATERIAL, Concern
from duetbench.core.text import visible_json
from duetbench.host.console import Console
from duetbench.project.setting import Setting

if TYPE_CHECKING:
    from duetbench.judge.duet_loop import Reporter
    from duetbench.judge.pairs import Sides
    from duetbench.judge.session import Question
    from duetbench.store.attribution import Attribution
    from duetbench.store.comparison import Comparison

_SIZES: Final = ", ".join(f"{name}={100 * size:g}%" for name, size in MATERIAL.items())


@with_target
def compare_command(
    base: Annotated[
        str | None, Argument(help="A revision; default: where HEAD left main.", show_default=False)
    ] = None,
    head: Annotated[
        str | None, Argument(help="A revision; default: the files as they are.", show_default=False)
    ] = None,
    stack_as_of: Annotated[
        list[str] | None,
        Option(
            "--stack-as-of",
            metavar="DATE",
            help=f"Packages of a day (2026-07-01), or {AS_LOCKED!r}. Twice: base, then head.",
            rich_help_panel=COMPARED,
        ),
    ] = None,
    with_: WithOption = None,
    base_with: BaseWithOption = None,
    lock: LockOption = None,
    python: Annotated[
        list[str] | None,
        Option(
            "--python",
            metavar="VERSION",
            help="One for both sides of an --app, or two: BASE HEAD, e.g. 3.14 3.14t.",
            rich_help_panel=COMPARED,
        ),
    ] = None,
    select: SelectOption = None,
    profile: ProfileOption = "quick",
    budget: Annotated[
        str | None, budget_option("Stop after this time", "Default: when all is decided.")
    ] = None,
    everything: Annotated[
        bool,
        Option(
            "--all",
            help="Also measure cases that the change cannot affect, or that do not run it.",
            rich_help_panel=EXTENT,
        ),
    ] = False,
    start: Annotated[
        bool,
        Option(
            "--start",
            help="Compare how long the servers take to start, without load.",
            rich_help_panel=COMPARED,
        ),
    ] = False,
    output: OutputOption = None,
    as_json: JsonOption = False,
    markdown: MarkdownOption = None,
    html: HtmlOption = None,
    results: Annotated[
        Path | None,
        Option(
            "--results",
            metavar="FOLDER",
            help="Keep the comparison here, for the site.",
            rich_help_panel=REPORT,
        ),
    ] = None,
    details: DetailsOption = False,
    fail_on: Annotated[
        Literal["undecided", "slower", "instructions", "sql"],
        Option(
            "--fail-on",
            help="slower: undecided cases give 0 as well; instructions: only counts decide; sql: "
            "only SQL statements, of which HEAD may send no more.",
            rich_help_panel=EXIT_CODE,
        ),
    ] = "undecided",
    same_answers: Annotated[
        bool,
        Option(
            "--same-answers",
            help="Exit code 1 if head answers anything else.",
            rich_help_panel=EXIT_CODE,
        ),
    ] = False,
    counts_only: Annotated[
        bool,
        Option(
            "--counts-only", help="Count instructions, and load no server.", rich_help_panel=EXTENT
        ),
    ] = False,
    material: Annotated[
        list[str] | None,
        Option(
            "--material",
            metavar="WHAT=SIZE",
            help=f"Smallest size you act on: {_SIZES}.",
            rich_help_panel=EXIT_CODE,
        ),
    ] = None,
    seed: SeedOption = DEFAULT_SEED,
    wait: WaitOption = None,
    why: Annotated[
        Path | None,
        Option(
            "--why",
            metavar="FILE",
            help="Write the functions behind the clearest change as JSON: a minute more.",
            rich_help_panel=REPORT,
        ),
    ] = None,
    *,
    choice: tuple[Setting, Setting],
    options: Options,
) -> None:
    """Compare HEAD with BASE on this machine, measured together, in all cases that can differ.

    $ duetbench compare HEAD~1 --app shop.main:app --path /items/7
    $ duetbench compare --lock uv.lock@main uv.lock --app shop.main:app
    $ duetbench compare --with granian==2.7.8 --budget 5m
    $ duetbench compare --python 3.14 3.14t --select 'asgi-wsgi/*'
    $ duetbench compare --server uvicorn granian --app shop.main:app

    Exit code 0: all that was planned was judged, and nothing got slower by a size you act on; or
    there was nothing to judge. 1: something did, or no longer works. 3: nothing did, but something
    was not judged or not decided: a longer --budget may help. 4: nothing could be measured. 5: the
    machine is busy.
    """
    from duetbench.judge.comparison import Contrast, Extent, compare, require_code
    from duetbench.judge.duet_loop import Reporter
    from duetbench.judge.session import InterruptedComparison
    from duetbench.show import effects
    from duetbench.show.conclusion import exit_code

    pythons = python or []
    contrast = Contrast(
        (base, head),
        days(stack_as_of or ()),
        (base_with or [], with_ or []),
        lock,
        (pythons[0], pythons[1]) if len(pythons) == 2 else None,
        choice,
    )
    extent = Extent(
        tuple(select or ()),
        profile,
        budget_seconds(budget),
        everything,
        start,
        counts_only,
        material=_sizes(material or ()),
        seed=seed,
    )
    extent.require_sense(contrast)
    if why is not None:
        require_code("--why", contrast)
    output = document(output, as_json=as_json)
    console = console_for(
        {"--output": output, "--markdown": markdown, "--html": html, "--why": why}
    )
    project = repository(console)
    clean_up(console)
    project = with_options(project, options, pythons)
    if project.target is None and len(pythons) == 1:
        raise UsageError(
            f"--python {pythons[0]}: expected two interpreters, BASE and HEAD, or an --app that is "
            "measured on this one"
        )
    words = [
        *(word for glob in select or () for word in ("--select", glob)),
        *("--profile", profile, "--seed", str(seed), *["--all"] * everything),
        *(*["--start"] * start, *["--counts-only"] * counts_only),
        *(["--budget", budget] if budget else []),
        *(word for text in material or () for word in ("--material", text)),
        *repetition(options, pythons),
    ]
    reporter, attribution, interruption = Reporter(console), None, None

    def explain(comparison: "Comparison", both: "Sides") -> None:
        nonlocal attribution
        if why is not None:
            attribution = hook("why:explain_comparison")(comparison, both, reporter)

    with machine(wait, console.say):
        try:
            comparison = compare(
                project,
                contrast,
                extent,
                reporter,
                words=words,
                notes=left_out(options),
                first=lambda case, seen: reporter.say(effects.first(case, seen)),
                announce=partial(announce, reporter),
                then=explain,
            )
        except InterruptedComparison as problem:
            comparison, interruption = problem.comparison, problem
    code = exit_code(
        comparison,
        lenient=fail_on == "slower",
        counts=fail_on == "instructions",
        same=same_answers,
        sql=fail_on == "sql",
    )
    try:
        put(_summarise(comparison, code, attribution), markdown)
        put(visible_json(comparison.model_dump_json(indent=1)) + "\n", output)
        put_html(html, comparison)
        if attribution is not None:
            put(visible_json(attribution.model_dump_json()) + "\n", why)
    finally:
        more = unrecorded(options)
        _print(console, comparison, attribution, more, details=details)
        _keep(comparison, results, console)
    if interruption is not None:
        raise interruption
    if code:
        raise Exit(code)


def _summarise(comparison: "Comparison", code: int, attribution: "Attribution | None") -> str:
    """Return a report as Markdown; in GitHub Actions, the page of the job has it as well."""
    from duetbench.github import actions
    from duetbench.show.comparison_text import as_markdown
    from duetbench.show.verdict import check_line

    text = as_markdown(comparison, check=check_line(comparison, code), code=attribution)
    actions.summary(text)
    return text


def _print(
    console: Console,
    comparison: "Comparison",
    attribution: "Attribution | None",
    more: str,
    *,
    details: bool,
) -> None:
    """Print the report."""
    from duetbench.show.comparison_text import print_comparison

    print_comparison(console, comparison, details=details, code=attribution, more=more)
    if attribution is not None and details:
        console.say("")
        hook("why:print_attribution")(console, attribution)


def _keep(comparison: "Comparison", results: Path | None, console: Console) -> None:
    """Save a complete comparison in `results`, if that is given, and print where it is."""
    from duetbench.store import files
    from duetbench.store.result_files import comparison_file

    if results is not None and comparison.status == "complete":
        console.say(f"\nsaved: {files.save(results, comparison)}")
    # In a job or a sandbox the folder may be gone when somebody reads this.
    elif console.is_terminal and comparison_file(comparison).is_file():
        console.say("\nSaved; the whole report: duetbench show latest")


def _sizes(texts: Sequence[str]) -> dict[Concern, float]:
    """Read the sizes of --material; raises UsageError."""
    sizes: dict[Concern, float] = {}
    for text in texts:
        name, _, size = text.partition("=")
        concern = next((concern for concern in MATERIAL if concern == name), None)
        if concern is None:
            raise UsageError(f"--material {text!r}: expected one of {', '.join(MATERIAL)}")
        try:
            sizes[concern] = units.read_share(size)
        except ValueError as error:
            raise UsageError(f"--material {text!r}: {error}") from error
    return sizes


def announce(reporter: "Reporter", question: "Question") -> None:
    """Say what is compared, and how much of the change the requests run."""
    from duetbench.show import effects
    from duetbench.show.comparison_view import side_texts
    from duetbench.show.conclusion import covers

    touched = question.sides
    if question.coverage:
        reporter.say(covers(question.coverage))
    if touched.empty_reason:
        return
    for sentence in touched.notes:
        reporter.note(sentence)
    both = side_texts(touched.base.record, touched.head.record, touched.packages)
    reporter.say(" → ".join(both))
    counts = {
        "cases that can have changed": len(touched.pairs),
        "that cannot": touched.untouched,
        "without counterpart": len(touched.missing),
        "in-process benchmarks": len(question.jobs),
    }
    for name, seen in question.seen.effects.items():
        case = next(pair.case for pair in touched.pairs if pair.case.id == name)
        for line in effects.announce(case, seen):
            reporter.say(line)
    if sum(counts.values()) > 1:  # for a single case the next line says it
        reporter.note("; ".join(f"{name}: {number}" for name, number in counts.items() if number))
