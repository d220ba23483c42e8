"""Change records, the feed of them, and made-up histories."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import made_up
from servebench.core.errors import RecordError
from servebench.record import change as changes
from servebench.record.comparison import Verdict
from servebench.series import events
from servebench.series import table as history
from servebench.site import overview
from synthetic import change_record as a_record

ATOM = {"a": "http://www.w3.org/2005/Atom"}


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = changes.save(tmp_path, a_record())
    assert changes.read(path) == a_record()
    assert changes.save(tmp_path, a_record(status="closed", note="fixed in 2.8.8")) == path
    assert changes.read(path).status == "closed"
    assert changes.files(tmp_path) == [path]


def test_a_record_under_another_name_is_refused(tmp_path: Path) -> None:
    path = changes.save(tmp_path, a_record())
    with pytest.raises(RecordError, match="expected the id of a change record"):
        changes.read(path.rename(path.with_name("other.json")))


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "../x"},
        {"ratio": 1.04},
        {"low": math.inf},
        {"when": datetime(2026, 11, 20)},
        {"culprit": "granian"},
    ],
    ids=["id", "outside", "infinite", "zone", "culprit"],
)
def test_a_record_that_contradicts_itself_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        a_record(**wrong)


def test_the_feed_has_the_newest_change_first_in_words() -> None:
    newer = a_record(
        id="x", when=datetime(2026, 11, 21, tzinfo=UTC), ratio=0.9, low=0.89, high=0.91,
        verdict=Verdict.FASTER, culprit=None, status="closed",
    )  # fmt: skip
    feed = ET.fromstring(overview.atom([a_record(), newer], "https://example.org/bench/"))
    titles = [entry.findtext("a:title", namespaces=ATOM) for entry in feed.findall("a:entry", ATOM)]
    assert titles == [
        "a/b: faster, CPU/request −10 % (95 %: −11 % to −9.0 %) [closed]",
        "a/b: slower, CPU/request +3.1 % (95 %: +2.5 % to +3.7 %), since granian 2.8.7",
    ]
    assert feed.findtext("a:updated", namespaces=ATOM) == "2026-11-21T00:00:00Z"
    links = [link.get("href") for link in feed.findall("a:entry/a:link", ATOM)]
    assert links == [
        "https://example.org/bench/c/x/",
        "https://example.org/bench/c/20261120-granian-0/",
    ]
    assert "granian 2.8.6 → 2.8.7" in str(feed.findtext("a:entry[2]/a:summary", namespaces=ATOM))


def test_hostile_text_is_text_in_the_feed() -> None:
    feed = ET.fromstring(overview.atom([a_record(note="<img onerror=x>\x00\x1b]8;;")]))
    summary = str(feed.findtext("a:entry/a:summary", namespaces=ATOM))
    assert "<img onerror=x>\ufffd\ufffd]8;;" in summary


def test_an_empty_feed_is_a_feed() -> None:
    feed = ET.fromstring(overview.atom([]))
    assert feed.findtext("a:updated", namespaces=ATOM) == "1970-01-01T00:00:00Z"
    assert overview.atom([]) == overview.atom([])


def test_a_made_up_history_has_what_was_asked_for(tmp_path: Path) -> None:
    imagined = made_up.imagine(1.5, 130, 3)
    made_up.write(imagined, tmp_path)
    sources = made_up.read(tmp_path, tmp_path / "cache")
    assert sources.problems == ()
    (table,) = history.tables(sources.nights)
    assert len(list(history.series(table))) == 130
    assert len(table.nights) == len(imagined.times) < 548
    assert len(events.gaps(table)) >= 1
    assert {b.what for b in events.breaks(table)[imagined.cases[0]]} >= {"machine"}
    assert {"failed", "disturbed"} <= {history.STATES[code] for code in np.unique(table.status)}
    assert sorted(record.id for record in sources.changes) == sorted(
        record.id for record in made_up.records(imagined)
    )
    assert len(sources.changes) == len(imagined.planted) > 0


def test_a_planted_change_moves_the_series_by_its_factor() -> None:
    """On means of 15 nights on both sides the scatter of 1 % is 0.4 %: seen within 2 %."""
    imagined = made_up.imagine(1, 40, 6)
    (table,) = history.tables(made_up.generate(imagined))
    change = imagined.planted[0]
    row, column = table.place(imagined.cases[change.cases[0]], "server_cpu_per_request")
    near = {other.night for other in imagined.planted if other is not change} | {imagined.moved}
    before = slice(change.night - 15, change.night)
    after = slice(change.night, change.night + 15)
    assert not near & set(range(change.night - 15, change.night + 15)), "choose another seed"
    figures = np.log(table.mean[:, row, column])
    moved = math.exp(float(np.nanmean(figures[after]) - np.nanmean(figures[before])))
    assert moved == pytest.approx(change.factor, rel=0.02)
