"""Packages over their releases: what each did, in figures, words and pages."""

import json
import math
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import attributing
import site_builds
import sites
import synthetic
from duetbench.core.metrics import CPU
from duetbench.core.model import Missing
from duetbench.core.units import Interval
from duetbench.store import files
from duetbench.store.change import Release
from duetbench.store.points import AnchoredPoint, CasePoints
from observatory.show import addresses
from observatory.show.site import cards
from observatory.show.site.pages import packages as pages
from observatory.show.site.pages.site import Card
from site_builds import JSON

pytestmark = pytest.mark.long

FIRST, SECOND, THIRD = site_builds.RELEASES


def test_a_chart_has_the_first_release_at_one_and_its_error_in_the_others() -> None:
    axis = site_builds.axis_of(THIRD, FIRST, SECOND)
    points = list(pages.over_first("../", axis, JSON, CPU))
    first, second, third = (point.value.figure for point in points)
    assert first == Interval(1.0)
    assert second is not None
    assert third is not None
    assert (second.estimate, third.estimate) == pytest.approx((1.0, 1.2))
    # 0.003 and 0.001: 0.0031623 with 12 degrees of freedom (100 / 8.2), t 2.1788.
    assert second.ends == pytest.approx(
        (math.exp(-2.1788 * 0.0031623), math.exp(2.1788 * 0.0031623)), rel=1e-5
    )
    assert points[2].href == "../p/fastapi/0.11.0/"
    gone = SECOND.model_copy(update={"cases": SECOND.cases[1:]})
    points = list(pages.over_first("", site_builds.axis_of(FIRST, gone, THIRD), JSON, CPU))
    assert [(point.x, point.cut) for point in points] == [(0, False), (2, True)]


def test_a_release_that_could_not_be_measured_stands_between_two_and_is_no_base() -> None:
    lost = tuple(Missing(case=case.case, reason="no wheel") for case in SECOND.cases)
    axis = site_builds.axis_of(
        FIRST, SECOND.model_copy(update={"cases": (), "missing": lost}), THIRD
    )
    assert len(axis.releases) == 3
    assert {name: result.base.version for name, result in axis.results().items()} == {
        "0.11.0": "0.9.0"
    }
    points = list(pages.over_first("", axis, JSON, CPU))
    assert (points[1].value.figure, points[1].value.note) == (None, "no wheel")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("released")
    results = folder / "results"
    site_builds.save_run(results, site_builds.a_run(1))
    site_builds.save_releases(results)
    files.save(results, synthetic.change_record())
    files.save(results, site_builds.make_comparison(JSON))
    return site_builds.build(folder)


def test_pages_say_what_moved_and_what_could_have_been_seen(site: Path) -> None:
    def text(name: str) -> str:
        return sites.read(site / "p" / name / "index.html").text.replace("/ ", "/")

    assert list(sites.dead_links(site)) == []
    listed = text("")
    assert "fastapi 0.11.0 15 Oct 2026 ▼ slower +20 % (+19…+21 %)" in listed
    assert "and 1 more of 2 cases since 0.10.0" in listed, "0.10.1 may have done it"
    assert listed.index("fastapi") < listed.index("Other packages") < listed.index("uvloop")
    package = text("fastapi")
    endpoint = "A JSON response from FastAPI, Granian, 128 connections"
    assert package.index(endpoint) < package.index("Effect, compared"), "the picture comes first"
    assert "Other cases that moved" not in package, "there is one endpoint"
    for python in ("3.14", "3.14t"):
        assert f"{python} 0.9.0 1.00" in package.partition(endpoint)[2], "a line of each"
    assert "0.10.0 8 Oct 2026 nothing detected in 2 cases; a change of 4.3 % would" in package
    release = text("fastapi/0.11.0")
    assert "The release before it, 0.10.1, was not measured" in release
    again = f"duetbench compare --base-with fastapi==0.10.0 --with fastapi==0.11.0 --select {JSON}"
    assert again in release
    assert "starlette 1.8.0 1.15.0 current" in release, "what came with it"
    on = "A JSON response from FastAPI on Granian, Python"
    assert f"Moved {on} 3.14, 128 connections ▼ slower +20 %" in release
    assert f"{on} 3.14t (free-threaded), 128 connections ▼ slower +9 %" in release
    still = text("fastapi/0.10.0")
    assert f"Not decided; detectable: 4.3 % {on} 3.14t (free-threaded), 128 connections" in still
    unmoved = "= no change 0.00 % −0.69…+0.69 % could see 1.4 %"
    assert f"No change {on} 3.14, 128 connections {unmoved}" in still
    assert "The first release that was measured there" in text("fastapi/0.9.0")
    assert "the cause of the changes below" in text("granian/2.8.7")
    assert "(2.5…3.7 %) ▼ slower 2.8.6 → 2.8.7 yes" in text("granian")


