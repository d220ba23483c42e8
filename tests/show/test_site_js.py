"""The site's JavaScript: its types, and what it must do exactly as the Python beside it.

The modules that need no page run in Node, which is in the harness's environment.
"""

import base64
import hashlib
import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import made_up
import sites
from duetbench.core import units
from duetbench.core.metrics import METRICS
from duetbench.host import paths
from duetbench.show.site import build, data_files
from duetbench.show.site.charts.data import Quantity, Value, interval
from duetbench.show.site.pages import trends
from duetbench.trend import events
from duetbench.trend import table as history
from duetbench.trend.table import Table

_JS = build.STATICS / "js"
_VENDOR = build.STATICS / "vendor"
_TYPES = paths.project_root() / "scripts" / "typescript"

_COPIES = {
    "uPlot.iife.min.js": "sha384-Gx3t0zdBAuQOuvvmaLZj7HKEiSgWTAs+VdtNY7wt19QDPTDQjFIwAuXDj0zeN00c",
    "uPlot.min.css": "sha384-IfV0B7MIOYuO95kO9G5ySKPz/85zqFNOAs8iy4tkK5zd9izhJAB8b7lHrwYqqmYE",
}
"""Digests of the copies, taken when they were compared with the package's files."""


def _history() -> tuple[Table, dict[str, Any]]:
    """A history, and what the scripts get of one of its series in the newest year."""
    imagined = made_up.imagine(0.4, 24, seed=3)
    (table,) = history.tables(made_up.generate(imagined))
    year = data_files.years(table)[-1]
    shard = next(one for one in data_files.series_files(table) if len(one.series) > 1)
    row, column = shard.series[0]
    return table, {
        "nights": data_files.nights_document(table, year, events.events(table)),
        "shard": data_files.series_document(data_files.scaled(table, year), shard),
        "case": table.cases[row],
        "metric": table.metrics[column],
    }


def test_figures_read_the_same_in_the_page_and_in_its_scripts() -> None:
    source = random.Random(5)
    values = [10 ** source.uniform(-9, 10) * source.choice((1, 1, -1)) for _ in range(400)]
    values += [0.0, 1.0, 999.6, 0.9996, 1e-3, 9.996e-4, 1e-6, 12_345.0, 99.96]
    formats = {trends.format_name(name): row.format for name, row in METRICS.items()}
    found = sites.node(
        """
        const { named } = await import(js + "/formats.js");
        result = Object.fromEntries(given.names.map(
          (name) => [name, given.values.map((value) => named(name)(value))]));
        """,
        {"names": list(formats), "values": values},
    )
    for name, written in formats.items():
        assert found[name] == [written(value) for value in values], name
    assert formats.keys() >= {"seconds", "rate", "size", "share", "cores", "count", "significant"}


def test_intervals_read_the_same_in_the_page_and_in_its_scripts() -> None:
    cases = [(1e-4, 0.98e-4, 1.02e-4), (1e-4, 0.5e-4, 2e-4), (1e-4, 1e-4, 1e-4), (3.0, 2.9, 3.3)]
    seconds = Quantity("time", units.seconds)
    assert sites.node(
        """
        const { interval, seconds } = await import(js + "/formats.js");
        result = given.map(([mean, low, high]) => interval(mean, low, high, seconds));
        """,
        cases,
    ) == [interval(seconds, Value(mean, low, high)) for mean, low, high in cases]


def test_labels_of_changes_find_a_place_in_any_order() -> None:
    found = sites.node(
        """
        const { placed } = await import(js + "/overlay.js");
        result = placed(given, 300, 4).map(({ x, left, row }) => [x, left, row]);
        """,
        [{"x": x, "wide": 50} for x in (290, 100, 120, 10, 160)],
    )
    assert found == [[10, 14, 0], [100, 104, 0], [120, 124, 1], [160, 164, 0], [290, 250, 0]]


