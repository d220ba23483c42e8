"""Compares what one request does on both sides, from requests made without a server.

Only what every request of a side does alike is compared. If something differs, a second process of
each side repeats its requests: what differs between those is not the change's. If a side varies,
perhaps as both use one file, both sides repeat their requests one after the other.
"""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, get_args

from pydantic import TypeAdapter, ValidationError

from duetbench.app import case_names, hints, in_process
from duetbench.app.expectation import check_answer
from duetbench.app.in_process import Program, code_of, program
from duetbench.app.testbed import BothSides, SideCase
from duetbench.core import units
from duetbench.core.comparison import SIDES
from duetbench.core.effects import (  # noqa: F401
    TELLING,
    AnswerDifference,
    EffectKind,
    Effects,
    KeptMemory,
    RequestEffect,
)
from duetbench.core.errors import CountError, LaunchError, UsageError
from duetbench.core.text import short
from duetbench.effects import answers
from duetbench.effects.activity import PROGRAM, Activity, Name

SECONDS: Final = 60.0
"""Time limit for the requests of a case, which take 1 to 3 s, mostly for imports; longer where the
application may take longer to start."""

EARLY: Final = 15.0
"""Seconds within which a failure may be due to the other side at the same time.

Such sides share a file or a port, which each creates when it starts."""

NO_TIME: Final = "there was no time to observe it"

LEAST: Final = 10.0
"""Seconds that observing always has: an exact answer is worth more than a short budget."""

PATIENCE: Final = 10.0
"""Most seconds that a first answer may take, beside the import; it may import more."""

LONGEST: Final = 0.5
"""Declared seconds of a request from which it is not observed."""

DETAILS: Final = 8
"""Most effects of one kind in a record."""

_MEMORY: Final = 0.6  # seconds for the memory of a case
_BRIEF: Final = 0.03  # seconds of a request whose memory is always measured, if there is time
_CALLS: Final = 0.02  # relative change of the function calls that is an effect
_OWN: Final = 0.5  # calls of an own function per request by which it differs
KINDS: Final[tuple[EffectKind, ...]] = get_args(EffectKind)
_ACTIVITY: Final = TypeAdapter(Activity)
_ACTIVITY.rebuild()  # with the types of this module: an observed process has none of pydantic

_LONGEST: Final = 200  # characters about an answer

Counts = Sequence[Counter[str]]
"""Of each round, how often something happened, by text."""

_Both = tuple[Activity, Activity]


@dataclass(frozen=True, slots=True)
class Observations:
    """What was seen of all cases; `reasons` say why not, by case."""

    effects: dict[str, Effects] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    endless: dict[str, str] = field(default_factory=dict)
    """Cases whose requests were not answered in time, and how long that was waited for."""
    entered: dict[str, frozenset[Name]] = field(default_factory=dict)
    """Functions that the requests of a case enter on either side, by file and name."""
    loaded: dict[str, frozenset[str]] = field(default_factory=dict)
    """Python files that a case loads on either side, of cases that do the same on both."""


def observe(pairs: Sequence[BothSides], *, seconds: float = math.inf) -> Observations:
    """Observe the requests of all pairs on both sides, those of equal code once.

    It takes at most so many seconds, or `LEAST`.
    """
    ends = time.monotonic() + max(LEAST, seconds)
    seen, outcomes = Observations(), dict[Hashable, tuple[Effects, Activity] | CountError]()
    for pair in pairs:
        name, code = pair[1].case.id, code_of(pair[1])
        if code not in outcomes:
            try:
                outcomes[code] = _observe(pair, ends)
            except CountError as error:
                outcomes[code] = error
        outcome = outcomes[code]
        if isinstance(outcome, CountError):
            seen.reasons[name] = short(str(outcome))
            if outcome.kind == "endless":
                seen.endless[name] = seen.reasons[name].removeprefix(
                    f"{case_names.of(pair[1].case).what}: "
                )
            continue
        seen.effects[name], both = outcome
        seen.entered[name] = frozenset((file, name) for file, name, _ in both.functions)
        if seen.effects[name].same and both.loaded is not None:
            seen.loaded[name] = frozenset(both.loaded)
    return seen


