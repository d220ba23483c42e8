"""Experiment pages: declared charts, answers beside what was published, and where it comes from."""

import html
import re
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import pytest
from pydantic import ValidationError

import synthetic as runs
from duetbench.core import units
from duetbench.core.model import Load, LoadModel
from duetbench.project.published import BarsLayout, LinesLayout, Published
from duetbench.project.suites import SHARED_PAGE, SuiteDeclaration
from duetbench.show import addresses
from duetbench.show.claims import ONE_LAUNCH
from duetbench.show.inprocess import SpeedUp, speed_ups
from duetbench.show.site import words
from duetbench.show.site.charts import declared
from duetbench.show.site.charts.declared import ChartCases
from duetbench.show.site.pages import answers, experiment, front
from duetbench.show.site.pages.site import Site
from duetbench.store.asv_results import Snapshot, newest
from duetbench.trend.summary import CaseSummary, summarise_case


@pytest.fixture(scope="module")
def site(reference_site: Site) -> Site:
    return reference_site


@pytest.fixture(scope="module")
def written(site: Site) -> dict[str, str]:
    return {page.path: page.text for page in experiment.pages(site)}


def page_of(written: dict[str, str], name: str) -> str:
    return written[addresses.file(addresses.experiment(name))]


def summary(case_id: str, throughput: float, **changes: Any) -> CaseSummary:
    case = runs.make_case(case_id, **changes)
    return summarise_case(runs.steady_result(case, {"throughput": throughput}), 3)


def shown(*cases: CaseSummary, published: Published | None = None) -> ChartCases:
    return ChartCases(cases, published, lambda case: f"../../b/{case}/", "From here.")


def rows(chart: str) -> list[list[str]]:
    """The table of a chart, row by row; drawings have no words."""
    body = chart.partition("<tbody>")[2]
    return [
        [
            html.unescape(re.sub(r"<[^>]+>", "", cell))
            for cell in re.findall(r"<t[hd].*?</t[hd]>", row)
        ]
        for row in re.findall(r"<tr.*?</tr>", body, re.DOTALL)
    ]


def links(chart: str) -> list[str]:
    return re.findall(r'<th scope="row"><a href="([^"]*)"', chart)


def test_every_declared_chart_is_drawn_from_the_reference_runs(
    site: Site, written: dict[str, str]
) -> None:
    declared_ = {name: one.charts for name, one in site.published.items()}
    assert {chart.kind for charts in declared_.values() for chart in charts} == {
        "bars", "percentiles", "sweep", "curve",
    }  # fmt: skip
    for name, charts in declared_.items():
        page, runs = page_of(written, name), experiment.sources(site, name)
        measured = [case.id for run in runs for case in run.cases]
        assert measured
        for chart in charts:
            chosen = any(fnmatchcase(case, glob) for case in measured for glob in chart.select)
            assert (f'id="{chart.name}"' in page) == chosen, (name, chart.name)


def test_charts_have_the_intervals_that_runs_have(site: Site) -> None:
    found = list(experiment.sources(site, "asgi-wsgi"))
    assert [(one.label, one.run.launches) for one in found] == [
        ("published profile", 1), ("nightly profile", 3),
        ("published profile on epyc-2c-102dbd", 3),
    ]  # fmt: skip
    *found, elsewhere = found
    # Of another machine only what the first has not measured, in a picture of its own.
    assert {case.id.split("/")[1] for case in elsewhere.cases} == {"asgi-cpu", "wsgi-cpu"}
    by_profile = {one.run.profile: {case.id: case for case in one.cases} for one in found}
    chart = charts_of(site, "asgi-wsgi")[0]
    assert (
        "From the nightly profile, 3 launches per case. "
        "Others: from the published profile, 1 launch per case."
    ) in chart
    cases = {
        html.unescape(row.partition('href="../../b/')[2].partition('/"')[0]): row
        for row in re.findall(r"<tr.*?</tr>", chart.partition("<tbody>")[2], re.DOTALL)
        if "href" in row
    }
    assert by_profile["nightly"].keys() & cases.keys()
    assert cases.keys() - by_profile["nightly"].keys()
    for case, row in cases.items():
        judged = case in by_profile["nightly"] and "not judged" not in row
        assert ('class="whisker"' in row) == (case in by_profile["nightly"]), case
        assert ("hollow" in row) != judged, case


