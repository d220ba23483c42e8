"""An application that nobody has declared: copies of its repository, and a comparison of two."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from bare import QUIET
from bench import Bench
from duetbench.core.errors import UsageError
from duetbench.core.metrics import CPU
from duetbench.core.model import Interface
from duetbench.judge import affected, deployment, preparation, revisions
from duetbench.judge.preparation import Scope
from duetbench.judge.repetition import command
from duetbench.measure import duet
from duetbench.project.deployed_target import DeployedTarget
from duetbench.project.project import Project
from duetbench.project.setting import Contrast
from duetbench.project.target import Target
from duetbench.store import files
from duetbench.store.comparison import Comparison
from repos import asgi, commit, git, work_in, write

APP = asgi("from shop import items\n", 'body = items.find(scope["path"])')
ITEMS = "def find(path):\n    return path.encode()\n"
SLOWER = "def find(path):\n    sum(range(20_000))\n    return path.encode()\n"
PYPROJECT = '[project]\nname = "shop"\nversion = "0.1"\nrequires-python = ">=3.11"\n'


@pytest.fixture
def shop(tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository of somebody's, without a word of ours; its second commit is slower."""
    assert bench.folder == tmp_path
    files = {
        "pyproject.toml": PYPROJECT, ".python-version": "3.14\n", "src/shop/__init__.py": "",
        "src/shop/main.py": APP, "src/shop/items.py": ITEMS, "tests/test_shop.py": "import shop\n",
        ".gitignore": "__pycache__/\n",
    }  # fmt: skip
    root = work_in(tmp_path / "shop", files, monkeypatch)
    commit(root, "Slower", **{"src/shop/items.py": SLOWER})
    monkeypatch.chdir(root / "src")
    yield root
    assert not git(root, "status", "--porcelain")


@pytest.fixture
def project(shop: Path) -> Project:
    keys = {"app": "shop.main:app", "requests": ("GET /items/7",), "env": {"SECRET": "words"}}
    return Project(shop, Target.model_validate(keys))


@pytest.fixture
def scope(tmp_path: Path) -> Iterator[Scope]:
    with revisions.copies() as copies:
        yield Scope("quick", (), tmp_path / "logs", QUIET, copies)


@pytest.mark.real
def test_revisions_that_declare_nothing_are_prepared(
    shop: Path, project: Project, scope: Scope
) -> None:
    """Each with its code; interface, server and interpreter are found out once, for both."""
    both = preparation.prepare(project, Contrast(("HEAD~1", None)), scope)
    (case,) = both.head.cases
    assert both.base.cases == both.head.cases
    assert case.id == "shop/get-items-7/py3.14/c64"
    assert (case.endpoint.interface, case.server, case.stack) == ("asgi", "granian", "project")
    assert case.env_names == ("SECRET",)
    base, head = both.base.testbed.stacks["project"], both.head.testbed.stacks["project"]
    assert base.digest == head.digest
    assert "granian" in head.packages
    assert isinstance(both.head.subject, DeployedTarget)
    assert deployment.describe(both.head.subject) == (
        f"shop.main:app by granian {head.packages['granian']}, workers: 1, asyncio, "
        f"64 connections, Python {both.head.testbed.interpreters['3.14'].version}, "
        "packages from pyproject.toml"
    )
    found = affected.find(both)
    assert [(p.case.id, p.reason) for p in found.pairs] == [(case.id, "src/shop/items.py")]
    # A lock whose packages are the same.
    commit(shop, "A lock", **{"requirements.txt": "granian\n"})
    assert (
        affected.find(preparation.prepare(project, Contrast(("HEAD~1", None)), scope)).pairs == ()
    )
    said = {"pyproject.toml": PYPROJECT.replace("0.1", "0.2"), "src/shop/main.py": f"# 2\n{APP}"}
    commit(shop, "A release", **said)
    assert affected.find(
        preparation.prepare(project, Contrast(("HEAD~1", None)), scope)
    ).empty_reason == (
        "Nothing to judge: same code: only comments, layout, requirements or the version differ in "
        "pyproject.toml, src/shop/main.py."
    )
    commit(shop, "Metadata", **{"pyproject.toml": PYPROJECT.replace("shop", "stall")})
    (pair,) = affected.find(preparation.prepare(project, Contrast(("HEAD~1", None)), scope)).pairs
    assert pair.reason == "pyproject.toml"
    # Another interpreter is asked for by base, and head's is used.
    commit(shop, "Older", **{".python-version": "3.11\n"})
    commit(shop, "Newer again", **{".python-version": "3.14\n"})
    both = preparation.prepare(project, Contrast(("HEAD~1", None)), scope)
    assert both.base.testbed.interpreters == both.head.testbed.interpreters
    assert any(
        note.startswith("base asks for Python 3.11 (.python-version)") for note in both.notes
    )


