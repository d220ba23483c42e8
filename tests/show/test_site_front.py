"""The first page: the news in one sentence, whatever there is to tell, and where all stands."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import site_builds
import sites
import synthetic
from duetbench.store import change
from duetbench.store.change import Change, SeriesName
from site_builds import FREE, JSON, a_run, disturbed, failed, steady

UVICORN = f"{JSON}/uvicorn"
NOTHING = "No change was confirmed in {} since 1 Nov 2026."
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
    change.save(folder / "results", record)
    return record


def nights(folder: Path, number: int) -> None:
    for day in range(1, number + 1):
        site_builds.stored(folder / "results", a_run(day))


def test_without_any_data_it_says_how_to_get_some(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    assert headline(tmp_path) == "Nothing has been measured yet."
    assert "duetbench run --profile nightly" in front(tmp_path).text


@pytest.mark.parametrize(("number", "said"), [(1, "1 night"), (3, "3 nights")])
def test_nights_without_a_change_are_counted(number: int, said: str, tmp_path: Path) -> None:
    nights(tmp_path, number)
    assert headline(tmp_path) == NOTHING.format(said)


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


def test_a_closed_change_is_said_to_be_closed_and_an_unknown_cause_unknown(tmp_path: Path) -> None:
    nights(tmp_path, 1)
    save(tmp_path, status="closed", culprit=None)
    assert headline(tmp_path) == (
        f"A release not known yet (since 20 Nov 2026): FastAPI's JSON {SAID}, closed."
    )
    assert "No change is open." in front(tmp_path).text


def test_a_row_is_an_endpoint_with_its_figure_its_sketch_and_its_last_change(
    tmp_path: Path,
) -> None:
    cpu = {"server_cpu_per_request": 1e-4}
    for day in (1, 2):
        run = a_run(day, steady(JSON), steady(UVICORN), disturbed(FREE), steady("gone/by/now"))
        results = tuple(
            result.model_copy(
                update={
                    "launches": tuple(
                        launch.model_copy(update={"metrics": launch.metrics | cpu})
                        for launch in result.launches
                    )
                }
            )
            for result in run.results
        )
        site_builds.stored(tmp_path / "results", run.model_copy(update={"results": results}))
    save(tmp_path, status="closed")
    html = (site_builds.built(tmp_path) / "index.html").read_text("utf-8")
    table = html.partition('aria-label="Figures of every endpoint"')[2].partition("</table>")[0]
    first, third, second = [
        re.sub(r"<[^>]+>|\s+", " ", row).split()
        for row in re.findall("<tr><th.*?</tr>", table, re.DOTALL)
    ][1:]
    assert " ".join(first).endswith(
        "Granian, Python 3.14, 128 connections 100 µs 20 Nov 2026 ▼ slower +3.10 % "
        "(+2.50…+3.70 %), closed"
    )
    assert " ".join(second).endswith("Python 3.14t (free-threaded), 128 connections — none")
    assert " ".join(third).endswith("Uvicorn, Python 3.14, 128 connections 100 µs none")
    assert table.count('class="spark"') == 2
    assert f'href="./b/{JSON}/"' in table
    assert "gone" not in table


def test_the_newest_night_is_told_in_a_line(tmp_path: Path) -> None:
    results = tmp_path / "results"
    site_builds.stored(results, a_run(1, steady(JSON), steady(UVICORN), steady("a/gone")))
    found = failed("a/new")
    site_builds.stored(results, a_run(2, steady(JSON), disturbed(UVICORN), found))
    assert (
        f"Newest night, 2 Nov 2026, on {synthetic.MACHINE.id}: of 4 cases 1 measured, 1 disturbed "
        "and not judged, 1 failed, 1 missing; no release came in."
    ) in front(tmp_path).text
