"""Packages over their releases: what each did, in figures, words, pages and badges."""

import math
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import site_builds
import sites
import synthetic
from servebench.record import change, comparison_store
from servebench.record.comparison import Missing, Verdict
from servebench.record.packages import VersionLinks
from servebench.record.points import Points
from servebench.series.events import Bump
from servebench.site import releases
from servebench.site.pages import packages as pages
from servebench.site.pages import trends
from servebench.site.releases import CPU, ReleaseAxis, ReleaseEffect, Result
from site_builds import FREE, JSON, release_points

FIRST, SECOND, THIRD = (
    release_points("0.9.0", None, 1, gil=(1.0, 0.003), free=(1.0, 0.003)),
    release_points("0.10.0", "0.9.0", 8, gil=(1.0, 0.001), free=(1.01, 0.01)),
    release_points("0.11.0", "0.10.1", 15, gil=(1.2, 0.004), free=(1.1, 0.02)),
)


def axis_of(*points: Points) -> ReleaseAxis:
    ((found,),) = releases.axes(points).values()
    return found


def effects(base: Points, head: Points) -> dict[str, ReleaseEffect]:
    first, last = axis_of(base, head).releases
    return {one.case: one for one in releases.over(first, last) if one.metric == CPU}


def test_errors_of_two_releases_add_in_quadrature() -> None:
    """0.003 and 0.004 make 0.005, with 18 degrees of freedom (625 / 33.7): t is 2.1009."""
    one = effects(FIRST, THIRD)[JSON]
    assert one.ratio == pytest.approx(1.2)
    half = 2.1009 * 0.005
    assert (one.low, one.high) == pytest.approx(
        (1.2 * math.exp(-half), 1.2 * math.exp(half)), rel=1e-5
    )
    assert one.verdict is Verdict.SLOWER
    swapped = effects(
        release_points("1", None, 1, gil=(1.2, 0.004), free=(1.0, 0.01)),
        release_points("2", "1", 8, gil=(1.0, 0.003), free=(1.0, 0.01)),
    )
    assert swapped[JSON].ratio == pytest.approx(1 / 1.2)
    assert swapped[JSON].verdict is Verdict.FASTER


def test_a_chart_has_the_first_release_at_one_and_its_error_in_the_others() -> None:
    axis = axis_of(THIRD, FIRST, SECOND)
    points = list(pages.over_first("../", axis, JSON, CPU))
    assert [point.y.mean for point in points] == [1.0, 1.0, pytest.approx(1.2)]
    assert points[0].y.ends is None
    # 0.003 and 0.001: 0.0031623 with 12 degrees of freedom (100 / 8.2), t 2.1788.
    assert points[1].y.ends == pytest.approx(
        (math.exp(-2.1788 * 0.0031623), math.exp(2.1788 * 0.0031623)), rel=1e-5
    )
    assert points[2].href == "../p/fastapi/0.11.0/"
    gone = SECOND.model_copy(update={"cases": SECOND.cases[1:]})
    points = list(pages.over_first("", axis_of(FIRST, gone, THIRD), JSON, CPU))
    assert (points[1].y.mean, points[1].y.note) == (None, "not measured")


def test_releases_are_in_the_order_of_versions() -> None:
    """Not of letters, nor of when they were measured; what is no version comes first."""
    odd = THIRD.model_copy(
        update={"release": change.Release(package="FastAPI", version="odd", previous=None)}
    )
    axis = axis_of(THIRD, SECOND, odd, FIRST)
    assert [one.version for one in axis.releases] == ["odd", "0.9.0", "0.10.0", "0.11.0"]
    assert axis.package == "fastapi"


def test_a_release_that_could_not_be_measured_stands_between_two_and_is_no_base() -> None:
    lost = tuple(Missing(case=case.case, reason="no wheel") for case in SECOND.cases)
    axis = axis_of(FIRST, SECOND.model_copy(update={"cases": (), "missing": lost}), THIRD)
    assert len(axis.releases) == 3
    assert {name: one.base.version for name, one in axis.results().items()} == {"0.11.0": "0.9.0"}
    points = list(pages.over_first("", axis, JSON, CPU))
    assert (points[1].y.mean, points[1].y.note) == (None, "no wheel")


