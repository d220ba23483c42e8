"""Compares what one request does on both sides, from requests made without a server.

Only what every request of a side does alike is compared. If something differs, a second process of
each side repeats its requests: what differs between those is not the change's.
"""

import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Any, Final, get_args

from duetbench.core import units
from duetbench.core.errors import CountError
from duetbench.core.model import Case
from duetbench.core.text import short
from duetbench.judge import answers, counted
from duetbench.judge.pairs import Pair
from duetbench.measure.effects import observation
from duetbench.measure.effects.observation import Activity, Name
from duetbench.measure.testbed import SideCase
from duetbench.store.comparison import SIDES
from duetbench.store.effects import (
    AnswerDifference,
    EffectKind,
    Effects,
    KeptMemory,
    RequestEffect,
)

SECONDS: Final = 30.0
"""Time limit for the requests of one environment, which take 1 to 3 s, mostly for imports.

It is longer where the application may take longer to start.
"""

LONGEST: Final = 0.5
"""Declared seconds of a request from which it is not observed."""

DETAILS: Final = 8
"""Most effects of one kind in a record."""

_MEMORY: Final = 0.6  # seconds for the memory of a case
_MEMORIES: Final = 10.0  # for those of all cases of one environment
_BRIEF: Final = 0.03  # seconds of a request whose memory is always measured, if there is time
_CALLS: Final = 0.02  # relative change of the function calls that is an effect
_PEAK, _PEAK_ROOM = 0.1, 16_384  # relative change of the largest need of memory, and bytes
_YOUNG, _YOUNG_ROOM = 0.1, 2  # relative change of the collections, and collections
_OWN: Final = 0.5  # calls of an own function per request by which it differs
_MEASURED: Final[frozenset[EffectKind]] = frozenset({"young collections", "peak"})
_KINDS: Final[tuple[EffectKind, ...]] = get_args(EffectKind)

_SETTING: Final = re.compile(r"(?i)(pragma|set) ")

Counts = Mapping[str, Sequence[int]]
"""By text, how often it happened in each round."""

Early = Callable[[Case, Effects], object]
"""Gets a case, and what its requests do differently at first sight."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of all cases; `reasons` say why not, by case."""

    effects: Mapping[str, Effects] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    entered: Mapping[str, frozenset[Name]] = field(default_factory=dict)
    """Functions that the requests of a case enter on either side, by file and name."""


def observe(
    pairs: Sequence[Pair],
    tell: Early = lambda _case, _effects: None,
    *,
    alone: bool = False,
) -> Seen:
    """Observe the requests of all pairs on both sides, those of equal code once.

    `tell` gets what differs at first sight, before memory is measured and anything is
    observed again. `alone`: both sides are the same, and what they do is described rather than
    compared.
    """
    once: dict[Hashable, Pair] = {}
    for pair in pairs:
        if not pair.executes_alike and pair.case.endpoint.takes <= LONGEST:
            once.setdefault(counted.code_of(pair.head), pair)
    groups: dict[Hashable, list[Hashable]] = defaultdict(list)
    for code, pair in once.items():
        groups[counted.surroundings(pair.head)].append(code)
    outcomes: dict[Hashable, tuple[Effects, frozenset[Name]] | str] = {}
    for codes in groups.values():
        chosen = [once[code] for code in codes]
        outcomes |= zip(codes, _observe(chosen, tell, alone), strict=True)
    codes_of = {pair.case.id: counted.code_of(pair.head) for pair in pairs}
    seen = {case: outcomes[code] for case, code in codes_of.items() if code in outcomes}
    for pair in pairs:
        if not pair.executes_alike and (takes := pair.case.endpoint.takes) > LONGEST:
            seen[pair.case.id] = f"a request takes {units.seconds(takes)}"
    good = {case: outcome for case, outcome in seen.items() if not isinstance(outcome, str)}
    return Seen(
        {case: effects for case, (effects, _) in good.items()},
        {case: reason for case, reason in seen.items() if isinstance(reason, str)},
        {case: names for case, (_, names) in good.items()},
    )


