"""Changes and their attributions: records, words, pages, the feed."""

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
from attributing import CHECK, SEND, attribution, row
from duetbench.core.change import Release
from duetbench.core.comparison import Instructions, PackageChange
from duetbench.core.model import Verdict
from duetbench.host import files
from duetbench.report.attribution import AttributionText
from observatory.show import quoting
from observatory.show.quoting import counted
from observatory.show.site.pages import front as pages
from observatory.store.change import Change, SeriesName, StackState
from observatory.trend import quotes

ATOM = {"a": "http://www.w3.org/2005/Atom"}


def a_record(**changed: Any) -> Change:
    packages = (
        PackageChange(stack="current", package="anyio", base="4.1", head="4.2"),
        PackageChange(stack="current", package="granian", base="2.8.6", head="2.8.7"),
    )
    return synthetic.change_record(**{"packages": packages, **changed})


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
        ({}, [WITH]),
        ({"culprit": None}, []),
    ],
    ids=["recorded", "quoted", "no-day", "nothing-known"],
)
def test_the_commands_measure_both_sides_again(
    changed: dict[str, Any], expected: list[str]
) -> None:
    found = [command for _, command in quoting.commands(a_record(**changed))]
    assert found == [f"observatory {line} --profile nightly --why" for line in expected]


def test_a_page_holds_the_evidence_and_the_raw_record(tmp_path: Path) -> None:
    elsewhere = {"note": "fixed in 2.8.8", "status": "closed", "confirmed_on": "beta-4c-000002"}
    files.save(tmp_path / "results", a_record(**elsewhere))
    site = site_builds.build(tmp_path)
    html = (site / "p" / "granian" / "2.8.7" / "index.html").read_text("utf-8")
    for told in ("+3.1 %", "+2.5…+3.7 %", "Ten duets.", "fixed in 2.8.8", "Closed."):
        assert told in html
    assert html.index("granian 2.8.6 → 2.8.7") < html.index("anyio 4.1 → 4.2")
    # Its size is of the machine that confirmed it, which is not where it was seen.
    seen = a_record().series.machine
    text = re.sub(r"<[^>]+>", "", html)
    assert "(95&nbsp;% interval +2.5…+3.7 %) on beta-4c-000002" in text
    assert f"on {seen}" in text
    assert 'class="whisker"' in html
    assert "<h1>granian 2.8.7 needs 3.1&nbsp;% more CPU for a/b</h1>" in html
    story = ("How sure: 1 measurement", "In the nights before and after")
    assert tuple(re.findall("<h2[^>]*>(.*?)</h2>", html)) == story
    raw = json.loads((site / "c" / "20261120-granian-0.json").read_bytes())
    assert Change.model_validate(raw).ratio == 1.031
    for page in ("c/index.html", "c/20261120-granian-0/index.html"):
        assert 'http-equiv="refresh"' in (site / page).read_text("utf-8")


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
    assert "<img onerror=x>␀␛]8;;" in summary


def test_the_first_row_is_named_with_what_it_is_good_for() -> None:
    """8,000 of 100,000."""
    found = AttributionText(attribution())
    assert found.headline == (
        "a/b executes 15.0 % more instructions per request (14.8…15.2 %, as far as counts "
        "repeat): 80,000 → 92,000."
    )
    assert found.cause == (
        "Headers.copy (new) adds 8.0 % of a request: starlette/data.py:5, starlette."
    )
    assert [one[:3] for one in found.rows] == [
        ("+8.0 %", "0 → 2", "Headers.copy (new)"),
        ("+6.0 %", "1 → 1", "route.<locals>.app"),
        ("+4.0 %", "", "dump"),
        ("−3.0 %", "", "old_check (gone)"),
        ("+1.0 %", "", "send"),
    ]
    assert found.rows[1].package == "fastapi 0.10.0 → 0.11.0"


