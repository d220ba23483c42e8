"""asv's site: made from load runs, with their regressions, and without any other host."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

import asv_history
import synthetic
from asv_history import History
from browsing import Watched, browser, kept, served
from servebench import paths
from servebench.cli.asv import asv_app
from servebench.errors import SetupError, UsageError
from servebench.inprocess import publish, tachyon, vendored
from servebench.model import CaseResult
from servebench.progress import Narrator

COMMITS = 40
STEP = 25
"""The first commit at which the planted case takes 10 % more CPU."""

PLANTED = synthetic.make_case("demo/planted/py3.14/c128")
STEADY = synthetic.make_case("demo/steady/py3.14/c128")
FREE = synthetic.make_case("demo/free/py3.14t/c128")
NEVER = synthetic.make_case("demo/never/py3.14/c128")
NAME = "load_runs.demo.track_planted_c128_cpu"


@dataclass(frozen=True)
class Published:
    """A history and the site made of it."""

    history: History
    site: Path


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    """The site of forty nights with 1 % of scatter, in which one case becomes 10 % slower."""
    folder = tmp_path_factory.mktemp("published")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        history = asv_history.make(folder / "repository", COMMITS, [PLANTED, STEADY, FREE, NEVER])
        source = random.Random(3)
        for day in range(COMMITS):
            cases = (PLANTED, 1.1 if day >= STEP else 1.0), (STEADY, 1.0), (FREE, 1.0)
            history.record(day, *(night(case.id, cpu, source) for case, cpu in cases))
        history.export()
        site = folder / "site"
        patch.setenv("SERVEBENCH_ROOT", str(paths.OWN))
        publish.publish(history.root, site, Narrator(Console(quiet=True)))
        yield Published(history, site)


def night(case_id: str, factor: float, source: random.Random) -> CaseResult:
    """Three launches around 100 µs of CPU, 5,000 requests/s, 20 ms and 80 MB."""

    def near(value: float) -> float:
        return value * source.lognormvariate(0, 0.01)

    launches = [
        synthetic.ok(
            case_id,
            number,
            {
                "server_cpu_per_request": near(1e-4) * factor,
                "throughput": near(5000),
                "response_p99": near(0.02),
                "pss_steady": near(8e7),
            },
        )
        for number in range(3)
    ]
    return CaseResult(case=synthetic.make_case(case_id), launches=tuple(launches))


def test_a_planted_step_is_among_the_regressions(published: Published) -> None:
    """The 10 % are found at the commit where they were planted, and nothing in steady series."""
    found = json.loads((published.site / "regressions.json").read_text())["regressions"]
    (regression,) = found
    name, path, _, _, last, best, jumps = regression
    assert name == NAME
    assert "python-3.14" in path
    assert "stack-current" in path
    assert last / best == pytest.approx(1.1, abs=0.02)
    ((before, after, low, high),) = jumps
    assert (before, after) == (None, STEP)
    assert high / low == pytest.approx(1.1, abs=0.02)


def test_every_commit_is_a_point(published: Published) -> None:
    """The graph of a case has the median launch of every night, by commit."""
    (graph,) = published.site.glob(f"graphs/**/python-3.14/**/{NAME}.json")
    points = json.loads(graph.read_text())
    assert [revision for revision, _ in points] == list(range(COMMITS))
    assert all(value == pytest.approx(1e-4, rel=0.05) for _, value in points[:STEP])
    index = json.loads((published.site / "index.json").read_text())
    assert index["benchmarks"][NAME]["unit"] == "seconds"
    assert index["params"]["stack"] == ["current"]


def test_a_graph_that_no_run_has_is_empty(published: Published) -> None:
    """Every benchmark has a file under every combination of keys, so that no request fails."""
    never = NAME.replace("planted", "never")
    graphs = [*published.site.glob(f"graphs/**/{never}.json")]
    assert len(graphs) == 3  # 3.14, 3.14t, and the grid's
    assert {graph.read_text() for graph in graphs} == {"[]"}
    assert publish.complete(published.site) == 0


def test_the_site_names_no_other_host(published: Published) -> None:
    """Every library of the page is a file of the site, and is the one that asv's page demanded."""
    page = (published.site / "index.html").read_text()
    assert not publish._REMOTE.search(page)
    for copy in vendored.known().values():
        assert f'"vendor/{copy.file}"' in page
        content = (published.site / "vendor" / copy.file).read_bytes()
        assert vendored.integrity(content, copy.integrity.split("-")[0]) == copy.integrity


