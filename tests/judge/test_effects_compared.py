"""Both sides' answers and effects, compared: what is said first, and what is left out."""

import gzip
import json
import re
import tracemalloc
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench import Bench
from duetbench.app.setting import Contrast
from duetbench.app.subject import Subject
from duetbench.app.target import Target
from duetbench.app.testbed import BothSides
from duetbench.core.effects import Keeping, KeptMemory
from duetbench.effects import answers
from duetbench.effects import difference as effects
from duetbench.effects.activity import Activity
from goldens import assert_said
from repos import SHOP, commit, prepared, work_in


def reply(sent: Any) -> Any:
    """An answer with a body: JSON, a `text`, or bytes; compressed, or with other headers."""
    given = dict(sent) if isinstance(sent, dict) and {"json", "text"} & {*sent} else {"json": sent}
    text = given["text"] if "text" in given else json.dumps(given["json"])
    body = text.encode("latin-1")
    headers = {"content-type": given.get("kind", "application/json"), **given.get("headers", {})}
    if packed := given.get("packed"):
        headers["content-encoding"] = packed.replace("bare", "deflate")
        plain = body * given.get("times", 1)
        is_gzip, when = packed == "gzip", given.get("when", 0)
        body = gzip.compress(plain, mtime=when) if is_gzip else zlib.compress(plain)
        body = body[2:-4] if packed == "bare" else body[: given.get("end")]
    fields = {"status": given.get("status", 200), "headers": [*headers.items()]}
    size = {"length": given.get("length", len(body)), "digest": str(hash(body))}
    cut = {"cut": given.get("cut", False), "checkout": "/srv/shop"}
    return {**fields, **size, "body": body.decode("latin-1"), **cut}


def test_answers_are_compared_as_their_reader_gets_them() -> None:
    """The answers of base and of head, each once or more often; swapped they differ as well."""

    def compare(text: str) -> str:
        sides = map(json.loads, text.splitlines())
        base, head = ([*map(reply, side * (1 + (len(side) == 1)))] for side in sides)
        tracemalloc.start()
        actual, back = answers.difference(base, head), answers.difference(head, base)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 20_000_000
        assert (back is None) == (actual is None)
        assert answers.difference(head, head) is None
        return f"{actual[0]}{', which breaks it' * actual[1]}" if actual else "nothing"

    assert_said("answers", compare)


def activity(*places: str) -> Activity:
    """Two requests that raise a KeyError at each of these places."""
    events = [[("exception", "KeyError", place) for place in places]] * 2
    return Activity(
        paths=("",), events=events, calls=[0, 0], functions=[], loaded=None,
        answers=[[reply([])] * 2], alone=[], seconds=0.0,
    )  # fmt: skip


def test_the_line_is_the_one_that_does_as_much_more() -> None:
    """Where head has a new function around all, that does what had no line of its own before."""
    base: list[str]
    for base, head, place in (
        ([""] * 18, ["get, a.py:9"] * 5 + ["get, a.py:10"] * 18, "get, a.py:9"),
        ([""] * 18, ["wrap, b.py:3"] * 18 + ["get, a.py:9"] * 5, "get, a.py:9"),
        (["get, a.py:9"], ["get, a.py:9"] + ["get, a.py:12"] * 19, "get, a.py:12"),
        (["get, a.py:9"], ["get, a.py:9"] * 20, "get, a.py:9"),
        (["get, a.py:9"], ["get, a.py:9", "get, a.py:11"], "get, a.py:11"),
        (["get, a.py:9"] * 3, [], "get, a.py:9"),
        ([""], ["", ""], ""),
    ):
        (effect,) = effects.compare(activity(*base), activity(*head)).differ
        assert (effect.base, effect.head, effect.place) == (len(base), len(head), place)


def test_a_few_calls_more_or_less_are_no_other_work() -> None:
    for base, head, calls, unsteady in (
        ([1000, 1006, 1001], [1003, 1000, 1002], [], False),
        ([1000, 1006, 1001], [1100, 1103, 1101], [(1001, 1101)], False),
        ([1000, 1030], [1100, 1103], [], True),
    ):
        sides = [replace(activity(""), calls=each) for each in (base, head)]
        for order in (1, -1):
            seen = effects.compare(*sides[::order])
            assert [(e.base, e.head)[::order] for e in seen.differ] == calls
            assert ("function" in seen.unsteady) == unsteady


ITEMS = """\
import sqlite3, time, uuid, os

db = sqlite3.connect(":memory:", check_same_thread=False)
db.execute("create table item (id integer, owner integer)")
db.executemany("insert into item values (?, ?)", [(n, n % 3) for n in range(12)])
STARTED = time.time()


def find():
    times = {"at": time.time(), "id": str(uuid.uuid4()), "pid": os.getpid(), "up": STARTED}
    owners = [row[0] for row in db.execute("select distinct owner from item order by owner")]
    return {"items": rows(owners), **times}


def rows(owners):
    return [row[0] for row in db.execute("select id from item where owner in (0, 1, 2)")]
"""
LAZY = """
def rows(owners):
    return [i for o in owners for (i,) in db.execute(f"select id from item where owner = {o}")]
"""
NONE = "\n\ndef rows(owners):\n    return []\n"
MAIN = """\
import gzip
import json

import items


def app(environ, start_response):
    body = gzip.compress(json.dumps(items.find()).encode())
    kind = [("content-type", "application/json"), ("content-encoding", "gzip")]
    start_response("200 OK", kind)
    return [body]
"""