def _observe(
    pairs: Sequence[Pair], tell: Early, alone: bool
) -> list[tuple[Effects, frozenset[Name]] | str]:
    """Observe cases of one environment: both sides at once, and again where they differ."""
    began = time.monotonic()
    sight = _FirstSight(pairs, tell)
    with ThreadPoolExecutor(2) as pool:  # each thread waits for its own process

        def both(some: Sequence[Pair], memory: float) -> list[tuple[_Side, _Side] | str]:
            started = time.monotonic()
            joined = _join(some, memory, sight, pool.map)
            early = time.monotonic() < started + counted.EARLY * SECONDS
            if early and any(isinstance(outcome, str) for outcome in joined):
                return _join(some, memory, sight, map)
            return joined

        outcomes = both(pairs, min(_MEMORY, _MEMORIES / len(pairs)))
        found = {
            index: compare(outcome[0].observation, outcome[1].observation)
            for index, outcome in enumerate(outcomes)
            if not isinstance(outcome, str)
        }
        doubtful = [index for index, effects in found.items() if not effects.same]
        # Memory is measured again where it differs: another process need not keep it.
        memory = any(
            found[i].leaks or found[i].repairs or _MEASURED & found[i].moved for i in doubtful
        )
        again = [pairs[index] for index in doubtful]
        for index, second in zip(doubtful, both(again, _MEMORY * memory) if again else (),
                                 strict=True):  # fmt: skip
            first = outcomes[index]
            if not isinstance(first, str) and not isinstance(second, str):
                outcomes[index] = first[0].with_(second[0]), first[1].with_(second[1])
    seconds = time.monotonic() - began
    return [outcome if isinstance(outcome, str) else _finish(*outcome, seconds, alone=alone)
            for outcome in outcomes]  # fmt: skip


def _join(
    pairs: Sequence[Pair],
    memory: float,
    sight: "_FirstSight",
    each: Callable[..., Iterable["list[_Side | str]"]],
) -> list[tuple["_Side", "_Side"] | str]:
    """Observe both sides; `each` is a `map`, which decides whether at the same time."""
    sides = zip(*(pair.sides for pair in pairs), strict=True)
    try:
        base, head = each(_observe_side, sides, (memory, memory), sight.of_sides)
    except CountError as error:
        return [short(str(error))] * len(pairs)
    return [b if isinstance(b, str) else h if isinstance(h, str) else (b, h)
            for b, h in zip(base, head, strict=True)]  # fmt: skip


class _FirstSight:
    """Tells once per case what differs, as soon as both sides have made their requests."""

    def __init__(self, pairs: Sequence[Pair], tell: Early) -> None:
        self._began, self._tell, self._lock = time.monotonic(), tell, Lock()
        self._cases = {counted.unit(pair.head): pair.case for pair in pairs}
        self._sides: tuple[dict[str, _Side], dict[str, _Side]] = {}, {}
        self.of_sides = partial(self._add, 0), partial(self._add, 1)

    def _add(self, index: int, unit: str, side: "_Side") -> None:
        with self._lock:
            self._sides[index].setdefault(unit, side)
            if not all(unit in sides for sides in self._sides) or unit not in self._cases:
                return
            case = self._cases.pop(unit)
        base, head = (sides[unit] for sides in self._sides)
        found = _finish(base, head, time.monotonic() - self._began, alone=False)
        # Answers may differ by what a process has once, such as its number.
        if not isinstance(found, str) and found[0].moved:
            self._tell(case, found[0])


@dataclass(frozen=True, slots=True)
class _Side:
    observation: Activity
    entered: frozenset[Name]
    hide: Callable[[str], str]

    def with_(self, other: "_Side") -> "_Side":
        entered = self.entered | other.entered
        return _Side(self.observation.with_(other.observation), entered, self.hide)


def _finish(
    base: _Side, head: _Side, seconds: float, *, alone: bool
) -> tuple[Effects, frozenset[Name]] | str:
    entered = base.entered | head.entered
    for name, side in (("base", base), ("head", head)):
        seen = side.observation
        for unseen, recorded in zip(seen.alone, seen.answers, strict=True):
            if difference := answers.difference(unseen, recorded):
                return f"{name} answers something else while it is observed: {difference[0]}"
    both = base.observation, head.observation
    effects = describe(both[0].with_(both[1])) if alone else compare(*both)
    hidden = [d.model_copy(update={"what": short(head.hide(base.hide(d.what)), 200)})
              for d in effects.answers]  # fmt: skip
    update = {"answers": tuple(hidden), "seconds": seconds}
    return effects.model_copy(update=update), entered


