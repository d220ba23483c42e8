"""What pages say: of the newest run, the headlines, a machine's noise, and how figures read."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from markupsafe import Markup

import synthetic as runs
from duetbench.core.interval import Interval
from duetbench.core.model import CaseResult, Run, StackRecord
from duetbench.show.site import overview
from duetbench.show.site.overview import Stated
from duetbench.show.site.pages import case, front, machines, reference, run, trace, words
from duetbench.show.site.pages.front import NightStatus
from duetbench.store.change import Change, SeriesName
from duetbench.store.comparison import Verdict
from duetbench.trend import events
from duetbench.trend.columns import RunColumns, of_run
from duetbench.trend.table import Table
from site_builds import FREE, JSON, a_run, disturbed, failed, scattered, steady, table_of

NAMES = ("a/one", "a/two", "a/three", "a/four", "a/five")
SWITCH = "git switch --detach abababababab && duetbench setup && "
FLASK = "asgi-wsgi/wsgi-json/py3.14/w1/t64/c128"
HERE = runs.MACHINE.id
KERNEL = runs.MACHINE.model_copy(update={"kernel": "6.2.0"})


def a_change(case: str, verdict: Verdict = Verdict.SLOWER, **changes: Any) -> Change:
    ratio = 1.1 if verdict is Verdict.SLOWER else 0.9
    fields: dict[str, Any] = {
        "id": f"20261102-{case.replace('/', '-')}", "verdict": verdict, "culprit": None,
        "series": SeriesName(machine=HERE, case=case, metric="server_cpu_per_request"),
        "when": datetime(2026, 11, 2, 3, tzinfo=UTC),
        "ratio": ratio, "low": ratio - 0.01, "high": ratio + 0.01,
    }  # fmt: skip
    return runs.change_record(**{**fields, **changes})


def status_of(*measured: Run, changes: Iterable[Change] = ()) -> NightStatus:
    table = table_of(*measured)
    return front.night_status(table, events.events(table), changes)


def test_every_case_is_in_one_list_of_the_status() -> None:
    before = a_run(1, *map(steady, NAMES), steady("a/gone"))
    newest = a_run(3, *map(steady, NAMES[:3]), disturbed("a/four"), failed("a/five"),
                   steady("a/new"))  # fmt: skip
    changes = (a_change("a/one"), a_change("a/two", Verdict.FASTER))
    found = status_of(before, newest, changes=changes)
    time = int(datetime(2026, 11, 3, 3, tzinfo=UTC).timestamp())
    became = {
        "measured": NAMES[:3], "first": ("a/new",), "disturbed": ("a/four",),
        "failed": ("a/five",), "missing": ("a/gone",),
    }  # fmt: skip
    assert found == NightStatus(newest.id, time, True, (), (), (), changes, became)
    assert front.sentence(found) == (
        "Newest night: nothing new (no release came in). Of 7 cases 3 are measured; 1 measured "
        "for the first time; 1 is disturbed and not judged; 1 failed; 1 is missing."
    )
    assert front.still_open(found, HERE) == "Open since 2 Nov 2026: 2 changes, 2 cases."


@pytest.mark.parametrize(
    ("change", "news"),
    [
        (a_change("a/one"), "1 case slower from here on"),
        (a_change("a/one", Verdict.FASTER), "1 case faster from here on"),
        (a_change("a/one", status="closed"), "nothing new"),
        (a_change("a/one", Verdict.INCONCLUSIVE, low=0.5, high=1.5), "nothing new"),
        (a_change("a/one", when=datetime(2026, 11, 1, 3, tzinfo=UTC)), "nothing new"),
        (
            a_change("a/one", series=SeriesName(machine="m", case="a/one", metric="throughput")),
            "nothing new",
        ),
    ],
    ids=["slower", "faster", "closed", "inconclusive", "older", "machine"],
)
def test_news_are_open_changes_that_begin_with_the_newest_night(change: Change, news: str) -> None:
    def night(day: int, version: str) -> Run:
        stack = StackRecord(name="current", digest=version * 4, packages={"fastapi": version})
        return a_run(day, steady("a/one"), stacks=(stack,))

    found = front.sentence(status_of(night(1, "0.1.0"), night(2, "0.2.0"), changes=[change]))
    assert found == (
        f"Newest night: {news} (1 release came in: fastapi 0.2.0). Of 1 case 1 is measured."
    )


def test_a_case_that_also_moved_is_counted_too() -> None:
    others = tuple(
        SeriesName(machine=machine, case="a/two", metric="throughput") for machine in (HERE, "m")
    )
    change = a_change("a/one", others=others)
    nights = [a_run(day, steady("a/one"), steady("a/two")) for day in (1, 2, 3)]
    assert status_of(*nights[:2], changes=[change]).slower == ("a/one", "a/two")
    later = status_of(*nights, changes=[change])
    assert later.slower == ()
    assert front.still_open(later, HERE) == "Open since 2 Nov 2026: 1 change, 2 cases."


def test_the_first_run_is_compared_with_nothing() -> None:
    assert front.sentence(status_of(a_run(1, steady("a/one"), failed("a/two")))) == (
        "Of 2 cases 1 measured for the first time; 1 failed. There is nothing to compare with yet."
    )


def test_a_case_that_left_the_plan_long_ago_is_not_missing() -> None:
    nights = [a_run(1, steady("a/old"), steady("a/one"))]
    nights += [a_run(day, steady("a/one")) for day in range(2, 10)]
    assert "missing" not in status_of(*nights).cases
    assert status_of(*nights[:8]).cases["missing"] == ("a/old",)


RATIO, ALONE = "free-threaded / GIL, FastAPI JSON", "FastAPI JSON"


def stated_of(*tables: Table) -> Mapping[str, Stated]:
    cards = front.headline_cards(tables)
    return {one.headline.label: one.stated for one in cards if one.stated}


def test_a_headline_is_a_ratio_of_one_night() -> None:
    """6,000 over 5,000 on the second night; the first has only one side, and the third neither."""
    nights = [
        a_run(1, steady(JSON)),
        a_run(2, steady(JSON), steady(FREE, 6000.0)),
        a_run(3, disturbed(JSON), steady(FREE, 9000.0)),
    ]
    table = table_of(*nights)
    cards = {one.headline.label: one for one in front.headline_cards([table])}
    found = stated_of(table)
    assert {label: one.figure for label, one in found.items()} == {RATIO: "1.20×", ALONE: "5,000/s"}
    assert (found[RATIO].interval, cards[RATIO].nights) == ("", 3)
    assert cards[RATIO].run == cards[ALONE].run == nights[1].id
    assert cards[RATIO].sketch == ""  # one figure is no series
    assert "<svg" in cards[ALONE].sketch


def test_a_headline_has_the_interval_of_its_ratio() -> None:
    """Halves of 3 % and 4 % on the logarithms make 5 %, which is 5.1 % upwards."""
    factor = math.sqrt(3) / 4.30265  # so that t(2) times the standard error is the half asked for

    def around(name: str, middle: float, half: float) -> CaseResult:
        return scattered(name, *(middle * math.exp(k * half * factor) for k in (-1, 0, 1)))

    ratio = stated_of(table_of(a_run(1, around(JSON, 5000, 0.03), around(FREE, 6000, 0.04))))[RATIO]
    assert (ratio.figure, ratio.interval, ratio.firm) == ("1.20×", "±5.1 %", True)


def test_nights_of_one_launch_give_an_interval_together() -> None:
    """Ratios of 1.2, and 3 % on the logarithms less and more; the night before was of other loads.

    A single night of one launch has none.
    """
    other = runs.make_case(JSON, slots=7)
    before = scattered(JSON, 1.0).model_copy(update={"case": other})
    nights = [a_run(1, before, scattered(FREE, 1.0))]
    for day, k in ((2, -1), (3, 0), (4, 1)):
        free = scattered(FREE, 6000 * math.exp(k * 0.03 * math.sqrt(3) / 4.30265))
        nights.append(a_run(day, scattered(JSON, 5000.0), free))
    ratio = stated_of(table_of(*nights))[RATIO]
    assert (ratio.figure, ratio.interval, ratio.firm) == ("1.20×", "±3.0 %", True)
    assert (ratio.value.n, ratio.nights) == (3, 3)
    card = next(one for one in front.headline_cards([table_of(*nights)]) if one.stated is not None)
    assert card.meaning.endswith("; launches of 3 nights")
    assert stated_of(table_of(nights[-1]))[RATIO].interval == "one launch"


def test_headlines_are_all_of_one_machine() -> None:
    many = [scattered(JSON, 4900.0, 5000.0, 5100.0), scattered(FREE, 5900.0, 6000.0, 6100.0)]
    one = table_of(a_run(1, *many))
    single = [scattered(name, 9000.0) for name in (JSON, FREE, FLASK)]
    machine = runs.MACHINE.model_copy(update={"id": "other-4c-1"})
    other = table_of(a_run(2, *single, machine=machine))
    assert {found.machine for found in front.headline_cards([other, one])} == {HERE}
    shown = {label: found.figure for label, found in stated_of(other, one).items()}
    assert shown == {ALONE: "4,999/s", RATIO: "1.20×"}
    badges = overview.badges([other, one], ())
    assert [badges[name]["message"] for name in ("asgi", "wsgi")] == ["4,999/s", "not measured"]
    alone = stated_of(other)["Flask JSON"]
    assert (alone.figure, alone.interval, alone.firm) == ("9,000/s", "one launch", False)
    assert overview.badges([other], ())["wsgi"] == {
        "schemaVersion": 1, "label": "Flask JSON", "message": "9,000/s (one launch)",
        "color": "lightgrey",
    }  # fmt: skip


def test_a_wide_interval_is_printed_instead_of_its_figure() -> None:
    """5,000 with a half-width of 24.8 %: t(2) · 10 % / √3, on logarithms: 0.780 to 1.28 of it."""
    wide = scattered(JSON, *(5000 * math.exp(0.1 * k) for k in (-1, 0, 1)))
    narrow = scattered(FREE, *(10_000 * math.exp(0.001 * k) for k in (-1, 0, 1)))
    table = table_of(a_run(1, wide, narrow))
    told = {label: (one.figure, one.interval, one.firm) for label, one in stated_of(table).items()}
    assert told == {
        RATIO: ("1.6…2.6×", "95 % interval", False),
        ALONE: ("3,900/s…6,410/s", "95 % interval", False),
    }
    assert overview.badges([table], ())["free-threaded-asgi"]["message"] == "1.6…2.6×"


def test_a_machine_s_noise_is_the_median_half_interval() -> None:
    """Launches of 100, 200 and 400: an interval of 200·2^±2.4841, and half its width over 200."""
    table = table_of(
        a_run(1, scattered("a/one", 100, 200, 400), steady("a/two"), disturbed("a/three")),
        a_run(2, steady("a/one"), failed("a/two")),
    )
    factor = 2 ** (4.30265 / math.sqrt(3))
    assert machines.widths(table) == [pytest.approx((factor - 1 / factor) / 2, rel=1e-4), None]
    assert machines.widths(table, "no such metric") == [None, None]


def test_what_changed_about_a_machine_is_said() -> None:
    nights = [a_run(1), a_run(2, machine=KERNEL), a_run(3, machine=KERNEL)]
    found = machines.moves([of_run(night).header for night in nights])
    assert [(header.run, told) for header, told in found] == [
        (nights[1].id, "kernel 6.1.0 → kernel 6.2.0")
    ]


def test_neighbours_are_of_the_same_machine_and_profile() -> None:
    nights = [a_run(1), a_run(2, profile="quick"), a_run(3)]
    one, other, last = (night.id for night in nights)
    found = run.neighbours({night.id: of_run(night).header for night in nights})
    assert found == {one: ("", last), other: ("", ""), last: (one, "")}


def test_a_run_in_numbers() -> None:
    never = CaseResult(case=runs.make_case("a/four"))
    measured = a_run(1, steady("a/one"), disturbed("a/two"), failed("a/three"), never)
    row = run.run_row(of_run(measured).header)
    found = {"cases": row.cases, "measured": row.measured, "disturbed": row.disturbed}
    assert found == {"cases": 4, "measured": 2, "disturbed": 1}
    assert (row.failed, row.missing) == (1, 1)


def test_benchmarks_stand_at_the_date_when_they_were_made() -> None:
    header = of_run(a_run(1)).header
    asv = replace(header, kind="inprocess", run="20251113T021320Z-asv-abababab")
    assert run.started(asv) == datetime(2025, 11, 13, 2, 13, 20, tzinfo=UTC)
    assert run.started(replace(asv, run="something")) == datetime(2026, 11, 1, 3, tzinfo=UTC)


def test_the_lines_of_a_night_say_what_was_odd() -> None:
    night = of_run(a_run(1, steady("a/one"), failed("a/two")))
    (line,) = run.lines(night)
    assert (line.case, line.odd.status) == ("a/two", "failed")
    header = replace(
        night.header, kind="inprocess", cases=("b",), groups=("b",), definitions=("",),
        pythons=("3.14",), stack_of=("current",), metrics=("seconds",), odd={},
    )  # fmt: skip
    mean, low, high = (np.full_like(night.mean[:1, :1], value) for value in (2e-4, 1e-4, 3e-4))
    counts = np.full_like(night.launches[:1, :1], 7)
    (line,) = run.lines(RunColumns(header, mean, low, high, counts))
    assert (line.figure, line.interval, line.samples) == ("200 µs", "100 µs … 300 µs", 7)


@pytest.mark.parametrize(
    ("case", "profile", "commit", "expected"),
    [
        (JSON, "nightly", None, f"duetbench run --profile nightly --select {JSON}"),
        (JSON, "asv", None, f"duetbench run --profile nightly --select {JSON}"),
        ("a/b [c]*", "quick", None, "duetbench run --profile quick --select 'a/b [[]c][*]'"),
        ("a/b", "quick", "ab" * 20,
         f"{SWITCH}duetbench run --profile quick --select a/b"),
        ("a/b", "quick", "$(rm -rf)", "duetbench run --profile quick --select a/b"),
        ("a/b; rm -rf ~", "quick", None, "duetbench run --profile quick --select 'a/b; rm -rf ~'"),
        ("inprocess/gil.Cpu.time_tasks(mode=threads, tasks=4)/py3.14/current", "asv", None,
         "duetbench inprocess --select 'gil.Cpu.time_tasks*'"),
    ],
)  # fmt: skip
def test_the_command_of_a_figure(
    case: str, profile: str, commit: str | None, expected: str
) -> None:
    assert trace.command(case, profile, commit) == expected


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (words.figure(None, "throughput"), "—"),
        (words.figure(5000, "throughput"), "5,000/s"),
        (words.figure(0.000255, "seconds"), "255 µs"),
        (words.figure(303_000, "instructions"), "303,000 instructions"),
        (words.change(1.031), "+3.1 %"),
        (words.change(0.9948), "−0.52 %"),
        (words.change(1), "0 %"),
        (words.moment("2026-11-20T03:00:00+01:00"), "20 Nov 2026, 02:00 UTC"),
        (words.iso(0), "1970-01-01T00:00:00Z"),
        (words.day(datetime(2026, 11, 2, tzinfo=UTC)), "2 Nov 2026"),
        (words.size(999), "999 B"),
        (words.size(14_200), "14 kB"),
        (words.size(164_122), "164 kB"),
        (words.size(2_500_000), "2.5 MB"),
        (words.many(1, "case"), "1 case"),
        (words.many(1825, "night"), "1,825 nights"),
        (words.many(2, "more series", "more series"), "2 more series"),
        (words.listed(["a"]), "a"),
        (words.listed(["a", "b", "c"]), "a, b and c"),
        (words.breakable("a/b-<c>"), Markup("a/<wbr>b-<wbr>&lt;c&gt;")),
        (words.breakable("py3.14/gil.Cpu"), Markup("py3.14/<wbr>gil.<wbr>Cpu")),
        (words.breakable("a\x00b"), Markup("a\ufffdb")),
        (words.prose("`/x` < y"), Markup("<code>/x</code> &lt; y")),
        (words.spread(Interval(1, 0.99, 1.01, 3), "throughput"), "±1.0 %"),
        (words.spread(Interval(1), "seconds"), ""),
        (words.spread(None, "seconds"), ""),
    ],
)
def test_how_things_read(made: str, expected: str) -> None:
    assert made == expected


def test_items_of_a_list_of_cases_are_links() -> None:
    assert words.case_items("../", ("a/b", "<c>")) == Markup(
        '<li><a class="case" href="../b/a/b/">a/<wbr>b</a></li>\n'
        '<li><a class="case" href="../b/~632c80ac673391d4/">&lt;c&gt;</a></li>'
    )


def test_cases_are_listed_by_experiment_and_by_suite() -> None:
    inside = "inprocess/gil.Cpu.time_tasks(mode=threads)/py3.14/current"
    assert case.groups(frozenset({inside, "b/two", "a/one", "b/one"})) == {
        "a": ("a/one",),
        "b": ("b/one", "b/two"),
        "inprocess: gil": (inside,),
    }


def test_the_glossary_is_in_order_and_its_links_lead_to_its_own_words() -> None:
    entries = reference.entries()
    anchors = [anchor for anchor, _, _ in entries]
    assert anchors == sorted(set(anchors))
    assert {"launch", "duet", "verdict", "noise", "threshold", "change-point"} <= {*anchors}
    said = " ".join(str(text) for _, _, text in entries)
    assert set(re.findall(r'href="#([^"]+)"', said)) <= {*anchors}
    assert not set("[]*`") & set(said)
    assert "&lt;" not in said.replace("&lt;experiment&gt;", "").replace("&lt;stack&gt;", "")