@pytest.mark.real
def test_locks_are_found_here_and_in_other_revisions(shop: Path, scope: Scope) -> None:
    commit(shop, "A lock", **{"requirements.txt": "granian==1\n"})
    write(shop, "requirements.txt", "granian==2\n")
    write(shop.parent, "new/requirements.txt", "granian==3\n")
    write(shop.parent, "new/a.txt", "\n")
    (shop.parent / "new" / "b.lock").write_bytes(b"\xff\0")
    for named, version in {
        "../requirements.txt": 2, "requirements.txt": 2, "requirements.txt@HEAD": 1,
        str(shop.parent / "new" / "requirements.txt"): 3,
    }.items():  # fmt: skip
        found = deployment.lock_at(shop, named, scope.copies)
        assert found.file.read_text() == f"granian=={version}\n", named
        assert found.label == named
    git(shop, "checkout", "--quiet", "requirements.txt")
    for named, sentence in {
        "uv.lock": r"lock=uv\.lock: expected a file, or FILE@REV such as uv\.lock@main",
        "uv.lock@HEAD": r"lock=uv\.lock@HEAD: HEAD has no file uv\.lock",
        "uv.lock@nowhere": "'nowhere' is no revision here",
        "../../new/a.txt": r"lock=\.\./\.\./new/a\.txt: expected .*, found an empty file",
        "../../new/b.lock": r"/b\.lock: expected a list of packages, found bytes that are no text",
    }.items():
        with pytest.raises(UsageError, match=sentence):
            deployment.lock_at(shop, named, scope.copies)


WAITS = """\
import asyncio
import contextlib

LOCK = {lock}


async def find(path):
    async with LOCK:
        await asyncio.sleep({seconds})
    return path.encode()
"""


@pytest.mark.real
@pytest.mark.usefixtures("patient_verification")
@pytest.mark.parametrize(("locks", "swapped"), [(False, True), (True, False)])
def test_handlers_that_wait_leave_cores_idle_unless_they_wait_for_each_other(
    shop: Path, project: Project, scope: Scope, tmp_path: Path, *, locks: bool, swapped: bool
) -> None:
    """Half as long again is 1.5 times the median; behind a lock requests come one by one."""
    waiting = APP.replace("items.find", "await items.find")
    free, locked = "contextlib.nullcontext()", "asyncio.Lock()"
    for lock, seconds in ((free, 0.02), (locked, 0.02) if locks else (free, 0.03)):
        text = WAITS.format(lock=lock, seconds=seconds)
        commit(shop, "It waits", **{"src/shop/main.py": waiting, "src/shop/items.py": text})
    (pair,) = preparation.prepare(project, Contrast(("HEAD~1", None)), scope).pairs
    most = 64 if locks else 256  # which keep the cores of any machine busy
    load = pair.case.load.model_copy(update={"connections": most})
    case = pair.case.model_copy(update={"load": load})
    base, head = (replace(part, case=case) for part in pair.sides)
    parts = (head, base) if swapped else (base, head)
    (found,) = duet.perform([parts], lambda side: tmp_path / f"{side}.log", head_first=swapped)
    assert found.usable or found.disturbed, found
    quick, slow = (found.head, found.base) if swapped else (found.base, found.head)
    if locks:
        assert found.wait is None
        assert found.connections == 32  # each waits 20 ms: 50 are answered in a second
        assert slow["throughput"] < quick["throughput"] / 5
        return
    assert found.wait == pytest.approx(0.03, abs=0.01)
    assert found.connections is not None
    assert found.connections < most
    assert slow["response_p50"] / quick["response_p50"] == pytest.approx(1.5, abs=0.15)


