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
from repos import SHOP, commit, prepared, work_in

NAMES = [{"name": "a", "at": 1}, {"name": "b", "at": 1}]


def reply(body: Any, status: int = 200, kind: str = "application/json", **headers: str) -> Any:
    text = body if isinstance(body, str | bytes) else json.dumps(body)
    body = text if isinstance(text, bytes) else text.encode()
    named = [["content-type", kind], *([n.replace("_", "-"), v] for n, v in headers.items())]
    fields = {"status": status, "headers": named, "length": len(body), "digest": str(hash(body))}
    return {**fields, "body": body.decode("latin-1"), "cut": False, "checkout": "/srv/shop"}


def packed(text: str, when: int = 0, by: str = "gzip", end: int | None = None) -> Any:
    plain = text.encode()
    body = gzip.compress(plain, mtime=when) if by == "gzip" else zlib.compress(plain)
    body = body[2:-4] if by == "bare" else body[:end]
    return reply(body, content_encoding=by.replace("bare", "deflate"))


def pages(*bodies: Any) -> list[Any]:
    return [*map(reply, bodies)]


def cached(control: str) -> list[Any]:
    """Answers with a header that matters, and two that differ each time."""
    return [reply(NAMES, cache_control=control, date=str(n), x_request_id=str(n)) for n in range(3)]


SHOWN = "head's answer differs, {} → {} bytes ({})".format


@pytest.mark.parametrize(
    ("base", "head", "what"),
    [
        (packed("a\nb"), packed("a\nb", 7), None),
        (packed("in /srv/shop/a.py"), packed("in ./a.py"), None),
        (packed("a\nb"), packed("a\nZoë", 7), 'head answers line 2: "Zoë" instead of "b"'),
        (packed("[1]", by="deflate"), packed("[1, 2]", by="deflate"),
         "head answers 2 rows instead of 1"),
        (packed("[1]", by="bare"), packed("[2]", by="bare"), "head answers $[0] = 2 instead of 1"),
        (packed("a"), packed("ab", end=-9), SHOWN(21, 13, "gzip")),
        (packed("a", by="br"), packed("ab", by="br"), SHOWN(9, 10, "br")),
        (packed("a"), {**packed("ab"), "cut": True}, SHOWN(21, 22, "gzip")),
        (packed("a"), {**packed("stop\n" * 10_000_000), "length": 5_000},
         SHOWN(21, "5,000", "gzip")),
        (reply(b"\x89PNG"), reply(b"\x89PNG\0"), "head answers other bytes, 4 → 5"),
        # The first place that differs is named.
        (reply({"items": NAMES, "n": 2}), reply({"items": NAMES[:1], "n": 1}),
         "head answers 1 rows instead of 2 in $.items"),
        (reply({"a": {"b": [1, 2]}}), reply({"a": {"b": [1, 3]}}),
         "head answers $.a.b[1] = 3 instead of 2"),
        (reply({"a": 1, "b": 2}), reply({"b": 2}), "head answers without $.a"),
        (reply({"b": 2}), reply({"b": 2, "a": 1}), "head answers with $.a, which is new"),
        (reply({"a": 1}), reply({"a": "1"}), 'head answers $.a = "1" instead of 1'),
        (reply("a" * 99 + "b"), reply("a" * 99 + "c"),
         f'head answers line 1: "…{"a" * 20}c" instead of "…{"a" * 20}b"'),
        (reply("one\ntwo\n"), reply("one\n"), "head answers 1 lines instead of 2"),
        (pages(NAMES), [reply(NAMES, 500)], "head answers status 500 instead of 200"),
        ([reply(NAMES, 500)], [reply(NAMES, 400)], "head answers status 400 instead of 500"),
        (pages(NAMES), [reply(NAMES, kind="text/html")],
         "head answers content type text/html instead of application/json"),
        (reply("", kind=""), reply("", kind="text/html"),
         "head answers content type text/html instead of none"),
        (cached("no-store"), cached("public"),
         'head answers header cache-control "public" instead of "no-store"'),
        (reply(NAMES, set_cookie="s=1; expires=Mon"), reply(NAMES, set_cookie="s=2; expires=Tue"),
         None),
        (reply(NAMES, set_cookie="s=1; Path=/; HttpOnly"), reply(NAMES, set_cookie="s=2; Path=/"),
         'head answers cookie s "…; Path=/" instead of "…; Path=/; HttpOnly"'),
        (reply(NAMES), reply(NAMES, set_cookie="s=1"), 'head answers cookie s "…" instead of ""'),
        # What differs within one side is left out.
        (pages({"id": 1, "n": 5}, {"id": 2, "n": 5}), pages({"id": 3, "n": 6}, {"id": 4, "n": 6}),
         "head answers $.n = 6 instead of 5"),
        (pages({"id": 1}, {"id": 2}), pages({"id": 3}, {"id": 4}), None),
        (pages([1], [1, 2]), pages([1, 2, 3], [1]), None),  # rows that come and go
        (pages({"a": 1}, {"a": 1, "b": 2}), pages({"a": 2}, {"a": 2, "b": 2}), None),
        (pages(b"\x89P", b"\x89PN"), pages(b"\x89PNG", b"\x89PNG\0"), None),
        (pages("at 1\nx", "at 2\nx"), pages("at 3\nx", "at 4\nx"), None),
        (pages("at 1\nx", "at 2\nx"), pages("at 3\ny", "at 4\ny"),
         'head answers line 2: "y" instead of "x"'),
    ],
)  # fmt: skip
def test_answers_are_compared_as_their_reader_gets_them(
    base: Any, head: Any, what: str | None
) -> None:
    """Another content type breaks a request, and a status that is worse."""
    sides = [[side] * 2 if isinstance(side, dict) else side for side in (base, head)]
    tracemalloc.start()
    actual, back = answers.difference(*sides), answers.difference(*sides[::-1])
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 20_000_000
    broken = "500 instead" in (what or "") or "instead of application/json" in (what or "")
    assert actual == (what and (what, broken))
    assert (back is None) == (what is None)
    assert answers.difference(sides[1], sides[1]) is None