def test_where_nothing_moved_nothing_is_said() -> None:
    """119 of 80,000 are within what counts repeat by."""
    still = Instructions(base=80_000, head=80_119, spread=0.0015)
    found = AttributionText(attribution(instructions=still, rows=()))
    assert found.headline == (
        "a/b: instructions per request did not move (counts repeat within 0.15 %)."
    )
    assert found.cause == ("No function is named: none moved by 0.50 % of a request or more.")
    assert found.rows == ()


def test_what_is_gone_saves_and_what_both_have_does_more_or_less_itself() -> None:
    rows = (row(CHECK, 3_000, 0), row(SEND, 15_000, 14_000), row(SEND, 15_000, 16_000))
    found = AttributionText(attribution(rows=rows)).rows
    assert [f"{one.function} {one.effect}" for one in found] == [
        "old_check (gone) saves 3.0 % of a request",
        "send itself does 1.0 % of a request less",
        "send itself does 1.0 % of a request more",
    ]


MOVED = (("fastapi", "0.10.0", "0.11.0"), ("anyio", "4.1", "4.2"), ("new", None, "1.0"))


FASTAPI = ("fastapi", "0.10.0", "0.11.0")
WITHIN = ("fastapi", "0.10.1", "0.10.2")
LATER = ("fastapi", "0.10.3", "0.10.10")


@pytest.mark.parametrize(
    ("caused", "told"),
    [
        ([], ""),
        ([FASTAPI], "fastapi 0.10.0 → 0.11.0, together with 2 other packages"),
        ([WITHIN, LATER], "fastapi 0.10.0 → 0.11.0, together with 2 other packages"),
        (
            [("anyio", "4.1", "4.2"), WITHIN],
            "fastapi 0.10.0 → 0.11.0, anyio 4.1 → 4.2, together with 1 other package",
        ),
        ([("new", "0.8", "0.9")], "new new → 1.0, together with 2 other packages"),
        ([("fastapi", "0.9.0", "0.10.0")], ""),
        ([("fastapi", "0.11.0", "0.12.0")], ""),
        ([FASTAPI, ("granian", "1", "2")], ""),
    ],
)
def test_the_versions_that_were_counted_are_told_if_they_contain_the_release(
    caused: list[tuple[str, str | None, str]], told: str
) -> None:
    moved = (PackageChange(stack="s", package=n, base=b, head=h) for n, b, h in MOVED)
    releases = tuple(Release(package=n, previous=p, version=v) for n, p, v in caused)
    record = attribution(packages=(*moved,))
    expected = f"Counted from {told}." if told else "" if not caused else None
    assert counted(record, releases) == expected


def test_what_an_attribution_explains_leads_to_it(tmp_path: Path) -> None:
    """The release that did it, and the comparison that proves it."""
    results, case = tmp_path / "results", "asgi-wsgi/asgi-json/py3.14/w1/c128"
    comparison = site_builds.make_comparison(case)
    files.save(results, comparison)
    culprit = Release(package="fastapi", version="0.10.2", previous="0.10.1")
    change = synthetic.change_record(
        id="c",
        evidence=comparison.id,
        culprit=culprit,
        why=attribution(),
        packages=attribution().packages,
    )
    files.save(results, change)
    site_builds.save_releases(results)
    site = site_builds.build(tmp_path)
    page = (site / "p/fastapi/0.10.2/index.html").read_text()
    assert f'href="../../../cmp/{comparison.id}/"' in page
    assert page.count('<tr><th scope="row"><code>') == 5
    assert "Headers.<wbr>copy (new)" in page
    assert "(new)" in (site / "p" / "index.html").read_text(), "the list names it"
    told = "Counted from fastapi 0.10.0 → 0.11.0."
    assert told in page
    older = culprit.model_copy(update={"version": "0.9"})
    files.save(results, change.model_copy(update={"culprit": older}))
    page = (site_builds.build(tmp_path) / "p/fastapi/0.9/index.html").read_text()
    assert "Counted between" not in page
    assert "Which code it is" not in page
