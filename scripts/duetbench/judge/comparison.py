"""Compares as people ask for it: what differs, which cases can differ, and what that did to them.

`session` does the measuring, of sides that are prepared. Here they are prepared, and the change
between them decides what is worth measuring.
"""

import math
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, Final

from duetbench.app import configuration, revisions
from duetbench.app.setting import Contrast
from duetbench.app.subject import Subject
from duetbench.app.testbed import prepare_all, server_of
from duetbench.core.comparison import Attribution, Comparison
from duetbench.effects import difference as effects
from duetbench.effects.difference import Seen
from duetbench.host import paths, result_files
from duetbench.judge import affected, preparation, session
from duetbench.judge.duet_loop import Reporter
from duetbench.judge.instruments import Real
from duetbench.judge.pairs import Pair, Sides
from duetbench.judge.preparation import Scope
from duetbench.judge.repetition import command
from duetbench.judge.session import Extent, Question

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
    announce: Callable[[Question], object] = id,
    explain: Callable[[Comparison, Sides], Attribution | None] = lambda _comparison, _sides: None,
    prepare: Callable[[Any, Contrast, Scope], Sides] = preparation.prepare,
) -> Comparison:
    """Compare on this machine, which nothing else may use meanwhile; save the result.

    `prepare` makes the sides of the project. `words` are the options of a command that repeats it,
    and `notes` say what they lack.
    `announce` is called when the sides are prepared, and `explain`, which finds the functions
    behind a change, while they still exist.

    Raises:
        InterruptedComparison: It was interrupted; the partial result is saved.
        DuetbenchError: As `preparation.prepare` and `session.compare`.
    """
    extent.require_sense(contrast)
    root = project.repository
    declared, place = configuration.load(root), paths.project_state(root)
    extent = replace(extent, material={**declared.material, **extent.material})
    patience = math.inf if extent.seconds is None else max(_LEAST, _SHARE * extent.seconds)
    with revisions.copies() as copies:
        scope = Scope(extent.select, reporter, copies, not extent.only, patience)
        both = prepare(project, contrast, scope)
        diff = affected.difference(both)
        sides = affected.find(both, diff, everything=extent.everything)
        with reporter.when_long("the commands of --before: still running, once for each side"):
            prepare_all(side for pair in sides.pairs for side in pair.sides)
        seen, coverage, began = Seen(), None, time.monotonic()
        if not extent.start:
            with reporter.when_long("what one request does: still observed"):
                seen = effects.observe(sides.to_observe, budget=extent.seconds)
        if extent.start:
            sides = replace(sides, pairs=starting(sides.pairs))
        elif extent.only != "effects":
            sides = affected.find(both, diff, seen.loaded, everything=extent.everything)
            coverage = affected.cover(sides, diff, seen.entered)
        again = command(both.base.record, both.head.record, words) if words else ""
        question = Question(
            sides,
            extent,
            declared.most,
            reproduce=again,
            to_repeat=notes if again else (),
            coverage=coverage,
            seen=seen,
            spent=time.monotonic() - began,
        )
        announce(question)
        if sides.empty_reason:
            return question.nothing()
        comparison = session.compare(question, reporter, Real(), place)
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