def test_the_largest_steps_of_the_year_are_named_first_machines_apart(tmp_path: Path) -> None:
    """Of 25 % and 20 % on two machines the larger leads; what is older than a year is left out."""
    machine = FIRST.machine.model_copy(update={"id": "other", "cpu": "Another CPU"})
    more = site_builds.release_points("0.11.0", "0.10.1", 15, gil=(1.25, 0.004), free=(1.1, 0.02))
    for number, points in enumerate((SECOND, more)):
        old = {"id": f"old-{number}", "when": datetime(2024, 1, 1 + number, tzinfo=UTC)}
        release = Release(package="old", version=f"{number}", previous=None)
        files.save(tmp_path / "results", points.model_copy(update={**old, "release": release}))
        files.save(
            tmp_path / "results",
            points.model_copy(update={"id": f"other-{number}", "machine": machine}),
        )
    site_builds.save_releases(tmp_path / "results")
    files.save(tmp_path / "results", attributing.attribution())
    listed = sites.read(site_builds.build(tmp_path) / "p" / "index.html").text
    assert "1 of 2 releases since 8 Oct 2026 moved a case" in listed
    case = "A JSON response from FastAPI on Granian, Python 3.14, 128 connections"
    # 0.001 and 0.004: 0.0041231 with 11 degrees of freedom (289 / 25.7), t 2.2010.
    sizes = "▼ slower +25 % (+24…+26 %) Another CPU ▼ slower +20 % (+19…+21 %)"
    step = f"fastapi 0.10.0 → 0.11.0 15 Oct 2026 {case} {sizes} {FIRST.machine.cpu}"
    assert f"{step} Headers. copy (new) , starlette: 50 %" in listed
    assert "1 of 2 releases moved a case. The largest: 0.11.0 ▼ slower +20 %." in (
        sites.read(tmp_path / "site" / "p" / "fastapi" / "index.html").text
    )


def test_starts_without_load_have_a_table_of_their_own(tmp_path: Path) -> None:
    """A release moved requests by 20 % and starts by 50 %: neither hides the other."""
    case = "start-up/routes/current/py3.14"
    for points, value in ((FIRST, 1.0), (SECOND, 1.0), (THIRD, 1.5)):
        figures = tuple(
            AnchoredPoint(
                metric=metric, ratio=value * more, se=0.01, anchor=0.3, duets=20, excluded=0
            )
            for metric, more in (("start_cpu", 1.0), ("import_time", value**0.25))
        )
        starts = CasePoints(case=case, stack="current", python="3.14", points=figures)
        changes = {"id": f"{points.id}-s", "label": f"{points.label}, starts", "cases": (starts,)}
        files.save(tmp_path / "results", points.model_copy(update=changes))
    site_builds.save_releases(tmp_path / "results")
    built = site_builds.build(tmp_path) / "p"
    listed = sites.read(built / "index.html").text
    assert "1 of 2 releases since 8 Oct 2026 moved a case" in listed
    requests, starts_ = listed.split("Starts without load ")
    assert "fastapi 0.10.0 → 0.11.0 15 Oct 2026 A JSON response from FastAPI on Granian" in requests
    on = "FastAPI with 144 routes over 50 models on Uvicorn, Python 3.14"
    step = f"fastapi 0.10.0 → 0.11.0 15 Oct 2026 {on} · CPU to start ▼ slower +50 %"
    assert step in starts_
    release = sites.read(built / "fastapi" / "0.11.0" / "index.html").text
    assert f"{on} · CPU to start ▼ slower +50 %" in release
    assert f"{on} · CPU to import ▼ slower +66 %" in release  # 1.5 ** 1.25
    package = sites.read(built / "fastapi" / "index.html").text
    chart = package.partition("FastAPI with 144 routes over 50 models, Uvicorn Each")[2]
    assert '"title": "CPU to start, times the first release' in chart
    assert f"--with fastapi==0.11.0 --select {JSON}" in release, "requests come first"


