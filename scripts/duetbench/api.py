"""The Python API: what `duetbench` has at its root."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from duetbench.core.model import Run
from duetbench.host import paths
from duetbench.host.console import Console, Narrator
from duetbench.host.machine import measuring
from duetbench.host.signals import interruptible
from duetbench.judge import comparison as comparisons
from duetbench.judge import preparation, revisions
from duetbench.judge.deployment import deployed
from duetbench.judge.duet_loop import Reporter
from duetbench.judge.session import Extent
from duetbench.judge.why import attribute as attribution
from duetbench.measure import runner
from duetbench.project.plan import make_plan
from duetbench.project.pyproject import results_dir
from duetbench.project.setting import Contrast
from duetbench.project.subject import Subject
from duetbench.project.target import Target, of
from duetbench.store import result_files
from duetbench.store.attribution import Attribution
from duetbench.store.change import CommitCause
from duetbench.store.comparison import Comparison
from duetbench.trend import commit_search


def load(name: str | Path, results: Path | None = None) -> Run | Comparison:
    """Read a run or a comparison.

    Args:
        name: Its file, its id, enough of its id, or `latest` for the latest run.
        results: The results folder; default: that of the repository around the working directory.

    Raises:
        UsageError: Nothing goes by that name, or several things do.
        RecordError: The file cannot be read, or is no result.
    """
    return result_files.load(name, results or results_dir(paths.project_root()))


def compare(
    contrast: Contrast | str | None = None,
    target: Target | None = None,
    extent: Extent | None = None,
    *,
    root: Path | None = None,
    reporter: Reporter | None = None,
) -> Comparison:
    """Compare two sides of a repository on this machine; it takes minutes, and prints nothing.

    Args:
        contrast: How base and head differ; a text is the revision of base, with the files as they
            are as head.
        target: The application; default: what the repository declares.
        extent: Which cases, and for how long.
        root: The repository; default: the one around the working directory.
        reporter: Gets what is done meanwhile.

    Returns:
        The comparison, which is also saved. That something got slower is a verdict, and no error.

    Raises:
        DuetbenchError: Nothing can be compared; the message says what to do.
    """
    with _measured(root, target) as project:
        return comparisons.compare(
            project, _contrast(contrast), extent or Extent(), reporter or _silent()
        )


def run(
    target: Target | None = None,
    *,
    launches: int | None = None,
    seconds: float | None = None,
    results: Path | None = None,
    root: Path | None = None,
) -> Run:
    """Measure one version of a repository on this machine, and print nothing.

    Args:
        target: The application; default: what the repository declares.
        launches: Server starts of each case; default: one.
        seconds: Length of a load, s.
        results: The folder for the run's file; default: the repository's.
        root: The repository; default: the one around the working directory.

    Returns:
        The run, which is also saved. A launch that failed is recorded, and no error.

    Raises:
        DuetbenchError: Nothing can be measured; the message says what to do.
    """
    console = Console(quiet=True)
    narrator = Narrator(console)
    with _measured(root, target) as project, deployed(project, narrator) as place:
        plan = make_plan(place.cases(), launches, seconds=seconds)
        folder = results or project.results
        finished, _ = runner.launch_all(plan, place, folder, console, installs=narrator)
    return finished


def bisect(
    good: str,
    bad: str = "HEAD",
    target: Target | None = None,
    *,
    select: str = "*",
    seconds: float = 1800.0,
    root: Path | None = None,
    reporter: Reporter | None = None,
) -> tuple[CommitCause, ...]:
    """Find which commits of a repository did it; prints nothing.

    Args:
        good: A revision before the change.
        bad: One after it.
        target: The application; default: what the repository declares.
        select: A glob over the ids of cases.
        seconds: Of load at most, where counts of instructions tell nothing.
        root: The repository; default: the one around the working directory.
        reporter: Gets what is done meanwhile.

    Returns:
        The commits, the one with the largest change first; empty if nothing differs.

    Raises:
        DuetbenchError: Nothing can be searched; the message says what to do.
    """
    with _measured(root, target) as project:
        return commit_search.search(project, (good, bad), select, seconds, reporter or _silent())


def why(
    contrast: Contrast | str | None = None,
    target: Target | None = None,
    *,
    select: Sequence[str] = (),
    root: Path | None = None,
    reporter: Reporter | None = None,
) -> tuple[Attribution, ...]:
    """Rank the functions that differ between two sides, by instructions; prints nothing.

    Args:
        contrast: As of `compare`.
        target: The application; default: what the repository declares.
        select: Globs over the ids of cases; one to four pieces of code are counted.
        root: The repository; default: the one around the working directory.
        reporter: Gets what is done meanwhile.

    Raises:
        DuetbenchError: Nothing can be counted; the message says what to do.
    """
    reporter = reporter or _silent()
    with _measured(root, target) as project, revisions.copies() as copies:
        scope = attribution.scope(select, reporter, copies)
        pairs = attribution.once(preparation.prepare(project, _contrast(contrast), scope))
        return tuple(attribution.attribute(*pair, reporter) for pair in pairs)


@contextmanager
def _measured(root: Path | None, target: Target | None) -> Iterator[Subject]:
    """Hold the machine for a repository with its target, of which it may declare other keys."""
    place = root.resolve() if root else paths.project_root(stand_in=False)
    given = target.model_dump(by_alias=True, exclude_unset=True) if target else {}
    project = Subject(place, target=of(place, given))
    with interruptible(), measuring():
        yield project


def _contrast(contrast: Contrast | str | None) -> Contrast:
    return contrast if isinstance(contrast, Contrast) else Contrast((contrast, None))


def _silent() -> Reporter:
    return Reporter(Console(quiet=True))