def test_labels_of_an_axis_share_a_unit_and_as_many_digits_as_their_step_needs() -> None:
    """330, 335, 340 µs need no decimals; steps of 2.5 µs need one; 0.2 s is in ms below 1 s."""
    found = sites.node(
        """
        const { axis } = await import(js + "/formats.js");
        result = [axis("seconds", [330e-6, 335e-6, 340e-6]), axis("seconds", [0, 2.5e-6, 5e-6]),
                  axis("seconds", [0, 0.2, 0.4]), axis("rate", [9000, 10000]),
                  axis("share", [0.98, 0.985]), axis("bytes", [1, 2])];
        """
    )
    assert found == [
        ["330 µs", "335 µs", "340 µs"],
        ["0.0 µs", "2.5 µs", "5.0 µs"],
        ["0 ms", "200 ms", "400 ms"],
        ["9,000/s", "10,000/s"],
        ["98.0 %", "98.5 %"],
        ["1", "2"],
    ]


def test_scripts_read_from_the_data_files_what_was_measured() -> None:
    table, given = _history()
    year = data_files.years(table)[-1]
    found = sites.node(
        """
        const { points } = await import(js + "/columns.js");
        result = points(given.nights, given.shard, given.case, given.metric);
        """,
        given,
    )
    runs = {night.run for night in table.nights[year.span]}
    wanted = [
        one for one in history.points(table, given["case"], given["metric"]) if one.run in runs
    ]
    told = ("run", "time", "commit", "status", "launches", "reason")
    assert [[one[name] for name in told] for one in found] == [
        [getattr(one, name) for name in told] for one in wanted
    ]
    assert [one["flags"] for one in found] == [list(one.flags) for one in wanted]
    assert {one["status"] for one in found} == {"measured", "disturbed", "failed"}
    for name, tolerance in (("mean", 1e-4), ("low", 2e-3), ("high", 2e-3)):
        figures = [
            (one[name], getattr(other, name)) for one, other in zip(found, wanted, strict=True)
        ]
        assert [one is None for one, _ in figures] == [other is None for _, other in figures]
        pairs = np.array([pair for pair in figures if None not in pair], dtype=float)
        assert pairs[:, 0] == pytest.approx(pairs[:, 1], rel=tolerance)


def test_a_column_that_is_too_short_is_refused() -> None:
    table, given = _history()
    year = data_files.years(table)[-1]
    given["shard"]["series"][0]["mean"].pop()
    found = sites.node(
        """
        const { DataError, points } = await import(js + "/columns.js");
        try { points(given.nights, given.shard, given.case, given.metric); }
        catch (problem) { result = [problem instanceof DataError, problem.message]; }
        """,
        given,
    )
    nights = year.stop - year.start
    assert found == [True, f"expected {nights} nights, found {nights - 1} in “mean”"]


def test_a_stretch_ends_where_its_level_does() -> None:
    nights = [{"time": time, "mean": mean} for time, mean in ((1, 10), (2, 30), (5, 7), (9, 8))]
    assert sites.node(
        """
        const { stretches } = await import(js + "/columns.js");
        result = stretches(given, [5, 4, 5, 20]);
        """,
        nights,
    ) == [{"start": 1, "end": 2, "middle": 20}, {"start": 5, "end": 9, "middle": 7.5}]


def test_a_line_is_interrupted_by_missing_figures_and_breaks_only() -> None:
    night = {"launches": 3, "flags": [], "reason": "", "low": 9, "high": 11}
    nights = [
        {**night, "time": 1, "status": "measured", "mean": 10},
        {**night, "time": 2, "status": "disturbed", "mean": 14},
        {**night, "time": 3, "status": "failed", "mean": None},
        {**night, "time": 4, "status": "measured", "mean": 12},
    ]
    found = sites.node(
        """
        const { aligned } = await import(js + "/plot.js");
        result = [true, false].map((cut) => {
          const history = { points: given, cut, bumps: [], gaps: [3], breaks: [{ time: 4 }] };
          const { rows, data } = aligned(history);
          return [rows.map((one) => one && one.time), data[0],
                  data[3].map((one) => one === undefined ? "none" : one)];
        });
        """,
        nights,
    )
    assert found == [
        [[1, 2, 3, None, None, 4], [1, 2, 3, 3.5, 3.5, 4], [10, "none", None, None, None, 12]],
        # Ratios go on where the machine changed.
        [[1, 2, 3, None, 4], [1, 2, 3, 3.5, 4], [10, "none", None, None, 12]],
    ]