@pytest.fixture
def pairs(bench: Bench) -> Iterator[Callable[..., Sequence[BothSides]]]:
    """A repository whose application is at its top, and pairs of two versions of a module."""
    root = work_in(bench.folder / "shop", {**SHOP, "main.py": MAIN, "items.py": ITEMS}, bench.patch)
    project = Subject(root, target=Target(app="main:app", requests=("GET /items",)))
    with ExitStack() as stack:

        def prepare(base: str, head: str) -> Sequence[BothSides]:
            for text in (base, head):
                commit(root, "A version", **{"items.py": text})
            both = stack.enter_context(prepared(project, Contrast(("HEAD~1", None))))
            return both.to_observe

        yield prepare


@pytest.mark.real
def test_both_sides_of_a_repository_are_compared(
    pairs: Callable[..., Sequence[BothSides]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times, ids and what a process has once differ on equal sides: they are no difference."""
    seen = effects.observe(pairs(ITEMS, f"{ITEMS}# the same\n"))
    assert not seen.reasons
    (same,) = seen.effects.values()
    assert same.same, same
    assert same.totals["sql"] == (2, 2)
    lazy = ITEMS.replace("def rows", "def once") + LAZY
    for base, head, times in ((ITEMS, lazy, (2, 4)), (lazy, ITEMS, (4, 2))):
        (actual,) = effects.observe(pairs(base, head)).effects.values()
        assert actual.totals["sql"] == times
        assert not actual.leaks
        (answer,) = actual.answers  # by owner, and so in another order
        assert answer.what.startswith("head answers $.items[1] = ")
    (actual,) = effects.observe(pairs(ITEMS, ITEMS + NONE)).effects.values()
    (answer,) = actual.answers
    assert (answer.what, answer.broken) == ("head answers 0 rows instead of 12 in $.items", False)
    monkeypatch.setattr(effects, "PATIENCE", 0.5)
    waits = ITEMS.replace("def find():", "def find():\n    time.sleep(60)")
    (words,) = effects.observe(pairs(ITEMS, waits)).endless.values()
    assert re.fullmatch(r"an answer without end: more than 0\.\d+ s and 0 kB", words), words


# Of two applications at once the second cannot lock a file: it fails, or does more each other time.
LOCKS = """
import fcntl, itertools

lock, requests, alone = open({taken!r}, "w"), itertools.count(), find
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    disturbed = False
except BlockingIOError:
    if {fails}:
        raise
    disturbed = True


def find():
    for _ in range(disturbed * next(requests) % 2):
        db.execute("select 1")
    return alone()
"""


@pytest.mark.real
@pytest.mark.parametrize("fails", [pytest.param(True, marks=pytest.mark.thorough), False])
def test_sides_that_disturb_each_other_are_observed_one_after_the_other(
    pairs: Callable[..., Sequence[BothSides]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    fails: bool,
) -> None:
    """As where both use one file, which each recreates when it starts."""
    monkeypatch.setattr(effects, "EARLY", 60.0)
    shared = ITEMS + LOCKS.format(taken=str(tmp_path / "taken"), fails=fails)
    both = pairs(shared, shared.replace("def rows", "def once") + LAZY)
    seen = effects.observe(both)
    assert not seen.reasons
    (actual,) = seen.effects.values()
    assert actual.totals["sql"] == (2, 4)
    assert "sql" not in actual.unsteady
    if fails:
        return
    # What may start slowly is waited for: the application may take 30 s.
    monkeypatch.setattr(effects, "SECONDS", 0.01)
    assert not effects.observe(both[:1]).reasons
    monkeypatch.setattr(effects, "LEAST", 0.0)
    late = effects.observe(both, seconds=0)  # which says nothing about the requests
    assert ({*late.reasons.values()}, late.endless) == ({effects.NO_TIME}, {})


@pytest.mark.parametrize(
    ("courses", "size"),
    [(("constant", "constant"), 228), (("none", "constant"), 0), (("constant", "fills"), 115)],
)
def test_a_leak_is_what_two_processes_keep_with_the_larger_size(
    courses: tuple[Keeping, Keeping], size: float
) -> None:
    first, second = (
        KeptMemory(course=course, bytes=amount if course != "none" else 0, requests=40)
        for course, amount in zip(courses, (115, 228), strict=True)
    )
    item, two = (replace(activity(), kept=kept, loaded=["a.py"]) for kept in (first, second))
    for joined in (item.with_(two), two.with_(item)):
        assert joined.kept is not None
        assert joined.kept.bytes == size
    assert item.with_(replace(two, loaded=["b.py"])).loaded == ("a.py", "b.py")
