"""What one request does: effects that are known from reading small applications."""

import itertools
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from comparing import SAME, judged_case
from duetbench.app.in_process import Program, packages_folder
from duetbench.app.testbed import ENTRY
from duetbench.core.effects import Effects
from duetbench.core.errors import CountError
from duetbench.effects import difference, memory
from duetbench.effects.activity import PROGRAM, Activity
from duetbench.effects.difference import compare
from duetbench.effects.libraries import plain
from duetbench.host.paths import make_scratch
from duetbench.report.findings import announce
from observatory.matrix.checkout import Checkout
from repos import asgi

WAYS: Final = ("asgi", "threads", "wsgi")
"""How an application runs its function `work`: in a coroutine, in a thread, or plainly."""

_WSGI: Final = """
def app(environ, start_response):
    body = work()
    start_response("200 OK", [("content-type", "text/plain")])
    return [body]
"""


def source(work: str, way: str, before: str = "") -> str:
    """Write an application with a function `work` of these lines, which returns the body `OK`."""
    lines = "\n".join(f"    {line}" for line in (*work.splitlines(), "return OK"))
    top = f'OK = b"ok"\n{before}\n\ndef work():\n{lines}\n'
    if way == "wsgi":
        return top + _WSGI
    call = "work()" if way == "asgi" else "await asyncio.to_thread(work)"
    return asgi(f"import asyncio\n{top}", f"body = {call}")


PYTHONS: Final = ("3.14", "3.14t", "this")
"""`this` is 3.11, which has no `sys.monitoring`."""


def seen(
    folder: Path, text: str, python: str, seconds: float = 0.0, patience: float = 60
) -> Activity:
    """Observe requests for / in a new process; the first answer has `patience` s."""
    own = None if python == "this" else Checkout.here().interpreter(python).executable
    folder.mkdir(exist_ok=True)
    (folder / "shop.py").write_text(text)
    ask = {"path": "/", "paths": [], "method": "GET", "headers": {}, "body": "", "status": 200}
    (folder / "ask.json").write_text(json.dumps({**ask, "secrets": {"a password": "{KEY}"}}))
    env = {
        "PYTHONPATH": f"{ENTRY}:{folder}", "DUETBENCH_CHECKOUT": str(folder),
        "DUETBENCH_WORKSPACE": str(folder), "DUETBENCH_REQUEST": str(folder / "ask.json"),
        "DUETBENCH_APP": "shop:app",
        "DUETBENCH_INTERFACE": "asgi" if "async def app(" in text else "wsgi",
    }  # fmt: skip
    client = Program(own or Path(sys.executable), ["-P", "-m", PROGRAM], env)
    with difference.start(client, seconds, 60, patience) as collect:
        return collect()


def describe(side: Activity) -> Effects:
    """Compare a side with one whose requests do nothing."""
    rounds = len(side.events)
    idle = replace(side, calls=[0] * rounds, functions=(), events=[()] * rounds)
    return compare(idle, side)


DATABASE: Final = """
import sqlite3
db = sqlite3.connect(":memory:", check_same_thread=False)
db.execute("create table book (id integer primary key, author integer, title text)")
db.executemany("insert into book (author, title) values (?, 'x')", [(n,) for n in range(20)])
db.commit()
"""
TRIGGER: Final = f"""{DATABASE}
db.executescript('''create table log (id); create trigger t after update on book
begin insert into log values (new.id); delete from log; end''')
"""
MODULE: Final = f"""{DATABASE}
import http.client, logging, socket, subprocess, threading
server = socket.create_server(('127.0.0.1', 0))
port = server.getsockname()[1]

def accept():
    while True:
        server.accept()[0].close()

threading.Thread(target=accept, daemon=True).start()
log = logging.getLogger('shop')
log.setLevel('INFO')
"""
PLAIN: Final = "pass"

