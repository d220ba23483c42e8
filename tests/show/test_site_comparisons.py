"""Pages of stored comparisons: what the files say, duet by duet, and nothing more."""

import json
import re
import shutil
from pathlib import Path
from typing import Any, Final

import pytest

import comparing
import site_builds
import sites
import synthetic
from duetbench.show import formats
from duetbench.store import files
from duetbench.store.comparison import Comparison, Finding, SideRecord
from fake_sessions import make_duet

pytestmark = pytest.mark.long

STORED: Final = "20261120T202652Z-compare-1d8b37a3"
FASTAPI: Final = "asgi-wsgi/asgi-json/py3.14/w1/c128"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, reference_results: Path) -> Path:
    folder = tmp_path_factory.mktemp("reference")
    shutil.copytree(reference_results / "comparisons", folder / "results" / "comparisons")
    return site_builds.build(folder)


def put(folder: Path, *stored: Comparison) -> Path:
    for one in stored:
        files.save(folder / "results", one)
    return site_builds.build(folder)


def page_of(site: Path, name: str) -> str:
    return (site / "cmp" / name / "index.html").read_text("utf-8")


def test_every_duet_is_a_dot_with_the_ratio_of_its_file(
    site: Path, reference_results: Path
) -> None:
    raw = json.loads((reference_results / "comparisons" / f"{STORED}.json").read_bytes())
    assert (site / "cmp" / f"{STORED}.json").read_bytes() == (
        reference_results / "comparisons" / f"{STORED}.json"
    ).read_bytes()
    html = page_of(site, STORED)
    for case in raw["cases"]:
        duets = sorted(case["duets"], key=lambda one: one["order"])
        ratios = [
            duet["head"]["server_cpu_per_request"] / duet["base"]["server_cpu_per_request"]
            for duet in duets
        ]
        grid = html.partition(f'aria-label="Duets of {case["case"]["id"]}"')[2].partition(
            "</table"
        )[0]
        rows = re.findall(r'<tr><th scope="row">(\d+)</th><td [^>]*class="number">([^<]+)<', grid)
        assert rows == [
            (str(place), formats.percent(ratio)) for place, ratio in enumerate(ratios, 1)
        ]
    (second,) = re.findall(r'<figure[^>]* id="duets-1".*?</figure>', html, re.DOTALL)
    cpu = second.partition('<th scope="row">CPU per request</th>')[2].partition("</tr>")[0]
    assert "78.7 → 91.7 µs" in cpu, "what moved less comes second"
    assert cpu.count('class="sample"') == 15, "one duet of sixteen was excluded"
    assert "not used: base: not_steady: the throughput still moved after 517 ms" in html


def test_what_was_found_is_said_as_everywhere(site: Path) -> None:
    text = sites.read(site / "cmp" / STORED / "index.html").text
    assert "128 connections needs 20 % more CPU per request" in text
    assert "56 pairs (both sides at the same time) in 10 min; 6 more not used" in text
    assert "fastapi 0.139.0 0.163.2" in text
    assert "duetbench compare --base as-of=2026-07-01" in text
    assert "time in process ? unknown — no time for a process of each side" in text
    listed = [link for link in sites.read(site / "cmp" / "index.html").links if "-compare-" in link]
    oldest = [f"../cmp/{STORED}/", "../cmp/20261120T201607Z-compare-1d8b37a3/"]
    assert listed[-2:] == oldest, "the newest comes first"


def test_a_change_and_its_evidence_lead_to_each_other(tmp_path: Path) -> None:
    made = site_builds.make_comparison(FASTAPI)
    files.save(tmp_path / "results", synthetic.change_record(evidence=made.id))
    site = put(tmp_path, made)
    assert f'href="../../../cmp/{made.id}/"' in (site / "p/granian/2.8.7/index.html").read_text()
    html = page_of(site, made.id)
    assert 'href="../../c/20261120-granian-0/"' in html
    assert "a/b needs 3.1 % more CPU per request (2.5…3.7 %)" in html
    assert list(sites.dead_links(site)) == []


def test_values_that_make_no_sense_are_left_out_and_said(tmp_path: Path) -> None:
    huge = comparing.WORSE.model_copy(update={"ratio": 1e308, "low": 1e307, "high": 1.7e308})
    made = comparing.comparison_of(comparing.judged_case(FASTAPI, huge), id="20261110T120000Z-a")
    site = put(tmp_path, made)
    first = sites.read(site / "index.html").text
    assert f"{made.id}.json: expected a comparison" in first  # no two figures have such a ratio
    assert not (site / "cmp" / made.id).exists()
    assert list(sites.dead_links(site)) == []


def test_every_stored_comparison_has_its_page(site: Path) -> None:
    """Also those whose work and wake-ups are judged, in words without a mark."""
    assert "cannot be shown" not in sites.read(site / "index.html").text


