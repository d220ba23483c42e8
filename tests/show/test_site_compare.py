"""The compare page: what its form offers, and its scripts' arithmetic, by figures from the hand."""

import math
from pathlib import Path
from typing import Any

import pytest

import made_up
import site_builds
import sites
import synthetic as runs
from duetbench.core.flags import Flag, FlagName
from duetbench.core.model import CaseResult, Run
from duetbench.show.site.pages.compare import form as form_of
from site_builds import a_run


def js(module: str, expression: str, given: object = None) -> Any:
    return sites.node(f"const it = await import(js + '/{module}'); result = {expression};", given)


def entry(mean: list[int | None], status: str, **changes: Any) -> dict[str, Any]:
    return {
        "status": status, "flag_sets": [[], ["host_noise"]], "flags": [[len(mean), 0]],
        "exponent": -1, "mean": mean, "low": None, "high": None, "launches": [[len(mean), 3]],
        **changes,
    }  # fmt: skip


def test_the_form_offers_what_can_be_compared(tmp_path: Path) -> None:
    results = tmp_path / "results"
    imagined = made_up.imagine(0.1, 160, 2)
    made_up.write(imagined, results)
    form = form_of(site_builds.gathered(tmp_path))
    newest = [one.header.run for one in made_up.generate(imagined)][-2:]
    assert [form["a"], form["b"]] == newest
    groups = {label.split(" on ")[0].split(",")[0]: choices for label, choices in form["groups"]}
    assert [word for word, _ in groups["Runs"][:2]] == newest[::-1]
    assert form["metrics"][0] == ("server_cpu_per_request", "CPU/request")
    pythons = groups["Interpreters of the newest night"]
    assert [word for word, _ in pythons] == ["py:3.14", "py:3.14t"]
    assert groups["Stacks of the newest night"] == ()  # there is one only
    for name, series, sides in (("one", 160, ("py:3.14", "py:3.14t")), ("alone", 80, ("", ""))):
        made_up.write(made_up.imagine(0.001, series, 2), tmp_path / name / "results")
        form = form_of(site_builds.gathered(tmp_path / name))
        assert (form["a"], form["b"]) == sides  # one night: its interpreters, if there are two


def test_one_night_has_its_own_interval() -> None:
    """1,000 steps of 0.1, ends 5 and 10 coarse steps of 1 away: 95 to 110."""
    one = entry([1000], "m", low=[5], high=[10])
    found, inprocess = js("deltas.js", "[false, true].map(x => it.figure(given, [0], x))", one)
    assert [found[key] for key in ("mean", "low", "high")] == pytest.approx([100, 95, 110])
    assert (found["judged"], found["why"], found["freedom"]) == (True, "", 2)
    assert (inprocess["low"], inprocess["judged"], inprocess["why"]) == (
        None, False, "no interval",
    )  # fmt: skip


def test_what_is_not_judged_says_why() -> None:
    few = [entry([1000], "m", low=[1], high=[1], launches=[[1, number]]) for number in (1, 2)]
    odd = entry([1000, None, None], "dfn", flags=[[1, 1], [2, 0]])
    found = js(
        "deltas.js",
        """[...given[0].map(one => it.figure(one, [0])),
            ...[0, 1, 2].map(night => it.figure(given[1], [night]))]""",
        [few, odd],
    )
    assert [(one["mean"], one["judged"], one["why"]) for one in found] == [
        (100, False, "one launch"),
        (100, False, "2 launches"),
        (100, False, "host_noise"),
        (None, False, "failed"),
        (None, False, "the run ended before it"),
    ]


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


def test_a_change_is_b_over_a_with_both_intervals() -> None:
    """Half-widths of 3 % and 4 % (as logarithms) are 5 % together."""
    sides = [
        {"mean": mean, "low": mean * math.exp(-half), "high": mean * math.exp(half)}
        for mean, half in ((100.0, 0.03), (110.0, 0.04), (0.0, 0.0))
    ]
    found, of_zero = js("deltas.js", "[it.delta(given[0], given[1]), it.delta(given[2], given[0])]",
                        sides)  # fmt: skip
    assert found["ratio"] == pytest.approx(1.1)
    assert found["low"] == pytest.approx(1.1 * math.exp(-0.05))
    assert found["high"] == pytest.approx(1.1 * math.exp(0.05))
    assert of_zero is None


