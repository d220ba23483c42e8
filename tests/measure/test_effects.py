"""What one request does: effects that are known from reading small applications."""

import sys
from pathlib import Path
from typing import Final

import pytest

from comparing import SAME, judged_case
from duetbench.core.errors import CountError
from duetbench.effects import memory
from duetbench.effects.activity import Activity
from duetbench.effects.difference import compare
from duetbench.effects.libraries import plain
from duetbench.host.proc import make_scratch
from duetbench.report.findings import announce
from effects import WAYS, describe, seen, source
from observatory.matrix.checkout import Checkout

DATABASE: Final = """
import sqlite3
db = sqlite3.connect(":memory:", check_same_thread=False)
db.execute("create table book (id integer primary key, author integer, title text)")
db.executemany("insert into book (author, title) values (?, 'x')", [(n,) for n in range(20)])
db.commit()
"""
TRIGGER: Final = """
db.executescript('''create table log (id); create trigger t after update on book
begin insert into log values (new.id); delete from log; end''')
"""
PLAIN: Final = "pass"

# Of each kind: what the module does first, what base's and head's requests do, how often each
# does it, and a part of its text.
EFFECTS: Final = {
    "sql": (
        DATABASE,
        "rows = list(db.execute('select id from book where author in (1, 2, 3)'))",
        "for n in range(20):\n    list(db.execute(f'select id from book where author = {n}'))",
        (1, 20), "select id from book where author = ?",
    ),
    "transaction": (
        DATABASE, PLAIN, "db.execute('update book set title = 1')\ndb.commit()",
        (0, 2), "COMMIT",
    ),
    "connect": (
        "import sqlite3", PLAIN, "sqlite3.connect(':memory:').close()", (0, 1), "sqlite :memory:",
    ),
    "call": (
        (
            "import http.client, socket, threading\n"
            "server = socket.create_server(('127.0.0.1', 0))\nport = server.getsockname()[1]\n"
            "def accept():\n    while True:\n        server.accept()[0].close()\n"
            "threading.Thread(target=accept, daemon=True).start()"
        ),
        PLAIN,
        (
            "for _ in range(2):\n    h = http.client.HTTPConnection('127.0.0.1', port)\n"
            "    h.request('PUT', '/orders/7')\n    h.close()"
        ),
        (0, 2), "PUT 127.0.0.1",
    ),
    "read": ("", PLAIN, "open(__file__).close()\nopen(__file__).close()", (0, 2), "shop.py"),
    "write": ("", PLAIN, "open('/dev/null', 'w').close()", (0, 1), "/dev/null"),
    "process": (
        "import subprocess", PLAIN, "subprocess.run(['true'])", (0, 1), "true",
    ),
    "thread": (
        "import threading",
        "threads = []",
        "t = threading.Thread(target=len, args=('',), name='helper')\nt.start()\nt.join()",
        (0, 1), "helper",
    ),
    "log": (
        "import logging\nlog = logging.getLogger('shop')\nlog.setLevel('INFO')",
        "log.info('order %s', 7)\nlog.debug('no record of it')",
        "for n in range(20):\n    log.info('order %s', n)",
        (1, 20), "INFO shop: order %s",
    ),
    "exception": (
        "",
        "{}.get('a')",
        "for _ in range(3):\n    try:\n        {}['a']\n    except KeyError:\n        pass",
        (0, 3), "KeyError",
    ),
    "library exception": (
        "import collections",
        "collections.ChainMap({}, {'a': 1}).get('b')",
        "collections.ChainMap({}, {'a': 1}).get('a')\ncollections.ChainMap({}, {'a': 1})['a']",
        (0, 2), "KeyError",
    ),
    "import": (
        "", PLAIN, "try:\n    import not_here\nexcept ImportError:\n    pass", (0, 1), "not_here",
    ),
    "first import": ("", PLAIN, "import this_day", (0, 1), "this_day"),
    "function": (
        "def tiny(): pass", "tiny()", "for _ in range(200): tiny()", None, "tiny 1 → 200",
    ),
}  # fmt: skip
PYTHONS: Final = ("3.14", "3.14t", "this")


