"""Experiment pages: declared charts, answers beside what was published, and where it comes from."""

import html
import re
from typing import Any

import pytest
from pydantic import ValidationError

from duetbench.project.published import Published
from duetbench.show import addresses
from duetbench.show.claims import ONE_LAUNCH
from duetbench.show.site import words
from duetbench.show.site.pages import experiment
from duetbench.show.site.pages.site import Site


@pytest.fixture(scope="module")
def site(reference_site: Site) -> Site:
    return reference_site


@pytest.fixture(scope="module")
def written(site: Site) -> dict[str, str]:
    return {page.path: page.text for page in experiment.pages(site)}


def page_of(written: dict[str, str], name: str) -> str:
    return written[addresses.file(addresses.experiment(name))]


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


def charts_of(site: Site, name: str) -> list[str]:
    return [*experiment.charts(site, name, "../../", experiment.sources(site, name))]


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