def test_the_view_s_query_leaves_out_defaults_and_names_what_it_drops() -> None:
    script = """
        const { day, one_of, read, told, write } = await import(js + "/query.js");
        const known = { metric: one_of(["cpu", "throughput"]), from: day() };
        const { view, dropped } = read(given, known);
        result = [view, dropped, write(view, known), told(dropped)];
    """
    assert sites.node(script, "?metric=throughput&from=2026-02-28") == [
        {"metric": "throughput", "from": "2026-02-28"},
        [],
        "?metric=throughput&from=2026-02-28",
        "",
    ]
    assert sites.node(script, "?metric=cpu&from=2026-13-01&__proto__=1&<b>=x") == [
        {"metric": "cpu", "from": ""},
        ["from=2026-13-01", "__proto__=1", "<b>=x"],
        "",
        "This page does not know “from=2026-13-01”, “__proto__=1”, “<b>=x”: left out.",
    ]


@pytest.mark.parametrize(
    ("key", "at", "to"),
    [
        ("ArrowRight", None, [0, 0]),
        ("ArrowLeft", None, [0, 2]),
        ("ArrowRight", [0, 2], [0, 2]),
        ("ArrowLeft", [0, 1], [0, 0]),
        ("End", [0, 0], [0, 2]),
        ("Home", [1, 0], [1, 0]),
        ("ArrowDown", [0, 2], [1, 0]),
        ("ArrowDown", [1, 0], [1, 0]),
        ("ArrowUp", [1, 0], [0, 0]),
        ("x", [0, 0], None),
    ],
)
def test_arrow_keys_stay_within_a_chart(
    key: str, at: list[int] | None, to: list[int] | None
) -> None:
    found = sites.node(
        """
        const { step } = await import(js + "/keyboard.js");
        const from = given.at && { row: given.at[0], place: given.at[1] };
        result = step(given.key, from ?? undefined, [[1, 2, 3], [4]]);
        """,
        {"key": key, "at": at},
    )
    assert found == to


def test_copies_of_uplot_are_those_that_were_compared_with_the_package() -> None:
    for name, wanted in _COPIES.items():
        found = hashlib.sha384((_VENDOR / name).read_bytes()).digest()
        assert f"sha384-{base64.b64encode(found).decode()}" == wanted, name
    assert {path.name for path in _VENDOR.iterdir()} == {*_COPIES, "licences"}
    assert "MIT License" in (_VENDOR / "licences" / "uplot.txt").read_text()


def test_the_lock_of_npm_names_no_host() -> None:
    lock = (_TYPES / "package-lock.json").read_text()
    packages = {name: one for name, one in json.loads(lock)["packages"].items() if name}
    assert set(packages) == {"node_modules/typescript", "node_modules/uplot"}
    assert all(one["integrity"].startswith("sha512-") for one in packages.values())
    assert "://" not in lock


def _checked(*arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, _TYPES / "check.py", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if "npm could not install" in done.stderr and "CI" not in os.environ:
        pytest.skip("TypeScript is not installed and no registry of npm packages can be reached")
    return done


def test_types_of_all_modules_hold() -> None:
    done = _checked()
    # The first time npm says what it has installed.
    assert (done.returncode, "error TS" in done.stdout) == (0, False), done.stdout


def test_the_check_of_types_would_find_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "js").mkdir()
    shutil.copy(_JS / "formats.js", tmp_path / "js")
    wrong = 'import { named } from "./formats.js";\nexport const text = named(7)(1);\n'
    (tmp_path / "js" / "wrong.js").write_text(f"// @ts-check\n{wrong}")
    (tmp_path / "tsconfig.json").write_text(
        json.dumps({"extends": str(_TYPES / "tsconfig.json"), "include": ["js/*.js"]})
    )
    done = _checked("--project", str(tmp_path))
    assert done.returncode != 0
    assert "wrong.js(3,27)" in done.stdout
    assert "'number' is not assignable" in done.stdout


def test_an_altered_copy_of_uplot_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = _module(_TYPES / "check.py")
    if not check.STAMP.is_file():  # written last: another test may be installing
        _checked()
    shutil.copytree(_VENDOR, tmp_path / "vendor")
    monkeypatch.setattr(check, "VENDOR", tmp_path / "vendor")
    assert check.altered() == []
    with (tmp_path / "vendor" / "uPlot.min.css").open("a") as file:
        file.write(" ")
    assert check.altered() == ["uPlot.min.css"]


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