# By kind: what base's and head's requests do, how often each does it, and a part of its text.
EFFECTS: Final = {
    "sql": (
        "rows = list(db.execute('select id from book where author in (1, 2, 3)'))",
        "for n in range(20):\n    list(db.execute(f'select id from book where author = {n}'))",
        (0, 20), "select id from book where author = ?",
    ),
    "transaction": (PLAIN, "db.execute('update book set title = 1')\ndb.commit()",
                    (0, 1), "COMMIT"),
    "connect": (PLAIN, "sqlite3.connect(':memory:').close()", (0, 1), "sqlite :memory:"),
    "call": (
        PLAIN,
        ("for _ in range(2):\n    h = http.client.HTTPConnection('127.0.0.1', port)\n"
        "    h.request('PUT', '/orders/7')\n    h.close()"),
        (0, 2), "PUT 127.0.0.1",
    ),
    "read": (PLAIN, "open(__file__).close()\nopen(__file__).close()", (0, 2), "shop.py"),
    "write": (PLAIN, "open('/dev/null', 'w').close()", (0, 1), "/dev/null"),
    "process": (PLAIN, "subprocess.run(['true'])", (0, 1), "true"),
    "thread": ("threads = []",
               "t = threading.Thread(target=len, args=('',), name='helper')\nt.start()\nt.join()",
               (0, 1), "helper"),
    "log": ("log.info('order %s', 7)\nlog.debug('no record of it')",
            "for n in range(20):\n    log.info('order %s', n)", (1, 20), "INFO shop: order %s"),
    "exception": (
        "{}.get('a')",
        "for _ in range(3):\n    try:\n        {}['a']\n    except KeyError:\n        pass",
        (0, 3), "KeyError",
    ),
    "import": (PLAIN, "try:\n    import not_here\nexcept ImportError:\n    pass",
               (0, 1), "not_here"),
    "first import": (PLAIN, "import this_day", (0, 1), "this_day"),
}  # fmt: skip


def observe(
    tmp_path: Path, way: str, python: str, before: str, *works: str, seconds: float = 0.3
) -> list[Activity]:
    """Observe an application for each of some works, its memory for some seconds."""
    folder = tmp_path / "side"
    folder.mkdir()
    (folder / "this_day.py").write_text("")
    return [seen(folder, source(work, way, before), python, seconds) for work in works]


def each(tried: int) -> list[object]:
    """Every way on every interpreter, of which `make test` tries so many."""
    return [
        pytest.param(way, python, marks=[pytest.mark.thorough] * (turn != index or turn >= tried))
        for turn, way in enumerate(WAYS)
        for index, python in enumerate(PYTHONS)
    ]


ALSO_THIS: Final = ["3.14", pytest.param("this", marks=pytest.mark.thorough)]


@pytest.mark.real
@pytest.mark.parametrize(("way", "python"), each(3))
def test_each_effect_is_found_at_its_place_in_both_directions(
    way: str, python: str, tmp_path: Path
) -> None:
    """All of them in one request, each in a function of its own; most calls are of one.

    They are so many that those of other threads, which vary, stay within what varies by nothing.
    """
    before = f"{MODULE}\ndef tiny(): pass\n"
    works = [f"for _ in range({times}): tiny()\n" for times in (1000, 2000)]
    for kind, (base, head, _, _) in EFFECTS.items():
        for number, work in enumerate((base, head)):
            name = f"{kind.replace(' ', '_')}_{number}"
            before += f"\ndef {name}():\n    " + "\n    ".join(work.splitlines()) + "\n"
            works[number] += f"{name}()\n"
    old, new = observe(tmp_path, way, python, before, *works)
    for side, other, more in ((old, new, 1), (new, old, 0)):
        effects = compare(side, other)
        assert not effects.answers
        calls = next(effect for effect in effects.differ if effect.kind == "function")
        text = "tiny 1000 → 2000" if more else "tiny 2000 → 1000"
        assert (calls.text, calls.place) == (text, "shop.py")
        for kind, (_, _, times, text) in EFFECTS.items():
            if "exception" in kind and python == "this":
                continue
            alike = (effect for effect in effects.differ if effect.kind == kind)
            (effect,) = (effect for effect in alike if text in effect.text)
            assert (effect.base, effect.head) == (times if more else times[::-1]), effect
            place = f"{kind.replace(' ', '_')}_1, shop.py:"
            assert effect.place.startswith(place) or kind == "first import", effect
        assert compare(side, side).same


