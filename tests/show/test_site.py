"""The site: its pages in words and figures, links, the same bytes, and what is odd."""

import re
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

import pytest

import sites
from bench import PROJECT, Once
from duetbench.core.comparison import Missing
from duetbench.core.errors import RecordError, UsageError
from duetbench.core.metrics import CPU
from duetbench.host import files
from duetbench.report.attribution import AttributionText
from goldens import assert_golden
from observatory.show import addresses
from observatory.show.site import trends
from observatory.show.site.pages import headline_case
from observatory.show.site.site import Site
from observatory.trend.releases import judged
from sites import ALONE, FREE, JSON, page
from synthetic import a_file, attribution, of, ratio

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
    folder = once("world", sites.build_world)
    return sites.texts(sites.gather_site(folder))


def test_pages_read_as_they_did(texts: Mapping[str, str]) -> None:
    """Without the head and the foot, which all have, and the questions of this checkout."""
    parts = []
    for address in PAGES:
        text = sites.document(texts[address]).lines.partition("Search /\n")[2]
        text = re.split(r"\nFigures are means|\nQuestions about the web stack", text)[0]
        parts.append(f"=== {address}\n{text}")
    assert_golden("site.txt", "\n\n".join(parts))


def test_changes_lead_to_their_stories_and_evidence(texts: Mapping[str, str]) -> None:
    story = f"{addresses.case(ALONE)}#20261117-current-0"
    assert f"../{story}" in sites.document(texts[addresses.PACKAGES]).links
    assert 'id="20261120-granian-0"' in texts["p/granian/2.8.7/"]
    evidence = "../../../cmp/20261119T120000Z-compare-bbbbbbbb/"
    assert evidence in sites.document(texts["p/fastapi/0.10.2/"]).links
    finding = "fastapi 0.11.0 needs 20 % more CPU (19…21 %) for a JSON response"
    assert f'name="description" content="{finding}."' in texts[FASTAPI]


def test_a_release_that_could_not_be_measured_is_no_base() -> None:
    first, second, third = sites.RELEASES
    lost = tuple(Missing(case=case.case, reason="no wheel") for case in second.cases)
    table = sites.table_of(first, second.model_copy(update={"cases": (), "missing": lost}), third)
    assert {name: result.base.version for name, result in judged([table])[table].items()} == {
        "0.11.0": "0.9.0"
    }
    reasons = [file.reason(JSON) for file, _ in table.figures(JSON, CPU, range(3))]
    assert reasons == ["", "no wheel", ""]


def test_one_night_is_no_picture(tmp_path: Path) -> None:
    files.save(tmp_path / "results", a_file(1, of(JSON, ratio(1.0))))
    site = sites.gather_site(tmp_path)
    assert headline_case(site) == ""
    assert "A chart needs two nights." in page(site).text


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


def test_an_experiment_without_figures_says_so(texts: Mapping[str, str]) -> None:
    text = sites.document(texts["x/contention/"]).text
    assert "Not measured yet." in text
    assert "not measured : no figures" in text


def test_an_attribution_says_what_moved_and_nothing_where_nothing_did() -> None:
    """Of 100,000 instructions."""
    (*_, row) = attribution().rows
    turned = row.model_copy(update={"base": row.head, "head": row.base})
    shown = AttributionText(attribution(rows=(row, turned))).rows
    assert [row.effect for row in shown] == [
        f"itself does 1.0 % of a request {way}" for way in ("more", "less")
    ]
    actual = AttributionText(attribution(rows=()))
    assert actual.headline == "a/b: 80,000 → 92,000 instructions per request, +15.0 %."
    assert actual.cause == "No function is named: none moved by 0.50 % of a request or more."


@pytest.fixture(scope="module", params=["reference", "world"])
def site(request: pytest.FixtureRequest, once: Once, reference_results: Path) -> Path:
    """The site of the committed results, and of a small world."""
    if request.param == "world":
        return once("world", sites.build_world) / "site"
    fill = partial(sites.build_of, reference_results)
    return once("built-reference", fill) / "site"


def test_every_link_leads_to_a_file_of_the_site(site: Path) -> None:
    assert len(sites.documents(site)) > 20
    assert list(sites.dead_links(site)) == []


