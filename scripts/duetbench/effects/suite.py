"""Runs a project's own tests on both sides, and compares what each request of theirs does.

Each side runs head's tests in its own copy of the files, base first: where tests write, they find
what they always find. A request is the same one on both sides by its test, phase and number in it.
Tests of which a request differs run three times more on both sides: what does not differ each time
is left out.
"""

import functools
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from duetbench.app.project_tests import Suite
from duetbench.core.comparison import SIDES
from duetbench.core.effects import Effects, KeptMemory, RequestEffect  # noqa: F401 - a type of `Activity`
from duetbench.core.errors import LaunchError, SetupError
from duetbench.core.text import hider, short, some
from duetbench.effects import answers, difference
from duetbench.effects.activity import BAD, CALL, OUT, SECRETS, Activity, Operation
from duetbench.host import command, paths
from duetbench.host.process_session import Session

PROGRAM: Final = "duetbench.effects.suite_program"
"""The plug-in of pytest, and the program that starts other runners."""

NO_CLIENT: Final = "no test makes a request by a client that is known here"
_NO_CALL: Final = "no call came to an end"

_POLL: Final = 0.5  # seconds between two looks at the tests' last line
_MOST_SHOWN: Final = 3  # tests or files in a sentence
_CALLS: Final = 0.1  # relative change of calls that counts though no function of the project moved
_LOOKS: Final = ((1, 0), (0, 1), (1, 0))
"""The order of the sides in further looks: what comes with the order differs between them. Of the
many requests of a suite that do something once a second, some differ alike in two by chance."""
_ERROR: Final = re.compile(r"^(?:E {3}|ERROR: )(?=\S)(.+)", re.MULTILINE)

_OPERATION: Final = TypeAdapter(Operation)
_OPERATION.rebuild()  # with the types of this module

Tick = Callable[[str], object]
Key = tuple[str, str, int]
"""A request's test, the phase of that, and its number in it."""

Pair = tuple[Operation, Operation]


@dataclass(frozen=True, slots=True)
class Recording:
    """One run of the tests of a side.

    Attributes:
        outcomes: Of each test: passed, failed, error or skipped.
        said: The last words of the run.
    """

    operations: Mapping[Key, Operation]
    outcomes: Mapping[str, str]
    unseen: Sequence[str]
    said: str = ""

    def named_as(self, other: "Recording") -> "Recording":
        """Name tests as another run does, by their order, where parameters are random."""
        names = {test: test for test in self.outcomes}
        for function in map(_function, self.outcomes.keys() - other.outcomes.keys()):
            here, there = (
                [test for test in run.outcomes if _function(test) == function]
                for run in (self, other)
            )
            if len(here) == len(there):
                names |= zip(here, there, strict=True)
        return replace(
            self,
            operations={
                (names[key[0]], *key[1:]): replace(operation, test=names[key[0]])
                for key, operation in self.operations.items()
            },
            outcomes={names[test]: end for test, end in self.outcomes.items()},
        )


@dataclass(frozen=True, slots=True)
class SuiteEffects:
    """What was seen of the requests that both sides made.

    Attributes:
        effects: What differs between both sides of each of the `pairs`.
        endpoints: All that a side requested, compared or not.
        tests: How many head has.
        broken: Tests that fail on head only.
    """

    pairs: Mapping[Key, Pair] = field(default_factory=dict)
    effects: Mapping[Key, Effects] = field(default_factory=dict)
    endpoints: frozenset[str] = frozenset()
    tests: int = 0
    broken: Sequence[str] = ()
    notes: Sequence[str] = ()