@pytest.mark.real
@pytest.mark.parametrize("python", ALSO_THIS)
def test_recording_a_statement_is_no_call_of_the_application(
    python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor where the tool is installed, and its package reached by a link."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/duetbench").symlink_to(packages_folder() / "duetbench")
    monkeypatch.setattr("duetbench.app.in_process.packages_folder", lambda: tmp_path / "tools")
    base, head = (f"for n in range({times}):\n    sent(n)" for times in (1, 21))
    before = f"{DATABASE}\ndef sent(n): return list(db.execute('select title from book'))\n"
    old, new = observe(tmp_path, "wsgi", python, before, base, head)
    assert {calls - 21 for calls in new.calls} == {calls - 1 for calls in old.calls}
    assert len(new.events[0]) == 21


KEEPS: Final = "KEPT.append(bytes(2_000))"
CURSORS: Final = "[*map(list, map(db.execute, ['select 1'] * 3))]"
TABLE: Final = (
    "sum(range(100_000))\nKEPT.extend([bytes(500), bytes(501)])\nif len(KEPT) >= 400: KEPT.clear()"
)
CACHE: Final = (
    "import functools, itertools\nCOUNT = itertools.count()\n"
    "@functools.lru_cache(100_000)\ndef page(number): return bytes(2_000)\n"
)
# A dict that is dropped leaves its table of keys to the next one, at whatever line.
REUSED: Final = (
    "rows = [{'a': 1, 'b': 2} for n in range(50)]\ndel rows\nKEPT.append({'a': 1, 'b': 2})"
)
DICT: Final = sys.getsizeof({"a": 1, "b": 2})
# What a module does first and its requests do; what they keep: the course, bytes from and below,
# and the line. A byte string has 33 bytes of its own, and its place in the list takes some more.
KEPT: Final = {
    "nothing": ("", "bytes(2_000)", "none", 0, 1, ""),
    "a leak": ("KEPT = []", KEEPS, "constant", 2_033, 2_100, f"    {KEEPS}"),
    "a cache": (CACHE, "page(next(COUNT))", "fills", 1, 9_999, "cache of page, 100000 at most"),
    # sqlite3 keeps a weak reference to each cursor, and drops those of closed ones 200 at a time.
    "tidied by a library": (DATABASE, CURSORS, "none", 0, 17, ""),
    "beside that": (f"{DATABASE}\nKEPT = []", f"{CURSORS}\nKEPT.append(bytes(100))", "constant",
                    133, 160, "    KEPT.append(bytes(100))"),
    "memory of others": ("KEPT = []", REUSED, "constant", DICT, 1.05 * DICT + 9, None),
    "given back": ("KEPT = []", TABLE, "none", 0, 17, ""),
}  # fmt: skip


@pytest.mark.real
@pytest.mark.parametrize(("way", "python"), each(1))
def test_a_leak_has_its_size_and_its_line_and_a_cache_is_none(
    way: str, python: str, tmp_path: Path
) -> None:
    sides = {}
    for name, (before, work, course, least, below, where) in KEPT.items():
        if name == "memory of others" and python != "this":  # whose dicts it is about
            continue
        folder = tmp_path / name.replace(" ", "-")
        folder.mkdir()
        (side,) = observe(folder, way, python, before, work, seconds=2 if course == "fills" else 1)
        assert side.kept is not None, name
        assert (side.kept.course, least <= side.kept.bytes < below) == (course, True), side.kept
        lines = source(work, way, before).splitlines()
        place = f"shop.py:{lines.index(where) + 1}" if where and where in lines else where
        assert place in {side.kept.place, None}, side.kept
        sides[name] = side
    plain_, leak = sides["nothing"], sides["a leak"]
    assert compare(plain_, leak).leaks
    assert not compare(leak, plain_).leaks
    assert not compare(leak, leak).leaks


