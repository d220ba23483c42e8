"""`duetbench compare`: is HEAD faster or slower than BASE, and what could have been seen?"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Exit, Option

from duetbench.cli.options import (
    DEFAULT_SEED,
    BaseOption,
    HeadOption,
    JsonOption,
    ProfileOption,
    ReportsOption,
    SeedOption,
    SelectOption,
    WaitOption,
    budget_option,
    budget_seconds,
    clean_up,
    console_beside,
    html_page,
    machine,
    put,
    reports,
    repository,
    require_files,
    write_reports,
)
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

if TYPE_CHECKING:
    from duetbench.judge.duet_loop import Reporter
    from duetbench.judge.pairs import Sides
    from duetbench.judge.session import Question
    from duetbench.store.attribution import Attribution
    from duetbench.store.comparison import Comparison


@with_target
def compare_command(
    base: Annotated[
        str | None, Argument(help="A revision; default: where HEAD left main.", show_default=False)
    ] = None,
    head: Annotated[
        str | None, Argument(help="A revision; default: the files as they are.", show_default=False)
    ] = None,
    of_base: BaseOption = None,
    of_head: HeadOption = None,
    only: Annotated[
        Literal["effects", "counts"] | None,
        Option(
            "--only",
            help="effects: what a request does; counts: that, and its instructions. Neither loads "
            "a server: it takes seconds, on any machine.",
        ),
    ] = None,
    start: Annotated[
        bool,
        Option("--start", help="Compare how long the servers take to start, without load."),
    ] = False,
    budget: Annotated[
        str | None, budget_option("Stop after this time", "Default: when all is decided.")
    ] = None,
    wait: WaitOption = None,
    limit: Annotated[
        list[str] | None,
        Option(
            "--limit",
            metavar="WHAT=SIZE",
            help="What is worse: more by a size that you act on "
            f"({', '.join(f'{name}={100 * size:g}%' for name, size in MATERIAL.items())}), "
            "sql=N: more SQL statements than base and N, answers: any other answer; repeatable.",
        ),
    ] = None,
    why: Annotated[
        Path | None,
        Option(
            "--why",
            metavar="FILE",
            help="Write the functions behind the clearest change as JSON: a minute more.",
        ),
    ] = None,
    output: ReportsOption = None,
    as_json: JsonOption = False,
    select: SelectOption = None,
    profile: ProfileOption = "quick",
    seed: SeedOption = DEFAULT_SEED,
    everything: Annotated[
        bool,
        Option("--all", help="Also measure cases that the change cannot affect.", hidden=True),
    ] = False,
    results: Annotated[
        Path | None,
        Option("--results", metavar="FOLDER", help="Keep it here, for the site.", hidden=True),
    ] = None,
    *,
    options: Options,
) -> None:
    """Compare HEAD with BASE on this machine, measured together, in all cases that can differ.

    $ duetbench compare HEAD~1 --app shop.main:app --path /items/7
    $ duetbench compare --base lock=uv.lock@main --app shop.main:app
    $ duetbench compare --head granian==2.7.8 --head workers=4 --budget 5m

    Exit code 0: all that was planned was judged, and nothing got worse by a size you act on; or
    there was nothing to judge. 1: something did, or no longer works. 3: nothing did, but something
    was not judged or not decided: a longer --budget may help. 4: nothing could be measured. 5: the
    machine is busy.
    """
    from duetbench.judge.comparison import Extent, compare, require_code
    from duetbench.judge.duet_loop import Reporter
    from duetbench.judge.findings import exit_code
    from duetbench.judge.session import InterruptedComparison
    from duetbench.project.setting import Contrast
    from duetbench.show import findings
    from duetbench.store import files as kept

    contrast = Contrast((base, head), of_base or (), of_head or ())
    sizes, statements, answers = _limits(limit or ())
    extent = Extent(
        tuple(select or ()),
        profile,
        budget_seconds(budget),
        everything,
        start,
        only or "",
        material=sizes,
        seed=seed,
    )
    extent.require_sense(contrast)
    if why is not None:
        require_code("--why", contrast)
    files = reports(output, ".json", ".md", ".html", as_json=as_json)
    require_files({"--why": [why] if why else []})
    console = console_beside(files)
    project = repository(console)
    clean_up(console)
    project = with_options(project, options)
    words = [
        *(word for glob in select or () for word in ("--select", glob)),
        *("--profile", profile, "--seed", str(seed), *["--all"] * everything),
        *(*["--start"] * start, *(["--only", only] if only else [])),
        *(["--budget", budget] if budget else []),
        *(word for text in limit or () for word in ("--limit", text)),
        *repetition(options),
    ]
    reporter, attribution, interruption = Reporter(console), None, None

    def explain(comparison: "Comparison", both: "Sides") -> None:
        nonlocal attribution
        if why is not None:
            attribution = hook("why:explain_comparison")(comparison, both, reporter)

    with machine(wait, console.say, timed=only != "effects"):
        try:
            comparison = compare(
                project,
                contrast,
                extent,
                reporter,
                words=words,
                notes=left_out(options),
                first=lambda case, seen: reporter.say(findings.first(case, seen)),
                announce=partial(announce, reporter),
                then=explain,
            )
        except InterruptedComparison as problem:
            comparison, interruption = problem.comparison, problem
    code = exit_code(comparison, effects=only == "effects", answers=answers, statements=statements)
    text = _summarise(comparison, code, attribution)
    try:
        write_reports(
            files,
            {
                ".json": lambda: visible_json(comparison.model_dump_json(indent=1)) + "\n",
                ".md": lambda: text,
                ".html": lambda: html_page(comparison),
            },
        )
        if attribution is not None:
            put(visible_json(attribution.model_dump_json()) + "\n", why)
    finally:
        own = comparison.model_copy(update={"to_repeat": left_out(options, own=True)})
        _print(console, own, attribution, unrecorded(options))
        if results is not None and comparison.status == "complete":
            console.say(f"\nsaved: {kept.save(results, comparison)}")
    if interruption is not None:
        raise interruption
    if code:
        raise Exit(code)


def _summarise(comparison: "Comparison", code: int, attribution: "Attribution | None") -> str:
    """Return a report as Markdown; in GitHub Actions, the page of the job has it as well."""
    from duetbench.github import actions
    from duetbench.show.comparison_text import as_markdown
    from duetbench.show.report import check_line

    text = as_markdown(comparison, check=check_line(comparison, code), code=attribution)
    actions.summary(text)
    return text


def _print(
    console: Console, comparison: "Comparison", attribution: "Attribution | None", more: str
) -> None:
    """Print the report, and where all of it is."""
    from duetbench.show.comparison_text import print_comparison
    from duetbench.store.result_files import comparison_file

    print_comparison(console, comparison, details=False, code=attribution, more=more)
    # In a job or a sandbox the folder may be gone when somebody reads this.
    if console.is_terminal and comparison_file(comparison).is_file():
        console.say("\nSaved; the whole report: duetbench show latest")


def _limits(texts: Sequence[str]) -> tuple[dict[Concern, float], float | None, bool]:
    """Read --limit: sizes to act on, SQL statements, and whether answers count.

    Raises UsageError.
    """
    sizes: dict[Concern, float] = {}
    statements, answers = None, False
    for text in texts:
        name, _, size = text.partition("=")
        concern = next((concern for concern in MATERIAL if concern == name), None)
        if text == "answers":
            answers = True
        elif name == "sql" and size.isdecimal():
            statements = float(size)
        elif concern is None:
            known = ", ".join(MATERIAL)
            raise UsageError(f"--limit {text}: expected one of {known}, sql=N or answers")
        else:
            try:
                sizes[concern] = units.read_share(size)
            except ValueError as error:
                raise UsageError(f"--limit {text}: {error}") from error
    return sizes, statements, answers


def announce(reporter: "Reporter", question: "Question") -> None:
    """Say what is compared, and how much of the change the requests run."""
    from duetbench.show import findings
    from duetbench.show.report import side_texts

    touched = question.sides
    if question.coverage:
        reporter.say(findings.covers(question.coverage))
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
    }
    for pair in touched.pairs:
        if seen := question.seen.effects.get(pair.case.id):
            for line in findings.announce(pair.case, seen):
                reporter.say(line)
    if sum(counts.values()) > 1:  # for a single case the next line says it
        reporter.note("; ".join(f"{name}: {number}" for name, number in counts.items() if number))