def test_a_chart_marks_the_releases_that_moved_something(site: Path) -> None:
    html = (site / "p" / "fastapi" / "index.html").read_text("utf-8")
    (model,) = re.findall(r'<script type="application/json">(.*?)</script>', html)
    (mark,) = json.loads(model)["marks"]
    assert (mark["x"], mark["by"], mark["tone"]) == (2, "+20 %", "worse")
    assert mark["short"] == "▼ 0.11.0"
    assert mark["label"] == "slower +20 % (+19…+21 %) over 0.10.0, Python 3.14"
    assert mark["href"] == "../../p/fastapi/0.11.0/"
    release = (site / "p" / "fastapi" / "0.11.0" / "index.html").read_text("utf-8")
    said = "A JSON response from FastAPI needs 20 % more CPU per request (19…21 %)."
    assert f'og:description" content="With fastapi 0.11.0, {said}"' in release


def test_pages_lead_where_the_package_says_and_to_each_other(site: Path) -> None:
    document = sites.read(site / "p" / "fastapi" / "0.11.0" / "index.html")
    outward = [attrs["href"] for _, attrs in document.tags if attrs.get("rel") == "external"]
    assert outward == [
        "https://fastapi.example/",
        "https://forge.example/a/fastapi",
        "https://forge.example/a/fastapi/compare/v0.10.0...v0.11.0",
    ]
    cause = sites.read(site / "p" / "granian" / "2.8.7" / "index.html")
    assert "https://forge.example/a/granian/compare/2.8.6...2.8.7" in str(cause.tags)
    about = sites.read(site / "c" / "20261120-granian-0" / "index.html")
    assert {"../../p/granian/", "../../p/granian/2.8.7/"} <= set(about.links)


def test_a_page_of_what_moved_has_a_picture_of_it(site: Path) -> None:
    """The first page shows the change's, a package the newest release's that moved anything."""

    def card(page: str) -> str:
        tags = sites.read(carded / page / "index.html").tags
        (address,) = (attrs["content"] for _, attrs in tags if attrs.get("property") == "og:image")
        return str(address).removeprefix(sites.HOST)

    carded, change = site.with_name("carded"), addresses.change(synthetic.change_record().id)
    sites.build_site(site.parent, carded.name, base=sites.HOST)
    assert card("") == card(change) == f"{change}card.png"
    assert card("p/fastapi") == card("p/fastapi/0.11.0") == "p/fastapi/0.11.0/card.png"
    assert not list(site.rglob("card.png"))  # whose address nobody knows
    drawn = [Image.open(carded / name) for name in (card(""), card("p/fastapi"))]
    assert [one.size for one in drawn] == [(1200, 630)] * 2
    # Above the middle of the axis, between the second release of three and the third: 20 % slower.
    assert [one.convert("RGB").getpixel((864, 430)) for one in drawn] == [
        (254, 254, 254),
        pytest.approx((154, 61, 0), abs=8),
    ]


def test_a_card_differs_with_each_fact_and_text_of_others_is_cut() -> None:
    fields = ("when", "what", "variant", "figure", "verdict", "sure", "release")

    def card(**changed: Any) -> Card:
        plain = dict.fromkeys(fields, "x")
        series = {"values": (1.0, None, 1.2), "step": 2}
        return Card(**{"page": "c/x/", "tone": "worse", **plain, **series, **changed})

    other = [card(**{name: "y"}) for name in fields]
    other += [card(tone="better"), card(step=0), card(values=())]
    assert cards.png(card()) == cards.png(card())
    assert len({*map(cards.png, (card(), *other))}) == 1 + len(other)
    for text in site_builds.HOSTILE:
        assert cards.png(card(**dict.fromkeys(fields, text)))