def test_what_is_seen_by_chance_among_many_is_not_called() -> None:
    """2.2 standard errors leave out no change alone (t of 20 is 2.09), and not among two."""
    base = release_points("1", None, 1, gil=(1.0, 0.003), free=(1.0, 0.003))
    error = math.hypot(0.003, 0.003)
    ratio = math.exp(math.log1p(0.002) + 2.2 * error)  # beyond the relevance floor of CPU
    head = release_points("2", "1", 8, gil=(ratio, 0.003), free=(1.0, 0.003))
    both = effects(base, head)
    assert both[JSON].low > 1.002
    assert both[JSON].verdict is Verdict.INCONCLUSIVE
    alone = [one.model_copy(update={"cases": one.cases[:1]}) for one in (base, head)]
    assert effects(*alone)[JSON].verdict is Verdict.SLOWER
    assert (effects(*alone)[JSON].detectable or 0) < (both[JSON].detectable or 0)
    same = effects(FIRST, SECOND)
    assert same[JSON].verdict is Verdict.NO_CHANGE  # all of ±0.69 % is within 1 %
    assert same[FREE].verdict is Verdict.INCONCLUSIVE


def test_other_metrics_cost_the_main_one_nothing() -> None:
    """CPU and throughput are corrected apart from each other, for two cases each."""
    pair = []
    for one in (FIRST, SECOND):
        rates = [case.points[0].model_copy(update={"metric": "throughput"}) for case in one.cases]
        cases = (
            case.model_copy(update={"points": (*case.points, rate)})
            for case, rate in zip(one.cases, rates, strict=True)
        )
        pair.append(one.model_copy(update={"cases": tuple(cases)}))
    first, last = axis_of(*pair).releases
    found = {(one.case, one.metric): one.detectable for one in releases.over(first, last)}
    assert found[JSON, CPU] == effects(FIRST, SECOND)[JSON].detectable
    assert found[JSON, "throughput"] == found[JSON, CPU]


def test_counts_are_no_verdict() -> None:
    first, last = axis_of(FIRST, THIRD).releases
    counted = [one for one in releases.over(first, last) if one.metric == "instructions"]
    assert [(one.verdict, one.detectable) for one in counted] == [(None, None)] * 2


def test_a_case_measured_again_counts_as_it_was_then_and_machines_stay_apart() -> None:
    again = release_points("0.11.0", "0.10.1", 15, gil=(1.3, 0.004), free=(9.0, 0.02))
    again = again.model_copy(update={"cases": again.cases[:1]})
    merged = axis_of(FIRST, THIRD, again).releases[-1]
    ratios = [merged.points[case].points[0].ratio for case in (JSON, FREE)]
    assert ratios == [1.3, 1.1]
    machine = THIRD.machine.model_copy(update={"id": "other-4c"})
    elsewhere = THIRD.model_copy(update={"machine": machine})
    ((one, other),) = releases.axes([FIRST, elsewhere]).values()
    assert [one.machine.id, other.machine.id] == ["other-4c", FIRST.machine.id]


def an_effect(ratio: float, verdict: Verdict, detectable: float = 0.02) -> ReleaseEffect:
    return ReleaseEffect(
        JSON, "3.14", CPU, ratio, ratio * 0.99, ratio * 1.01, detectable, verdict
    )  # fmt: skip