@pytest.mark.parametrize("kind", ["nothing", "hostile"])
def test_on_odd_sites_no_link_is_dead_and_nothing_runs_that_is_not_ours(
    tmp_path: Path, kind: str
) -> None:
    site = getattr(sites, kind)(tmp_path)
    if kind == "nothing":
        for name, sentence in {
            "": "Nothing has been measured yet.",
            "p/": "No release has been measured alone yet.",
            "sides/": "No two ways have been compared yet.",
        }.items():
            assert sentence in (site / name / "index.html").read_text("utf-8")
    assert list(sites.dead_links(site)) == []
    for name, document in sites.documents(site).items():
        assert document.text, name
        named = ((a.get("http-equiv"), a.get("content")) for _, a in document.tags)
        policy = [str(text) for name_, text in named if name_ == "Content-Security-Policy"]
        assert len(policy) == 1, name
        alone = name.startswith("cmp/")  # one file, without scripts
        assert policy[0].startswith("default-src 'none'" if alone else "default-src 'self'"), name
        for tag, attrs in document.tags:
            assert tag not in {"iframe", "object", "embed", "base"}, name
            assert alone or tag != "style", name
            assert not [key for key in attrs if key.startswith("on") or key == "style"], name
            if tag == "script" and attrs.get("type") != "application/json":
                assert "/static/" in f"/{attrs['src']}", name


def test_the_same_results_give_the_same_bytes_whatever_was_there(tmp_path: Path) -> None:
    def contents(site: Path) -> dict[Path, bytes]:
        paths = (path for path in site.rglob("*") if path.is_file())
        return {path.relative_to(site): path.read_bytes() for path in paths}

    shutil.copytree(sites.WORLD / "runs", tmp_path / "results" / "runs")
    newest = max(tmp_path.rglob("*-nightly-*.json"))
    sites.build_site(tmp_path)
    newest.unlink()
    cut = tmp_path / "site" / addresses.file(addresses.experiment("asgi-wsgi"))
    cut.write_bytes(cut.read_bytes()[:100])
    for folder in ("site", "elsewhere"):
        sites.build_site(tmp_path, folder)
    assert contents(tmp_path / "site") == contents(tmp_path / "elsewhere")
    assert not (tmp_path / "site" / "runs" / newest.name).exists()
    assert list(sites.dead_links(tmp_path / "site")) == []


def test_a_folder_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    precious = tmp_path / "site" / "data" / "thesis.txt"
    precious.parent.mkdir(parents=True)
    precious.write_text("years of work")
    with pytest.raises(UsageError, match="expected an empty folder, or a site"):
        sites.build_site(tmp_path)
    assert precious.read_text() == "years of work"
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="cannot be written"):
        sites.build_site(tmp_path, "file")


QUOTED: Final = re.compile(
    r'<b class="quoted [^>]*data-release="([^"]+)"[^>]*>'
    r"([\d.]+)(?: | |&nbsp;)(?:%|times) (more|fewer|less|the|longer|shorter)[^<]*</b>"
)
FINDING: Final = re.compile(
    r"(?<![\w.])([a-z][\w-]* \d[\w.]*)(?: with [\w-]+ [\d.]+)?"
    r" (?:needs|takes|serves|has a) ([\d.]+)(?: %| times) (more|fewer|less|longer|shorter)"
)
"""A release that does something: `fastapi 0.142.0 needs 20 % more`."""


def test_no_release_has_two_sizes(site: Path) -> None:
    """Lists, titles, pages, the search: one size each, wherever a release has one."""
    sizes: dict[str, set[tuple[str, str]]] = {}
    texts = [path.read_text("utf-8") for path in (*site.rglob("*.html"), site / "search.json")]
    for text in texts:
        actual = QUOTED.findall(text) + FINDING.findall(text.replace("&nbsp;", " "))
        for release, *size in actual:
            sizes.setdefault(release, set()).add((size[0], size[1]))
    assert {release: many for release, many in sizes.items() if len(many) > 1} == {}
    released = {path.parent.relative_to(site / "p") for path in site.glob("p/*/*/index.html")}
    assert {" ".join(path.parts) for path in released} == sizes.keys()