def _observe(pair: BothSides, ends: float) -> tuple[Effects, Activity]:
    """Observe a case; return what differs, and what both sides did together. Raises CountError.

    Sides that disturb each other are observed one after the other.
    """
    if (takes := pair[1].case.endpoint.takes) > LONGEST:
        raise CountError(f"a request takes {units.seconds(takes)}")
    began = time.monotonic()
    try:
        both, effects = _look(pair, ends, at_once=True)
    except CountError as error:
        if error.kind == "endless" or time.monotonic() >= began + EARLY:
            raise
        both, effects = _look(pair, ends, at_once=False)
    else:
        if _varies(effects) and time.monotonic() < began + EARLY:
            with suppress(CountError):
                alone = _look(pair, ends, at_once=False)
                both, effects = (both, effects) if _varies(alone[1]) else alone
    seconds = time.monotonic() - began
    return effects.model_copy(update={"seconds": seconds}), both[0].with_(both[1])


def _look(pair: BothSides, ends: float, *, at_once: bool) -> tuple[_Both, Effects]:
    """Observe both sides, and again if they differ, for which there is always time."""
    began = time.monotonic()
    both = _attempt(pair, _MEMORY, ends, at_once)
    _require_right(pair[1], *both)
    effects = compare(*both)
    if effects.same or _varies(effects):
        return both, effects
    # Memory is measured again where it differs: another process need not keep it.
    memory = _MEMORY * bool(effects.leaks or effects.repairs)
    ends = max(ends, time.monotonic() + 2 * (time.monotonic() - began))
    again = _attempt(pair, memory, ends, at_once)
    both = both[0].with_(again[0]), both[1].with_(again[1])
    return both, compare(*both)


def _require_right(head: SideCase, old: Activity, new: Activity) -> None:
    """Refuse a request that both sides answer with a wrong status; raises UsageError."""
    for path, before, after in zip(new.paths, old.answers, new.answers, strict=True):
        if new.status and new.status not in {before[0]["status"], after[0]["status"]}:
            case, reply = head.case, after[0]
            headers, body = dict(reply["headers"]), reply["body"].encode("latin-1")
            where = f"{case.endpoint.method} {path}"
            try:
                check_answer(case.endpoint, where, reply["status"], headers, body)
            except LaunchError as error:
                detail = new.hide(error.detail.removesuffix("; see the server's log"))
                advice = hints.advise(head, detail, new.routes)
                raise UsageError(f"{detail}{advice and f'. {advice}'}") from error


def _varies(effects: Effects) -> bool:
    """Whether a side does something else each time, such as what another process does to it."""
    return not {*TELLING}.isdisjoint(effects.unsteady)


def _attempt(pair: BothSides, memory: float, ends: float, at_once: bool) -> _Both:
    """Observe both sides, each in a process of its own; raises CountError.

    Memory is measured for about as many seconds.
    """
    seen: list[Activity] = []
    problems: list[CountError] = []
    for group in [pair] if at_once else [(side,) for side in pair]:
        with ExitStack() as stack, ThreadPoolExecutor() as pool:
            for collect in pool.map(partial(_start, stack, memory, ends), group):
                try:
                    seen.append(collect())
                except CountError as error:
                    problems.append(error)
    if problems:
        if len(problems) == len(SIDES) and all(problem.kind == "login" for problem in problems):
            raise UsageError(short(str(problems[1])))
        raise problems[0]
    for name, side in zip(SIDES, seen, strict=True):
        for unseen, recorded in zip(side.alone, side.answers, strict=True):
            if difference := answers.difference(unseen, recorded):
                what = side.hide(difference[0])
                raise CountError(f"{name} answers something else while it is observed: {what}")
    return seen[0], seen[1]