def executable(python: str) -> Path:
    if python == "this":  # 3.11, which has no `sys.monitoring`
        return Path(sys.executable)
    return Checkout.here().interpreter(python).executable


def observe(
    tmp_path: Path, way: str, python: str, before: str, *works: str, seconds: float = 0.3
) -> list[Activity]:
    """Observe an application for each of some works, its memory for some seconds."""
    folder = tmp_path / "side"
    folder.mkdir()
    (folder / "this_day.py").write_text("")
    interface = "wsgi" if way == "wsgi" else "asgi"
    return [
        seen(folder, source(work, way, before), executable(python), interface, seconds)  # type: ignore[arg-type]
        for work in works
    ]


EACH: Final = [
    pytest.param(way, python, marks=[pytest.mark.thorough] * bool(turn or index))
    for turn, way in enumerate(WAYS)
    for index, python in enumerate(PYTHONS)
]
"""Every way on every interpreter, of which `make test` tries one."""


@pytest.mark.real
@pytest.mark.parametrize(
    ("kind", "way", "python"),
    [
        pytest.param(
            *(kind, WAYS[(turn + index) % 3], python),
            marks=[pytest.mark.thorough] * (index != (turn + turn // 3) % 3),
        )
        for turn, kind in enumerate(EFFECTS)
        for index, python in enumerate(PYTHONS)
        if "exception" not in kind or python != "this"
    ],
)
def test_each_effect_is_found_alone_and_in_both_directions(
    kind: str, way: str, python: str, tmp_path: Path
) -> None:
    before, base, head, times, text = EFFECTS[kind]
    old, new = observe(tmp_path, way, python, before, base, head)
    for first, second, figures in ((old, new, times), (new, old, times and times[::-1])):
        effects = compare(first, second)
        assert not effects.answers
        found = {effect.kind: effect for effect in effects.differ}
        assert kind in found, (effects, first.events[0], second.events[0])
        if figures:
            assert effects.totals[kind] == figures
        whole = {e.text for e in effects.differ if e.kind == kind}
        assert figures is None or any(text in words for words in whole), whole
        if kind not in {"function", "first import"}:
            assert any(e.place.startswith("work, shop.py:") for e in effects.differ), found
    for side in (old, new):
        assert compare(side, side).same


@pytest.mark.real
@pytest.mark.parametrize(("way", "python"), EACH)
def test_a_leak_has_its_size_and_its_line_and_a_cache_is_none(
    way: str, python: str, tmp_path: Path
) -> None:
    before = (
        "import functools, itertools\nKEPT = []\nCOUNT = itertools.count()\n"
        "@functools.lru_cache(100_000)\ndef page(number): return bytes(2_000)\n"
    )
    works = "bytes(2_000)", "KEPT.append(bytes(2_000))", "page(next(COUNT))"
    plain, leak, cache = observe(tmp_path, way, python, before, *works, seconds=2)
    effects = compare(plain, leak)
    assert effects.leaks
    assert not compare(leak, plain).leaks
    assert not compare(leak, leak).leaks
    kept = effects.kept_head
    assert kept is not None
    assert kept.course == "constant"
    assert 2_033 <= kept.bytes < 2_100  # an object of 2,033 bytes, and its place in the list
    line = source(works[1], way, before).splitlines().index(f"    {works[1]}") + 1
    assert kept.place == f"shop.py:{line}"
    fills = compare(plain, cache).kept_head
    assert fills is not None
    assert (fills.course, fills.place) == ("fills", "cache of page, 100000 at most")
    assert plain.kept is not None
    assert (plain.kept.course, plain.kept.bytes) == ("none", 0)


@pytest.mark.real
@pytest.mark.parametrize(("way", "python"), EACH)
def test_what_a_library_tidies_now_and_then_is_no_leak_and_hides_none(
    way: str, python: str, tmp_path: Path
) -> None:
    # sqlite3 keeps a weak reference to each cursor, and drops those of closed ones 200 at a time.
    before, work = f"{DATABASE}\nKEPT = []", "[*map(list, map(db.execute, ['select 1'] * 3))]"
    plain, leak = observe(
        tmp_path, way, python, before, work, f"{work}\nKEPT.append(bytes(100))", seconds=1
    )
    effects = compare(plain, leak)
    assert effects.kept_base is not None
    assert effects.kept_base.course == "none"
    assert effects.kept_head is not None
    assert 133 <= effects.kept_head.bytes < 160  # an object of 133 bytes, and its place in the list
    leaks = source(f"{work}\nKEPT.append(bytes(100))", way, before).splitlines()
    assert effects.kept_head.place == f"shop.py:{leaks.index('    KEPT.append(bytes(100))') + 1}"


@pytest.mark.real
def test_what_is_kept_counts_wherever_its_memory_was_allocated_first(tmp_path: Path) -> None:
    # A dict that is dropped leaves its table of keys to the next one, at whatever line.
    work = "rows = [{'a': 1, 'b': 2} for n in range(50)]\ndel rows\nKEPT.append({'a': 1, 'b': 2})"
    (leak,) = observe(tmp_path, "wsgi", "this", "KEPT = []", work, seconds=1)
    assert leak.kept is not None
    size = sys.getsizeof({"a": 1, "b": 2})
    assert size <= leak.kept.bytes < 1.05 * size + 9  # and its place in the list


@pytest.mark.parametrize(("removes", "course"), [(True, "none"), (False, "constant")])
def test_a_table_that_grows_once_is_no_leak(removes: bool, course: str) -> None:
    # A dict of 1,500 entries has room for 2,730, which those that were removed take as well.
    keys = [*range(1_000_000)]
    table = dict.fromkeys(keys[:1_500])
    rest = iter(keys[1_500:])

    def make() -> None:
        table[next(rest)] = None
        if removes:
            del table[next(iter(table))]

    found = memory.kept(make, 1, 5.0, str)  # so that any machine has time for all rounds
    assert found is not None
    assert found["course"] == course
    assert (found["bytes"] > 16) is (not removes)


@pytest.mark.parametrize(("room", "course"), [(100, "none"), (2_000, "fills"), (10**6, "constant")])
def test_a_cache_that_is_full_soon_is_no_leak(room: int, course: str) -> None:
    # 4 × 400 rounds are measured first, then 6 × 500 see whether it still grows.
    pages: dict[int, bytes] = {}

    def make() -> None:
        pages[len(pages) and next(reversed(pages)) + 1] = bytes(4_000)
        if len(pages) > room:
            del pages[next(iter(pages))]

    found = memory.kept(make, 1, 5.0, str)  # so that any machine has time for all rounds
    assert found is not None
    assert found["course"] == course
    assert (found["requests"] > 3_000) is (course == "constant")


@pytest.mark.parametrize(
    ("first", "second", "each"),
    [
        (76, 79, 1),
        (100, 79, 1),
        (100, 55, 1),
        (150, 150, 2),
        (300, 0, 0),
        (48, 33, 0),
        (429, 749, 0),
    ],
)
def test_blocks_count_as_kept_if_every_round_keeps_as_many(
    first: int, second: int, each: int
) -> None:
    """Recorded from 75 rounds and 75 more: kept, with others that came once, or more and more."""
    assert memory._each(first, second, 75) == each


def test_blocks_of_a_size_without_a_place_are_no_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    rest: list[bytes] = []
    monkeypatch.setattr(memory, "_weigh", lambda *_: ([], 100.0))
    found = memory.kept(lambda: rest.append(bytes(100)), 1, 1.0, str)
    assert found is not None
    assert (found["course"], found["bytes"], found["place"]) == ("none", 0.0, "")


@pytest.mark.real
@pytest.mark.parametrize(("way", "python"), EACH)
def test_a_statement_with_many_values_counts_once(way: str, python: str, tmp_path: Path) -> None:
    many = "executemany('update book set title = ? where id = ?', [('y', n) for n in {}])"
    twice = f"db.{many.format('range(9)')}\ndb.cursor().{many.format('range(9)')}"
    failing = f"try:\n    db.{many.format('(1, 2, {})')}\nexcept sqlite3.Error:\n    pass\n"
    failing += "for n in range(3): db.execute('update book set title = ? where id = ?', ('y', n))"
    once, fails = observe(tmp_path, way, python, DATABASE, twice, failing)
    assert compare(once, fails).totals["sql"] == (2, 4)


@pytest.mark.real
@pytest.mark.parametrize(
    "module", ["redis.connection", "redis.asyncio.connection", "aioredis.connection"]
)
def test_commands_of_older_clients_of_redis_count(module: str, tmp_path: Path) -> None:
    """Before 4.5 a connection packed commands itself; a pipeline's were packed one by one."""
    client = (
        f"import sys, types\nmodule = sys.modules['{module}'] = types.ModuleType('{module}')\n"
        "class Connection:\n"
        "    def pack_command(self, *args): return args\n"
        "    def pack_commands(self, commands): return [self.pack_command(*c) for c in commands]\n"
        "module.Connection = Connection\nlink = type('Unix', (Connection,), {})()"
    )
    work = "link.pack_command('get', 'a')\nlink.pack_commands([('TTL', 'a'), (b'GET', 'b')])"
    old, new = observe(tmp_path, "wsgi", "3.14", client, PLAIN, work)
    found = {e.text: (e.base, e.head) for e in compare(old, new).differ if e.kind == "cache"}
    assert found == {"GET": (0, 2), "TTL": (0, 1)}


@pytest.mark.real
@pytest.mark.parametrize(("way", "python"), EACH)
def test_a_statement_counts_once_whatever_it_sets_off(
    way: str, python: str, tmp_path: Path
) -> None:
    """sqlite3 reports a statement again for each one of a trigger; a remark may come first."""
    update = "db.execute('update book set title = ? where id = ?', ('y', {}))\n"
    remark = "list(db.execute('-- name: books\\nselect id from book'))"
    twice = f"{update.format(1)}{update.format(2)}{remark}"
    plain, set_off = observe(tmp_path, way, python, f"{DATABASE}{TRIGGER}", PLAIN, twice)
    texts = {e.text: e.head for e in compare(plain, set_off).differ if e.kind == "sql"}
    assert texts == {"update book set title = ? where id = ?": 2, "select id from book": 1}


@pytest.mark.real
@pytest.mark.parametrize("python", ["3.14", "this"])
def test_a_script_counts_its_statements_whatever_they_set_off(python: str, tmp_path: Path) -> None:
    script = "; ".join(f"update book set title = 'y' where id = {n}" for n in range(1, 5))
    (side,) = observe(
        tmp_path, "wsgi", python, f"{DATABASE}{TRIGGER}", f"db.executescript({script!r})"
    )
    assert describe(side).totals["sql"] == (0, 4)


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


@pytest.mark.real
@pytest.mark.parametrize("python", ["3.14", "this"])
def test_a_decorator_that_a_driver_shares_is_not_its_function(python: str, tmp_path: Path) -> None:
    work = "Transaction().start()\nPreparedStatement().executemany([1, 2])"
    plain, sent = observe(tmp_path, "wsgi", python, GUARDED, PLAIN, work)
    (sql,) = (effect for effect in compare(plain, sent).differ if effect.kind == "sql")
    assert (sql.text, sql.base, sql.head) == ("update book set title = ?", 0, 1)


@pytest.mark.real
def test_an_exception_of_a_library_counts_once_where_the_application_gets_it(
    tmp_path: Path,
) -> None:
    # A ChainMap raises for each map that lacks the key, and last of all to its caller.
    work = "try:\n    collections.ChainMap({}, {})['a']\nexcept KeyError:\n    pass"
    old, new = observe(tmp_path, "wsgi", "3.14", "import collections", PLAIN, work)
    effects = compare(old, new)
    assert effects.totals["exception"] == (0, 1)
    assert effects.totals["library exception"] == (0, 2)
    places = {effect.kind: effect.place.partition(":")[0] for effect in effects.differ}
    assert places["exception"] == "work, shop.py"


@pytest.mark.real
def test_settings_of_a_connection_come_after_what_it_is_opened_for(tmp_path: Path) -> None:
    work = "db = sqlite3.connect(':memory:')\ndb.execute('pragma foreign_keys = 1')\n"
    work += "db.execute('select 1')"
    old, new = observe(tmp_path, "wsgi", "3.14", "import sqlite3", PLAIN, work)
    texts = [effect.text for effect in compare(old, new).differ if effect.kind == "sql"]
    assert texts == ["select ?", "pragma foreign_keys = ?"]


@pytest.mark.real
@pytest.mark.parametrize(("python", "unseen"), [("3.14", False), ("this", True)])
def test_what_is_not_seen_and_not_measured_is_said(
    python: str, unseen: bool, tmp_path: Path
) -> None:
    (side,) = observe(tmp_path, "wsgi", python, "", PLAIN, seconds=0)
    effects = compare(side, side)
    assert effects.unmeasured == "there was no time"
    assert effects.unseen == (("exceptions (from Python 3.12 on)",) if unseen else ())
    said = list(announce(judged_case("x/a/py3.14", SAME).case.case, effects))
    assert said[0].startswith("x/a/py3.14 shows no difference: ")
    assert said[1] == "  memory: not measured, there was no time"
    assert len(said) == 2 + unseen


@pytest.mark.real
@pytest.mark.parametrize("python", ["3.14", "this"])
def test_a_connection_that_reports_no_statements_is_said(python: str, tmp_path: Path) -> None:
    before = (
        "import sqlite3\nclass Own(sqlite3.Connection):\n"
        "    def __init__(self, *names, **more): super().__init__(*names, **more)\n"
        "class Opener:\n    open = sqlite3.connect\n"
        "traced = sqlite3.connect(':memory:', check_same_thread=False)\n"
        "traced.set_trace_callback(len)\n"
    )
    factory = "sqlite3.connect(':memory:', factory=Own)"
    seen_ones = factory, "Opener().open(':memory:')"
    others = "sqlite3.Connection(':memory:')", "Own(':memory:')", "traced"
    works = (f"{text}.execute('select 1')" for text in (*seen_ones, *others))
    sides = observe(tmp_path, "wsgi", python, before, *works)
    said = [[text for text in side.unseen if "statements of sqlite3" in text] for side in sides]
    assert [len(texts) for texts in said] == [0, 0, 1, 1, 1]
    assert [describe(side).totals["sql"] for side in sides] == [(0, 1)] * 5


@pytest.mark.real
def test_an_application_may_use_tools_of_monitoring_itself(tmp_path: Path) -> None:
    take = "import sys\nfor tool in {}: sys.monitoring.use_tool_id(tool, 'own')"
    again = "sys.monitoring.free_tool_id(3)\nsys.monitoring.use_tool_id(3, 'own')\nopen(__file__)"
    (side,) = observe(tmp_path, "wsgi", "3.14", take.format("(0, 1, 2, 3, 4)"), again)
    assert describe(side).totals["read"] == (0, 1)
    with pytest.raises(CountError, match="takes all tools"):
        seen(tmp_path, source(PLAIN, "wsgi", take.format("range(6)")), executable("3.14"), "wsgi")


@pytest.mark.real
def test_what_was_seen_stays_if_memory_cannot_be_measured(tmp_path: Path) -> None:
    before = "import itertools, os\nnumbers = itertools.count()"
    (side,) = observe(
        tmp_path, "wsgi", "3.14", before,
        "open(__file__).close()\nif next(numbers) > 40: os._exit(3)",
    )  # fmt: skip
    assert (describe(side).totals["read"], side.kept) == ((0, 1), None)


@pytest.mark.real
def test_an_application_may_replace_what_a_report_is_written_with(tmp_path: Path) -> None:
    before = (
        "import builtins, io, json, os, sys\n"
        "def refuse(*_, **__): raise PermissionError\n"
        "builtins.open = io.open = json.dumps = os.open = os.write = os._exit = refuse\n"
        "sys.stdout.close()\nos.closerange(3, 64)\nos.chdir('/')"
    )
    (side,) = observe(tmp_path, "wsgi", "3.14", before, "sys.stderr.close()")
    assert describe(side).length == 2


@pytest.mark.real
def test_what_django_sends_for_its_own_log_is_no_statement_of_the_application(
    tmp_path: Path,
) -> None:
    before = (
        "import sys, types\ndef _quote_params_for_last_executed_query(params):\n"
        "    db.execute('select quote(?)', params)\n"
        "settings = types.SimpleNamespace(configured=True, DEBUG=True)\n"
        "sys.modules['django.conf'] = types.SimpleNamespace(settings=settings)\n"
    )
    work = "db.execute('select 1')\n_quote_params_for_last_executed_query([1])"
    (side,) = observe(tmp_path, "wsgi", "3.14", f"{DATABASE}{before}", work)
    (sql,) = (effect for effect in describe(side).differ if effect.kind == "sql")
    assert (sql.text, sql.head) == ("select ?", 1)
    assert side.unseen == ["Django without DEBUG, which logs each query and so raises all figures"]


@pytest.mark.real
def test_what_is_logged_is_not_turned_into_text_to_see_it(tmp_path: Path) -> None:
    before = f"{DATABASE}\nimport logging\nlog = logging.getLogger('shop')\nlog.setLevel(20)\n"
    before += "log.handlers, log.propagate = [logging.NullHandler()], False\n"
    before += "class Lazy:\n    def __str__(self): return str(db.execute('select 1'))"
    (side,) = observe(tmp_path, "wsgi", "3.14", before, "log.info(Lazy())")
    found = {effect.kind: effect.text for effect in describe(side).differ}
    assert (found["log"], found.get("sql")) == ("INFO shop: <Lazy>", None)


@pytest.mark.real
@pytest.mark.parametrize("python", ["3.14", "this"])
def test_the_line_of_a_comprehension_is_of_the_function_around_it(
    python: str, tmp_path: Path
) -> None:
    work = "[list(db.execute('select 1')) for _ in [1, 2] for _ in (lambda: [3])()]"
    text = source(work, "wsgi", DATABASE)
    side = seen(tmp_path / "side", text, executable(python), "wsgi")
    line = text.splitlines().index(f"    {work}") + 1
    (effect,) = (e for e in describe(side).differ if e.kind == "sql")
    assert (effect.head, effect.place) == (2, f"work, shop.py:{line}")


@pytest.mark.real
def test_when_gzip_packed_a_body_is_not_compared(tmp_path: Path) -> None:
    times = "import gzip, itertools\nTIMES = itertools.count()"
    work = "global OK\nOK = gzip.compress(b'ok', mtime=next(TIMES))"
    (side,) = observe(tmp_path, "wsgi", "3.14", times, work)
    bodies, digests = ({reply[key] for reply in side.answers[0]} for key in ("body", "digest"))
    assert len(bodies) > len(digests) == 1


@pytest.mark.real
def test_memory_that_is_given_back_now_and_then_is_no_leak(tmp_path: Path) -> None:
    """Each request leaves two objects in a table, which empties itself at 400 of them."""
    work = "sum(range(100_000))\nSOME.extend([bytes(500), bytes(501)])\n"
    work += "if len(SOME) >= 400: SOME.clear()"
    (table,) = observe(tmp_path, "wsgi", "3.14", "SOME = []", work, seconds=0.3)
    assert table.kept is not None
    assert table.kept.course == "none"


@pytest.mark.real
def test_a_task_that_a_request_leaves_behind_is_counted(tmp_path: Path) -> None:
    works = PLAIN, "TASKS.append(asyncio.ensure_future(asyncio.sleep(3_600)))"
    old, new = observe(tmp_path, "asgi", "3.14", "TASKS = []", *works)
    for first, second, figures in ((old, new, (0, 1)), (new, old, (1, 0))):
        totals = compare(first, second).totals
        assert totals["task"] == totals["tasks left"] == figures


@pytest.mark.real
@pytest.mark.parametrize("way", WAYS)
def test_what_differs_from_request_to_request_is_not_compared(way: str, tmp_path: Path) -> None:
    before = f"{DATABASE}import itertools\nCOUNT = itertools.count()\n"
    works = "next(COUNT)", "for _ in range(next(COUNT) % 5):\n    db.execute('select 1')"
    old, new = observe(tmp_path, way, "3.14", before, *works)
    effects = compare(old, new)
    assert "sql" not in {effect.kind for effect in effects.differ}
    assert "in head" in effects.unsteady["sql"]


SPIN = """
import threading

def spin():
    while True: sum(range(100))

threading.Thread(target=spin, daemon=True).start()
"""


@pytest.mark.real
@pytest.mark.parametrize("python", PYTHONS)
def test_a_thread_that_computes_all_the_time_does_not_stop_requests(
    python: str, tmp_path: Path
) -> None:
    (side,) = observe(tmp_path, "wsgi", python, SPIN, PLAIN)
    assert [answer["status"] for answer in side.answers[0]][:2] == [200, 200]


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
@pytest.mark.parametrize("python", ["3.14", "this"])
def test_an_answer_without_end_is_given_up(python: str, tmp_path: Path) -> None:
    """It comes in pieces for ever, or never begins; the application catches what it can."""
    for text, size in ((PIECE, r"[1-9]\d*"), ("pass", "0")):
        application = ENDLESS.replace("MORE", text)
        words = rf"^GET /: an answer without end: more than 1 s and {size} kB$"
        with pytest.raises(CountError, match=words):
            seen(tmp_path / "side", application, executable(python), "asgi", patience=1)


def test_a_path_of_a_launch_is_the_same_in_each(tmp_path: Path) -> None:
    """Both sides and all launches have folders of their own, whose names are random."""
    for way, name in (("tmp", "tmp/shop.db"), ("copy", "shop.db")):
        folders = [make_scratch(tmp_path) / way for _ in range(2)]
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
@pytest.mark.parametrize("python", PYTHONS)
def test_python_files_are_seen_however_they_are_used(python: str, tmp_path: Path) -> None:
    """Twice: then they are compiled."""
    names = ["imported", "removed", "executed", "later", "unused"]
    for name in names:
        (tmp_path / f"{name}.py").touch()
    (tmp_path / "link.py").symlink_to("linked.py")
    (tmp_path / "linked.py").touch()
    own = {f"{name}.py" for name in (*names, "link", "linked", "shop")}
    for _ in range(2):
        found = seen(
            tmp_path, source("import later, link", "wsgi", USES), executable(python), "wsgi"
        )
        assert found.loaded is not None
        assert own & {*found.loaded} == own - {"unused.py"}


@pytest.mark.real
@pytest.mark.parametrize(
    "work",
    [
        "import subprocess\nsubprocess.run(['true'])",
        "import os\nos.system('true')",
        "import multiprocessing\np = multiprocessing.get_context('spawn').Process()\np.start()",
    ],
)
def test_what_other_processes_use_is_not_known(work: str, tmp_path: Path) -> None:
    for text in (source(PLAIN, "wsgi", work), source(work, "wsgi")):
        assert seen(tmp_path, text, executable("3.14"), "wsgi").loaded is None