def test_noise_is_what_neighbouring_nights_differ_by() -> None:
    """Nine steps, eight of 1 % and one of 100 %: 1.96 × 1.4826 × 1 %; a trend's band, over √2.

    A step over an edge is none, and seven are too few.
    """
    values = [math.exp(0.01 * (n % 2)) for n in range(9)]
    with_gap = [*values[:4], None, *values[4:]]
    points = [{"time": 10 * n, "status": "measured", "mean": one} for n, one in enumerate(values)]
    points.insert(4, {"time": 35, "status": "disturbed", "mean": 9})
    found = js(
        "columns.js",
        """[...given[0].map(([values, edge]) => it.noise(values, night => night === edge)),
            ...[[], [{time: 38}]].map(breaks => it.band({breaks, bumps: [], points: given[1]}))]""",
        [[[[*values, 2.0], None], [values, 4], [with_gap, None]], points],
    )
    half = pytest.approx(0.0290590, rel=1e-4)
    assert found[:3] == [{"half": half, "pairs": 9}, None, {"half": half, "pairs": 8}]
    assert found[3:] == [pytest.approx(math.expm1(0.0290590 / math.sqrt(2)), rel=1e-4), None]


def test_a_factor_is_over_noise_or_interval_and_never_below_relevance() -> None:
    """10 % over a noise of 2 %, over half an interval of 5 %, over a relevance of 1 %."""
    change = {"ratio": math.exp(0.1), "low": math.exp(0.05), "high": math.exp(0.15)}
    noisy, own, floor = js(
        "deltas.js",
        """[[{half: 0.02}, 0.002], [null, 0.002], [{half: 0.001}, 0.01]].map(
            ([noise, floor]) => it.beyond(given, noise, floor))""",
        change,
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
    wide, narrow = {"half": 0.1 * 1.96 / 2.179, "pairs": 36}, {"half": 0.001, "pairs": 99}
    tried = [(within, 2, None), (within, 2, narrow), (far, 0, None), (far, 2, None), (far, 2, wide)]
    found = js("deltas.js", "given.map(one => it.chance(...one))", tried)
    assert found == [1, 1, 1, pytest.approx(5.396e-4, rel=1e-3), pytest.approx(0.05, rel=1e-3)]


def test_of_many_rows_those_are_called_that_hold_for_all_of_them() -> None:
    """Benjamini and Hochberg's own example: of these 15 tests four are called, at 5 %."""
    theirs = [
        0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
        0.5719, 0.6528, 0.7590, 1.0,
    ]  # fmt: skip
    found = js("deltas.js", "given.map(it.called)", [theirs[::-1], []])
    assert found == [[False] * 11 + [True] * 4, []]


def test_nothing_is_called_where_nothing_happened() -> None:
    """40 unchanged cases, 400 times: hardly any comparison may call any of them different.

    At 5 % the 99.99 % quantile of 400 trials is 38; by the noise's factor alone, without regard to
    the number of rows, it would be nearly all of them.
    """
    wrong, alone = sites.node(
        """
        const { beyond, called, chance } = await import(js + "/deltas.js");
        const { noise } = await import(js + "/columns.js");
        let seed = 3;  // Park and Miller's generator
        const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
        const normal = () =>
          Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random());
        let [wrong, alone] = [0, 0];
        for (let trial = 0; trial < 400; trial++) {
          const rows = Array.from({ length: 40 }, () => {
            const nights = Array.from({ length: 60 }, () => Math.exp(0.01 * normal()));
            const ratio = nights[59] / nights[58];
            const change = { ratio, low: ratio * Math.exp(-1e-4), high: ratio * Math.exp(1e-4) };
            const known = noise(nights, () => false);
            return [chance(change, 2, known), beyond(change, known, 0).factor];
          });
          wrong += called(rows.map(([one]) => one)).some(Boolean);
          alone += rows.some(([, factor]) => factor > 1);
        }
        result = [wrong, alone];
        """
    )
    assert wrong <= 38 < alone


def test_sides_are_read_strictly_and_partners_differ_in_one_segment() -> None:
    good = ["20261120T030000Z-nightly-3f2a9c17", "py:3.14t", "stack:pydantic-v1",
            "stack:current@2026-07-01"]  # fmt: skip
    bad = ["", "3.14", "py:", "py:3.14@2026-01-01", "stack:current@2026-99-01", "run:<img>", "x:y"]
    found = js("sides.js", "given.map(word => it.parse(word)?.kind ?? null)", [*good, *bad])
    assert found == ["run", "py", "stack", "stack", *[None] * len(bad)]
    case = {"id": "x/y/py3.14/current/c1", "python": "3.14", "stack": "current"}
    found = js("sides.js", "['py', 'stack'].map(kind => it.family(given, kind))", case)
    assert found == ["x/y/*/current/c1", "x/y/py3.14/*/c1"]


def test_a_stack_s_nights_are_those_of_the_lock_that_it_had() -> None:
    """Nights at days 1 to 6 of July; other locks from the third and from the fifth on."""
    first = 1782874800  # 2026-07-01T03:00:00Z
    bumps = [(2, "current"), (3, "other"), (4, "current")]
    stacks = [{"night": night, "stack": stack, "packages": []} for night, stack in bumps]
    nights = {"time": [first + 86_400 * n for n in range(6)], "stacks": stacks}
    found = js(
        "sides.js",
        "given.days.map(day => it.nightsOf(given.nights, 'current', day))",
        {"nights": nights, "days": ["2026-06-30", "2026-07-01", "2026-07-04", "2026-08-01"]},
    )
    assert found == [[], [0, 1], [2, 3], [4, 5]]


def test_the_command_measures_what_is_compared() -> None:
    compare, days = "duetbench compare", "--stack-as-of 2026-07-01 --stack-as-of 2026-07-02"
    one, other = "20260701T030000Z-nightly", "20260702T030000Z-nightly"
    wanted = {
        f"{compare} --python 3.14 3.14t": ("py:3.14", "py:3.14t"),
        f"{compare} {days[:-2]}03": ("stack:current@2026-07-01", "stack:current@2026-07-03"),
        f"{compare} aaaaaaaa bbbbbbbb": (f"{one}-aaaaaaaa", f"{other}-bbbbbbbb"),
        f"{compare} {days}": (f"{one}-nocommit", f"{other}-nocommit"),
        "": ("stack:a", "stack:b"),
    }
    commit = "run => run.endsWith('nocommit') ? null : run.slice(-8)"
    expression = f"given.map(([a, b]) => it.command(it.parse(a), it.parse(b), {commit}))"
    assert js("sides.js", expression, list(wanted.values())) == list(wanted)


SAME = "x/same/py3.14/c1"
CPU = "server_cpu_per_request"


def cost(
    case: str, seconds: float, *flags: Flag, spread: float = 1e-4, **changes: Any
) -> CaseResult:
    launches = tuple(
        runs.ok(case, number, {CPU: seconds * math.exp(spread * (number - 1))}, *flags)
        for number in range(3)
    )
    return CaseResult(case=runs.make_case(case, **changes), launches=launches)


def shown(folder: Path, *nights: Run, a: str = "", b: str = "") -> tuple[str, list[dict[str, Any]]]:
    for run in nights:
        site_builds.stored(folder / "results", run)
    site_builds.gathered(folder)
    written = folder / "gathered"
    found = sites.node(
        """
        globalThis.document = { body: { dataset: {} }, baseURI: "http://site.invalid/" };
        globalThis.fetch = async (url) => new Response(given.files[url.pathname.slice(1)]);
        const { compared, outcome } = await import(js + "/comparing.js");
        const { manifest } = await import(js + "/data.js");
        const { parse } = await import(js + "/sides.js");
        const found = await compared(await manifest(), parse(given.a), parse(given.b), given.table,
                                     "server_cpu_per_request");
        result = [outcome(found.file, found.rows), found.rows];
        """,
        {
            "files": {
                path.relative_to(written).as_posix(): path.read_text("utf-8")
                for path in written.rglob("*.json")
            },
            "table": f"{runs.MACHINE.id}-load",
            "a": a or nights[0].id,
            "b": b or nights[-1].id,
        },
    )
    return found[0], found[1]


def test_rows_of_two_nights_say_what_became_of_each_case(tmp_path: Path) -> None:
    """Launches that agree to 0.01 % have intervals of ±0.1 %, as files round them.

    10 % more, over a relevance of 0.2 %, is 47.7 times; 0.1 % is within it. 10 % more with
    intervals of ±5 % and ±10 % are not told apart, and one launch is not judged.
    """
    noise = Flag(name=FlagName.HOST_NOISE, detail="another process")
    cases = ("x/more/py3.14/c1", "x/less/py3.14/c1", SAME, "x/noisy/py3.14/c1", "x/wide/py3.14/c1")
    others = ("x/gone/py3.14/c1", "x/moved/py3.14/c1")
    single = cost("x/single/py3.14/c1", 1e-4)
    failed = runs.failed(others[0], 0, FlagName.NOT_READY, "60 s were not enough")
    before = [
        cost(case, 1e-4, spread=0.02 if "wide" in case else 1e-4) for case in (*cases, *others)
    ]
    after = [
        cost(cases[0], 1.1e-4),
        cost(cases[1], 0.98e-4),
        cost(cases[2], 1.001e-4),
        cost(cases[3], 2e-4, noise),
        cost(cases[4], 1.1e-4, spread=0.04),
        CaseResult(case=runs.make_case(others[0]), launches=(failed,)),
        cost(others[1], 3e-4, workers=7),
        CaseResult(case=single.case, launches=single.launches[:1]),
    ]
    says, found = shown(tmp_path, a_run(1, *before, single), a_run(2, *after))
    assert says == (
        "CPU/request of 8 cases, lower is better: 1 higher, 1 lower, 2 not told apart, "
        "2 not judged, 1 whose circumstances changed in between, 1 without a figure on one side."
    )
    rows = {one["case"].split("/")[1]: one for one in found}
    assert list(rows)[:2] == ["more", "less"]
    moved = rows.pop("moved")
    assert (moved["group"], moved["note"][:6]) == ("broken", "case: ")
    ratios = {
        name: one["change"] and round(one["change"]["ratio"], 4) for name, one in rows.items()
    }
    assert {
        name: (one["group"], ratios[name], round(one["factor"], 1), one["note"])
        for name, one in rows.items()
    } == {
        "more": ("beyond", 1.1, 47.7, ""),
        "less": ("beyond", 0.98, 10.1, ""),
        "same": ("within", 1.001, 0.5, ""),
        "wide": ("within", 1.1, 0.9, ""),
        "noisy": ("flagged", 2.0, 0, "B: host_noise"),
        "single": ("flagged", 0.9999, 0, "B: one launch"),
        "gone": ("missing", None, 0, "B: failed"),
    }
    assert not any(one["known"] for one in rows.values())  # two nights tell no noise


def test_where_nothing_could_be_compared_the_sentence_says_why(tmp_path: Path) -> None:
    one = cost(SAME, 1e-4)
    single = CaseResult(case=one.case, launches=one.launches[:1])
    broken, _ = shown(tmp_path, a_run(1, one), a_run(2, cost(SAME, 1e-4, workers=7)))
    few, _ = shown(tmp_path / "few", a_run(1, one), a_run(2, single))
    start = "CPU/request of 1 case, lower is better: nothing could be compared: 1 "
    assert broken.startswith(f"{start}whose circumstances changed in between (case: ")
    assert few == f"{start}not judged (B: one launch)."


def test_interpreters_of_a_night_are_compared_and_years_are_joined(tmp_path: Path) -> None:
    name = SAME.replace("py3.14", "py3.14t")
    night = a_run(3, cost(SAME, 1e-4), cost(name, 1.5e-4), cost("x/alone", 1e-4))
    _, found = shown(tmp_path / "night", night, a="py:3.14", b="py:3.14t")
    assert [(one["case"], round(one["change"]["ratio"], 4)) for one in found] == [(name, 1.5)]
    days = (("2026-12-31", 1e-4), ("2027-01-01", 1.2e-4))
    nights = (
        a_run(number, cost(SAME, seconds), started=f"{day}T03:00:00+00:00")
        for number, (day, seconds) in enumerate(days)
    )
    _, (row,) = shown(tmp_path / "years", *nights)
    assert (row["a"]["mean"], row["b"]["mean"]) == pytest.approx((1e-4, 1.2e-4))
    assert row["change"]["ratio"] == pytest.approx(1.2)
