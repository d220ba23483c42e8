"""How a comparison ended, as an exit code and as the status of a commit. Pure."""

from __future__ import annotations

from typing import Final

from servebench.compare.model import Comparison, Verdict

UNDECIDED: Final = 3
"""Not all that was to be judged was judged; see `errors.EXIT_CODES`."""


def exit_code(comparison: Comparison, *, lenient: bool = False) -> int:
    """Say how a comparison ended: 0, 1 or 3 of `errors.EXIT_CODES`.

    1: something got slower, or head breaks it. Between two interpreters nobody got slower: they are
    a choice. 3: something that was to be judged was not; so 0 says that all of it was, and that
    nothing got slower. Benchmarks inside the process that there was no time for make no 3 beside
    cases, whose duets judge the same change.

    Args:
        comparison: What was measured and judged.
        lenient: What stayed undecided is no 3 where anything was judged.
    """
    cases = [one for case in comparison.cases for one in case.judgements]
    for one in (*cases, *(micro.judgement for micro in comparison.micro)):
        slower = one.verdict is Verdict.SLOWER and not comparison.cross
        if slower or (one.verdict is Verdict.NOT_COMPARABLE and _only_head(one.reason)):
            return 1
    undecided = {Verdict.INCONCLUSIVE, Verdict.NOT_COMPARABLE}
    doubtful = any(one.verdict in undecided for one in cases) or any(
        micro.judgement.verdict in undecided and (micro.base or not comparison.planned)
        for micro in comparison.micro
    )
    unheard = comparison.planned > sum(bool(case.judgements) for case in comparison.cases)
    expected = comparison.planned or comparison.micro or comparison.untouched
    # Cases that only one side has are no sign that nothing changed.
    apart = bool(comparison.missing) and not expected
    if not (doubtful or unheard or apart or comparison.status == "partial"):
        return 0
    return 0 if lenient and _anything_judged(comparison) else UNDECIDED


def _only_head(reason: str) -> bool:
    """Whether a failure is head's alone (see `samples.broken`): base's is none of the change."""
    return reason.startswith("head: ") and "; base: " not in reason


def _anything_judged(comparison: Comparison) -> bool:
    """Whether any case or benchmark has a verdict that says whether it moved."""
    judged = {Verdict.FASTER, Verdict.SLOWER, Verdict.NO_CHANGE}
    found = [one.verdict for case in comparison.cases for one in case.judgements]
    return any(one in judged for one in (*found, *(m.judgement.verdict for m in comparison.micro)))
