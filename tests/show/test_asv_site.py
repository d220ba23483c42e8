"""asv's site: complete, with its regressions, and without any other host."""

import base64
import hashlib
import random
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import asv_files
import repos
from asv_files import Bench
from bare import QUIET
from bench import PROJECT
from browsing import NewPage, WatchedPage, serve
from duetbench.core.errors import SetupError
from observatory.show.site import asv_site

COMMITS = 24
STEP = 14
"""The first commit at which the planted benchmark takes 10 % longer."""
FIRST = 1_700_000_000
"""Date of the first commit in s since 1970; each further one is a day later."""

PLANTED, STEADY, FREE, NEVER = (
    Bench(f"demo.Suite.time_{name}") for name in ("planted", "steady", "free", "never")
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The site of commits with 1 % of scatter, in which one benchmark becomes 10 % slower."""
    folder = tmp_path_factory.mktemp("published")
    root, site, source = folder / "repository", folder / "site", random.Random(3)
    root.mkdir()
    repos.git(root, "init", "--quiet", "--initial-branch", "main")
    stream = "".join(
        f"commit refs/heads/main\ncommitter T <t@example.org> {FIRST + 86_400 * day} +0000\n"
        f"data 5\nnight\nM 100644 inline day\ndata {len(str(day))}\n{day}\n"
        for day in range(COMMITS)
    )
    subprocess.run(["git", "fast-import", "--quiet"], cwd=root, input=stream, text=True, check=True)
    commits = repos.git(root, "rev-list", "--reverse", "main").split()
    for name in ("asv.conf.json", "pyproject.toml"):
        shutil.copy(PROJECT / name, root)
    (root / "benchmarks").mkdir()
    results = root / "results" / "asv"
    asv_files.list_benchmarks(results, [PLANTED, STEADY, FREE, NEVER])
    for day, commit in enumerate(commits):
        slower = 1.1 if day >= STEP else 1.0
        for python, figures in {
            "3.14": [(PLANTED, slower), (STEADY, 1.0)],
            "3.14t": [(FREE, 1.0)],
        }.items():
            asv_files.write(
                results,
                python,
                "current",
                [
                    (bench, {(): 1e-4 * by * source.lognormvariate(0, 0.01)})
                    for bench, by in figures
                ],
                commit=commit,
                committed=1000 * (FIRST + 86_400 * day),
            )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        patch.setenv("DUETBENCH_ROOT", str(PROJECT))
        asv_site.publish(root, results, site, QUIET)
        yield site


@pytest.mark.long
def test_a_graph_that_no_run_has_is_empty(site: Path) -> None:
    graphs = [*site.glob(f"graphs/**/{NEVER.name}.json")]
    assert len(graphs) == 3  # 3.14, 3.14t, and the grid's
    assert {graph.read_text() for graph in graphs} == {"[]"}
    assert asv_site.complete(site) == 0


@pytest.mark.long
def test_the_site_names_no_other_host(site: Path) -> None:
    page = (site / "index.html").read_text()
    assert not asv_site._REMOTE.search(page)
    for name in asv_site.copies().values():
        assert f'"vendor/{name}"' in page
        ours = (asv_site.VENDOR / name).read_bytes()
        assert (site / "vendor" / name).read_bytes() == ours


@pytest.mark.parametrize(
    ("element", "words"),
    [
        (
            '<script src="https://a.b/c.js" integrity="sha256-x"></script>',
            r"loads https://a.b/c.js \(sha256-x\), and there is no copy",
        ),
        ('<link href="https://a.b/c.js">', "without checksum"),
    ],
)
def test_an_asv_that_wants_other_libraries_is_refused(
    tmp_path: Path, element: str, words: str
) -> None:
    (tmp_path / "index.html").write_text(element)
    with pytest.raises(SetupError, match=words):
        asv_site.localise(tmp_path)
    assert (tmp_path / "index.html").read_text() == element


def test_every_copy_is_what_was_taken_and_comes_with_its_licence() -> None:
    rows = tomllib.loads((asv_site.VENDOR / "vendored.toml").read_text())["files"]
    for row in rows:
        algorithm, _, wanted = row.get("integrity", row["wanted"]).partition("-")
        digest = hashlib.new(algorithm, (asv_site.VENDOR / row["file"]).read_bytes()).digest()
        assert base64.b64encode(digest).decode() == wanted, row["file"]
    licences = {file.name for file in (asv_site.VENDOR / "licences").iterdir()}
    assert licences == {f"{row['package'].split('@')[0]}.txt" for row in rows}
    files = {file.name for file in asv_site.VENDOR.iterdir() if file.is_file()}
    assert files == {"vendored.toml", *(row["file"] for row in rows)}


@pytest.mark.real
def test_the_site_in_a_browser(site: Path, new_page: NewPage) -> None:
    with serve(site) as base:
        page = new_page()
        watched = WatchedPage(page, base)
        page.goto(base)
        page.wait_for_selector(".benchmark-container")
        assert page.locator(".benchmark-container").count() == 4
        assert "Suite.time_planted" in page.inner_text("body")

        page.goto(f"{base}#{PLANTED.name}")
        page.wait_for_selector("#main-graph canvas.flot-base")
        drawn = "$('#main-graph').data('plot').getData().map(series => series.data.length)"
        page.wait_for_function(f"{drawn}.includes({COMMITS})")

        # Measured on one interpreter only, which is not the first; and declared, but not measured.
        for name in (FREE.name, NEVER.name):
            page.goto(f"{base}#{name}")
            page.wait_for_function(f"$('#title').text() === '{name}'")
            # All of its data must be there before the next page hides the plot they go into.
            page.wait_for_function("$.active === 0 && $('#main-graph').data('plot') !== undefined")

        page.goto(f"{base}#/summarylist")
        page.wait_for_selector("#summarylist-body table tbody tr")

        page.goto(f"{base}#/regressions")
        row = page.wait_for_selector("#regressions-body table tbody tr")
        assert row is not None
        assert PLANTED.name in row.inner_text()
        assert watched.troubles == []
