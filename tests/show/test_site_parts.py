"""What pages are made of: names, addresses, charts, and figures of asv."""

import json
import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import sites
from bench import PROJECT, all_cases
from duetbench.app import case_names
from duetbench.core.metrics import CPU
from duetbench.core.model import Verdict
from duetbench.core.units import Interval
from duetbench.report import formats
from foreign import DATE, asv_files, inside
from observatory.show import addresses
from observatory.show.site.words import environment, logarithmic, times
from observatory.store import asv_results
from repos import write_all


def test_every_declared_case_has_a_name_of_its_own() -> None:
    actual = {case.id: case_names.name(case.id) for case in all_cases()}
    assert [case for case, name in actual.items() if not name.known] == []
    assert [name for name, many in Counter(map(str, actual.values())).items() if many > 1] == []
    assert not [name for name in map(str, actual.values()) if "{" in name]


# Addresses are published once, so that what is asserted here is never changed.
HOSTILE = (
    "../../etc/passwd", "/etc/passwd", "a//b", "a/./b", "a/../b", ".hidden/x", "a/index.html",
    "a/b/", "", "<img src=x onerror=alert(1)>", "a?b=c#d", "a\\b", "a%2e%2e", "a\x00b", "a\nb",
    "x" * 10_000, "a" * 101, "con/aux", "trailing. /x", "\ud800", "a/data.json",
    "a/" * 100 + "a",
)  # fmt: skip
INSIDE = "inprocess/gil.Cpu.time_tasks(mode=threads, tasks=4)/py3.14/current"
RUN = "20261120T123436Z-nightly-c5891dce"


def test_addresses_never_change() -> None:
    at = addresses
    kinds = (at.FRONT, at.SIDES, at.ASV, at.CHANGES, at.RUNS, at.PACKAGES, at.EXPERIMENTS, at.CASES)
    assert kinds == ("", "sides/", "asv/", "c/", "runs/", "p/", "x/", "b/")
    assert (at.COMPARISONS, at.POINTS) == ("cmp/", "points/")
    for address, expected in (
        (at.experiment("asgi-wsgi"), "x/asgi-wsgi/"),
        (at.case("asgi-wsgi/json/py3.14t/w2/c256"), "b/asgi-wsgi/json/py3.14t/w2/c256/"),
        (at.case(INSIDE), f"b/{INSIDE.replace(' ', '%20')}/"),
        (at.comparison(f"{RUN}-compare-a"), f"cmp/{RUN}-compare-a/"),
        (at.package("pydantic-core"), "p/pydantic-core/"),
        (at.release("pydantic-core", "2.41.1"), "p/pydantic-core/2.41.1/"),
        (at.case("<script>"), "b/~5b63e5b2097fc690/"),
        (at.raw(at.RUNS, RUN), f"runs/{RUN}.json"),
    ):
        assert address == expected
    assert addresses.file("b/a/b%20c/?metric=x#y") == "b/a/b c/index.html"


def test_a_name_that_can_be_no_folder_has_its_digest_as_address() -> None:
    actual = {addresses.case(name) for name in HOSTILE}
    assert len(actual) == len(HOSTILE)
    assert [address for address in actual if not re.fullmatch(r"b/~[0-9a-f]{16}/", address)] == []


def test_a_bar_is_left_where_it_is_better_whatever_its_sign() -> None:
    """10 % of a reach of 100 % are 48 · 0.1 per cent of the width."""
    for metric, ratio, verdict, ends in (
        (CPU, Interval(1.1, 1.05, 1.2), Verdict.WORSE, ("50%", "4.8%")),
        (CPU, Interval(0.9, 0.8, 0.95), Verdict.BETTER, ("45.2%", "4.8%")),
        ("throughput", Interval(1.1, 1.05, 1.2), Verdict.BETTER, ("45.2%", "4.8%")),
    ):
        context = {"metric": metric, "ratio": ratio, "verdict": verdict}
        bar = """{% import "macros.html.j2" as m %}{{ m.bar(metric, ratio, verdict) }}"""
        drawn = ET.fromstring(environment().from_string(bar).render(**context).strip())
        (box,) = drawn.iter("rect")
        assert (box.get("x"), box.get("width")) == ends
        assert verdict.value in str(drawn.get("class"))


