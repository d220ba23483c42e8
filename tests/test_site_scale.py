"""What the site's build costs beside asv's publishing of the same points, in one run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import sites
from servebench.errors import SetupError
from servebench.site import scale, synthetic
from servebench.site.scale import Cost, Scale

LEAST = 2.0
"""Ratio at a hundredth of the points of five years of 2,000 series, where starting Python is most
of both. `servebench dev site-scale` asks for five with all of them."""


@pytest.mark.long
def test_asv_takes_a_multiple_of_the_time_for_the_same_points(tmp_path: Path) -> None:
    """And one more night costs less than everything."""
    imagined = synthetic.imagine(1, 200, 5)
    results = tmp_path / "results"
    synthetic.write(imagined, results)
    nights = list(synthetic.generate(imagined))
    found = scale.measure(sites.PROJECT, nights, results, tmp_path)
    assert found.nights == len(nights) == len(imagined.times)
    assert 0.9 < found.points / (200 * len(nights)) <= 1
    assert found.faster is not None
    assert found.faster > LEAST
    assert found.same.cpu < found.first.cpu
    assert found.first.peak < 2**29
    graphs = list((tmp_path / "asv" / "html" / "graphs").rglob("scale.*.json"))
    assert len(graphs) >= 200  # asv did publish all series


def test_a_program_that_fails_is_named(tmp_path: Path) -> None:
    """With the file that has what it said."""
    with pytest.raises(SetupError, match="exit code 3; what it said is in"):
        scale.run(["sh", "-c", "echo no; exit 3"], cwd=tmp_path, env={}, log=tmp_path / "log")
    assert (tmp_path / "log").read_text() == "no\n"


def test_what_is_asked_is_judged_one_by_one() -> None:
    """Ten seconds, one gibibyte, two seconds for a night, five times as fast as asv."""
    fast, slow = Cost(1.0, 1.0, 10**8), Cost(11.0, 11.0, 2**31)
    good = Scale(
        1,
        1,
        first=fast,
        again=fast,
        same=fast,
        asv=Cost(5.0, 5.0, 1),
        night_seconds=2.0,
        size=1,
        files=1,
    )
    assert [holds for _, holds in good.verdicts()] == [True] * 4
    bad = replace(
        good, first=slow, again=slow, same=slow, asv=Cost(50.0, 50.0, 1), night_seconds=2.1
    )
    assert [holds for _, holds in bad.verdicts()] == [False] * 4
    alone = replace(good, asv=None)
    assert len(alone.verdicts()) == 3
