"""asv's site: complete, and with its regressions."""

import json
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import asv_files
import repos
from asv_files import Bench
from bare import QUIET
from bench import PROJECT
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
def test_the_planted_step_is_a_regression(site: Path) -> None:
    found = json.loads((site / "regressions.json").read_text())["regressions"]
    assert {name for name, *_ in found} == {PLANTED.name}
