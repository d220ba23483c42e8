"""Compares as people ask for it: what differs, which cases can differ, and what that did to them.

`session` does the measuring, of sides that are prepared. Here they are prepared, and the change
between them decides what is worth measuring.
"""

import math
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from duetbench.app import configuration, revisions
from duetbench.app.setting import Contrast
from duetbench.app.subject import Subject
from duetbench.app.testbed import prepare_all, server_of
from duetbench.core.comparison import Attribution, Comparison
from duetbench.effects import difference as effects
from duetbench.host import paths, result_files
from duetbench.judge import affected, preparation, session
from duetbench.judge.duet_loop import Reporter
from duetbench.judge.instruments import Real
from duetbench.judge.pairs import Pair, Sides
from duetbench.judge.preparation import Scope
from duetbench.judge.repetition import command
from duetbench.judge.session import Extent, Question, empty_comparison

_SHARE: Final = 1 / 8
"""Share of a budget that an answer of an idle server may take."""

_LEAST: Final = 5.0  # s that it may take of any budget


def compare(
    project: Subject,
    contrast: Contrast,
    extent: Extent,
    reporter: Reporter,
    *,
    words: Sequence[str] | None = None,
    notes: tuple[str, ...] = (),
    first: effects.Early = lambda _case, _effects: None,
    announce: Callable[[Question], object] = id,
    explain: Callable[[Comparison, Sides], Attribution | None] = lambda _comparison, _sides: None,
    prepare: Callable[[Any, Contrast, Scope], Sides] = preparation.prepare,
) -> Comparison:
    """Compare on this machine, which nothing else may use meanwhile; save the result.

    `prepare` makes the sides of the project. `words` are the options of a command that repeats it,
    and `notes` say what they lack. `first` gets what requests do differently at first sight.
    `announce` is called when the sides are prepared, and `explain`, which finds the functions
    behind a change, while they still exist.

    Raises:
        InterruptedComparison: It was interrupted; the partial result is saved.
        DuetbenchError: As `preparation.prepare` and `session.compare`.
    """
    extent.require_sense(contrast)
    with revisions.copies() as copies:
        logs = paths.state_dir() / "logs"
        patience = math.inf if extent.seconds is None else max(_LEAST, _SHARE * extent.seconds)
        scope = Scope(extent.select, logs, reporter, copies, not extent.only, patience)
        both = prepare(project, contrast, scope)
        reproduce = command(both.base.record, both.head.record, words or ()) if words else None
        question = replace(
            _question(project.root, both, extent, reporter, first),
            reproduce=(reproduce,) if reproduce else (),
            to_repeat=notes if reproduce else (),
        )
        announce(question)
        if question.sides.empty_reason:
            comparison = empty_comparison(question)
        else:
            place = paths.project_state(project.root)
            comparison = session.compare(question, reporter, Real(logs), place)
            if why := explain(comparison, both):
                comparison = comparison.model_copy(update={"why": why})
                result_files.save_comparison(comparison, place)
    return comparison


def starting(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """Choose the first case of each server, to compare starts."""
    first: dict[Hashable, Pair] = {}
    for pair in pairs:
        first.setdefault(tuple(server_of(side.case) for side in pair.sides), pair)
    return tuple(replace(pair, start=True) for pair in first.values())


def _question(
    root: Path,
    both: Sides,
    extent: Extent,
    reporter: Reporter,
    first: effects.Early,
) -> Question:
    """Choose what can differ, and find how much of the change the requests enter."""
    diff = affected.difference(both)
    touched = affected.find(both, diff, everything=extent.everything)
    declared = configuration.load(root)
    extent = replace(extent, material={**declared.material, **extent.material})
    with reporter.when_long("the commands of --before: still running, once for each side"):
        prepare_all(side for pair in touched.pairs for side in pair.sides)
    if extent.start:
        return Question(replace(touched, pairs=starting(touched.pairs)), extent)
    began = time.monotonic()
    with reporter.when_long("what one request does: still observed"):
        seen = effects.observe(touched.to_observe, first, budget=extent.seconds)
    if seen.reasons:
        both.check()
    if extent.only == "effects":
        return Question(touched, extent, declared.limits, seen=seen)
    touched = affected.find(both, diff, seen.loaded, everything=extent.everything)
    return Question(
        touched,
        extent,
        declared.limits,
        coverage=affected.cover(touched, diff, seen.entered),
        seen=seen,
        spent=time.monotonic() - began,
    )
