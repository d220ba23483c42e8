"""Applications of somebody's own, measured with the commands that docs/applications.md shows."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import postgres
from bench import Bench
from repos import PROJECT, borrow_cache, commit, git
from servebench.core.model import Launch, Run
from servebench.record import store

SECRET = "not-to-be-recorded"
SHOP = (
    "--app", "shop.main:app", "--path", "/items/7", "--connections", "8",
    "--env", "SHOP_DATABASE_URL=sqlite:///{tmp}/" + SECRET + ".db",
    "--before", "python -m shop.seed",
)  # fmt: skip


@pytest.fixture
def projects(tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for repositories, each of which is measured from within."""
    assert bench.folder == tmp_path
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, "/dev/null")
    monkeypatch.delenv("SERVEBENCH_ROOT")
    borrow_cache(tmp_path / "cache", monkeypatch)
    return tmp_path / "projects"


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with postgres.server() as address:
        yield address


def laid_out(projects: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of one of the projects, as its author has it: with what git does not hold."""
    root = projects / name
    ignored = shutil.ignore_patterns("__pycache__", ".venv")
    shutil.copytree(PROJECT / "tests" / "projects" / name, root, ignore=ignored)
    if name == "shop":  # its lock names the addresses of an index, so that none is kept
        subprocess.run([sys.executable, "-m", "uv", "lock", "--quiet"], cwd=root, check=True)
    git(root, "init", "--quiet", "--initial-branch=main")
    commit(root, "As it was")
    monkeypatch.chdir(root)
    return root


def measured(bench: Bench) -> tuple[Run, Launch]:
    """The only launch of the only run, which must have gone well, wherever it was recorded."""
    (path,) = store.runs(next((bench.folder / "state").rglob("results")))
    assert SECRET not in path.read_text("utf-8")
    run = store.load(path)
    ((launch,),) = (result.launches for result in run.results)
    assert launch.metrics["good"] == launch.metrics["requests"] > 100, launch.flags
    return run, launch


def test_a_commit_of_a_service_in_src_is_found_slower(
    projects: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FastAPI, SQLAlchemy, SQLite, uv.lock, settings from the environment: no file is written."""
    root = laid_out(projects, "shop", monkeypatch)
    prices = root / "src" / "shop" / "prices.py"
    slow = "    sum(range(100_000))\n    return"
    prices.write_text(prices.read_text().replace("    return", slow))
    commit(root, "Slower")
    done = bench("compare", "HEAD~1", *SHOP, "--budget", "90s", "--output", "found.json")
    assert done.code == 1, done
    text = (root / "found.json").read_text("utf-8")
    assert SECRET not in text + done.out + done.err
    (case,) = json.loads(text)["cases"]
    assert case["id"].startswith("shop/get-items-7/")
    assert {one["verdict"] for one in case["judgements"]} >= {"slower"}
    assert not git(root, "status", "--porcelain").replace("?? found.json", "")


def test_the_service_is_measured_as_it_is(
    projects: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = laid_out(projects, "shop", monkeypatch)
    done = bench("run", *SHOP, "--seconds", "1")
    assert done.code == 0, done
    run, _ = measured(bench)
    case = run.results[0].case
    assert case.endpoint.title == "GET /items/7"
    assert case.env_names == ("SHOP_DATABASE_URL",)
    assert not git(root, "status", "--porcelain")


def test_a_factory_with_postgresql(
    projects: Path, bench: Bench, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flask, requirements.txt; a database of its own for each start of the server."""
    laid_out(projects, "notes", monkeypatch)
    done = bench(
        "run", "--app", "notes:create_app", "--factory", "--path", "/notes/7",
        "--env", f"NOTES_DATABASE_URL={database}/notes_{{port}}", "--seconds", "1",
        "--before", "python -m notes.schema", "--after", "python -m notes.schema --drop",
        "--connections", "8",
    )  # fmt: skip
    assert done.code == 0, done
    assert measured(bench)[0].results[0].case.endpoint.interface == "wsgi"


def test_a_post_with_a_token(projects: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bare ASGI application answers 401 without the header, and 201 with it."""
    laid_out(projects, "bare", monkeypatch)
    asked = (
        "run", "--app", "bare:app", "--request", "POST /orders @order.json", "--seconds", "1",
        "--env", f"BARE_TOKEN={SECRET}", "--expect-status", "201", "--connections", "8",
    )  # fmt: skip
    assert bench(*asked).code in {1, 3}
    done = bench(*asked, "--header", "Authorization: Bearer {BARE_TOKEN}")
    assert done.code == 0, done
