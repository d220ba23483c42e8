"""The site's JavaScript: its types, and what it must do exactly as the Python beside it.

The modules that need no page run in Node, which is in the harness's environment.
"""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sites
from duetbench.core import units
from duetbench.core.metrics import METRICS
from duetbench.host import paths
from duetbench.show.site import build
from duetbench.show.site.charts.figure import Quantity, Value, interval
from duetbench.show.site.pages import trends

_JS = build.STATICS / "js"
_TYPES = paths.project_root() / "scripts" / "typescript"


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
        const { interval, named } = await import(js + "/formats.js");
        result = given.map(([mean, low, high]) => interval(mean, low, high, named("seconds")));
        """,
        cases,
    ) == [interval(seconds, Value(mean, low, high)) for mean, low, high in cases]


def test_errors_of_two_dates_add_in_quadrature() -> None:
    """Halves of 3 and 4 % on the logarithms make 5 %: 1.2 times e to the power of ±0.05."""
    found = sites.node(
        """
        const { quotient } = await import(js + "/formats.js");
        const around = (mean, half) =>
          ({ mean, low: mean / Math.exp(half), high: mean * Math.exp(half) });
        result = quotient(around(1, 0.03), around(1.2, 0.04));
        """
    )
    assert found == "1.200 × (95 % interval 1.141…1.262), +20.0 %"


def test_labels_of_changes_find_a_place_in_any_order() -> None:
    """Each is 7 × 7 + 6 px wide, centred at its line where the plane has room for it."""
    found = sites.node(
        """
        const { placed } = await import(js + "/chart.js");
        result = placed(given, (x) => x, 0, 300).map(({ mark, left, row }) => [mark.x, left, row]);
        """,
        [{"x": x, "short": "▼ +1.0 %"[:7]} for x in (290, 100, 120, 10, 160)],
    )
    assert found == [
        [10, 0, 0], [100, 72.5, 0], [120, 92.5, 1], [160, 132.5, 0], [290, 245, 0],
    ]  # fmt: skip


def test_a_line_is_interrupted_by_missing_figures_and_breaks_only() -> None:
    found = sites.node(
        """
        const { pieces } = await import(js + "/chart.js");
        result = pieces(given).map((piece) => piece.map((point) => point.x));
        """,
        [
            {"x": 1, "mean": 1}, {"x": 2, "mean": 9, "hollow": True}, {"x": 3, "mean": 1},
            {"x": 4}, {"x": 5, "mean": 1}, {"x": 6, "mean": 2, "cut": True},
        ],
    )  # fmt: skip
    assert found == [[1, 3], [5], [6]]


def test_axes_have_round_ticks_and_room_around_what_does_not_move() -> None:
    found = sites.node(
        """
        const { limits, niceTicks, timeTicks } = await import(js + "/chart.js");
        const model = { x: {}, y: {}, series: [], marks: [] };
        result = {
          limits: limits(model, [{ x: 0, mean: 100 }]),
          ticks: niceTicks(0.83, 1.07, 6),
          years: timeTicks(Date.UTC(2021, 5, 1) / 1000, Date.UTC(2026, 5, 1) / 1000, 600),
          days: timeTicks(0, 3 * 86400, 600),
        };
        """
    )
    # 1 % to each side, and 6 % of that range of air.
    assert found["limits"] == pytest.approx([99 - 0.12, 101 + 0.12])
    assert found["ticks"] == [0.85, 0.9, 0.95, 1, 1.05]
    assert [text for _, text in found["years"]] == ["2022", "2023", "2024", "2025", "2026"]
    assert [text for _, text in found["days"]] == [f"1970-01-0{day}" for day in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("key", "at", "to"),
    [
        ("ArrowRight", None, [0, 0]),
        ("ArrowRight", [0, 2], [0, 2]),
        ("ArrowLeft", None, [0, 2]),
        ("ArrowLeft", [0, 0], [0, 0]),
        ("ArrowDown", [0, 2], [1, 0]),
        ("ArrowUp", [1, 0], [0, 0]),
        ("Home", [0, 2], [0, 0]),
        ("End", [0, 0], [0, 2]),
        ("x", [0, 0], None),
    ],
)
def test_arrow_keys_stay_within_a_chart(
    key: str, at: list[int] | None, to: list[int] | None
) -> None:
    found = sites.node(
        """
        const { step } = await import(js + "/chart.js");
        result = step(given.key, given.at, [[1, 2, 3], [4]]);
        """,
        {"key": key, "at": at},
    )
    assert found == to


def test_the_lock_of_npm_names_no_host() -> None:
    lock = (_TYPES / "package-lock.json").read_text()
    packages = {name: load for name, load in json.loads(lock)["packages"].items() if name}
    assert set(packages) == {"node_modules/typescript"}
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())
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