def choice(
    day: int, sides: tuple[str, str], *cases: comparing.Judged, option: str = "server", **more: Any
) -> Comparison:
    """A comparison of two settings, or interpreters, on a day of November 2026."""
    base, head = (
        SideRecord(
            label=f"{name} 1.{day}" if option == "server" else name, commit=None, stacks=(),
            interpreters=(),
            kind="interpreter" if option == "python" else "setting",
            words=(f"{option}={name}",),
        )
        for name in sides
    )  # fmt: skip
    fields = {"id": f"202611{day}T120000Z-compare-a", "started": f"2026-11-{day}T12:00:00Z"}
    return comparing.comparison_of(*cases, **fields, base=base, head=head, cross=True, **more)


def served(*found: Finding, server: str = "granian", name: str = FASTAPI) -> comparing.Judged:
    """Three duets, of which the third is not used: 10 → 20 ms of p99, 50 → 75 MB at most."""
    figures = [{"response_p99": n / 100, "pss_steady": (n + 1) * 2.5e7} for n in (1, 2)]
    wrong = {"response_p99": 1.0, "pss_steady": 1e9}
    duets = [make_duet(name, n, *figures) for n in range(2)]
    duets.append(make_duet(name, 2, wrong, wrong, flags=(comparing.UNSTEADY,)))
    sized = [finding.model_copy(update={"base": 1e-4, "head": 1e-4 * (finding.ratio or 1)})
             if finding.subject == comparing.CPU else finding for finding in found]  # fmt: skip
    made = comparing.judged_case(name, *sized, duets=tuple(duets))
    case = made.case.case.model_copy(update={"server": server})
    return made._replace(case=made.case.model_copy(update={"case": case}))


def test_choices_stand_side_by_side(tmp_path: Path) -> None:
    """100 µs and 3 % less are 97 µs; of a pair the newest counts, whichever side is head."""
    free = FASTAPI.replace("3.14", "3.14t")
    older = choice(18, ("uvicorn", "granian"), served(comparing.BETTER))
    newer = choice(
        19,
        ("granian", "uvicorn"),
        served(comparing.BETTER, server="uvicorn", name=f"{FASTAPI}/server-uvicorn"),
    )
    late = comparing.OPEN.model_copy(update={"subject": "response_p99"})
    put(
        tmp_path,
        older,
        newer,
        choice(20, ("3.14", "3.14t"), served(comparing.LATE, late, name=free), option="python"),
        choice(21, ("asyncio", "uvloop"), served(comparing.SAME), option="loop"),
        choice(22, ("uvicorn", "hypercorn"), served(comparing.SAME), start=True),
    )
    page = sites.read(tmp_path / "site" / "x" / "side-by-side" / "index.html")
    html = (tmp_path / "site" / "x" / "side-by-side" / "index.html").read_text("utf-8")
    assert re.findall("<h2>(.*?)</h2>", html) == ["Servers", "Event loops", "Interpreters"]
    servers, loops, pythons = re.split(" Event loops | Interpreters ", page.text)
    said = "uvicorn 1.19 instead of granian 1.19 3.0 % less CPU A JSON response from FastAPI"
    assert servers.index(said) < servers.index("All figures, on"), "the answer comes first"
    assert (
        "A JSON response from FastAPI, Python 3.14, 128 connections granian 1.19 → uvicorn 1.19"
        in servers
    )
    assert "100 → 97.0 µs ▲ better 3.0 % less (2.0…4.0 %)" in servers
    assert "10.0 ms → 20.0 ms not judged" in servers
    assert older.head.label not in page.text
    assert "hypercorn" not in page.text
    assert "100 → 100 µs = same (−0.4…+0.5 %)" in loops
    assert "10.0 ms → 10.1 ms" in pythons
    assert "10.0 ms → 10.1 ms ? unknown +0.6 % (−0.9…+2.1 %)" in pythons
    assert [link for link in page.links if "cmp/" in link and "-a/" in link] == [
        f"../../cmp/{name}/" for name in (newer.id, "20261121T120000Z-compare-a",
                                          "20261120T120000Z-compare-a")
    ]  # fmt: skip
    assert "side-by-side" in (tmp_path / "site" / "x" / "index.html").read_text("utf-8")
    assert list(sites.dead_links(tmp_path / "site")) == []


def test_choices_may_lack_or_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = put(tmp_path, site_builds.make_comparison(FASTAPI))
    page = site / "x" / "side-by-side" / "index.html"
    assert "No two ways have been compared yet." in page.read_text("utf-8")
    monkeypatch.setattr("observatory.show.choices.choices", lambda _: 1 / 0)
    put(tmp_path, choice(18, ("uvicorn", "granian"), served(comparing.BETTER)))
    assert "cannot be shown" in (site / "x" / "side-by-side" / "index.html").read_text("utf-8")
