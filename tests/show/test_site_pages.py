"""What pages say: of the newest run, the headlines, a machine's noise, and how figures read."""

import math

import pytest

import synthetic as runs
from duetbench.core.model import CaseResult
from duetbench.project import published
from duetbench.show.site import words
from duetbench.show.site.pages import headlines
from duetbench.trend.table import Table
from site_builds import FREE, JSON, a_run, disturbed, scattered, steady, table_of

SWITCH = "git switch --detach abababababab && duetbench setup && "
FLASK = "asgi-wsgi/wsgi-json/py3.14/w1/t64/c128"


RATIO, ALONE = "free-threaded / GIL, FastAPI JSON", "FastAPI JSON"


def figures_of(*tables: Table) -> dict[str, headlines.Figure]:
    """The headlines' figures of the machine that speaks, by label."""
    table = headlines.speaker(tables)
    assert table is not None
    figures = (
        (headline.label, headlines.newest(table, headline)) for headline in published.headlines()
    )
    return {label: figure for label, figure in figures if figure}


def test_a_headline_is_a_ratio_of_one_night() -> None:
    """6,000 over 5,000 on the second night; the first has only one side, and the third neither."""
    nights = [
        a_run(1, steady(JSON)),
        a_run(2, steady(JSON), steady(FREE, 6000.0)),
        a_run(3, disturbed(JSON), steady(FREE, 9000.0)),
    ]
    table = table_of(*nights)
    figures = figures_of(table)
    assert {label: figure.text for label, figure in figures.items()} == {
        RATIO: "1.20×",
        ALONE: "5,000/s",
    }
    assert (figures[RATIO].interval, figures[RATIO].night, figures[ALONE].night) == ("", 1, 1)


def test_a_headline_has_the_interval_of_its_ratio() -> None:
    """Halves of 3 % and 4 % on the logarithms make 5 %, which is 5.1 % upwards."""
    factor = math.sqrt(3) / 4.30265  # so that t(2) times the standard error is the half asked for

    def around(name: str, middle: float, half: float) -> CaseResult:
        return scattered(name, *(middle * math.exp(k * half * factor) for k in (-1, 0, 1)))

    ratio = figures_of(table_of(a_run(1, around(JSON, 5000, 0.03), around(FREE, 6000, 0.04))))[
        RATIO
    ]
    assert (ratio.text, ratio.interval) == ("1.20×", "±5.1 %")


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
    ratio = figures_of(table_of(*nights))[RATIO]
    assert (ratio.text, ratio.interval) == ("1.20×", "±3.0 %")
    assert ratio.value.n == 3
    assert figures_of(table_of(nights[-1]))[RATIO].interval == "one launch"


def test_headlines_are_all_of_one_machine() -> None:
    results = [scattered(JSON, 4900.0, 5000.0, 5100.0), scattered(FREE, 5900.0, 6000.0, 6100.0)]
    table = table_of(a_run(1, *results))
    single = [scattered(name, 9000.0) for name in (JSON, FREE, FLASK)]
    machine = runs.MACHINE.model_copy(update={"id": "other-4c-1"})
    other = table_of(a_run(2, *single, machine=machine))
    assert headlines.speaker([other, table]) is table
    texts = {label: figure.text for label, figure in figures_of(other, table).items()}
    assert texts == {ALONE: "4,999/s", RATIO: "1.20×"}
    badges = headlines.badges([other, table], ())
    assert [badges[name]["message"] for name in ("asgi", "wsgi")] == ["4,999/s", "not measured"]
    alone = figures_of(other)["Flask JSON"]
    assert (alone.text, alone.interval) == ("9,000/s", "one launch")
    assert headlines.badges([other], ())["wsgi"] == {
        "schemaVersion": 1, "label": "Flask JSON", "message": "9,000/s (one launch)",
        "color": "lightgrey",
    }  # fmt: skip


def test_a_wide_interval_is_printed_instead_of_its_figure() -> None:
    """5,000 with a half-width of 24.8 %: t(2) · 10 % / √3, on logarithms: 0.780 to 1.28 of it."""
    wide = scattered(JSON, *(5000 * math.exp(0.1 * k) for k in (-1, 0, 1)))
    narrow = scattered(FREE, *(10_000 * math.exp(0.001 * k) for k in (-1, 0, 1)))
    table = table_of(a_run(1, wide, narrow))
    texts = {label: (figure.text, figure.interval) for label, figure in figures_of(table).items()}
    assert texts == {
        RATIO: ("1.6…2.6×", "95 % interval"),
        ALONE: ("3,900/s…6,410/s", "95 % interval"),
    }
    assert headlines.badges([table], ())["free-threaded-asgi"]["message"] == "1.6…2.6×"


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
    assert words.case_command(case, profile, commit) == expected