@pytest.mark.real
@pytest.mark.usefixtures("patient_verification")
@pytest.mark.parametrize(
    ("work", "swapped"), [("time.sleep(0.25)", False), ("sum(range(30_000_000))", True)]
)
def test_the_slower_side_decides_how_many_connections_load_both(
    shop: Path, project: Project, scope: Scope, tmp_path: Path, *, work: str, swapped: bool
) -> None:
    """Of 64 that are answered last, after each has had its turn, none would be in time."""
    waiting = APP.replace("items.find", "await items.find")
    for slow in ("0", work):
        text = WAITS.format(lock="contextlib.nullcontext()", seconds=0)
        text = f"import time\n{text}".replace("    async with", f"    {slow}\n    async with")
        commit(shop, "It blocks", **{"src/shop/main.py": waiting, "src/shop/items.py": text})
    (pair,) = preparation.prepare(project, Contrast(("HEAD~1", None)), scope).pairs
    parts = pair.sides[::-1] if swapped else pair.sides
    (found,) = duet.perform([parts], lambda side: tmp_path / f"{side}.log", head_first=swapped)
    assert not [found.failures(side) for side in found.failed], found
    quick, slowed = (found.head, found.base) if swapped else (found.base, found.head)
    assert (found.connections or 64) <= 8
    assert slowed["throughput"] < quick["throughput"] / 5


COMPUTES = """\
async def find(path):
    sum(range(500_000))
    return path.encode()
"""
SPIN: Final = """\
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
print(flush=True)
while True: pass
"""


@pytest.mark.real
@pytest.mark.parametrize("waits", [True, False])
def test_a_handler_that_gets_no_core_does_not_wait(
    shop: Path, project: Project, scope: Scope, tmp_path: Path, *, waits: bool
) -> None:
    """Three programs take the server's core from it; 20 ms of sleep are a wait all the same."""
    text = WAITS.format(lock="contextlib.nullcontext()", seconds=0.02) if waits else COMPUTES
    waiting = APP.replace("items.find", "await items.find")
    commit(shop, "Async", **{"src/shop/main.py": waiting, "src/shop/items.py": text})
    (pair,) = preparation.prepare(project, Contrast(("HEAD~1", None)), scope).pairs
    run = duet.SideRun("head", [pair.head], [pair.case.load], tmp_path / "head.log")
    core = max(pair.head.testbed.server_cores(pair.case))
    with ExitStack() as stack:
        run.start(aside=False)
        stack.callback(run.serving.abandon)
        run.meet()
        run.serving.session.move((core,))
        for _ in range(3):
            argv = [sys.executable, "-c", SPIN, str(core)]
            spin = stack.enter_context(subprocess.Popen(argv, stdout=subprocess.PIPE))
            stack.callback(spin.kill)
            assert spin.stdout is not None
            spin.stdout.readline()  # it is on that core
        run.verify()
    assert run.waits is waits, (run.wait, run.work)
    assert waits is (run.wait > 0.01)


TURNS = """\
import os

def find(path):
    sum(range(int(os.environ["TURNS"])))
    return path.encode()
"""


@pytest.mark.real
@pytest.mark.parametrize(
    ("file", "text", "interface", "python", "served"),
    [
        ("Procfile", "web: gunicorn -k uvicorn.workers.UvicornWorker a:b", None, "3.14",
         ("uvicorn-worker", "asyncio")),
        ("gunicorn.conf.py", 'worker_class = "gevent"', "wsgi", "3.14", ("gunicorn", "gevent")),
        ("docker/start.sh", "gunicorn --worker-class=gevent a:b", None, "3.14",
         ("gunicorn", "gevent")),
        ("Procfile", "web: gunicorn -k gevent a:b", "wsgi", "3.14t", ("gunicorn", "asyncio")),
        ("Procfile", "web: gunicorn -k gevent a:b", "asgi", "3.14", ("uvicorn", "asyncio")),
        ("Procfile", "web: uvicorn a:b  # no UvicornWorker", None, "3.14", ("uvicorn", "asyncio")),
    ],
)  # fmt: skip
def test_gunicorn_gets_the_workers_that_the_repository_starts_it_with(
    file: str, text: str, interface: Interface | None, python: str, served: tuple[str, str],
    tmp_path: Path,
) -> None:  # fmt: skip
    write(tmp_path, file, text)
    locked = dict.fromkeys(("gunicorn", "uvicorn", "gevent"), "26")
    pythons = (Project.here().interpreter(python),)

    def found(choice: Target) -> tuple[str, str]:
        server, (way,), notes = deployment._served(tmp_path, locked, [choice], interface, pythons)
        assert [f"as {Path(file).name} says" in note for note in notes] == [True] * (
            server == "uvicorn-worker" or way.loop == "gevent"
        )
        return server, way.loop

    assert found(Target(app="a:b")) == served
    assert found(Target(app="a:b", server="granian")) == ("granian", "asyncio")