def test_the_site_is_made_again_in_its_place(
    published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A site that asv made is replaced; a folder with anything else in it is left alone."""
    quiet = Narrator(Console(quiet=True))
    (published.site / "old").touch()
    shutil.copy(asv_history.PROJECT / "pyproject.toml", published.history.root)
    monkeypatch.setenv("SERVEBENCH_ROOT", str(published.history.root))
    done = CliRunner().invoke(asv_app, ["publish", "--output", str(published.site)])
    assert done.exit_code == 0, done.output
    assert f"nightly runs: {COMMITS}, with {12 * COMMITS} figures" in done.output
    assert f"the site is in {published.site} (index.html" in done.output
    assert not (published.site / "old").exists()
    assert (published.site / "vendor").is_dir()
    with pytest.raises(UsageError, match="found something else: name another folder"):
        publish.publish(published.history.root, published.history.root, quiet)


def test_an_asv_that_wants_other_libraries_is_refused(tmp_path: Path) -> None:
    """A new address or checksum in asv's page is told, and the page stays as it was."""
    page = tmp_path / "index.html"
    address = "https://example.org/jquery.js"
    text = f'<script src="{address}" integrity="sha256-x"></script>'
    page.write_text(text)
    with pytest.raises(SetupError, match=rf"loads {address} \(sha256-x\), and there is no copy"):
        publish.localise(tmp_path)
    assert page.read_text() == text
    page.write_text(f'<link href="{address}">')
    with pytest.raises(SetupError, match="without checksum"):
        publish.localise(tmp_path)


def test_copies_that_were_tampered_with_are_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy whose checksum is another one ends in a sentence, and so does a missing one."""
    shutil.copytree(vendored.FOLDER, tmp_path / "vendor")
    copy = next(iter(vendored.known().values()))
    monkeypatch.setattr(vendored, "FOLDER", tmp_path / "vendor")
    (tmp_path / "vendor" / copy.file).write_text("alert(1)")
    with pytest.raises(SetupError, match=r"expected sha.*, found sha.*: restore it from git"):
        copy.read()
    (tmp_path / "vendor" / copy.file).unlink()
    with pytest.raises(SetupError, match="restore it from git"):
        copy.read()


def test_every_copy_comes_with_its_licence() -> None:
    """Each package has its licence beside its files, and nothing lies there unaccounted for."""
    copies = vendored.known().values()
    licences = {f"{copy.package.split('@')[0]}.txt" for copy in copies}
    kept = {file.name for file in (vendored.FOLDER / "licences").iterdir()}
    assert kept == licences
    files = {file.name for file in vendored.FOLDER.iterdir() if file.is_file()}
    assert files == {"vendored.toml", *(copy.file for copy in copies)}


@pytest.mark.real
def test_the_site_in_a_browser(published: Published) -> None:
    """Grid, graph, list and regressions show in Chromium: no error, no other host."""
    with served(published.site) as base, browser() as chromium:
        page = chromium.new_page(viewport={"width": 1280, "height": 800})
        watched = Watched(page, base)
        page.goto(base)
        page.wait_for_selector(".benchmark-container")
        assert page.locator(".benchmark-container").count() == 4 * 4
        assert "demo/planted/c128: server CPU per request" in page.inner_text("body")

        page.goto(f"{base}#{NAME}")
        page.wait_for_selector("#main-graph canvas.flot-base")
        drawn = "$('#main-graph').data('plot').getData().map(series => series.data.length)"
        page.wait_for_function(f"{drawn}.includes({COMMITS})")
        kept(page, "asv-graph")

        # Measured on one interpreter only, which is not the first; and declared, but not measured.
        for name in (NAME.replace("planted", "free"), NAME.replace("planted", "never")):
            page.goto(f"{base}#{name}")
            page.wait_for_function(f"$('#title').text() === '{name}'")
            # All of its data must be there before the next page hides the plot they go into.
            page.wait_for_function("$.active === 0 && $('#main-graph').data('plot') !== undefined")

        page.goto(f"{base}#/summarylist")
        page.wait_for_selector("#summarylist-body table tbody tr")

        page.goto(f"{base}#/regressions")
        row = page.wait_for_selector("#regressions-body table tbody tr")
        assert row is not None
        assert NAME in row.inner_text()
        kept(page, "asv-regressions")
        assert watched.troubles == []


@pytest.mark.real
def test_tachyons_view_in_a_browser(published: Published) -> None:
    """Where asv-tachyon is installed its page is beside asv's: same data, no error, no other host.

    It is optional; without it there is no such page.
    """
    if not tachyon.add(published.site):
        assert not (published.site / tachyon.PAGE).exists()
        return
    with served(published.site) as base, browser() as chromium:
        page = chromium.new_page(viewport={"width": 1280, "height": 800})
        watched = Watched(page, base)
        page.goto(base + tachyon.PAGE)
        page.wait_for_selector("text=40 revisions")
        kept(page, "asv-tachyon")
        assert watched.troubles == []