@pytest.mark.parametrize(
    ("room", "size", "course"),
    [
        # A dict of 1,500 entries has room for 2,730, which those that were removed take as well.
        (1_500, 0, "none"), (10**6, 0, "constant"),
        # 4 × 400 rounds are measured first, then 6 × 500 see whether it still grows.
        (100, 4_000, "none"), (2_000, 4_000, "fills"), (10**6, 4_000, "constant"),
    ],
)  # fmt: skip
def test_a_table_or_cache_that_is_full_is_no_leak(room: int, size: int, course: str) -> None:
    keys = iter([*range(1_000_000)])
    table = {next(keys): b"" for _ in range(0 if size else 1_500)}

    def make() -> None:
        table[next(keys)] = bytes(size)
        if len(table) > room:
            del table[next(iter(table))]

    kept = memory.kept(make, 1, 500.0, str)  # so that a busy machine has time for all rounds
    assert kept is not None
    assert kept["course"] == course
    assert (kept["bytes"] > 16) is (course == "constant")
    assert (kept["requests"] > 3_000) is (course == "constant" and bool(size))


def test_blocks_count_as_kept_if_every_round_keeps_as_many() -> None:
    """Recorded from 75 rounds and 75 more: kept, with others that came once, or more and more."""
    for first, second, times in (
        (76, 79, 1), (100, 79, 1), (100, 55, 1), (150, 150, 2), (300, 0, 0), (48, 33, 0),
        (429, 749, 0),
    ):  # fmt: skip
        assert memory._each(first, second, 75) == times


def test_blocks_of_a_size_without_a_place_are_no_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    rest: list[bytes] = []
    monkeypatch.setattr(memory, "_weigh", lambda *_: ([], 100.0))
    kept = memory.kept(lambda: rest.append(bytes(100)), 1, 1.0, str)
    assert kept is not None
    assert (kept["course"], kept["bytes"], kept["place"]) == ("none", 0.0, "")
    # Of requests that take 6 ms as many are made as there is time for.
    assert memory.kept(lambda: time.sleep(0.006), 1, 0.4, str) is not None