def activity(*places: str) -> Activity:
    """Two requests that raise a KeyError at each of these places."""
    events = [[("exception", "KeyError", place) for place in places]] * 2
    return Activity(
        paths=("",), events=events, calls=[0, 0], functions=[], loaded=None,
        answers=[[reply(NAMES)] * 2], alone=[], seconds=0.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("base", "head", "place"),
    [
        ([""] * 18, ["get, a.py:9"] * 5 + ["get, a.py:10"] * 18, "get, a.py:9"),
        ([""] * 18, ["wrap, b.py:3"] * 18 + ["get, a.py:9"] * 5, "get, a.py:9"),
        (["get, a.py:9"], ["get, a.py:9"] + ["get, a.py:12"] * 19, "get, a.py:12"),
        (["get, a.py:9"], ["get, a.py:9"] * 20, "get, a.py:9"),
        (["get, a.py:9"], ["get, a.py:9", "get, a.py:11"], "get, a.py:11"),
        (["get, a.py:9"] * 3, [], "get, a.py:9"),
        ([""], ["", ""], ""),
    ],
)
def test_the_line_is_the_one_that_does_as_much_more(
    base: list[str], head: list[str], place: str
) -> None:
    """Where head has a new function around all, that does what had no line of its own before."""
    (effect,) = effects.compare(activity(*base), activity(*head)).differ
    assert (effect.base, effect.head, effect.place) == (len(base), len(head), place)


@pytest.mark.parametrize(
    ("base", "head", "calls", "unsteady"),
    [
        ([1000, 1006, 1001], [1003, 1000, 1002], None, False),
        ([1000, 1006, 1001], [1100, 1103, 1101], (1001, 1101), False),
        ([1000, 1030], [1100, 1103], None, True),
    ],
)
def test_a_few_calls_more_or_less_are_no_other_work(
    base: list[int], head: list[int], calls: tuple[int, int] | None, unsteady: bool
) -> None:
    sides = [replace(activity(""), calls=each) for each in (base, head)]
    for order in (1, -1):
        seen = effects.compare(*sides[::order])
        assert [(e.base, e.head) for e in seen.differ] == ([calls[::order]] if calls else [])
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
    (actual,) = effects.observe(pairs(ITEMS, lazy)).effects.values()
    assert actual.totals["sql"] == (2, 4)
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