def _start(stack: ExitStack, memory: float, ends: float, side: SideCase) -> Callable[[], Activity]:
    """Start to observe the requests of one side in a new process, until the stack is left."""
    case = side.case
    timeout = min(max(SECONDS, case.ready_timeout), ends - time.monotonic())
    patience = min(PATIENCE, case.load.timeout, timeout / 2)
    if timeout <= 0:
        raise CountError(NO_TIME)
    client = stack.enter_context(program(side, PROGRAM))
    return stack.enter_context(start(client, memory, timeout, patience))


@contextmanager
def start(
    client: Program, memory: float, timeout: float, patience: float
) -> Iterator[Callable[[], Activity]]:
    """Start to observe requests for at most `timeout` s; leaving ends it.

    Memory is measured for about `memory` s. `patience` are the seconds in which the first answer to
    a path must have ended; 0: any. The callable waits for what was seen, without the memory if the
    process does not survive that. CountError, with the reason: nothing was seen.
    """
    ends = time.monotonic() + timeout
    with in_process.start(client, {"patience": patience, "seconds": memory}) as process:

        def read() -> Activity:
            try:
                seen = _ACTIVITY.validate_python(process.report(ends - time.monotonic()))
            except CountError as error:
                raise CountError(client.hide(str(error)), error.kind) from error
            except ValidationError as error:
                raise CountError(f"expected the report of a target, found {error}") from error
            return seen.hidden(client.hide)

        yield read


def compare(base: Activity, head: Activity) -> Effects:
    """Compare what the requests of both sides did. Pure."""
    differ: list[RequestEffect] = []
    totals: dict[EffectKind, tuple[float, float]] = {}
    unsteady: dict[EffectKind, str] = {}
    counts = _counts(base), _counts(head)
    paths = max(1, len(head.paths))
    for kind in KINDS:
        both = [side.get(kind) or [Counter()] for side in counts]
        if not any(map(any, both)):
            continue
        rounds = [{round_.total() / paths for round_ in side} for side in both]
        if kind == "function":  # a few calls more or less are no other work
            rounds = [_typical(figures) for figures in rounds]
        varies = [
            f"{min(figures):g} to {max(figures):g} in {name}"
            for name, figures in zip(SIDES, rounds, strict=True)
            if len(figures) > 1
        ]
        if varies:
            unsteady[kind] = ", ".join(varies)
            continue
        old, new = totals[kind] = rounds[0].pop(), rounds[1].pop()
        if kind != "function":
            differ += _details(kind, both, base, head)
            continue
        name, place, own = _most_called(base, head)
        if abs(new - old) > _CALLS * max(old, new) or own * (new - old) > 0:
            differ.append(RequestEffect(kind=kind, text=name, place=place, base=old, head=new))
    if plans := [*_plans(base, head)]:
        totals["plan"] = float(len(plans)), float(len(plans))
        differ += plans
    replies = (answers.difference(*pair) for pair in zip(base.answers, head.answers, strict=True))
    return Effects(
        differ=tuple(differ),
        totals=totals,
        unsteady=unsteady,
        answers=tuple(
            AnswerDifference(
                path=path * (paths > 1),
                what=short(head.hide(base.hide(difference[0])), _LONGEST),
                broken=difference[1],
            )
            for path, difference in zip(head.paths, replies, strict=True)
            if difference
        ),
        length=min(reply["length"] for reply in head.answers[0]),
        status=head.answers[0][0]["status"],
        kept_base=base.kept,
        kept_head=head.kept,
        unseen=tuple(sorted({*base.unseen, *head.unseen})),
        unmeasured=_unmeasured(base, head),
    )


