"""Does what differs run at all? If not in requests, perhaps in their servers, or by other paths."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from bench import Bench
from duetbench.judge import coverage, session
from duetbench.judge.session import Question, empty_comparison
from duetbench.show.conclusion import covers
from duetbench.store.comparison import Comparison, Coverage
from repos import commit, work_in

MAIN: Final = """
from shop import work

class Route:
    def __init__(self, path):
        self.path, self.methods = path, ["GET"]

class App:
    routes = [Route("/"), Route("/sync"), Route("/items/{item}")]

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            await receive()
            work.start()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        names = {"/": "index", "/sync": "sync"}
        body = getattr(work, names.get(scope["path"], "one"))()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

app = App()
"""
WORK: Final = """
import threading
import time

SIZE = 1
ready = threading.Event()

def start():
    threading.Thread(target=refresh, daemon=True).start()
    ready.wait()

def refresh():
    ready.set()
    while True:
        time.sleep(30)
        forget()

def forget():
    return 1

def index():
    return b"index"

def sync():
    return b"sync" * 2

def one():
    return stock()

def stock():
    return b"one"
"""
PROJECT: Final = '[project]\nname = "shop"\nversion = "0.1"\nrequires-python = ">=3.11"\n'


class _Measured:
    """Stands in for the session: it keeps the question, and runs no duet."""

    def __init__(self) -> None:
        self.question: Question | None = None

    def __call__(self, question: Question, *_: Any) -> Comparison:
        self.question = question
        return empty_comparison(question)


@pytest.fixture
def shop(tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Path:
    assert bench.folder == tmp_path
    files = {
        "pyproject.toml": PROJECT, ".python-version": "3.14\n", "shop/__init__.py": "",
        "shop/main.py": MAIN, "shop/work.py": WORK, ".gitignore": "__pycache__/\n",
    }  # fmt: skip
    return work_in(tmp_path / "shop", files, monkeypatch)


Compare = Callable[..., tuple[Question | None, Coverage, str]]
SYNC: Final = "* 2", "* 3"
STARTED: Final = "ready.set()\n", "ready.set()\n    sum(range(9))\n"
SERVED: Final = pytest.mark.parametrize(
    ("back", "more"),
    [
        (False, ()),
        pytest.param(True, (), marks=pytest.mark.thorough),
        pytest.param(False, ("--server", "granian", "--workers", "2"), marks=pytest.mark.thorough),
        pytest.param(True, ("--server", "granian", "--workers", "2"), marks=pytest.mark.thorough),
    ],
)
"""Which side has a change, and what serves it."""


@pytest.fixture
def compare(shop: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Compare:
    """Compare a commit, in which something old is new, with the one before it."""
    out, measured = bench.folder / "found.json", _Measured()
    monkeypatch.setattr(session, "compare", measured)

    def compare(
        old: str, new: str, *more: str, back: bool = False
    ) -> tuple[Question | None, Coverage, str]:
        text = WORK.replace(old, new)
        assert text != WORK
        for content in (text, WORK) if back else (text,):
            commit(shop, "A change", **{"shop/work.py": content})
        done = bench(
            "compare", "HEAD~1", "--app", "shop.main:app", "--path", "/", "--budget", "9s",
            "--output", out, *more, *(() if "--server" in more else ("--server", "uvicorn")),
        )  # fmt: skip
        if measured.question is None:
            assert (done.code, done.err) == (0, ""), done
        covered = json.loads(out.read_text())["coverage"]
        return measured.question, Coverage.model_validate(covered), done.out

    return compare


@pytest.mark.real
@SERVED
def test_what_runs_nowhere_is_not_measured(
    back: bool, more: tuple[str, ...], compare: Compare
) -> None:
    question, found, said = compare(*SYNC, *more, back=back)
    assert question is None, found
    assert (found.idle, found.paths, found.missed) == (
        True, ("GET /sync",), ("sync in shop/work.py",),
    )  # fmt: skip
    assert "Nothing to judge: nothing that changed runs" in said
    assert f"{covers(found)}" in said


@pytest.mark.real
@SERVED
def test_what_a_server_runs_is_measured(
    back: bool, more: tuple[str, ...], compare: Compare
) -> None:
    question, found, said = compare(*STARTED, *more, back=back)
    assert question is not None
    assert len(question.sides.pairs) == 1
    assert (found.entered, found.server) == (0, ("refresh, shop/work.py:12",))
    assert "run by the server, not in a request: refresh, shop/work.py:12" in said


@pytest.mark.real
def test_what_runs_nowhere_is_measured_if_that_is_asked_for(compare: Compare) -> None:
    question, found, _ = compare(*SYNC, "--all")
    assert question is not None
    assert (found.idle, found.paths) == (False, ("GET /sync",))


@pytest.mark.thorough
@pytest.mark.real
def test_a_path_is_named_with_a_value(compare: Compare) -> None:
    question, found, _ = compare('b"one"', 'b"two"')
    assert (question, found.paths) == (None, ("GET /items/1",))


@pytest.mark.real
def test_what_may_run_later_is_measured(compare: Compare) -> None:
    question, found, _ = compare("return 1", "return 2")  # it runs after half a minute
    assert question is not None
    assert (found.idle, found.doubt) == (False, "refresh, shop/work.py:12 uses what differs")


@pytest.mark.thorough
@pytest.mark.real
def test_code_outside_functions_is_measured(compare: Compare) -> None:
    question, found, _ = compare("SIZE = 1", "SIZE = 2")
    assert question is not None
    assert not found.idle


FRAME: Final = """\
import json

def plain(a: int) -> int:
    return a

class Shop:
    def get(self):
        return 1
"""


@pytest.mark.parametrize(
    ("old", "new", "holds"),
    [
        ("return a", "return a + 1", True),
        ("return 1", "return helper()\n\n\ndef helper():\n    return 1", True),
        ("import json", "import simplejson as json", False),
        ("-> int", "-> str", False),  # a framework may use it for answers
        ("def plain", "@cache\ndef plain", False),
        ("def get", "def __eq__(self, other):\n        return True\n\n    def get", False),
        ("def plain", "def __getattr__(name):\n    return 1\n\n\ndef plain", False),
        ("return a", "import numba\n    return numba.njit(len)(a)", False),
    ],
)
def test_only_bodies_can_be_seen_to_run_nowhere(
    old: str, new: str, holds: bool, tmp_path: Path
) -> None:
    assert FRAME.count(old) == 1
    for name, text in (("base", FRAME), ("head", FRAME.replace(old, new))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "shop.py").write_text(text)
    roots = tmp_path / "base", tmp_path / "head"
    for base, head in (roots, roots[::-1]):
        assert coverage.only_bodies("shop.py", base, head) is holds