def test_blocks_that_come_now_and_then_are_no_table() -> None:
    """As the interpreter without the GIL makes them where other threads drop objects."""
    rounds, blocks = itertools.count(1), dict.fromkeys(range(100), b"")

    def make() -> None:
        if (number := next(rounds)) % 1_000 == 0:
            blocks[number // 1_000] = bytes(8_000)

    kept = memory.kept(make, 1, 500.0, str)
    assert kept is not None
    assert blocks[1]
    assert blocks[9]  # 400 rounds, 400 and 800 have one more, and then 8,000 have eight
    assert kept["course"] == "none"


UPDATE: Final = "update book set title = ? where id = ?"
MANY: Final = f"executemany('{UPDATE}', [('y', n) for n in {{}}])"
EXECUTE: Final = f"db.execute('{UPDATE}', ('y', {{}}))"
SCRIPT: Final = "; ".join(f"update book set title = 'y' where id = {n}" for n in range(1, 5))
# Before 4.5 a connection packed commands itself; a pipeline's were packed one by one.
REDIS: Final = """
import sys, types
module = sys.modules['{0}'] = types.ModuleType('{0}')
class Connection:
    def pack_command(self, *args): return args
    def pack_commands(self, commands): return [self.pack_command(*c) for c in commands]
module.Connection = Connection
link = type('Unix', (Connection,), {{}})()
"""
GUARDED: Final = """
import functools, sys, types

def guarded(method):
    @functools.wraps(method)
    def check(self, *arguments):
        return method(self, *arguments)
    return check

class PreparedStatement:
    @guarded
    def executemany(self, rows): pass
    def get_query(self): return "update book set title = $1"

class Transaction:
    @guarded
    def start(self): pass

sys.modules["asyncpg.prepared_stmt"] = types.SimpleNamespace(PreparedStatement=PreparedStatement)
"""
DJANGO: Final = f"""{DATABASE}
import sys, types
def _quote_params_for_last_executed_query(params): db.execute('select quote(?)', params)
settings = types.SimpleNamespace(configured=True, DEBUG=True)
sys.modules['django.conf'] = types.SimpleNamespace(settings=settings)
"""
LAZY: Final = f"""{DATABASE}
import logging
log = logging.getLogger('shop')
log.setLevel(20)
log.handlers, log.propagate = [logging.NullHandler()], False
class Lazy:
    def __str__(self): return str(db.execute('select 1'))
"""
MONITORS: Final = "import sys\nfor tool in {}: sys.monitoring.use_tool_id(tool, 'own')"
REFUSES: Final = """
import builtins, io, json, os, sys
def refuse(*_, **__): raise PermissionError
builtins.open = io.open = json.dumps = os.open = os.write = os._exit = refuse
sys.stdout.close()
os.closerange(3, 64)
os.chdir('/')
"""
COMMANDS: Final = "link.pack_command('get', 'a')\nlink.pack_commands([('TTL', 'a'), (b'GET', 'b')])"
# What a module does first and its requests do; all that is seen of some kinds, in their order.
SEEN: Final = {
    "many values": (DATABASE, f"db.{MANY}\ndb.cursor().{MANY}".format("range(9)", "range(9)"),
                    {"sql": [(UPDATE, 2)]}),
    "many values that fail": (
        DATABASE, f"try:\n    db.{MANY}\nexcept sqlite3.Error:\n    pass\n".format("(1, 2, {})")
        + f"for n in range(3): {EXECUTE.format('n')}", {"sql": [(UPDATE, 4)]}),
    # sqlite3 reports a statement again for each one of a trigger; a remark may come first.
    "a trigger": (
        TRIGGER, f"{EXECUTE}\n{EXECUTE}\n".format(1, 2)
        + "list(db.execute('-- name: books\\nselect id from book'))",
        {"sql": [(UPDATE, 2), ("select id from book", 1)]}),
    # Whose plan is not known.
    "texts of another kind": (
        f"{DATABASE}\ndb.text_factory = int", "list(db.execute('select id from book'))",
        {"sql": [("select id from book", 1)]}),
    "a script": (TRIGGER, f"db.executescript({SCRIPT!r})", {"sql": [(UPDATE, 4)]}),
    **{module: (REDIS.format(module), COMMANDS, {"cache": [("GET", 2), ("TTL", 1)]})
       for module in ("redis.connection", "redis.asyncio.connection", "aioredis.connection")},
    "a decorator that a driver shares": (
        GUARDED, "Transaction().start()\nPreparedStatement().executemany([1, 2])",
        {"sql": [("update book set title = ?", 1)]}),
    "settings": (
        "import sqlite3", ("db = sqlite3.connect(':memory:')\n"
        "db.execute('pragma foreign_keys = 1')\ndb.execute('select 1')"),
        {"sql": [("pragma foreign_keys = ?", 1), ("select ?", 1)]}),
    # A ChainMap raises for each map that lacks the key, and last of all to its caller.
    "an exception of a library": (
        "import collections", "try:\n    collections.ChainMap({}, {})['a']\nexcept KeyError: pass",
        {"exception": [("KeyError", 1)], "library exception": [("KeyError", 2)]}),
    # What Django sends for its own log is no statement of the application.
    "Django": (DJANGO, "db.execute('select 1')\n_quote_params_for_last_executed_query([1])",
               {"sql": [("select ?", 1)]}),
    # What is logged is not turned into text to see it.
    "a lazy record": (LAZY, "log.info(Lazy())", {"log": [("INFO shop: <Lazy>", 1)], "sql": []}),
    "a comprehension": (
        DATABASE, "[list(db.execute('select 1')) for _ in [1, 2] for _ in (lambda: [3])()]",
        {"sql": [("select ?", 2)]}),
    "tools of monitoring": (
        MONITORS.format("(0, 1, 2, 3, 4)"), ("sys.monitoring.free_tool_id(3)\n"
        "sys.monitoring.use_tool_id(3, 'own')\nopen(__file__)"), {"read": [("shop.py", 1)]}),
    "a fork": ("import os", "if not (child := os.fork()): os._exit(0)\nos.waitpid(child, 0)",
               {"process": [("fork", 1)]}),
    # What a report is written with may be replaced, and the process may end while memory is read.
    "nothing to write with": (REFUSES, "sys.stderr.close()", {}),
    "an end": ("import itertools, os\nnumbers = itertools.count()",
               "open(__file__).close()\nif next(numbers) > 40: os._exit(3)",
               {"read": [("shop.py", 1)]}),
}  # fmt: skip
PLACED: Final = {"a comprehension": "[list(", "an exception of a library": "ChainMap("}
NEWER: Final = {"an exception of a library", "tools of monitoring"}


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "python"),
    [
        pytest.param(name, python, marks=[pytest.mark.thorough] * (python != "3.14"))
        for name in SEEN
        for python in PYTHONS
        if python != "this" or name not in NEWER
    ],
)
def test_what_a_request_does_is_seen_once(name: str, python: str, tmp_path: Path) -> None:
    before, work, expected = SEEN[name]
    (side,) = observe(tmp_path, "wsgi", python, before, work)
    effects = describe(side)
    assert effects.length == len("ok")
    for kind, rows in expected.items():
        same_kind = [effect for effect in effects.differ if effect.kind == kind]
        assert [(effect.text, effect.head) for effect in same_kind] == rows
        if name in PLACED and not kind.startswith("library"):
            lines = source(work, "wsgi", before).splitlines()
            (line,) = (number for number, text in enumerate(lines, 1) if PLACED[name] in text)
            assert same_kind[0].place == f"work, shop.py:{line}"
    assert (side.kept is None) is (name == "an end")
    logs = ["Django without DEBUG, which logs each query and so raises all figures"]
    assert [text for text in side.unseen if "Django" in text] == logs * (name == "Django")


