"""The Python API: what `duetbench` has at its root.

`prepare`, `observe`, `duet` and `decide` are the steps of `compare`, `render` writes what it found,
and `read` reads what was saved. The command line stands on the same functions.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from duetbench.app import revisions
from duetbench.app.declarations import results_dir
from duetbench.app.setting import Contrast
from duetbench.app.subject import Subject
from duetbench.app.target import Target, of
from duetbench.core.comparison import Comparison, Duet, Finding
from duetbench.core.effects import Effects
from duetbench.core.metrics import MATERIAL
from duetbench.core.model import Run
from duetbench.effects import difference as effects
from duetbench.host import paths, result_files
from duetbench.host.console import Console
from duetbench.host.machine import measuring
from duetbench.host.signals import interruptible
from duetbench.judge import comparison as comparisons
from duetbench.judge import preparation, rule
from duetbench.judge.duet_loop import Loop, Reporter
from duetbench.judge.instruments import Real
from duetbench.judge.pairs import Pair, Sides
from duetbench.judge.preparation import DEFAULT_SEED, Extent, Scope
from duetbench.report import report
from duetbench.report.html.comparison_page import one_file

_INSTRUMENTS: Final = Real()


def read(name: str | Path) -> Run | Comparison:
    """Read a run or a comparison.

    Args:
        name: Its file, its id, enough of its id, or `latest`.

    Raises:
        UsageError: Nothing goes by that name, or several things do.
        RecordError: The file cannot be read, or is no result.
    """
    return result_files.load(name, results_dir(paths.project_root()))


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


@contextmanager
def prepare(
    contrast: Contrast | str | None = None,
    target: Target | None = None,
    *,
    root: Path | None = None,
    reporter: Reporter | None = None,
) -> Iterator[Sides]:
    """Provide both sides of an application, each in a copy of its files; they are gone at the end.

    The arguments are those of `compare`. Meanwhile the machine is held for measuring. A pair of
    `pairs` is a case as base and as head have it; it keeps the duets that are run of it.

    Raises:
        DuetbenchError: The sides cannot be prepared; the message says what to do.
    """
    with _measured(root, target) as project, revisions.copies() as copies:
        scope = Scope((), reporter or _silent(), copies)
        sides = preparation.prepare(project, _contrast(contrast), scope)
        comparisons.prepare_all(side for pair in sides.pairs for side in pair.sides)
        yield sides


def observe(sides: Sides) -> Mapping[str, Effects]:
    """Observe what one request of each case does on both sides, by the case's id; seconds, exact.

    A case that cannot be observed is missing.
    """
    return effects.observe(sides.to_observe).effects


def duet(pair: Pair) -> Duet:
    """Load both sides of a case at the same time, once. A failure is a flag of the duet."""
    loop = Loop(_INSTRUMENTS.duets, _silent(), DEFAULT_SEED + len(pair.all))
    loop.launch([pair], 0.0)
    return pair.all[-1]


def decide(sides: Sides, seen: Mapping[str, Effects]) -> tuple[Finding, ...]:
    """Judge what was observed and the duets so far, at any time; the most important first.

    Three duets are the fewest that decide anything.
    """
    for pair in sides.pairs:
        pair.seen = seen.get(pair.case.id)
    return rule.judge(sides.pairs, MATERIAL)


def render(comparison: Comparison, medium: Literal["markdown", "html"] = "markdown") -> str:
    """Write what a comparison found, as Markdown or as one HTML file."""
    return (one_file if medium == "html" else report.as_markdown)(comparison)


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
