"""Changes: records, pages, the feed, and made-up histories of them."""

import json
import math
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import site_builds
import synthetic
from duetbench.core.model import Verdict
from duetbench.store import files
from duetbench.store.change import Change, Release, SeriesName, Share, StackState
from duetbench.store.comparison import PackageChange
from observatory.show import changes
from observatory.show.site.pages import evidence as pages
from observatory.trend import quotes

ATOM = {"a": "http://www.w3.org/2005/Atom"}


def a_record(**changed: Any) -> Change:
    packages = (
        PackageChange(stack="current", package="anyio", base="4.1", head="4.2"),
        PackageChange(stack="current", package="granian", base="2.8.6", head="2.8.7"),
    )
    return synthetic.change_record(**{"packages": packages, **changed})


def test_open_changes_come_worst_first(tmp_path: Path) -> None:
    """Slower before faster; 1 % of CPU is five floors of 0.2 %, 4 % of a p99 are two of 2 %."""
    tail = SeriesName(machine="m", case="a/b", metric="response_p99")
    gain = {"ratio": 0.5, "low": 0.4, "high": 0.6, "verdict": Verdict.BETTER}
    records = (
        a_record(id="gain", **gain),
        a_record(id="tail", series=tail, ratio=1.04, low=1.03, high=1.05),
        a_record(id="cpu", ratio=1.01, low=1.005, high=1.015),
        a_record(id="old", status="closed"),
    )
    for record in records:
        files.save(tmp_path / "results", record)
    site = site_builds.gather_site(tmp_path)
    assert [record.id for record in site.open_changes] == ["cpu", "tail", "gain"]
    assert [record.id for record in site.closed_changes] == ["old"]


STATES = {
    side: StackState(stack="current", digest=digest, as_of=f"2026-11-{day}")
    for side, digest, day in (("base", "0", 18), ("head", "1", 19))
}
BOTH = "compare --base as-of=2026-11-18 --head as-of=2026-11-19"
WITH = "compare --head granian==2.8.6 --select a/b"


def of_series(case: str, metric: str) -> dict[str, Any]:
    series = SeriesName(machine="m", case=case, metric=metric)
    return {"series": series, "culprit": None, **STATES}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (STATES, [f"{BOTH} --select a/b", WITH]),
        (of_series("a'; rm x", "throughput"), [f"{BOTH} --select 'a'\"'\"'; rm x'"]),
        (of_series("inprocess/x", "seconds"), [BOTH]),
        ({}, [WITH]),
        ({"culprit": None}, []),
    ],
    ids=["recorded", "quoted", "in-process", "no-day", "nothing-known"],
)
def test_the_commands_measure_both_sides_again(
    changed: dict[str, Any], expected: list[str]
) -> None:
    found = [command for _, command in changes.commands(a_record(**changed))]
    assert found == [f"duetbench {line} --profile nightly" for line in expected]


def test_a_page_holds_the_evidence_and_the_raw_record(tmp_path: Path) -> None:
    elsewhere = {"note": "fixed in 2.8.8", "status": "closed", "confirmed_on": "beta-4c-000002"}
    files.save(tmp_path / "results", a_record(**elsewhere))
    site = site_builds.build(tmp_path)
    html = (site / "p" / "granian" / "2.8.7" / "index.html").read_text("utf-8")
    for told in ("+3.1 %", "+2.5…+3.7 %", "Ten duets.", "fixed in 2.8.8", "Closed."):
        assert told in html
    assert html.index(">granian<") < html.index(">anyio<")
    # Its size is of the machine that confirmed it, which is not where it was seen.
    seen = a_record().series.machine
    text = re.sub(r"<[^>]+>", "", html)
    assert "(95&nbsp;% interval +2.5…+3.7 %) on beta-4c-000002" in text
    assert re.search(rf"Machine\s*{seen}", text)
    assert re.search(r"with this size, on\s*beta-4c-000002", text)
    assert 'class="whisker"' in html
    assert "<h1>granian 2.8.7 needs 3.1&nbsp;% more CPU for a/b</h1>" in html
    story = ("How sure: 1 measurement", "In the nights before and after")
    assert tuple(re.findall("<h2[^>]*>(.*?)</h2>", html)) == story
    assert "This site does not have the nights" in html
    raw = json.loads((site / "c" / "20261120-granian-0.json").read_bytes())
    assert Change.model_validate(raw).ratio == 1.031
    listed = (site / "c" / "index.html").read_text("utf-8")
    assert "No change is open." in listed
    assert 'href="../p/granian/2.8.7/"' in listed