def _observe_side(
    side: Sequence[SideCase], memory: float, add: Callable[[str, _Side], object]
) -> list[_Side | str]:
    """Observe the requests of one side's cases in a new process; may raise CountError.

    The memory of each is measured for about as many seconds; before that, `add` gets what was seen.
    """
    testbed, units = side[0].testbed, [counted.unit(part) for part in side]
    with counted.program(side[0], observation.PROGRAM) as client:
        root = client.folder if testbed.target else testbed.apps.parent

        def side_of(activity: Activity) -> _Side:
            entered = frozenset(observation.relative(activity.functions, root))
            return _Side(activity, entered, client.hide)

        seen = observation.observe(
            client,
            units,
            seconds=memory,
            timeout=max(SECONDS, side[0].case.ready_timeout),
            tell=lambda unit, activity: add(unit, side_of(activity)),
        )
        return [
            client.hide(found) if isinstance(found := seen[unit], str) else side_of(found)
            for unit in units
        ]


def compare(base: Activity, head: Activity) -> Effects:
    """Compare what the requests of both sides did. Pure."""
    sides = base, head
    differ: list[RequestEffect] = []
    totals: dict[EffectKind, tuple[float, float]] = {}
    unsteady: dict[EffectKind, str] = {}
    counts = [_counts(side) for side in sides]
    paths = max(1, len(head.paths))
    for kind in _KINDS:
        both = [part.get(kind, {}) for part in counts]
        if not any(both):
            continue
        rounds = [_rounds(side, kind, part) for side, part in zip(sides, both, strict=True)]
        if not all(_is_steady(found) for found in rounds):
            spread = [
                f"{min(found) / paths:g} to {max(found) / paths:g} in {name}"
                for name, found in zip(SIDES, rounds, strict=True)
                if not _is_steady(found)
            ]
            unsteady[kind] = ", ".join(spread)
            continue
        total = rounds[0][0] / paths, rounds[1][0] / paths
        totals[kind] = total
        differ += _details(kind, both, sides, paths)
        if kind == "function" and abs(total[1] - total[0]) > _CALLS * max(total):
            name, place = _most_called(base, head)
            differ.append(
                RequestEffect(kind=kind, text=name, place=place, base=total[0], head=total[1])
            )
    for kind, figures, room, share in _measured(base, head):
        totals[kind] = figures
        if abs(figures[1] - figures[0]) > room + share * min(figures):
            differ.append(RequestEffect(kind=kind, text="", base=figures[0], head=figures[1]))
    pairs = enumerate(zip(base.answers, head.answers, strict=True))
    found = [
        (index, difference) for index, pair in pairs if (difference := answers.difference(*pair))
    ]
    return Effects(
        differ=tuple(differ),
        totals=totals,
        unsteady=unsteady,
        answers=tuple(
            AnswerDifference(path=head.paths[index] if paths > 1 else "", what=what, broken=broken)
            for index, (what, broken) in found
        ),
        length=head.answers[0][0]["length"],
        kept_base=_kept(base),
        kept_head=_kept(head),
        unseen=tuple(sorted({*base.unseen, *head.unseen})),
        unmeasured=_unmeasured(base, head),
    )


def describe(side: Activity) -> Effects:
    """Describe what requests do: each effect is one that a request without any lacks. Pure."""
    idle = replace(
        side, calls=[0] * len(side.calls), names={}, left={},
        events=[()] * len(side.events), imports=[()] * len(side.imports),
    )  # fmt: skip
    return compare(idle, side)


def _counts(side: Activity) -> Mapping[EffectKind, Counts]:
    """Count what a side did in each round, by kind and text."""
    found: dict[Any, dict[str, list[int]]] = defaultdict(dict)
    for index, events in enumerate(side.events):
        for (kind, text), times in Counter((kind, text) for kind, text, _ in events).items():
            found[kind].setdefault(text, [0] * len(side.events))[index] = times
    for index, events in enumerate(side.imports):
        for text, times in Counter(text for _, text, _ in events).items():
            found["first import"].setdefault(text, [0] * len(side.imports))[index] = times
    for kind, left in side.left.items():
        if any(left):
            found[kind][""] = [max(0, number) for number in left]
    if any(side.calls):
        found["function"][""] = list(side.calls)
    return found