def test_statements_share_an_axis_that_one_far_figure_does_not_stretch() -> None:
    """By hand: a factor of 4 is 45 % of the width, and what is farther stays at the end."""
    place = logarithmic([0.5, 2.0, 16.0])
    assert [place(ratio) for ratio in (1, 2, 1 / 4, 16, 0)] == [50, 72.5, 5, 97.25, 2.75]
    assert logarithmic([0.5, 2.0])(2) == 95


def test_lines_begin_with_the_first_figure_and_are_interrupted_by_missing_ones_only() -> None:
    """By null; what is another line's is undefined. Ratios are changes since the first figure.

    Of twenty points one has an interval a hundred times as wide: it does not squeeze the others.
    """
    figures = {"mean": [None, 2, None, 2.2, None, 3], "low": [None] * 6, "high": [None] * 6}
    metric = {"name": "x", "title": "x", **figures}
    table = {"label": "m", "anchor": "A", "time": [1, 2, 3, 4, 5, 6], "run": [*"abcdef"]}
    given = {**table, "note": [""] * 6, "changes": [], "metrics": [metric]}
    script = """
        const { points, columns, limits } = await import(js + "/chart.js");
        const line = points(given, given.metrics[0]);
        const own = columns([line, [{ x: 2.5, mean: 1 }]]);
        const wide = (n) => (n ? 0.02 : 0.9);
        result = [own[0], own[1].map((figure) => figure === undefined ? "-" : figure),
          limits([...Array(20).keys()].map((n) =>
            ({ mean: 1, low: 1 - wide(n), high: 1 + wide(n) })))];
    """
    xs, mean, limits = sites.node(script, given)
    assert (xs, mean) == ([2, 2.5, 3, 4, 5, 6], [1, "-", None, 1.1, None, 1.5])
    assert limits == pytest.approx([0.98 - 0.0024, 1.02 + 0.0024])


def test_ratios_read_the_same_in_the_page_and_in_its_scripts() -> None:
    values = [10 ** (n / 40) for n in range(-120, 121)] + [0.9996, 99.96]
    ends = [(1.0, 0.98, 1.02), (1.0, 0.5, 2.0), (1.0, 1.0, 1.0), (3.0, 2.9, 3.3)]
    script = """
        const { interval, times } = await import(js + "/formats.js");
        result = [given[0].map(times), given[1].map((ends) => interval(...ends))];
    """
    spread = [formats.spread(times, Interval(*item)) for item in ends]
    assert sites.node(script, (values, ends)) == [[*map(times, values)], spread]


def test_the_lock_of_npm_names_no_host() -> None:
    lock = (PROJECT / "scripts/typescript/package-lock.json").read_text()
    packages = {name: load for name, load in json.loads(lock)["packages"].items() if name}
    assert set(packages) == {"node_modules/typescript", "node_modules/uplot"}
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())
    assert "://" not in lock


def test_the_newest_commit_comes_first_and_old_versions_do_not_count(tmp_path: Path) -> None:
    """Whenever it was measured: history is often measured backwards. Of one day, the later one."""
    for commit, hour, version, committed in (
        ("a", 8, "1", DATE), ("b", 9, "1", DATE), ("c", 10, "0", DATE), ("d", 20, "1", DATE - 1),
    ):  # fmt: skip
        results = inside(commit_hash=commit * 40, date=committed)
        (row,) = results["results"].values()
        row[2:4] = version, DATE + hour
        files = asv_files(results)
        write_all(tmp_path, {name: content.decode() for name, content in files.items()})
    snapshots = asv_results.read(tmp_path)
    assert [s.commit[0] for s in snapshots] == ["c", "b", "a", "d"]
    known = [any(r.value is not None for r in s.of("gil")) for s in snapshots]
    assert known == [False, True, True, True]
    assert snapshots[1].of("gil")[0].params == {"mode": "serial", "tasks": "1"}