def _typical(figures: set[float]) -> set[float]:
    """Return the middle of figures that are nearly the same, or else all of them."""
    low, high = min(figures), max(figures)
    return {sorted(figures)[len(figures) // 2]} if high - low <= _CALLS * low else figures


def _counts(side: Activity) -> Mapping[EffectKind, Counts]:
    """Count what a side did in each round, by kind and text."""
    counts: dict[Any, Counts] = defaultdict(lambda: [Counter() for _ in side.events])
    for index, events in enumerate(side.events):
        for kind, text, _ in events:
            counts[kind][index][text] += 1
    counts["function"] = [Counter({"": calls}) for calls in side.calls if calls]
    return counts


def _details(
    kind: EffectKind, both: Sequence[Counts], base: Activity, head: Activity
) -> Iterator[RequestEffect]:
    """Yield what one side does more often than the other, the largest difference first."""
    effects = []
    for text in {text for side in both for round_ in side for text in round_}:
        times = [{round_[text] for round_ in side} for side in both]
        if all(len(some) == 1 for some in times) and times[0] != times[1]:
            effects.append((text, times[0].pop(), times[1].pop()))
    effects.sort(key=lambda each: (-abs(each[2] - each[1]), each[1] > each[2], each[0]))
    paths = max(1, len(head.paths))
    for text, old, new in effects[:DETAILS]:
        place = _place(kind, text, *((head, base) if new > old else (base, head)))
        yield RequestEffect(kind=kind, text=text, place=place, base=old / paths, head=new / paths)


def _plans(base: Activity, head: Activity) -> Iterator[RequestEffect]:
    """Yield the statements of both sides that the database executes in another way."""
    for text in (text for text in head.plans if text in base.plans):
        (old, _), (new, place) = base.plans[text], head.plans[text]
        if old and new and old != new:
            before, after = old.split("; "), new.split("; ")
            gone = "; ".join(line for line in before if line not in after) or "less"
            come = "; ".join(line for line in after if line not in before) or "less"
            what = f"{come} instead of {gone}: {text}"
            yield RequestEffect(kind="plan", text=what, place=place, base=1, head=1)


def _place(kind: EffectKind, text: str, more: Activity, less: Activity) -> str:
    """Find the line at which one side does something more often than the other.

    A function that is new around all of a request also takes over what was there before, so the
    line is the one that does it about as often as the totals differ by.
    """

    def lines_of(side: Activity) -> Counter[str]:
        return Counter(place for *what, place in side.events[0] if what == [kind, text])

    def by_function(lines: Counter[str]) -> Counter[str]:
        return Counter(line.rpartition(":")[0] for line in lines.elements())

    lines, fewer = lines_of(more), lines_of(less)
    difference, times = by_function(lines) - by_function(fewer), lines.total() - fewer.total()
    function = min(difference, key=lambda name: abs(difference[name] - times))
    own = [line for line in lines if line.rpartition(":")[0] == function]
    return min(reversed(own), key=lambda line: abs(lines[line] - times))


def _most_called(base: Activity, head: Activity) -> tuple[str, str, int]:
    """Name the application's function whose calls differ most, with its file; or nothing.

    And say by how much those of all its functions differ, if it is more than by one that is new:
    calls of one that has another name are no more work.
    """
    old, new = ({(f, n): calls for f, n, calls in side.functions} for side in (base, head))
    rises = {name: new.get(name, 0) - old.get(name, 0) for name in sorted({*old, *new})}
    top = max(rises, key=lambda name: abs(rises[name]), default=("", ""))
    paths, own = len(head.paths), sum(rises.values())
    own *= abs(own) > max(paths, _CALLS * sum(old.values()))
    if abs(rises.get(top, 0)) <= _OWN * paths:
        return "", "", own
    return f"{top[1]} {old.get(top, 0) / paths:g} → {new.get(top, 0) / paths:g}", top[0], own


def _unmeasured(base: Activity, head: Activity) -> str:
    """Say why no memory was measured: how long a request takes, if that is too long."""
    lacking = [side.seconds for side in (base, head) if side.kept is None]
    if lacking and max(lacking) >= _BRIEF:
        return f"a request takes {units.seconds(max(lacking))}"
    return "there was no time" * bool(lacking)
