"""The pages of a small world: a golden file of what they say, and figures worked out by hand."""

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import site_builds
import sites
from anchored_files import a_file, of, ratio
from attributing import CHECK, SEND, attribution, row
from bench import PROJECT, Once
from duetbench.core.comparison import Instructions
from duetbench.core.metrics import CPU
from duetbench.core.model import Missing
from duetbench.host import files
from duetbench.report.attribution import AttributionText
from goldens import assert_golden
from observatory.show import addresses
from observatory.show.site import trends
from observatory.show.site.pages import headline_case
from observatory.show.site.site import Site
from observatory.trend.releases import judged
from site_builds import ALONE, FREE, JSON, page

pytestmark = pytest.mark.long

FASTAPI = addresses.release("fastapi", "0.11.0")
PAGES = (
    addresses.FRONT, addresses.PACKAGES, addresses.package("fastapi"), FASTAPI,
    *(addresses.release(*key) for key in (("fastapi", "0.10.2"), ("granian", "2.8.7"))),
    addresses.release("uvicorn", "0.50.0"), *map(addresses.case, (JSON, FREE, ALONE)),
    addresses.SIDES, addresses.experiment("demo"),
)  # fmt: skip


@pytest.fixture(scope="module")
def texts(once: Once) -> Mapping[str, str]:
    folder = once("world", site_builds.build_world)
    return site_builds.texts(site_builds.gather_site(folder))


def test_pages_read_as_they_did(texts: Mapping[str, str]) -> None:
    """Without the head and the foot, which all have, and the questions of this checkout."""
    parts = []
    for address in PAGES:
        text = sites.document(texts[address]).lines.partition("Search /\n")[2]
        text = re.split(r"\nFigures are means|\nQuestions about the web stack", text)[0]
        parts.append(f"=== {address}\n{text}")
    assert_golden("site.txt", "\n\n".join(parts))


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        # 2.228 standard errors of 1 % (ten degrees of freedom).
        (addresses.case(JSON), "1.250 × ±2.3 %"),
        # Two of them, 2.228 · √2 · 1 % = 3.15 % of 1.25.
        ("", "Compared with 1 Nov 2026: +25 % (21…29 %)"),
        # 100 µs of the anchor times 1.2.
        (FASTAPI, "100 µs 0.10.0 → 120 µs 0.11.0"),
        # 1.2 and 1.1 are levels above what 2.228 · 0.4 and 2 % exclude.
        (FASTAPI, "2 of 2 cases moved"),
        (FASTAPI, "How sure: 5 measurements"),
        # Of granian, fastapi 0.10.2 and the unknown release; uvicorn's gain and orjson are not.
        ("", "3 slowdowns still there"),
        (addresses.case(FREE), "2026-11-02 02-backfill-machine-2c-1 — no wheel"),
        ("sides/", "10 % more memory , 2.1 % more CPU 21 Nov 2026"),
    ],
)
def test_figures_are_those_worked_out_by_hand(
    texts: Mapping[str, str], address: str, sentence: str
) -> None:
    assert sentence in sites.document(texts[address]).text


def test_charts_have_every_night_and_mark_releases(texts: Mapping[str, str]) -> None:
    def drawn(address: str) -> Any:
        (config,) = re.findall(r'<script type="application/json">(.*?)</script>', texts[address])
        (own,) = json.loads(config)["tables"]
        return own

    own = drawn(addresses.case(JSON))
    first = own["metrics"][0]
    assert (own["label"], first["name"], first["mean"]) == ("machine-2c", CPU, [1.0, 1.0, 1.25])
    ends = (1.25 * math.exp(-0.02228), 1.25 * math.exp(0.02228))
    assert (first["low"][2], first["high"][2]) == pytest.approx(ends, rel=5e-5)
    free = drawn(addresses.case(FREE))
    assert free["metrics"][0]["mean"] == [1.0, None, 1.0]
    assert (free["note"], len(free["time"])) == (["", "no wheel", ""], 3)
    line = drawn(addresses.package("fastapi"))
    assert line["run"] == ["0.9.0", "0.10.0", "0.11.0"]
    mark = line["changes"][0]
    assert (mark["name"], mark["tone"], mark["href"]) == ("0.11.0", "worse", FASTAPI)
    assert mark["time"] == line["time"][2]