@pytest.mark.parametrize(
    ("found", "text", "tone"),
    [
        ([(1.224, Verdict.SLOWER), (1.0, Verdict.NO_CHANGE)], "+22 % CPU", "worse"),
        ([(1.224, Verdict.SLOWER), (1.03, Verdict.SLOWER)], "up to +22 % CPU", "worse"),
        ([(0.9, Verdict.FASTER), (0.96, Verdict.FASTER)], "up to −10 % CPU", "better"),
        ([(0.95, Verdict.FASTER), (1.2, Verdict.SLOWER)], "−5.0 % to +20 % CPU", "open"),
        ([(1.001, Verdict.NO_CHANGE), (0.999, Verdict.NO_CHANGE)], "no change", "same"),
        ([(1.01, Verdict.INCONCLUSIVE), (1.0, Verdict.NO_CHANGE)], "no change above 2.0 %", "same"),
        ([], "", ""),
    ],
)  # fmt: skip
def test_a_badge_says_no_more_than_was_seen(
    found: Sequence[tuple[float, Verdict]], text: str, tone: str
) -> None:
    axis = axis_of(FIRST, THIRD)
    first, last = axis.releases
    result = Result(first, last, tuple(an_effect(*one) for one in found))
    assert pages.said(result) == (text, tone)
    drawn = pages.picture(axis, result)
    assert bool(drawn) == bool(text)
    if drawn:
        shown = "".join(ET.fromstring(drawn).itertext())
        assert shown.endswith(f"fastapi 0.11.0{text}")
        assert f"fastapi 0.11.0: {text} per request, over 0.9.0, on Synthetic CPU" in shown


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("released")
    results = folder / "results"
    site_builds.stored(results, site_builds.a_run(1))
    site_builds.released(results)
    change.save(results, synthetic.change_record())
    comparison_store.save(site_builds.compared(JSON), results / comparison_store.FOLDER)
    return site_builds.built(folder)


def test_pages_say_what_moved_and_what_could_have_been_seen(site: Path) -> None:
    def text(name: str) -> str:
        return sites.read(site / "p" / name / "index.html").text.replace("/ ", "/")

    assert list(sites.dead_links(site)) == []
    listed = text("")
    assert "fastapi 0.11.0 15 Oct 2026 ▼ slower +20.0 % (+18.9…+21.1 %)" in listed
    assert listed.index("fastapi") < listed.index("Other packages") < listed.index("uvloop")
    package = text("fastapi")
    assert "What moved, over all releases" in package
    assert "asgi-wsgi/asgi-json/w1/c128 3.14 3.14t" in package, "both interpreters, as lines"
    assert "0.10.0 8 Oct 2026 no change was seen in 2 cases; one of 3.9 % would" in package
    release = text("fastapi/0.11.0")
    assert "It came after 0.10.1, which was not measured" in release
    assert "starlette 1.8.0 1.15.0 current" in release, "what came with it"
    assert "Moved asgi-wsgi/asgi-json/py3.14t/w1/c128 ▼ slower +8.91 %" in release
    still = text("fastapi/0.10.0")
    assert "No change seen; would have been seen: 1.3 % to 3.9 %" in still
    assert "py3.14/w1/c128 = no change 0.00 % −0.69…+0.69 % could see 1.3 %" in still
    assert "The first that was measured there" in text("fastapi/0.9.0")
    assert "the cause of the changes below" in text("granian/2.8.7")
    assert "(2.50…3.70 %) ▼ slower 2.8.6 → 2.8.7 yes" in text("granian")
    assert " 1.0 → 1.1 1 19 Nov 2026" in package, "a comparison"


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
    badge = (site / "p" / "fastapi" / "0.11.0" / "badge.svg").read_text()
    assert ET.fromstring(badge).tag.endswith("svg")
    assert not (site / "p" / "fastapi" / "0.9.0" / "badge.svg").exists()
    about = sites.read(site / "c" / "20261120-granian-0" / "index.html")
    assert {"../../p/granian/", "../../p/granian/2.8.7/"} <= set(about.links)


def test_a_comparison_of_tags_is_linked_only_where_their_names_are_known() -> None:
    source = VersionLinks(links={"source": "https://forge.example/a/b.git"})
    assert source.differences("1", "2") is None
    tagged = source.model_copy(update={"tag": ""})
    assert tagged.differences("1", "2") == "https://forge.example/a/b/compare/1...2"
    nowhere = VersionLinks(links={"home": "https://b.example/docs/a/b"}, tag="v")
    assert nowhere.differences("1", "2") is None


def test_a_tick_of_a_trend_leads_to_the_package_that_moved_alone() -> None:
    both = synthetic.change_record().packages * 2
    found = [trends.moved_alone("../", Bump(1, "current", both[:many])) for many in (0, 1, 2)]
    assert found == ["", "../p/granian/", ""]