def test_only_what_a_search_tried_is_innocent(tmp_path: Path) -> None:
    narrowed = "The cause is among granian: the duets did not decide."
    release = Release(package="granian", version="2.8.7", previous="2.8.6")
    share = Share(releases=(release,), ratio=1.03, low=1.02, high=1.04, duets=8)
    wanted: dict[str, tuple[dict[str, Any], list[str]]] = {
        "found": ({}, ["yes", "no"]),
        "unknown": ({"culprit": None}, ["not tested", "not tested"]),
        "narrowed": ({"culprit": None, "note": narrowed}, ["possible", "no"]),
        "shared": ({"shares": (share,)}, ["yes", "no"]),
    }
    for name, (changed, blamed) in wanted.items():
        files.save(tmp_path / name / "results", a_record(id=name, **changed))
        site = site_builds.build(tmp_path / name)
        known = name in {"found", "shared"}
        html = (site / ("p/granian/2.8.7" if known else f"c/{name}") / "index.html").read_text()
        assert known or f"duetbench why {name}" in html
        rows = dict(re.findall(r">(granian|anyio)(?:</a>)?</th>.*<td[^>]*>(.*)</td></tr>", html))
        found = [re.sub("<[^>]*>", "", rows[package]) for package in ("granian", "anyio")]
        assert found == blamed, name
    assert "granian 2.8.6 → 2.8.7: +3.0 % (+2.0…+4.0 %, 8 duets) alone." in html


@pytest.mark.parametrize(
    "wrong",
    [{"id": "../x"}, {"ratio": 1.04}, {"low": math.inf}, {"when": datetime(2026, 11, 20)},
     {"culprit": "granian"}],
    ids=["id", "outside", "infinite", "zone", "culprit"],
)  # fmt: skip
def test_a_record_that_contradicts_itself_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        a_record(**wrong)


def test_the_feed_has_the_newest_change_first_in_words() -> None:
    newer = a_record(
        id="x", when=datetime(2026, 11, 21, tzinfo=UTC), ratio=0.9, low=0.89, high=0.91,
        verdict=Verdict.BETTER, culprit=None, status="closed",
    )  # fmt: skip
    records = [newer, a_record()]
    known = quotes.quotes({}, records)
    found = ET.fromstring(pages.feed(records, "https://example.org/bench/", known))
    titles = [
        entry.findtext("a:title", namespaces=ATOM) for entry in found.findall("a:entry", ATOM)
    ]
    assert titles == [
        "a/b needs 10 % less CPU per request (9…11 %) [closed]",
        "granian 2.8.7 needs 3.1 % more CPU (2.5…3.7 %) for a/b",
    ]
    assert found.findtext("a:updated", namespaces=ATOM) == "2026-11-21T00:00:00Z"
    links = [link.get("href") for link in found.findall("a:entry/a:link", ATOM)]
    assert links == [
        "https://example.org/bench/c/x/",
        "https://example.org/bench/c/20261120-granian-0/",
    ]
    assert "granian 2.8.6 → 2.8.7" in str(found.findtext("a:entry[2]/a:summary", namespaces=ATOM))


def test_hostile_text_is_text_in_the_feed() -> None:
    found = ET.fromstring(pages.feed([a_record(note="<img onerror=x>\x00\x1b]8;;")]))
    summary = str(found.findtext("a:entry/a:summary", namespaces=ATOM))
    assert "<img onerror=x>\ufffd\ufffd]8;;" in summary
