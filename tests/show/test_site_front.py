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
from duetbench.core.model import Verdict
from duetbench.store import files
from duetbench.store.change import Change, Release, SeriesName
from observatory.show.site.pages import trends
from observatory.show.site.pages.front import endpoint_rows, headline_case
from site_builds import JSON, a_run

pytestmark = pytest.mark.long

SAID = "needs 3.1 % more CPU per request (2.5…3.7 %)"
METHOD = "A step compared with an anchor (points before it: 3, after it: 1), confirmed by 14 duets "
METHOD += "between the two stacks on the same machine."


def front(folder: Path) -> sites.Document:
    return sites.read(site_builds.build(folder) / "index.html")


def headline(folder: Path) -> str:
    """What stands in the largest type, and nothing else does."""
    html = (site_builds.build(folder) / "index.html").read_text("utf-8")
    _, *said = html.split('class="news">')
    document = sites.Document()
    document.feed("".join(one.partition("</p>")[0] for one in said))
    document.close()
    return re.sub(r" (?=[.,:)])|(?<=\() ", "", document.text)


def save(folder: Path, **fields: Any) -> Change:
    series = SeriesName(machine="m", case=JSON, metric="server_cpu_per_request")
    record = synthetic.change_record(**{"series": series, **fields})
    files.save(folder / "results", record)
    return record


def nights(folder: Path, number: int) -> None:
    for day in range(1, number + 1):
        site_builds.save_run(folder / "results", a_run(day))


