"""Change pages, and the data files that comparisons across cases are made from."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import made_up
import site_builds
import synthetic
from servebench.core.metrics import METRICS
from servebench.record import change as changes
from servebench.record.change import ChangeRecord, SeriesName, StackState
from servebench.record.comparison import PackageChange, Verdict
from servebench.report import change
from servebench.series import table as history
from servebench.site import data, data_files
from servebench.site.data import Folder
from servebench.site.pages import changes as pages


def a_record(**changed: Any) -> ChangeRecord:
    packages = (
        PackageChange(stack="current", package="anyio", base="4.1", head="4.2"),
        PackageChange(stack="current", package="granian", base="2.8.6", head="2.8.7"),
    )
    return synthetic.change_record(**{"packages": packages, **changed})


def test_a_change_reads_as_a_sentence_s_parts() -> None:
    told = change.told(a_record())
    assert (told.title, told.word, told.change) == ("CPU/request", "slower", "+3.10 %")
    assert told.interval == "+2.50…+3.70 %"
    assert told.cause == "granian 2.8.6 → 2.8.7"
    memory = SeriesName(machine="m", case="a/b", metric="pss_steady")
    assert change.told(a_record(series=memory)).word == "larger"
    inside = SeriesName(machine="m", case="inprocess/x", metric="seconds")
    assert change.told(a_record(series=inside, culprit=None)).title == "time in process (seconds)"


def test_open_changes_come_worst_first() -> None:
    """Slower before faster; 1 % of CPU is five floors of 0.2 %, 4 % of a p99 are two of 2 %."""
    tail = SeriesName(machine="m", case="a/b", metric="response_p99")
    gain = {"ratio": 0.5, "low": 0.4, "high": 0.6, "verdict": Verdict.FASTER}
    records = (
        a_record(id="gain", **gain),
        a_record(id="tail", series=tail, ratio=1.04, low=1.03, high=1.05),
        a_record(id="cpu", ratio=1.01, low=1.005, high=1.015),
        a_record(id="old", status="closed"),
    )
    still, over = pages.listed(records)
    assert [record.id for record in still] == ["cpu", "tail", "gain"]
    assert [record.id for record in over] == ["old"]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            {
                "base": StackState(stack="current", digest="0", as_of="2026-11-18"),
                "head": StackState(stack="current", digest="1", as_of="2026-11-19"),
                "culprit": None,
            },
            ["--stack-as-of 2026-11-18 --stack-as-of 2026-11-19 --select a/b"],
        ),
        ({}, ["--stack-as-of 2026-11-19 --stack-as-of 2026-11-20 --select a/b",
              "--with granian==2.8.6 --select a/b"]),
        (
            {"series": SeriesName(machine="m", case="a'; rm x", metric="throughput"),
             "culprit": None},
            ["--stack-as-of 2026-11-19 --stack-as-of 2026-11-20 --select 'a'\"'\"'; rm x'"],
        ),
        (
            {"series": SeriesName(machine="m", case="inprocess/x", metric="seconds"),
             "culprit": None},
            ["--stack-as-of 2026-11-19 --stack-as-of 2026-11-20"],
        ),
    ],
    ids=["recorded", "from-runs", "quoted", "in-process"],
)  # fmt: skip
def test_the_commands_measure_both_sides_again(
    changed: dict[str, Any], expected: list[str]
) -> None:
    before, after = (int(datetime(2026, 11, day, 3, tzinfo=UTC).timestamp()) for day in (19, 20))
    found = [command for _, command in change.commands(a_record(**changed), before, after)]
    assert found == [f"servebench compare {line} --profile nightly" for line in expected]


def test_without_any_day_there_is_only_the_release() -> None:
    assert [c for _, c in change.commands(a_record(), None, None)] == [
        "servebench compare --with granian==2.8.6 --select a/b --profile nightly"
    ]
    assert change.commands(a_record(culprit=None), None, None) == ()


def test_a_page_holds_the_evidence_and_the_raw_record(tmp_path: Path) -> None:
    changes.save(tmp_path / "results", a_record(note="fixed in 2.8.8", status="closed"))
    site = site_builds.built(tmp_path)
    html = (site / "c" / "20261120-granian-0" / "index.html").read_text("utf-8")
    for told in ("+3.10 %", "+2.50…+3.70 %", "Ten duets.", "fixed in 2.8.8", "Closed."):
        assert told in html
    assert html.index(">granian<") < html.index(">anyio<")
    assert "<svg" in html
    assert "not on this site" in html
    raw = json.loads((site / "c" / "20261120-granian-0.json").read_bytes())
    assert ChangeRecord.model_validate(raw).ratio == 1.031
    listed = (site / "c" / "index.html").read_text("utf-8")
    assert "No change is open." in listed
    assert 'href="../c/20261120-granian-0/"' in listed


@pytest.mark.parametrize(
    ("changed", "blamed"),
    [
        ({}, ["yes", "no"]),
        ({"culprit": None}, ["not tested", "not tested"]),
        (
            {"culprit": None, "note": "The cause is among granian: the duets did not decide."},
            ["possible", "no"],
        ),
    ],
    ids=["found", "unknown", "narrowed"],
)
def test_only_what_a_search_tried_is_innocent(
    tmp_path: Path, changed: dict[str, Any], blamed: list[str]
) -> None:
    changes.save(tmp_path / "results", a_record(**changed))
    html = (site_builds.built(tmp_path) / "c" / "20261120-granian-0" / "index.html").read_text()
    rows = dict(re.findall(r'<th scope="row">(granian|anyio)</th>.*<td>(.*)</td></tr>', html))
    found = [re.sub("<[^>]*>", "", rows[name]) for name in ("granian", "anyio")]
    assert found == blamed


def test_files_across_cases_have_the_figures_of_the_shards(tmp_path: Path) -> None:
    results = tmp_path / "results"
    made_up.write(made_up.imagine(1.2, 160, 2), results)
    sources = made_up.read(results, tmp_path / "cache")
    (table,) = history.tables(sources.nights)
    data.write(Folder(tmp_path / "site"), sources, [table])
    series = {
        (case["id"], entry["metric"], shard["year"]): (entry, case)
        for path in (tmp_path / "site" / "series").rglob("*.json")
        for shard in [json.loads(path.read_bytes())]
        for entry in shard["series"]
        for case in [shard["cases"][entry["case"]]]
    }
    years = [year.year for year in data_files.years(table)]
    seen = 0
    for metric in data_files.COMPARED:
        files = sorted((tmp_path / "site" / "across").glob(f"*/{metric}/*.json"))
        assert [int(path.name[:4]) for path in files] == years
        for path in files:
            found = json.loads(path.read_bytes())
            assert (found["metric"], found["floor"]) == (metric, METRICS[metric].floor)
            for case in found["cases"]:
                entry, told = series[case["id"], metric, found["year"]]
                for key in ("exponent", "mean", "low", "high"):
                    assert case[key] == entry[key]
                assert case["status"] == told["status"]
                assert case["python"] == ("3.14t" if "py3.14t" in case["id"] else "3.14")
                assert case["stack"] == "current"
                seen += 1
    assert seen == len(data_files.COMPARED) * len(years) * 8