def test_changes_lead_to_their_stories_and_evidence(texts: Mapping[str, str]) -> None:
    for name, to in (
        ("20261120-granian-0", "p/granian/2.8.7/"),
        ("20261117-current-0", f"{addresses.case(ALONE)}#20261117-current-0"),
    ):
        assert f'content="0; url=../../{to}"' in texts[addresses.change(name)]
    evidence = "../../../cmp/20261119T120000Z-compare-bbbbbbbb/"
    assert evidence in sites.document(texts["p/fastapi/0.10.2/"]).links
    finding = "fastapi 0.11.0 needs 20 % more CPU (19…21 %) for a JSON response"
    assert f'name="description" content="{finding}."' in texts[FASTAPI]


def saved(folder: Path, *records: Any) -> Site:
    for record in records:
        files.save(folder / "results", record)
    return site_builds.gather_site(folder)


def test_a_release_that_could_not_be_measured_is_no_base() -> None:
    first, second, third = site_builds.RELEASES
    lost = tuple(Missing(case=case.case, reason="no wheel") for case in second.cases)
    table = site_builds.table_of(
        first, second.model_copy(update={"cases": (), "missing": lost}), third
    )
    assert {name: result.base.version for name, result in judged([table])[table].items()} == {
        "0.11.0": "0.9.0"
    }
    reasons = [file.reason(JSON) for file, _ in table.figures(JSON, CPU, range(3))]
    assert reasons == ["", "no wheel", ""]


def test_one_night_is_no_picture(tmp_path: Path) -> None:
    site = saved(tmp_path, a_file(1, of(JSON, ratio(1.0))))
    assert headline_case(site) == ""
    assert "A chart needs two nights." in page(site).text


def test_it_says_what_to_type_as_the_readme_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the repository is not known, no address is made up."""
    (tmp_path / "results").mkdir()
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    text = page(site_builds.gather_site(tmp_path)).text
    assert "duetbench compare HEAD~1 \\ --app" in text
    assert "uvx" not in text
    monkeypatch.setenv("GITHUB_REPOSITORY", "OWNER/duetbench")
    text = page(site_builds.gather_site(tmp_path)).text
    output = re.search(r"(uvx .+?) \\ duetbench (compare \S+) \\ (--app \S+ --path \S+)", text)
    assert output is not None
    readme = (PROJECT / "README.md").read_text("utf-8")
    assert output[1] == "uvx --from git+https://github.com/OWNER/duetbench"
    assert f"$ duetbench {output[2]} {output[3]} " in readme


def test_the_readme_quotes_the_sizes_of_the_site(reference_site: Site) -> None:
    """The year of its picture, and the release that did most of it."""
    readme = " ".join((PROJECT / "README.md").read_text("utf-8").split())
    ((package, version, size),) = re.findall(r"; (\w+) ([\d.]+) alone added (\d+) %", readme)
    assert round(100 * reference_site.quotes[package, version].ratio.estimate - 100) == int(size)
    case = headline_case(reference_site)
    finding = trends.year(reference_site, case, reference_site.cases[case][0])[1]
    assert str(finding).partition(" than ")[0] + " than a year ago" in readme


def test_an_experiment_answers_its_question_by_the_reference_results(reference_site: Site) -> None:
    experiment = page(reference_site, "x/asgi-wsgi/")
    for part in (
        "With everything else still, what do throughput",
        "0.7 to 0.9 0.796 0.851 (0.811…0.894) holds : by 6 duets on epyc-2c-102dbd, 2026-11-27",
        "published 30,415/s",
    ):
        assert part in experiment.text
    assert "../../cmp/20261127T024548Z-compare-d2253892/" in experiment.links


def test_an_experiment_without_figures_says_so(tmp_path: Path) -> None:
    text = page(saved(tmp_path, site_builds.a_run(1)), "x/contention/").text
    assert "Not measured yet." in text
    assert "not measured : no figures" in text


def test_an_attribution_says_what_moved_and_nothing_where_nothing_did() -> None:
    """8,000 of 100,000; 119 of 80,000 are within what counts repeat by."""
    actual = AttributionText(attribution())
    assert actual.cause == (
        "Headers.copy (new) adds 8.0 % of a request: starlette/data.py:5, starlette."
    )
    rows = (row(CHECK, 3_000, 0), row(SEND, 15_000, 14_000), row(SEND, 15_000, 16_000))
    assert [
        f"{item.function} {item.effect}" for item in AttributionText(attribution(rows=rows)).rows
    ] == [
        "old_check (gone) saves 3.0 % of a request",
        "send itself does 1.0 % of a request less",
        "send itself does 1.0 % of a request more",
    ]
    still = Instructions(base=80_000, head=80_119, spread=0.0015)
    actual = AttributionText(attribution(instructions=still, rows=()))
    assert actual.headline == (
        "a/b: instructions per request did not move (counts repeat within 0.15 %)."
    )
    assert actual.cause == "No function is named: none moved by 0.50 % of a request or more."
