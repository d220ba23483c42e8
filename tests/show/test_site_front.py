"""The first page: the news in one sentence, whatever there is to tell, and where all stands."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import site_builds
import sites
import synthetic
from duetbench.store import files
from duetbench.store.change import Change, SeriesName
from site_builds import JSON, a_run

SAID = "needs 3.10 % more CPU per request (2.50…3.70 %)"


def front(folder: Path) -> sites.Document:
    return sites.read(site_builds.built(folder) / "index.html")


def headline(folder: Path) -> str:
    """What stands in the largest type, and nothing else does."""
    html = (site_builds.built(folder) / "index.html").read_text("utf-8")
    _, *said = html.split('class="news">')
    document = sites.Document()
    document.feed("".join(one.partition("</p>")[0] for one in said))
    document.close()
    return re.sub(r" (?=[.,)])|(?<=\() ", "", document.text)


def save(folder: Path, **fields: Any) -> Change:
    series = SeriesName(machine="m", case=JSON, metric="server_cpu_per_request")
    record = synthetic.change_record(**{"series": series, **fields})
    files.save(folder / "results", record)
    return record


def nights(folder: Path, number: int) -> None:
    for day in range(1, number + 1):
        site_builds.stored(folder / "results", a_run(day))


def test_without_any_data_it_says_how_to_get_some(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    assert headline(tmp_path) == "Nothing has been measured yet."
    assert "duetbench run --profile nightly" in front(tmp_path).text


def test_nights_without_a_change_are_counted(tmp_path: Path) -> None:
    nights(tmp_path, 3)
    assert headline(tmp_path) == "No change was confirmed in 3 nights since 1 Nov 2026."


def test_an_open_change_names_release_day_size_and_state(tmp_path: Path) -> None:
    nights(tmp_path, 2)
    save(tmp_path)
    assert (
        headline(tmp_path)
        == f"granian 2.8.6 → 2.8.7 (since 20 Nov 2026): FastAPI's JSON {SAID}, open."
    )
    page = front(tmp_path)
    assert "On Granian, Python 3.14, 128 connections." in page.text
    assert "./c/20261120-granian-0/" in page.links
    assert "No change was confirmed" not in page.text


def test_the_worst_open_change_comes_before_newer_ones(tmp_path: Path) -> None:
    nights(tmp_path, 1)
    save(tmp_path)
    newer = datetime(2026, 11, 22, 3, tzinfo=UTC)
    save(tmp_path, id="small", when=newer, ratio=1.01, low=1.008, high=1.012, culprit=None)
    save(tmp_path, id="over", when=newer, ratio=1.5, low=1.4, high=1.6, status="closed")
    assert headline(tmp_path).startswith("granian 2.8.6 → 2.8.7 (since 20 Nov 2026)")
    assert "2 changes are open ; this is the worst" in front(tmp_path).text