def test_without_any_data_it_says_how_to_get_some(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    assert headline(tmp_path) == "Nothing has been measured yet."
    assert "duetbench run --profile nightly" in front(tmp_path).text


def test_nights_without_a_change_are_counted(tmp_path: Path) -> None:
    nights(tmp_path, 3)
    assert headline(tmp_path) == "No change was confirmed in 3 nights since 1 Nov 2026."


def test_the_last_change_has_its_day_release_and_size(tmp_path: Path) -> None:
    nights(tmp_path, 2)
    save(tmp_path)
    assert (
        headline(tmp_path)
        == f"Last change, 20 Nov 2026, granian 2.8.6 → 2.8.7: A JSON response from FastAPI {SAID}."
    )
    page = front(tmp_path)
    assert "On Granian, Python 3.14, 128 connections. No other change is open." in page.text
    assert "Worst open change" not in page.text
    assert "./c/20261120-granian-0/" in page.links
    assert "No change was confirmed" not in page.text


def test_the_last_change_comes_before_the_worst_open_one(tmp_path: Path) -> None:
    nights(tmp_path, 1)
    worst = save(tmp_path)
    newer = datetime(2026, 11, 22, 3, tzinfo=UTC)
    gain = {"ratio": 0.96, "low": 0.95, "high": 0.97, "verdict": Verdict.FASTER}
    culprit = Release(package="fastapi", version="0.163.2", previous="0.163.1")
    last = save(tmp_path, id="gain", when=newer, status="closed", culprit=culprit, **gain)
    said = "needs 4.0 % less CPU per request (3.0…5.0 %)"
    assert headline(tmp_path) == (
        f"Last change, 22 Nov 2026, fastapi 0.163.1 → 0.163.2: A JSON response from FastAPI {said}."
    )
    page = front(tmp_path)
    worst_open = "Worst change not undone ▼ slower Since 20 Nov 2026 : granian 2.8.6 → 2.8.7 ."
    assert f"{worst_open} A JSON response from FastAPI {SAID}." in page.text
    assert {f"./c/{record.id}/" for record in (last, worst)} <= set(page.links)
    save(tmp_path, status="closed")
    assert "No change is open." in front(tmp_path).text
    assert "Worst open change" not in front(tmp_path).text


def test_of_changes_of_one_day_the_worst_leads(tmp_path: Path) -> None:
    """And the last one that is the worst open one, too, is told once."""
    nights(tmp_path, 1)
    for name, ratio in (("a", 1.02), ("b", 1.05), ("c", 1.03)):
        save(tmp_path, id=name, ratio=ratio, low=ratio - 0.01, high=ratio + 0.01)
    assert "needs 5.0 % more CPU per request" in headline(tmp_path)
    page = front(tmp_path)
    told = "2 more changes have this date. It is the worst of 3 open changes ."
    assert told in page.text
    assert "Worst open change" not in page.text


def test_one_night_is_no_picture_and_two_are(tmp_path: Path) -> None:
    for number, drawn in ((1, False), (2, True)):
        nights(tmp_path, number)
        page = front(tmp_path)
        assert any("data-trend" in attrs for _, attrs in page.tags) == drawn
        assert ("A chart needs two nights." in page.text) != drawn
        assert f"{number} Nov 2026, 03:00 UTC : 1 of 1 case measured" in page.text


def test_a_disturbed_case_is_measured_and_says_what_disturbed_it(tmp_path: Path) -> None:
    """Its launches are valid; only a case without figures is not measured."""
    steady, failed = site_builds.steady("a/b/py3.14"), site_builds.failed("c/d/py3.14")
    run = a_run(1, steady, site_builds.disturbed(JSON), failed)
    site_builds.save_run(tmp_path / "results", run)
    page = front(tmp_path)
    assert "2 of 3 cases measured, 1 disturbed ( host_noise )," in page.text
    assert "./method/#host_noise" in page.links


def test_the_picture_is_of_the_newest_change_unless_its_series_is_short(tmp_path: Path) -> None:
    """More nights of absolute figures do not count; two nights are enough beside four, not five."""
    results = tmp_path / "results"
    for day in range(1, 6):
        site_builds.save_run(results, a_run(day, site_builds.steady("asgi-wsgi/long/py3.14")))

    def chosen(*days: int, cases: tuple[str, ...] = (site_builds.FREE,)) -> str:
        for day in days:
            points = (anchored_files.of(name, anchored_files.ratio(1.0)) for name in cases)
            files.save(results, anchored_files.a_file(day, *points, machine="m"))
        site = site_builds.gather_site(tmp_path)
        return headline_case(site.cases(), next(iter(site.changes), None))

    both = (site_builds.FREE, JSON)
    assert chosen(1, cases=(*both, "asgi-wsgi/short/py3.14")) == "asgi-wsgi/long/py3.14"
    assert chosen(2, cases=both) == site_builds.FREE
    save(tmp_path)
    assert chosen() == chosen(3, 4) == JSON
    assert chosen(5) == site_builds.FREE
    assert headline_case({}, None) == ""


def test_headline_and_chart_agree_or_the_page_says_that_they_do_not(tmp_path: Path) -> None:
    """One change has the figure of the charted case, if it moved that: 2.1 %, not 3.1 %."""
    for day in (1, 2):
        points = anchored_files.of(JSON, anchored_files.ratio(1.0))
        files.save(tmp_path / "results", anchored_files.a_file(day, points, machine="m"))
    evidence = site_builds.make_comparison(JSON)
    files.save(tmp_path / "results", evidence)
    own = save(tmp_path).series
    free = own.model_copy(update={"case": site_builds.FREE})
    other = own.model_copy(update={"case": "gil-endpoints/sync_cpu/py3.14"})
    for series, others, size, marks in (
        (own, (), "3.1 %", r'\u25bc +3.1 %"'),
        (free, (own,), "2.1 %", r'\u25bc +2.1 %"'),
        (free, (), "3.1 %", r'\u25bc +3.1 % on 3.14t"'),
        (other, (), "3.1 %", ""),
    ):
        save(tmp_path, series=series, others=others, evidence=evidence.id)
        assert f"needs {size} more CPU" in headline(tmp_path)
        page = front(tmp_path).text
        assert f'"short": "{marks}' in page or not marks
        assert "No other change is open." in page
        assert ("The chart shows another series." in page) is (not marks)


def test_it_says_what_to_type_as_the_readme_does(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    said = re.search(
        r"(uvx .+?) duetbench (compare \S+ --app \S+ --path \S+)", front(tmp_path).text
    )
    assert said is not None
    readme = (PROJECT / "README.md").read_text("utf-8")
    assert f"$ alias duetbench='{said[1]} duetbench'" in readme
    assert f"$ duetbench {said[2]} " in readme


def test_a_shared_link_has_a_card_of_words(tmp_path: Path) -> None:
    nights(tmp_path, 1)
    record = save(tmp_path, method=METHOD)
    page = sites.read(site_builds.build(tmp_path) / "c" / record.id / "index.html")
    card = {tag["property"]: tag["content"] for _, tag in page.tags if "property" in tag}
    assert card["og:title"] == f"A JSON response from FastAPI {SAID}"
    assert "+3.1 %, 95 % interval +2.5…+3.7 %" in card["og:description"]
    sure = trends.change_card(site_builds.gather_site(tmp_path), record).sure
    assert sure == "95 % interval +2.5…+3.7 %, confirmed by 14 duets on m"


def test_rows_begin_with_what_moved_last(tmp_path: Path) -> None:
    names = (JSON, "gil-endpoints/sync_cpu/py3.14")
    site_builds.save_run(tmp_path / "results", a_run(1, *map(site_builds.steady, names)))
    for moved in names:
        metric = "server_cpu_per_request"
        save(tmp_path, series=SeriesName(machine="m", case=moved, metric=metric))
        site = site_builds.gather_site(tmp_path)
        rows = [name.id for name, *_ in endpoint_rows(site, site.cases())]
        assert sorted(rows) == sorted(names)
        assert rows[0] == moved
