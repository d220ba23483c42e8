"""The site's JavaScript: what it must do exactly as the Python beside it.

The modules that need no page run in Node, which is in the harness's environment.
"""

import json
import random

import sites
from duetbench.core import units
from duetbench.core.metrics import METRICS
from duetbench.core.units import Interval
from duetbench.host import paths
from duetbench.show import formats

_TYPES = paths.project_root() / "scripts" / "typescript"


def test_figures_read_the_same_in_the_page_and_in_its_scripts() -> None:
    source = random.Random(5)
    values = [10 ** source.uniform(-9, 10) * source.choice((1, 1, -1)) for _ in range(400)]
    values += [0.0, 1.0, 999.6, 0.9996, 1e-3, 9.996e-4, 1e-6, 12_345.0, 99.96]
    writers = {row.format.name: row.format for row in METRICS.values()}
    found = sites.node(
        """
        const { named } = await import(js + "/formats.js");
        result = Object.fromEntries(given.names.map(
          (name) => [name, given.values.map((value) => named(name)(value))]));
        """,
        {"names": list(writers), "values": values},
    )
    for name, written in writers.items():
        assert found[name] == [written(value) for value in values], name
    assert writers.keys() >= {"seconds", "rate", "size", "share", "cores", "count", "significant"}


def test_intervals_read_the_same_in_the_page_and_in_its_scripts() -> None:
    cases = [(1e-4, 0.98e-4, 1.02e-4), (1e-4, 0.5e-4, 2e-4), (1e-4, 1e-4, 1e-4), (3.0, 2.9, 3.3)]
    assert sites.node(
        """
        const { interval, named } = await import(js + "/formats.js");
        result = given.map(([mean, low, high]) => interval(mean, low, high, named("seconds")));
        """,
        cases,
    ) == [formats.spread(units.seconds, Interval(*one)) for one in cases]


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


def test_published_figures_are_on_the_axis_unless_they_would_squeeze_ours() -> None:
    """Ours is 100; what is published at 240 is shown, and at 260 on a logarithmic axis only."""
    given = [(beside, log) for beside in (240, 260) for log in (False, True)]
    found = sites.node(
        """
        const { limits } = await import(js + "/chart.js");
        result = given.map(([beside, log]) =>
          limits({ y: { log }, x: {} }, [{ x: 0, mean: 100, beside }])[1] >= beside);
        """,
        given,
    )
    assert found == [True, True, False, True]


def test_the_lock_of_npm_names_no_host() -> None:
    lock = (_TYPES / "package-lock.json").read_text()
    packages = {name: load for name, load in json.loads(lock)["packages"].items() if name}
    assert set(packages) == {"node_modules/typescript"}
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())
    assert "://" not in lock