def record(suite: Suite, place: Path, tick: Tick, only: Sequence[str] = ()) -> Recording:
    """Run tests, or only some of them, in a copy; raises SetupError if none ran."""
    with paths.scratch() as folder:
        out, log = folder / "requests.jsonl", folder / "log"
        private = suite.private()
        (folder / SECRETS).write_text(json.dumps(private), "utf-8")
        env = {**suite.environment(place), OUT: str(out)}
        try:
            with Session.start(
                _argv(suite, only), role="command", cores=None, env=env, cwd=place, log=log
            ) as session:
                while session.wait(_POLL) is None:
                    tick(command.last_line(log))
        except LaunchError as error:
            raise SetupError(f"the tests: {error.detail}") from error
        hide, lines = hider(private), out.read_bytes().splitlines() if out.exists() else []
        ends = json.loads(lines.pop()) if lines else {}
        said = hide(_last_words(command.read_log(log))).replace(f"{place}/", "")
        if not ends.get("outcomes"):
            raise SetupError(f"no test ran; the last words: {said or 'none'}")
    operations = {
        op.key: replace(op, did=op.did.hidden(hide)) for op in map(_OPERATION.validate_json, lines)
    }
    return Recording(operations, ends["outcomes"], ends["unseen"], said)


def _argv(suite: Suite, only: Sequence[str]) -> list[str]:
    if suite.calls:
        return [str(suite.python), "-m", PROGRAM, CALL, *suite.calls]
    if suite.pytest:
        usual = ("-p", PROGRAM, "-p", "no:cacheprovider", "-p", "no:randomly", "-q")
        return [str(suite.python), "-m", "pytest", *usual, *(only or suite.tests)]
    labels = only or [name.removesuffix(".py").strip("/").replace("/", ".") for name in suite.tests]
    return [str(suite.python), "-m", PROGRAM, "manage.py", "test", "--noinput", *labels]


def _last_words(text: str) -> str:
    """Return the last words of a run, or the last error that pytest shows before its summary."""
    words = command.last_words(text)
    error = (_ERROR.findall(text) or [""])[-1]
    return words if error in words else error


def compare(suite: Suite, base: Path, head: Path, tick: Tick) -> SuiteEffects:
    """Run the tests in a copy of each side, and compare the requests that both made.

    Both have the same tests. Raises SetupError if these do not run on a side.
    """
    places = base, head
    first = record(suite, base, tick), record(suite, head, tick)
    first = first[0].named_as(first[1]), first[1]
    pairs = dict(_matched(first))
    looks = {key: [pair] for key, pair in pairs.items()}
    effects = {k: difference.compare(old.did, new.did) for k, (old, new) in pairs.items()}
    for order, inside in itertools.product(_LOOKS, (True, False)):
        # Apart: tests that do more would fill caches of libraries for those that only find them so.
        moved = [
            key
            for key, seen in effects.items()
            if not seen.same and inside == (not seen.answers and _is_inside(seen.differ))
        ]
        tests = [*dict.fromkeys(_function(test) for test, *_ in moved)]
        if not tests:
            continue
        again = {
            side: record(suite, places[side], tick, tests).named_as(first[1]) for side in order
        }
        latest = dict(_matched((again[0], again[1])))
        for key in moved:
            if key in latest:
                looks[key].append(latest[key])
                effects[key] = agreed(effects[key], looks[key])
            else:  # not made in each run
                del pairs[key], effects[key]
    before, after = (side.outcomes for side in first)
    asked = [test for test in after if before.get(test) in BAD and after[test] == "passed"]
    effects = {
        key: _as_asked(effects[key]) if key[0] in asked else effects[key]
        for key in _until_they_part(first, effects)
    }
    pairs = {key: pairs[key] for key in effects}
    made = (operation.endpoint for side in first for operation in side.operations.values())
    return SuiteEffects(
        pairs,
        effects,
        frozenset(made),
        tests=len(after),
        broken=[n for n in after if after[n] in BAD and before.get(n) not in BAD],
        notes=tuple(_notes(first, pairs, asked, calls=bool(suite.calls))),
    )


def _as_asked(effects: Effects) -> Effects:
    """Take no refusal as broken: head's test, which fails on base, asks for what head answers."""
    if effects.status >= answers.FAILED:
        return effects
    asked = tuple(answer.model_copy(update={"broken": False}) for answer in effects.answers)
    return effects.model_copy(update={"answers": asked})


def _is_inside(differ: Sequence[RequestEffect]) -> bool:
    """Whether there are only calls of functions that are not the project's."""
    return all(effect.kind == "function" and not effect.text for effect in differ)


def _function(test: str) -> str:
    """Return the name of a test without its parameters."""
    return test.partition("[")[0]


