"""asv's site of a checkout's results."""

import json
import shutil
from pathlib import Path

import pytest

import asv_files
from asv_files import Bench
from bare import QUIET
from bench import PROJECT
from observatory.show.site import asv_site
from repos import keep

STEADY, FREE, NEVER = (Bench(f"demo.Suite.time_{name}") for name in ("steady", "free", "never"))


@pytest.mark.long
def test_the_site_has_a_graph_of_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, site = tmp_path / "repository", tmp_path / "site"
    (root / "benchmarks").mkdir(parents=True)
    for name in ("asv.conf.json", "pyproject.toml"):
        shutil.copy(PROJECT / name, root)
    results, commit = root / "results" / "asv", keep(root)
    asv_files.list_benchmarks(results, [STEADY, FREE, NEVER])
    for python, bench in (("3.14", STEADY), ("3.14t", FREE)):
        asv_files.write(results, python, "current", [(bench, {(): 1e-4})], commit=commit)
    for name, folder in (("HOME", tmp_path), ("XDG_STATE_HOME", tmp_path / "state")):
        monkeypatch.setenv(name, str(folder))
    monkeypatch.setenv("DUETBENCH_ROOT", str(PROJECT))
    asv_site.publish(root, results, site, QUIET)
    (steady,) = (path for path in site.glob(f"graphs/**/python-3.14/**/{STEADY.name}.json"))
    assert json.loads(steady.read_text())[0][1] == 1e-4
