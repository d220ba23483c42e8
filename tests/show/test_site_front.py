"""The first page: the news in one sentence, whatever there is to tell, and where all stands."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import anchored_files
import site_builds
import sites
import synthetic
from bench import PROJECT
from duetbench.core.change import Release
from duetbench.core.model import Verdict
from duetbench.host import files
from observatory.show.site.pages import trends
from observatory.show.site.pages.front import headline_case
from observatory.show.site.pages.site import Site
from observatory.store.change import Change, SeriesName
from observatory.trend.reading import Sources
from repos import git
from site_builds import JSON

pytestmark = pytest.mark.long


def front(folder: Path) -> sites.Document:
    return sites.read(site_builds.build(folder) / "index.html")


def save(folder: Path, **fields: Any) -> Change:
    series = SeriesName(machine="m", case=JSON, metric="server_cpu_per_request")
    record = synthetic.change_record(**{"series": series, **fields})
    files.save(folder / "results", record)
    return record


def nights(folder: Path, number: int) -> None:
    for day in range(1, number + 1):
        points = anchored_files.of(JSON, anchored_files.ratio(1.0))
        files.save(folder / "results", anchored_files.a_file(day, points))


def cards(folder: Path) -> list[str]:
    """The three figures that the page begins with, in words."""
    html = (site_builds.build(folder) / "index.html").read_text("utf-8")
    texts = []
    for part in html.split('<article class="card">')[1:]:
        document = sites.Document()
        document.feed(part.partition("</article>")[0])
        texts.append(re.sub(r" (?=[.,:])", "", document.text))
    return texts


def test_newest_worst_and_best_are_three_releases(tmp_path: Path) -> None:
    nights(tmp_path, 1)
    save(tmp_path)
    newer = datetime(2026, 11, 22, 3, tzinfo=UTC)
    gain = {"ratio": 0.96, "low": 0.95, "high": 0.97, "verdict": Verdict.BETTER, "status": "closed"}
    best = Release(package="uvicorn", version="0.50.0", previous="0.49.0")
    save(tmp_path, id="best", culprit=best, **gain | {"ratio": 0.9, "low": 0.89, "high": 0.91})
    culprit = Release(package="fastapi", version="0.163.2", previous="0.163.1")
    save(tmp_path, id="gain", when=newer, culprit=culprit, **gain)
    assert [text.partition(",")[0] for text in cards(tmp_path) if "Worst" not in text] == [
        "Newest 4.0 % less CPU (3.0…5.0 %) fastapi 0.163.2",
        "Best for requests this year 10 % less CPU (9…11 %) uvicorn 0.50.0",
    ]
    (worst,) = (text for text in cards(tmp_path) if "Worst" in text)
    assert worst.startswith("Worst, still there 3.1 % more CPU (2.5…3.7 %) granian 2.8.7,")
    save(tmp_path, status="closed")
    assert "No slowdowns still there" in front(tmp_path).text


def test_a_release_of_several_changes_has_one_size(tmp_path: Path) -> None:
    """That with the narrowest interval, relative to the size: 2 of 105."""
    nights(tmp_path, 1)
    for name, ratio in (("a", 1.02), ("b", 1.05), ("c", 1.03)):
        save(tmp_path, id=name, ratio=ratio, low=ratio - 0.01, high=ratio + 0.01)
    (card,) = cards(tmp_path)
    assert card.startswith("Newest 5.0 % more CPU (4.0…6.0 %) granian 2.8.7")
    for name in "abc":
        html = (tmp_path / "site" / "c" / name / "index.html").read_text("utf-8")
        assert "<h1>granian 2.8.7 needs 5.0 % more CPU (4.0…6.0 %) for a JSON" in html
        assert 'http-equiv="refresh" content="0; url=../../p/granian/2.8.7/"' in html


def test_one_night_is_no_picture_and_two_are(tmp_path: Path) -> None:
    for number, drawn in ((1, False), (2, True)):
        nights(tmp_path, number)
        page = front(tmp_path)
        assert any("data-trend" in attrs for _, attrs in page.tags) == drawn
        assert ("A chart needs two nights." in page.text) != drawn
        assert f"Last night {number} Nov 2026" in page.text
    assert "No change was confirmed in 2 nights since 1 Nov 2026 ." in page.text


def test_the_picture_is_of_requests_against_an_anchor_with_most_nights(tmp_path: Path) -> None:
    """Of equal cases it is the one that moved."""
    results = tmp_path / "results"

    def chosen(*days: int, cases: tuple[str, ...] = (site_builds.FREE,)) -> str:
        for day in days:
            points = (anchored_files.of(name, anchored_files.ratio(1.0)) for name in cases)
            files.save(results, anchored_files.a_file(day, *points, machine="m"))
        site = site_builds.gather_site(tmp_path)
        return headline_case(site.cases, site.changes_by_case)

    both = (site_builds.FREE, JSON)
    assert chosen(1, cases=(*both, "asgi-wsgi/short/py3.14")) == ""
    assert chosen(2, cases=both) == site_builds.FREE
    save(tmp_path)
    assert chosen() == JSON
    assert chosen(3) == site_builds.FREE
    assert headline_case({}, {}) == ""


def test_the_year_is_a_finding_with_its_interval(tmp_path: Path) -> None:
    """Errors of 0.02 with t 2.228 are 0.0446 each, 0.0630 together: 1.12 is 1.0516 to 1.1928."""
    for day, ratio in ((1, 1.0), (2, 1.12)):
        points = anchored_files.of(JSON, anchored_files.ratio(ratio, se=0.02))
        files.save(tmp_path / "results", anchored_files.a_file(day, points, machine="m"))
    page = front(tmp_path).text
    assert "A JSON response from FastAPI needs 12 % more CPU than in Nov 2026" in page
    assert "Compared with 1 Nov 2026: +12 % (5…19 %)" in page


def test_it_says_what_to_type_as_the_readme_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the repository is not known, no address is made up."""
    (tmp_path / "results").mkdir()
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    assert "duetbench compare HEAD~1 \\ --app" in front(tmp_path).text
    assert "uvx" not in front(tmp_path).text
    monkeypatch.setenv("GITHUB_REPOSITORY", "OWNER/duetbench")
    said = re.search(
        r"(uvx .+?) \\ duetbench (compare \S+) \\ (--app \S+ --path \S+)", front(tmp_path).text
    )
    assert said is not None
    readme = (PROJECT / "README.md").read_text("utf-8")
    assert said[1] == "uvx --from git+https://github.com/OWNER/duetbench"
    assert f"$ duetbench {said[2]} {said[3]} " in readme


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://user:secret@forge.example/a/b.git", "https://forge.example/a/b"),
        ("git@forge.example:a/b.git", "https://forge.example/a/b"),
        ("/srv/a/b.git", ""),
    ],
)
def test_the_repository_is_known_by_its_remote(
    remote: str, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "remote", "add", "origin", remote)
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    assert Site(tmp_path, tmp_path, Sources()).repository == address
    monkeypatch.setenv("GITHUB_REPOSITORY", "c/d")
    assert Site(tmp_path, tmp_path, Sources()).repository == "https://github.com/c/d"


def test_the_readme_quotes_the_sizes_of_the_site(reference_site: Site) -> None:
    """The year of its picture, and the release that did most of it."""
    readme = " ".join((PROJECT / "README.md").read_text("utf-8").split())
    ((package, version, size),) = re.findall(r"; (\w+) ([\d.]+) alone added (\d+) %", readme)
    assert round(100 * reference_site.quotes[package, version].ratio.estimate - 100) == int(size)
    tables = reference_site.cases
    case = headline_case(tables, reference_site.changes_by_case)
    assert case
    finding = trends.year(reference_site, case, tables[case][0])[1]
    assert str(finding).partition(" than ")[0] + " than a year ago" in readme