def test_a_page_answers_its_question_with_figures_of_the_reference_run(
    written: dict[str, str],
) -> None:
    page = page_of(written, "asgi-wsgi")
    assert "With everything else still, what do throughput" in page
    answer = page.partition('class="says"')[2].partition("</p>")[0]
    assert re.search(r"3\.14t served [\d,]+/s \(.+ against [\d,]+/s \(.+ on 3\.14", answer)
    assert "9,904/s" in page
    assert "published 30,415/s" in page
    assert "WSGI json scales with cores only without the GIL" in page
    assert "it moves with every release of the interpreter and the framework" in page
    assert 'href="../../b/asgi-wsgi/asgi-json/py3.14/w1/c128/"' in page
    assert 'href="../../runs/20261120T110053Z-published-316bba91.json"' in page
    assert "duetbench run --profile published --select 'asgi-wsgi/*'" in html.unescape(page)


APART = {"does not hold", "not decided"}


def test_every_statement_of_every_experiment_is_on_its_page(
    site: Site, written: dict[str, str]
) -> None:
    for name, published in site.published.items():
        found = experiment.sources(site, name)
        page = page_of(written, name)
        stated = [str(words.prose(shape.statement)) for shape in published.shapes]
        table = page.partition('<table class="wide statements">')[2].partition("</table>")[0]
        assert re.findall(r'<th scope="row">(.*?)</th>', table) == stated
        # What one launch does not decide is told together, by run.
        reasons = [
            [one.reason for one in source.section.shapes if one.verdict in APART]
            for source in found
        ]
        apart = sum(
            (ONE_LAUNCH in told) + sum(reason != ONE_LAUNCH for reason in told) for told in reasons
        )
        explained = page.partition("Where it differs, and why")[2].partition("</ul>")[0]
        assert explained.count("<li>") == apart, name


GIL = "gil-in-process"


def charts_of(site: Site, name: str) -> list[str]:
    return [*experiment.charts(site, name, "../../", experiment.sources(site, name))]


def of_gil(site: Site) -> tuple[SuiteDeclaration, Snapshot, dict[str, SpeedUp]]:
    suite = next(one for one in site.suites if one.title == GIL)
    snapshot = newest(site.snapshots, *suite.benchmarks)
    assert snapshot is not None
    found = {
        one.python: one
        for one in speed_ups(snapshot, suite, suite.table("cpu"))
        if (one.variant, one.where) == ("threads", {"tasks": "4"})
    }
    return suite, snapshot, found


def test_speed_ups_are_those_of_asv_s_figures(site: Site) -> None:
    suite, snapshot, found = of_gil(site)
    cpu = next(declared.speed_up_charts(snapshot, suite, "../../asv/", {}))
    gain = found["3.14t"].gain
    assert gain
    threads = {
        row[0]: row[2:]
        for row in rows("<tbody>" + str(cpu).partition(">4 tasks<")[2])
        if row[0].startswith("threads")
    }
    assert threads["threads, 3.14t"][0] == units.significant(gain)
    assert f"ceiling {snapshot.cores}" in threads["threads, 3.14t"][2]
    # The source's first run: 2.1103 s one after another, 2.7011 s in threads.
    assert "published 0.781" in threads["threads, 3.14"][2]


def test_the_experiment_inside_the_process_has_its_page(written: dict[str, str]) -> None:
    page = page_of(written, GIL)
    assert "What does the GIL do to threads, processes and coroutines in one process?" in page
    assert "with the GIL, four CPU threads are no faster than serial" in page
    assert 'id="speed-up-network"' in page
    assert 'href="../../asv/#gil.Cpu.time_tasks"' in page
    assert "12 published statements: 9 hold, 2 not decided, 1 not measured." in page
    further = page_of(written, SHARED_PAGE)
    assert "Time of one request" in further
    assert "four CPU threads" not in further


def test_the_answer_inside_the_process_is_the_same_wherever_it_stands(
    site: Site, written: dict[str, str]
) -> None:
    suite, snapshot, found = of_gil(site)
    gains = [f"{one.gain:.2f} times as fast on {python}" for python, one in found.items()]
    question = next(one for one in answers.questions(site) if one.name == suite.title)
    answer = question.answer
    assert answer is not None
    assert answer.text == (
        "CPU, 4 tasks in threads instead of one after another: "
        f"{gains[0]} and {gains[1]} (medians)."
    )
    assert answer.run == snapshot.commit
    (first,) = front.pages(site)
    for page in (
        first.text, page_of(written, GIL), written[addresses.file(addresses.EXPERIMENTS)]
    ):  # fmt: skip
        assert answer.text in page
    assert "asv run on" in first.text


def test_the_list_has_every_experiment(site: Site, written: dict[str, str]) -> None:
    page = written[addresses.file(addresses.EXPERIMENTS)]
    for name in (*site.experiments(), SHARED_PAGE):
        assert f'href="../x/{name}/"' in page
    assert page.count('class="asks"') == 6


