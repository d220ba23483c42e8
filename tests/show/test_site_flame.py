"""The differential flame graph: widths and colours worked out by hand."""

import html
import json
import re
from pathlib import Path

import pytest

import site_builds
import synthetic
from attributing import attribution
from duetbench.show.attribution import folded
from duetbench.show.site.charts.figure import Caption
from duetbench.show.site.charts.flame import flame, frames
from duetbench.store import attribution as attributions
from duetbench.store import change as changes
from duetbench.store import comparisons


def test_frames_are_as_wide_as_the_newer_side() -> None:
    """Of 116,000; siblings in the order of names; what is gone has no width."""
    shares = {
        frame.node.function.name: (frame.depth, frame.left * 116, frame.width * 116)
        for frame in frames(attribution().tree)
    }
    expected = {
        "App.__call__": (0, 0, 116), "route.<locals>.app": (1, 0, 95), "send": (1, 95, 16),
        "dump": (2, 0, 52), "old_check": (2, 52, 0), "validate": (2, 52, 30),
        "Headers.copy": (3, 0, 8), "encode": (3, 8, 30),
    }  # fmt: skip
    assert shares == {name: pytest.approx(place) for name, place in expected.items()}


def test_colours_say_whether_a_function_moved_itself() -> None:
    """Below 200 of 100,000 it did not; what only calls something that moved is paler."""
    made = flame(Caption("flame", "Flame"), attribution(), lambda one: f"#{one.line}")
    pattern = r'(<a href="[^"]*">)?<svg class="([\w-]+)" x="([\d.]+)%".*?<title>(.*?)</title>'
    frames_ = {
        says.partition(",")[0]: (kind, float(x), link, says)
        for link, kind, x, says in re.findall(pattern, made)
    }
    assert {html.unescape(name): frame[0] for name, frame in frames_.items()} == {
        "App.__call__": "more-below", "route.<locals>.app": "more", "send": "more",
        "dump": "more", "validate": "still", "Headers.copy": "more", "encode": "still",
    }  # fmt: skip
    assert frames_["validate"][1] == pytest.approx(100 * 52 / 116, abs=0.01)
    assert [frames_[name][2] for name in ("send", "validate")] == ['<a href="#30">', ""]
    assert frames_["dump"][3] == (
        "dump, fastapi/encoders.py:20 (fastapi): itself 10,000 → 14,000, +4.0 % of all; with what "
        "it calls 40,000 → 52,000, +12 %"
    )
    assert "Gone, and without width: old_check −3.0 %." in made
    assert "Headers." in made.partition("<tbody>")[2].partition("</tr>")[0]


def test_what_an_attribution_explains_leads_to_it(tmp_path: Path) -> None:
    """The change and the comparison that proves it, and the release that is all that differs."""
    results, case = tmp_path / "results", "asgi-wsgi/asgi-json/py3.14/w1/c128"
    comparison = site_builds.compared(case)
    comparisons.save_comparison(comparison, results / comparisons.COMPARISONS)
    changes.save(results, synthetic.change_record(id="c", evidence=comparison.id))
    site_builds.released(results)
    record = attribution(change="c")
    attributions.save(results, record)
    site = site_builds.built(tmp_path)
    for place in ("c/c", f"cmp/{comparison.id}", "p/fastapi/0.11.0"):
        page = (site / place / "index.html").read_text()
        assert f'why/{record.id}/">All rows' in page
        assert page.count('<tr><th scope="row"><code>') == 3
    own = (site / "why" / record.id / "index.html").read_text()
    assert 'href="https://forge.example/a/fastapi/blob/v0.11.0/fastapi/routing.py#L10"' in own
    assert "fastapi/blob/v0.10.0/fastapi/old.py#L9" in own
    assert "blob/" not in own.partition("starlette/data.py")[0]
    assert own.count('<a href="#row-1">') == 1
    assert "(new)" in own
    assert json.loads((site / "why" / f"{record.id}.json").read_text())["id"] == record.id
    assert (site / "why" / f"{record.id}-head.txt").read_text() == folded(record, "head")