@pytest.mark.real
def test_what_cannot_be_seen_or_measured_is_said(tmp_path: Path) -> None:
    for python, unseen in (("3.14", ()), ("this", ("exceptions (from Python 3.12 on)",))):
        (tmp_path / python).mkdir()
        (side,) = observe(tmp_path / python, "wsgi", python, "", PLAIN, seconds=0)
        effects = compare(side, side)
        assert (effects.unmeasured, effects.unseen) == ("there was no time", unseen)
        output = list(announce(judged_case("x/a/py3.14", SAME).case.case, effects))
        assert output[0].startswith("x/a/py3.14 shows no difference: ")
        assert output[1] == "  memory: not measured, there was no time"
        assert len(output) == 2 + len(unseen)
    text = source(PLAIN, "wsgi", MONITORS.format("range(6)"))
    with pytest.raises(CountError, match="takes all tools"):
        seen(tmp_path, text, "3.14")


@pytest.mark.real
@pytest.mark.parametrize("python", ALSO_THIS)
def test_a_connection_that_reports_no_statements_is_said(python: str, tmp_path: Path) -> None:
    before = (
        "import sqlite3\nclass Own(sqlite3.Connection):\n"
        "    def __init__(self, *names, **more): super().__init__(*names, **more)\n"
        "class Opener:\n    open = sqlite3.connect\n"
        "traced = sqlite3.connect(':memory:', check_same_thread=False)\n"
        "traced.set_trace_callback(len)\n"
    )
    reporting = "sqlite3.connect(':memory:', factory=Own)", "Opener().open(':memory:')"
    others = "sqlite3.Connection(':memory:')", "Own(':memory:')", "traced"
    works = (f"{text}.execute('select 1')" for text in (*reporting, *others))
    sides = observe(tmp_path, "wsgi", python, before, *works)
    output = [[text for text in side.unseen if "statements of sqlite3" in text] for side in sides]
    assert [len(texts) for texts in output] == [0, 0, 1, 1, 1]
    assert [describe(side).totals["sql"] for side in sides] == [(0, 1)] * 5


@pytest.mark.real
def test_why_an_application_does_not_start_is_its_exception(tmp_path: Path) -> None:
    """Frameworks send the whole traceback, whose beginning tells nothing."""
    text = """
import traceback

async def app(scope, receive, send):
    try:
        {}["SHOP_URL"]
    except KeyError:
        await send({"type": "lifespan.startup.failed", "message": traceback.format_exc()})
"""
    with pytest.raises(CountError, match=r"start: KeyError: 'SHOP_URL' \(.*shop\.py, line 6\)$"):
        seen(tmp_path, text, "this")