def test_bars_are_told_apart_by_their_ids_and_are_the_default() -> None:
    cases = [summary("echo/a/py3.14", 100.0), summary("echo/a/py3.14t", 90.0, python="3.14t")]
    chart = declared.draw(shown(*cases), declared.default_layout(cases))
    assert chart is not None
    assert [[row[0], row[2]] for row in rows(chart)] == [
        ["a/py3.14", "100/s"],
        ["a/py3.14t", "90.0/s"],
    ]
    assert links(chart) == [f"../../b/{one.id}/" for one in cases]
    layout = BarsLayout(
        kind="bars", name="x", title="X", select=("*",), metric="throughput", keys=("python",)
    )
    cases = [summary("e/a/py3.14/c1", 10.0), summary("e/a/py3.14/c2", 20.0)]
    chart = declared.draw(shown(*cases), layout)
    assert chart is not None
    assert [row[0] for row in rows(chart)] == ["3.14, a/py3.14/c1", "3.14, a/py3.14/c2"]


def test_lines_go_over_the_property_that_was_varied() -> None:
    """Ten users before nine hundred, whatever the order of the cases; p50 and p99 are two lines."""

    def users(number: int, latency: float) -> CaseSummary:
        load = Load(model=LoadModel.PACED, connections=number, rate=number, duration=8, timeout=9)
        case = runs.make_case(f"e/a/u{number}", load=load)
        figures = {"service_p50": latency, "service_p99": 3 * latency}
        return summarise_case(runs.steady_result(case, figures), 3)

    layout = LinesLayout(
        kind="percentiles", name="x", title="X", select=("*",), x="users", series=("stack",),
        metrics=("service_p50", "service_p99"), unit="time",
    )  # fmt: skip
    chart = declared.draw(shown(users(900, 0.05), users(10, 0.01)), layout)
    assert chart is not None
    stack = users(10, 1).case.stack
    assert [row[:3] for row in rows(chart)] == [
        [f"{stack} p50", "10", "10.0 ms"], [f"{stack} p50", "900", "50.0 ms"],
        [f"{stack} p99", "10", "30.0 ms"], [f"{stack} p99", "900", "150 ms"],
    ]  # fmt: skip


def test_a_chart_without_figures_is_not_drawn() -> None:
    layout = BarsLayout(
        kind="bars", name="x", title="X", select=("other/*",), metric="throughput", keys=("id",)
    )
    assert declared.draw(shown(summary("e/a", 1.0)), layout) is None
    never = layout.model_copy(update={"select": ("*",), "metric": "pss_steady"})
    assert declared.draw(shown(summary("e/a", 1.0)), never) is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"keys": ["colour"]}, r"unknown property 'colour'"),
        ({"metric": "speed"}, r"unknown metric 'speed'"),
        ({"name": "Ä b"}, "String should match pattern"),
        ({"kind": "pie"}, "'bars', 'percentiles'"),
    ],
)
def test_a_chart_that_cannot_be_drawn_is_refused(change: dict[str, Any], told: str) -> None:
    chart = {
        "kind": "bars", "name": "x", "title": "X", "select": ["*"], "metric": "throughput",
        "keys": ["python"], **change,
    }  # fmt: skip
    with pytest.raises(ValidationError, match=told):
        Published.model_validate({"source": "s", "charts": [chart]})
    good = {**chart, "kind": "bars", "name": "x", "metric": "throughput", "keys": ["python"]}
    with pytest.raises(ValidationError, match="charts need names of their own"):
        Published.model_validate({"source": "s", "charts": [good, good]})


def test_rows_of_charts_lead_to_their_cases(site: Site) -> None:
    known = {f"../../{addresses.case(case)}" for one in site.headers.values() for case in one.cases}
    for name in site.published:
        for chart in charts_of(site, name):
            assert {*links(chart)} <= known


def test_anchors_of_a_page_are_its_own(written: dict[str, str]) -> None:
    for path, page in written.items():
        ids = re.findall(r' id="([^"]+)"', page)
        assert sorted(ids) == sorted(set(ids)), path


def test_the_article_is_linked_where_its_address_is_declared(site: Site) -> None:
    url = "https://example.org/article"
    about = {**site.about, "asgi-wsgi": replace(site.about["asgi-wsgi"], url=url)}
    linked = f'<a rel="external" href="{url}">'
    for shown, times in ((site, 0), (replace(site, about=about), 1)):
        (page,) = (
            one for one in experiment.pages(shown) if one.path == "x/asgi-wsgi/index.html"
        )  # fmt: skip
        assert page.text.count(linked) == times