def _matched(sides: Sequence[Recording]) -> Iterator[tuple[Key, Pair]]:
    """Yield the requests that both sides made and that can be compared."""
    base, head = (side.operations for side in sides)
    for key, new in head.items():
        old = base.get(key)
        # With another method, the test takes another way.
        if old and not (old.mixed or new.mixed) and old.method == new.method:
            yield key, (old, new)


def _until_they_part(sides: Sequence[Recording], effects: Mapping[Key, Effects]) -> Iterator[Key]:
    """Yield the requests that are the same ones on both sides.

    A test that ends otherwise on the other side goes its own way after an answer that differs.
    """
    parted = set[str]()
    for key, seen in effects.items():
        if key[0] not in parted:
            yield key
        if seen.answers and not _alike(sides, key):
            parted.add(key[0])


def _alike(sides: Sequence[Recording], key: Key) -> bool:
    """Whether a request's test ends alike on both sides: else it makes other requests."""
    base, head = (side.outcomes.get(key[0], "passed") for side in sides)
    return base == head


def agreed(effects: Effects, looks: Sequence[Pair]) -> Effects:
    """Leave out of what differs what further looks at both sides do not show alike.

    The first of the `looks` ran all tests, and others fewer, so that their caches were colder: all
    have to move the same way, but only figures of the others must differ by more between the sides
    than within one: what the clock decides could part them by chance.
    """
    later = [difference.compare(old.did, new.did) for old, new in looks[1:]]

    def holds(effect: RequestEffect) -> bool:
        calls = effect.kind == "function"  # of which there is one
        alike = (e for seen in later for e in seen.differ if e.kind == effect.kind)
        known = [e for e in alike if calls or e.text == effect.text]
        if len(known) < len(later) or effect.kind == "plan":
            return len(known) == len(later)
        if _is_inside((effect,)) and any(
            abs(seen.head - seen.base) <= _CALLS * min(seen.base, seen.head)
            for seen in (effect, *known)
        ):  # threads that wait for each other make as many
            return False
        rises = {other.head > other.base for other in (effect, *known)}
        figures = [other.base for other in known], [other.head for other in known]
        low, high = sorted(figures, key=min)
        spread = max(max(side) - min(side) for side in figures)
        return len(rises) == 1 and min(high) - max(low) > spread

    did = [[operation.did for operation in side] for side in zip(*looks, strict=True)]
    joined = (functools.reduce(Activity.with_, side) for side in did)
    return effects.model_copy(
        update={
            "differ": tuple(filter(holds, effects.differ)),
            "answers": difference.compare(*joined).answers,
        }
    )


def _notes(
    sides: Sequence[Recording], pairs: Mapping[Key, object], asked: Sequence[str], *, calls: bool
) -> Iterator[str]:
    """Say which tests and requests are not compared, and why."""
    base, head = (side.outcomes for side in sides)
    noun, none = ("functions", _NO_CALL) if calls else ("tests", NO_CLIENT)
    for what, names in (
        ("fail on both sides", [n for n in head if base.get(n) in BAD and head[n] in BAD]),
        ("fail on base only", asked),
        ("do not run on base", [n for n in head if n not in base and head[n] == "passed"]),
        ("are skipped", [n for n in head if head[n] == "skipped"]),
    ):
        if names:
            yield f"{len(names):,} of the {noun} {what}: {short(some(names, _MOST_SHOWN))}"
    mixed = sum(operation.mixed for operation in sides[1].operations.values())
    if mixed:
        yield f"{mixed:,} requests that tests make at the same time are not compared"
    counts = Counter(
        key for side in sides for key, op in side.operations.items()
        if not op.mixed and _alike(sides, key)
    )  # fmt: skip
    if lost := sum(1 for key in counts if key not in pairs):
        yield f"not compared, since not all runs make them alike: {lost:,} of the requests"
    if unseen := sorted({text for side in sides for text in side.unseen}):
        yield f"not seen: {', '.join(unseen)}"
    for name, side in zip(SIDES, sides, strict=True):
        if not side.operations:
            failed = any(outcome in BAD for outcome in side.outcomes.values())
            yield f"on {name} {none}{f'; the last words: {side.said}' * failed}"