@pytest.mark.real
def test_two_servers_are_in_one_environment(project: Project, scope: Scope) -> None:
    """Both sides have the same packages, with what either server needs."""
    servers = Contrast(
        base=("server=uvicorn", "loop=uvloop"), head=("server=granian", "loop=asyncio")
    )
    both = preparation.prepare(project, servers, scope)
    (pair,) = both.pairs
    assert [(one.case.server, one.case.loop) for one in pair.sides] == [
        ("uvicorn", "uvloop"), ("granian", "asyncio"),
    ]  # fmt: skip
    stacks = [side.testbed.stacks["project"] for side in (both.base, both.head)]
    assert stacks[0].digest == stacks[1].digest
    versions = stacks[0].packages
    assert {"uvicorn", "httptools", "uvloop", "granian"} <= versions.keys()
    assert both.base.record.label == f"uvicorn {versions['uvicorn']}, uvloop"
    assert both.head.record.label == f"granian {versions['granian']}, asyncio"
    threads = Contrast(base=("threads=2",), head=("threads=4",))
    with pytest.raises(UsageError, match="--threads 2: expected blocking threads for wsgi"):
        preparation.prepare(project, threads, scope)


@pytest.mark.real
def test_several_things_may_differ_at_once(project: Project, scope: Scope) -> None:
    """Which the report says; what differs in the code is looked for all the same."""
    sides = Contrast(("HEAD", "HEAD"), head=("workers=2", "env.JIT=1"))
    both = preparation.prepare(project, sides, scope)
    (pair,) = both.pairs
    assert [(one.case.workers, one.case.env) for one in pair.sides] == [(1, {}), (2, {"JIT": "1"})]
    base, head = both.base.record, both.head.record
    assert (base.label, head.label) == ("HEAD, 1 worker, no JIT", "HEAD, 2 workers, JIT=1")
    assert (base.kind, head.kind, head.words) == ("several", "several", sides.head)
    assert both.notes[0].startswith("revision, setting: these differ at once")
    assert (pair.executes_alike, both.cross) == (False, True)
    again = ["duetbench", "compare", *[(head.commit or "")[:12]] * 2]
    assert command(base, head, ["--all"]) == " ".join(
        (*again, "--head workers=2 --head env.JIT=1 --all")
    )


@pytest.mark.real
@pytest.mark.usefixtures("unobserved")
def test_a_variable_of_one_side_is_seen_by_its_servers_alone(shop: Path, bench: Bench) -> None:
    """More work by a variable is more core time; and it is no loss."""
    commit(shop, "By a variable", **{"src/shop/items.py": TURNS})
    out = bench.folder / "found.json"
    done = bench(
        "compare", "--app", "shop.main:app", "--path", "/items/7", "--env", "TURNS=7",
        "--base", "env.TURNS=0", "--head", "env.TURNS=20000",
        "--budget", "16s", "-o", out,
    )  # fmt: skip
    assert (done.code in {0, 3}, done.err) == (True, ""), done
    found = files.read(Comparison, out)
    (case,) = found.cases
    ratios = [duet.head[CPU] / duet.base[CPU] for duet in case.duets if duet.base]
    assert ratios, done
    assert min(ratios) > 1.5, done
    assert (found.base.label, found.head.label) == ("TURNS=0", "TURNS=20000")
    assert case.case.env == {"TURNS": "20000"}
    assert found.reproduce[0].startswith(
        "duetbench compare --base env.TURNS=0 --head env.TURNS=20000 --profile quick"
    )