def _rounds(side: Activity, kind: EffectKind, part: Counts) -> list[int]:
    """Sum what a side did of one kind in each round."""
    rounds = len(side.imports if kind == "first import" else side.events)
    return [sum(times[index] for times in part.values()) for index in range(rounds)]


def _is_steady(rounds: Sequence[int]) -> bool:
    return len(set(rounds)) == 1


def _details(
    kind: EffectKind, both: Sequence[Counts], sides: Sequence[Activity], paths: int
) -> Iterator[RequestEffect]:
    """Yield what one side does more often than the other, the largest difference first."""
    if kind == "function":
        return
    found = []
    for text in both[0].keys() | both[1].keys():
        times = [part.get(text, [0]) for part in both]
        if all(map(_is_steady, times)) and times[0][0] != times[1][0]:
            found.append((abs(times[1][0] - times[0][0]), text, times[0][0], times[1][0]))
    # Settings of a new connection come last: what it is opened for says more.
    order = sorted(found, key=lambda item: (-item[0], bool(_SETTING.match(item[1])), item[1]))
    for _, text, old, new in order[:DETAILS]:
        place = _place(kind, text, sides[new > old], sides[new <= old])
        yield RequestEffect(kind=kind, text=text, place=place, base=old / paths, head=new / paths)


def _place(kind: EffectKind, text: str, more: Activity, less: Activity) -> str:
    """Find the line at which one side does something more often than the other.

    A function that is new around all of a request also takes over what was there before, so the
    line is the one that does it about as often as the totals differ by.
    """

    def by_function(side: Activity) -> tuple[Counter[str], dict[str, Counter[str]]]:
        rounds = side.imports if kind == "first import" else side.events
        lines: dict[str, Counter[str]] = defaultdict(Counter)
        for place in (place for _, name, place in rounds[0] if name == text):
            lines[place.rpartition(":")[0]][place] += 1
        return Counter({function: part.total() for function, part in lines.items()}), lines

    (often, lines), (seldom, _) = by_function(more), by_function(less)
    difference, times = often - seldom, often.total() - seldom.total()
    if not difference:
        return ""
    function = min(difference, key=lambda name: abs(difference[name] - times))
    return min(reversed(lines[function]), key=lambda line: abs(lines[function][line] - times))


def _most_called(base: Activity, head: Activity) -> tuple[str, str]:
    """Name the application's function whose calls differ most, with its file; or nothing."""

    def of(side: Activity, name: Name) -> int:
        return side.names.get(name, [0])[0]

    names = sorted({*base.names, *head.names})
    top = max(names, key=lambda name: abs(of(head, name) - of(base, name)), default=("", ""))
    old, new = of(base, top), of(head, top)
    if abs(new - old) <= _OWN * len(head.paths):
        return "", ""
    return f"{top[0]} {old / len(head.paths):g} → {new / len(head.paths):g}", top[1]


def _measured(
    base: Activity, head: Activity
) -> Iterable[tuple[EffectKind, tuple[float, float], float, float]]:
    """Yield what is measured, with the room and the share up to which it counts as equal."""
    if base.young and head.young:
        (old, old_times), (new, new_times) = base.young, head.young
        figures = 1_000 * old / old_times, 1_000 * new / new_times
        room = 1_000 * _YOUNG_ROOM / min(old_times, new_times)
        yield "young collections", figures, room, _YOUNG
    if any(base.peaks) and any(head.peaks):
        # The least of several: others have what only happened meanwhile.
        yield "peak", (min(base.peaks), min(head.peaks)), _PEAK_ROOM, _PEAK


def _unmeasured(base: Activity, head: Activity) -> str:
    """Say on which side no memory was measured, and how long a request takes there."""
    lacking = [(n, side) for n, side in zip(SIDES, (base, head), strict=True) if side.kept is None]
    if not lacking:
        return ""
    where = "" if len(lacking) == len(SIDES) else f" in {lacking[0][0]}"
    if (takes := max(side.seconds for _, side in lacking)) < _BRIEF:
        return f"there was no time{where}"
    return f"a request{where} takes {units.seconds(takes)}"


def _kept(side: Activity) -> KeptMemory | None:
    if side.kept is None:
        return None
    kept = side.kept
    return KeptMemory(
        course=kept["course"],
        bytes=max(0.0, kept["bytes"]),
        place=kept["place"],
        requests=kept["requests"],
    )