@pytest.mark.real
def test_a_task_that_a_request_leaves_behind_is_counted(tmp_path: Path) -> None:
    works = PLAIN, "TASKS.append(asyncio.ensure_future(asyncio.sleep(3_600)))"
    old, new = observe(tmp_path, "asgi", "3.14", "TASKS = []", *works)
    totals = compare(old, new).totals
    assert totals["task"] == totals["tasks left"] == (0, 1)


@pytest.mark.real
def test_what_differs_from_request_to_request_is_not_compared(tmp_path: Path) -> None:
    before = f"{DATABASE}import itertools\nCOUNT = itertools.count()\n"
    works = "next(COUNT)", "for _ in range(next(COUNT) % 5):\n    db.execute('select 1')"
    old, new = observe(tmp_path, "asgi", "3.14", before, *works)
    effects = compare(old, new)
    assert "sql" not in {effect.kind for effect in effects.differ}
    assert "in head" in effects.unsteady["sql"]


SPIN = """
import threading

def spin():
    while True: sum(range(100))

threading.Thread(target=spin, daemon=True).start()
"""
ENDLESS = """
import asyncio

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while True:
        try:
            MORE
            await asyncio.sleep(0.01)
        except BaseException:
            pass
"""
PIECE = 'await send({"type": "http.response.body", "body": bytes(100), "more_body": True})'


@pytest.mark.real
@pytest.mark.parametrize("python", ALSO_THIS)
def test_neither_threads_nor_answers_without_end_stop_it(python: str, tmp_path: Path) -> None:
    """An answer comes in pieces for ever, or never begins; the application catches what it can."""
    (side,) = observe(tmp_path, "wsgi", python, SPIN, PLAIN)
    assert {answer["status"] for answer in side.answers[0]} == {200}
    for text, size in ((PIECE, r"[1-9]\d*"), ("pass", "0")):
        application = ENDLESS.replace("MORE", text)
        words = rf"^GET /: an answer without end: more than (1|0\.99) s and {size} kB$"
        with pytest.raises(CountError, match=words):
            seen(tmp_path / "side", application, python, patience=1)


def test_a_path_of_a_launch_is_the_same_in_each(tmp_path: Path) -> None:
    """Both sides and all launches have folders of their own, whose names are random."""
    for ways, name in (
        (("tmp", "tmp"), "tmp/shop.db"),
        (("copy", "copy"), "shop.db"),
        (("0feebe12", "b3dd4567"), "shop.db"),  # of the revisions that tests run in
    ):
        folders = [make_scratch(tmp_path) / way for way in ways]
        assert {plain(f"sqlite {folder}/shop.db") for folder in folders} == {f"sqlite {name}"}
    temporary = make_scratch(tmp_path)
    assert (plain(temporary), plain(temporary / "a.txt")) == ("*", "*/a.txt")


USES: Final = """
import os, sys
import imported, removed
del sys.modules["removed"]
exec(open("executed.py").read())
os.chdir("/")
"""


@pytest.mark.real
@pytest.mark.parametrize("python", ALSO_THIS)
def test_python_files_are_seen_however_they_are_used(python: str, tmp_path: Path) -> None:
    """Twice: then they are compiled. What other processes use is not known."""
    names = ["imported", "removed", "executed", "later", "unused"]
    for name in names:
        (tmp_path / f"{name}.py").touch()
    (tmp_path / "link.py").symlink_to("linked.py")
    (tmp_path / "linked.py").touch()
    own = {f"{name}.py" for name in (*names, "link", "linked", "shop")}
    text = source("import later, link", "wsgi", USES)
    for _ in range(2):
        loaded = seen(tmp_path, text, python).loaded
        assert loaded is not None
        assert own & {*loaded} == own - {"unused.py"}
    for work in (
        "import subprocess\nsubprocess.run(['true'])",
        "import multiprocessing\np = multiprocessing.get_context('spawn').Process()\np.start()",
    ):
        for text in (source(PLAIN, "wsgi", work), source(work, "wsgi")):
            assert seen(tmp_path, text, python).loaded is None
