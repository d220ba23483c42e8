"""The first page: the news in one sentence, whatever there is to tell, and where all stands."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import site_builds
import sites
import synthetic
from duetbench.store import change, comparison_store
from duetbench.store.change import Change, SeriesName
from site_builds import FREE, JSON, a_run, disturbed, scattered, steady

UVICORN = f"{JSON}/uvicorn"
NOTHING = "No change was confirmed in {} since 1 Nov 2026."
SAID = "needs 3.10 % more CPU per request (2.50…3.70 %)"


def front(folder: Path) -> sites.Document:
    return sites.read(site_builds.built(folder) / "index.html")


def told(folder: Path) -> str:
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
    assert told(tmp_path) == "Nothing has been measured yet."
    assert "duetbench run --profile nightly" in front(tmp_path).text


@pytest.mark.parametrize(("number", "said"), [(1, "1 night"), (3, "3 nights")])
def test_nights_without_a_change_are_counted(number: int, said: str, tmp_path: Path) -> None:
    nights(tmp_path, number)
    assert told(tmp_path) == NOTHING.format(said)


def test_without_a_change_the_newest_comparison_speaks(tmp_path: Path) -> None:
    """Its size, its interval and its page; that nights confirmed nothing is said beside it."""
    nights(tmp_path, 2)
    made = site_builds.compared(JSON)
    comparison_store.save(made, tmp_path / "results" / comparison_store.FOLDER)
    said = told(tmp_path)
    assert said.startswith(f"Main → {made.head.label} (")
    assert said.endswith(
        "FastAPI's JSON needs 10.0 % more memory (9.00…11.0 %), 1 package changed."
    )
    page = front(tmp_path)
    assert f"./cmp/{made.id}/" in page.links
    assert NOTHING.format("2 nights").removesuffix(".") in page.text


def test_a_measured_release_comes_before_comparisons_and_after_changes(tmp_path: Path) -> None:
    """20 % more, and which release it was measured over: the one between was not measured."""
    nights(tmp_path, 2)
    site_builds.released(tmp_path / "results")
    comparison_store.save(
        site_builds.compared(JSON), tmp_path / "results" / comparison_store.FOLDER
    )
    said = told(tmp_path)
    assert said.startswith("fastapi 0.11.0 (15 Oct 2026): FastAPI's JSON needs 20.0 % more CPU")
    assert said.endswith("(18.9…21.1 %), measured over 0.10.0, alone.")
    assert "./p/fastapi/0.11.0/" in front(tmp_path).links
    save(tmp_path)
    assert told(tmp_path).startswith("granian 2.8.6 → 2.8.7")


def test_an_open_change_names_release_day_size_and_state(tmp_path: Path) -> None:
    nights(tmp_path, 2)
    save(tmp_path)
    assert (
        told(tmp_path) == f"granian 2.8.6 → 2.8.7 (since 20 Nov 2026): FastAPI's JSON {SAID}, open."
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
    assert told(tmp_path).startswith("granian 2.8.6 → 2.8.7 (since 20 Nov 2026)")
    assert "2 changes are open ; this is the worst" in front(tmp_path).text


def test_a_closed_change_is_said_to_be_closed_and_an_unknown_cause_unknown(tmp_path: Path) -> None:
    nights(tmp_path, 1)
    save(tmp_path, status="closed", culprit=None)
    assert told(tmp_path) == (
        f"A release not known yet (since 20 Nov 2026): FastAPI's JSON {SAID}, closed."
    )
    assert "No change is open." in front(tmp_path).text


def test_old_data_can_be_told_from_new_data(tmp_path: Path) -> None:
    """What day it is, the reader's browser knows; without it, the reader is asked to look."""
    nights(tmp_path, 1)
    page = front(tmp_path)
    (age,) = [attrs for _, attrs in page.tags if attrs.get("class") == "age"]
    assert (age["data-since"], age["data-stale"]) == ("2026-11-01T03:00:00Z", "259200")
    assert "compare its date with today" in page.text


def test_the_table_has_one_machine_and_says_what_figures_rest_on(tmp_path: Path) -> None:
    run = a_run(
        1,
        scattered(JSON, 4900.0, 5000.0, 5100.0),
        disturbed(FREE),
        steady(UVICORN),
        steady("gone/by/now"),
    )
    cpu = {"server_cpu_per_request": 1e-4, "pss_steady": 8e7}
    results = tuple(
        result.model_copy(
            update={
                "launches": tuple(
                    one.model_copy(update={"metrics": one.metrics | cpu}) for one in result.launches
                )
            }
        )
        for result in run.results
    )
    site_builds.stored(tmp_path / "results", run.model_copy(update={"results": results}))
    html = (site_builds.built(tmp_path) / "index.html").read_text("utf-8")
    table = html.partition('<table class="wide matrix">')[2].partition("</table>")[0]
    document = sites.Document()
    document.feed(table)
    assert "Python 3.14 Python 3.14t (free-threaded)" in document.text
    assert "FastAPI's JSON Granian, 128 connections 100 µs" in document.text
    assert "80.0 MB" in document.text
    assert "Uvicorn, 128 connections" in document.text
    assert "— disturbed — disturbed" in document.text
    assert "gone" not in table
    assert "not measured" in document.text  # Uvicorn without the GIL
    assert f"./b/{JSON}/" in document.links
    assert "./b/asgi-wsgi/asgi-json/" in document.links
