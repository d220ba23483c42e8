"""What requests of a project's own tests do, by clients of seven frameworks, on both sides."""

import json
import os
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any, Final

import pytest

import postgres
from bench import Bench
from duetbench.app.project_tests import Suite
from duetbench.core.change import Cause
from duetbench.core.comparison import Comparison
from duetbench.core.effects import Effects
from duetbench.core.errors import SetupError, UsageError
from duetbench.core.model import Verdict
from duetbench.counts import counted
from duetbench.effects import difference, suite
from duetbench.effects.activity import Activity, Operation
from duetbench.effects.suite import Recording, SuiteEffects
from duetbench.judge.suites import by_endpoint
from goldens import assert_said
from repos import asgi, commit, git, install, work_in, write

_PROJECT: Final = Path(__file__).parents[1] / "projects/frameworks"
_PACKAGES: Final = (
    *("pytest==9.2.0", "pytest-django==4.14.0", "pytest-xdist==3.8.0", "pytest-timeout==2.4.0"),
    *("httpx==0.28.1", "httpx2==2.16.2"),
    *("fastapi==0.165.0", "flask==3.1.3", "litestar==2.25.0", "quart==0.22.0"),
    *("django==5.2.19", "djangorestframework==3.18.3"),
)
_ROUTES: Final = {
    "GET /fastapi/{kind}", "GET /thread/{kind}", "GET /starlette/{kind}", "GET /litestar/{kind}",
    "GET /flask/<kind>", "GET /django/<kind>/", "GET /async/<kind>/", "GET /drf/<kind>/",
}  # fmt: skip
_QUART: Final = "GET /quart/"  # which tells nobody its routes
_DONE: Final = {
    ("sql", "select price from book where id = ?", "sql, work.py:16", 1.0, 4.0),
    ("read", "word.txt", "read, work.py:32", 0.0, 3.0),
    ("log", "WARNING shop: slow", "log, work.py:26", 0.0, 3.0),
}
_RAISED: Final = ("exception", "LookupError", "fail, work.py:37", 0.0, 3.0)  # from 3.12 on
_ANSWERS: Final = {
    'head answers $.price = "9.5" instead of 9.5',
    f"head answers {sum(range(3010)):} instead of 45",
}
_COOKIE: Final = 'head answers cookie kind "…; Path=/; Secure" instead of "…; Path=/"'


def _rows(seen: SuiteEffects, kinds: set[str]) -> dict[str, set[object]]:
    """The effects of some kinds by endpoint, those of Quart together."""
    rows: dict[str, set[object]] = {}
    for endpoint in by_endpoint(seen.pairs, seen.effects):
        name = _QUART if endpoint.name.startswith(_QUART) else endpoint.name
        rows.setdefault(name, set()).update(
            (effect.kind, effect.text, effect.place, effect.base, effect.head)
            for effect in endpoint.effects.differ
            if effect.kind in kinds
        )
    return rows


@pytest.mark.thorough
@pytest.mark.real
def test_each_client_tells_what_head_does_more_often_and_the_same_code_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all frameworks; Django's own runner tells it as well, here with the sides swapped."""
    install(tmp_path / "venv", sys.executable, *_PACKAGES)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "venv"))
    base, head = (shutil.copytree(_PROJECT, tmp_path / name) for name in ("base", "head"))
    work = (head / "work.py").read_text("utf-8")
    (head / "work.py").write_text(work.replace("MORE = 0", "MORE = 3"), "utf-8")
    tests = Suite.find(_PROJECT, ["suite"])
    seen = suite.compare(tests, base, head, print)
    newer = sys.version_info >= (3, 12)
    expected = _DONE | ({_RAISED} if newer else set())
    kinds = {"sql", "read", "log", "exception"}
    assert _rows(seen, kinds) == dict.fromkeys({*_ROUTES, _QUART}, expected)
    for route in _ROUTES:
        (endpoint,) = (row for row in by_endpoint(seen.pairs, seen.effects) if row.name == route)
        cookies = {_COOKIE} if route == "GET /django/<kind>/" else set()
        assert {answer.what for answer in endpoint.effects.answers} == _ANSWERS | cookies
        (calls,) = (e for e in endpoint.effects.differ if e.kind == "function")
        assert calls.text == "price 10 → 3010"
        assert calls.place == "work.py"
    assert len(seen.pairs) == 11 * 7
    assert tuple(note for note in seen.notes if not note.startswith("not seen: ")) == (
        "1 of the tests fail on both sides: suite/api_others.py::test_that_fails",
        "1 of the tests are skipped: suite/api_others.py::test_that_is_skipped",
    )

    copy = shutil.copytree(base, base.with_name("copy"))
    same = suite.compare(tests, base, copy, print)
    assert all(effects.same for effects in same.effects.values())
    django = replace(tests, pytest=False, tests=["suite/api_django.py"])
    seen = suite.compare(django, head, base, print)  # swapped
    expected = {(kind, text, place, b, a) for kind, text, place, a, b in _DONE}
    routes = {"GET /django/<kind>/", "GET /async/<kind>/", "GET /drf/<kind>/"}
    assert _rows(seen, {"sql", "read", "log"}) == dict.fromkeys(routes, expected)
    first = by_endpoint(seen.pairs, seen.effects)[0]
    assert first.effects.tests[0].startswith("suite.api_django.DjangoTest.test_")


_UNIT: Final = """
import unittest

class Unit(unittest.TestCase):
    def test_error(self):
        raise LookupError

    def test_failure(self):
        self.fail()

    def test_right(self):
        pass

    def test_skip(self):
        self.skipTest("")
"""


def test_without_tests_or_a_runner_there_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests find the commands of their environment, as if it were active."""
    monkeypatch.setenv("PATH", os.defpath)
    with pytest.raises(UsageError, match="--tests nowhere: expected a file or folder of"):
        Suite.find(tmp_path, ["nowhere"])
    with pytest.raises(UsageError, match="expected a file or folder of"):
        Suite.find(tmp_path, [f"../{tmp_path.name}/.."])
    write(tmp_path, "pytest.ini", _PLAIN["pytest.ini"])
    write(tmp_path, "tests/test_it.py", "raise RuntimeError('no database')")
    finds = f"shutil.which('pytest') == {str(Path(sys.executable).with_name('pytest'))!r}"
    other = f"import shutil\n\n\ndef test_that_runs():\n    assert {finds}\n"
    write(tmp_path, "tests/test_other.py", other)
    tests = Suite(tmp_path, ["tests"], Path(sys.executable), pytest=True, own=())
    ends = {"tests/test_it.py": "error", "tests/test_other.py::test_that_runs": "passed"}
    assert suite.record(tests, tmp_path, print).outcomes == ends
    # A runner of unittest, as Django's.
    write(tmp_path, "manage.py", "import sys, unittest\nunittest.main(None, argv=sys.argv[2:])\n")
    write(tmp_path, "unit.py", _UNIT)
    tested = suite.record(replace(tests, pytest=False, tests=["unit.py"]), tmp_path, print)
    assert [*tested.outcomes.values()] == ["error", "failed", "passed", "skipped"]
    write(tmp_path, "tests/test_it.py", "")
    write(tmp_path, "tests/test_other.py", "")
    with pytest.raises(SetupError, match="no test ran"):
        suite.record(tests, tmp_path, print)


def _operation(
    number: int = 0,
    answer: str = "1",
    calls: int = 100,
    own: int = 0,
    status: int = 200,
    **sent: int,
) -> Operation:
    """A request that sends statements so many times, and calls a function of its own."""
    events = [("sql", text, "f, app.py:1") for text, times in sent.items() for _ in range(times)]
    reply = {"status": status, "headers": [], "length": 1, "digest": answer, "body": answer,
             "checkout": "/copy", "cut": False}  # fmt: skip
    did = Activity(["/"], [events], [calls], [("app.py", "price", own)], answers=[[reply]])
    return Operation(
        test=f"test_{number}", phase="call", number=1, method="GET", path=f"/item/{number}",
        route="/item/{id}", routed=True, mixed=False, did=did,
    )  # fmt: skip


def _compared(pair: tuple[Operation, Operation]) -> Effects:
    return difference.compare(*(operation.did for operation in pair))


def test_what_another_look_does_not_show_alike_is_left_out() -> None:
    """As where another cache was cold, both sides meet, the clock decides, or threads call."""

    def kept(looks: str) -> str:
        sides = [map(json.loads, line.split(" | ")) for line in looks.splitlines()]
        seen = [(_operation(**base), _operation(**head)) for base, head in sides]
        effects = suite.agreed(_compared(seen[0]), seen)
        swapped = suite.agreed(_compared(seen[0][::-1]), [(head, base) for base, head in seen])
        assert swapped.same == effects.same
        names = {effect.text or "calls" for effect in effects.differ}
        return ", ".join(names | {"answer" for _ in effects.answers}) or "nothing"

    assert_said("looks", kept)


ROUTED: Final = _operation()
SECOND: Final = replace(_operation(b=1), number=2)
OTHER: Final = _operation(answer="2")
RANDOM: Final = (replace(ROUTED, test="test_0[a]"),)  # its parameters are others each time
_ANY: Final = Suite(Path(), [], Path(), pytest=True, own=())
_APART: Final = "not compared, since not all runs make them alike: {} of the requests"


def _of_looks(
    patch: pytest.MonkeyPatch,
    base: Iterable[Sequence[Operation]],
    head: Iterable[Sequence[Operation]],
    ends: tuple[str, str] = ("passed", "passed"),
) -> SuiteEffects:
    """Compare what each look at each side records, of tests that end like this."""
    looks = {"base": (iter(base), ends[0]), "head": (iter(head), ends[1])}

    def record(_: Suite, place: Path, *_more: object) -> Recording:
        made = next(looks[place.name][0])
        names = {op.test for op in made} or {"test_0"}
        return Recording(
            {op.key: op for op in made}, dict.fromkeys(names, looks[place.name][1]), ()
        )

    patch.setattr(suite, "record", record)
    return suite.compare(_ANY, Path("base"), Path("head"), print)


@pytest.mark.parametrize(
    ("base", "head", "outcome", "compared", "notes"),
    [
        ((ROUTED, SECOND), (ROUTED, SECOND), "passed", 2, ()),
        ((ROUTED,), (replace(ROUTED, method="PUT"),), "passed", 0, (_APART.format(1),)),
        ((ROUTED,), (replace(ROUTED, phase="setup"),), "passed", 0, (_APART.format(2),)),
        ((ROUTED,), (replace(ROUTED, mixed=True),), "passed", 0,
         ("1 requests that tests make at the same time are not compared", _APART.format(1))),
        # A test that fails on head goes its own way after an answer that differs.
        ((ROUTED, SECOND), (OTHER, SECOND), "failed", 1, ()),
        ((ROUTED, SECOND), (OTHER, SECOND), "passed", 2, ()),
        (RANDOM, (replace(RANDOM[0], test="test_0[b]"),), "passed", 1, ()),
        ((), (ROUTED,), "passed", 0, (_APART.format(1), f"on base {suite.NO_CLIENT}")),
    ],
)  # fmt: skip
def test_only_requests_that_are_the_same_ones_are_compared(
    base: Sequence[Operation], head: Sequence[Operation], outcome: str, compared: int,
    notes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    seen = _of_looks(monkeypatch, repeat(base), repeat(head), ("passed", outcome))
    assert (len(seen.pairs), seen.notes) == (compared, notes)
    assert seen.broken == ["test_0"] * (outcome == "failed")


@pytest.mark.parametrize(
    ("ended", "status", "broken"),
    [("passed", 400, True), ("failed", 400, False), ("failed", 500, True)],
)
def test_a_refusal_that_a_test_asks_for_is_only_different(
    ended: str, status: int, *, broken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Head's test asks for it if the test fails on base, and passes on head."""
    refused = (_operation(answer="2", status=status),)
    seen = _of_looks(monkeypatch, repeat((ROUTED,)), repeat(refused), (ended, "passed"))
    (effects,) = seen.effects.values()
    (answer,) = effects.answers
    assert answer.what == f"head answers status {status} instead of 200"
    assert answer.broken == broken


def test_a_request_that_moves_but_is_not_made_again_is_not_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    again = (SECOND,)
    seen = _of_looks(monkeypatch, [(ROUTED, SECOND), again], [(OTHER, SECOND), again])
    assert (len(seen.pairs), seen.notes) == (1, (_APART.format(1),))
    assert [effects.same for effects in seen.effects.values()] == [True]


def test_requests_to_one_route_are_one_row_with_each_figure_where_it_is_largest() -> None:
    does: list[tuple[dict[str, Any], dict[str, Any]]]
    does = [
        ({"a": 1}, {"a": 1}),
        ({"a": 1}, {"a": 3, "calls": 110}),
        ({"a": 1, "b": 1, "calls": 10_000}, {"a": 9, "b": 2, "calls": 10_100}),  # 1 %: the same
    ]
    made = [(_operation(n, **base), _operation(n, **head)) for n, (base, head) in enumerate(does)]
    pairs = {head.key: (base, head) for base, head in made}
    (endpoint,) = by_endpoint(pairs, {key: _compared(pair) for key, pair in pairs.items()})
    assert (endpoint.name, endpoint.requests) == ("GET /item/{id}", 3)
    assert endpoint.effects.tests == ("test_2", "test_1")
    differ = {(e.text, e.base, e.head) for e in endpoint.effects.differ}
    assert differ == {("a", 1, 9), ("b", 1, 2), ("", 100, 110)}
    assert endpoint.effects.totals == {"sql": (2, 11), "function": (100, 110)}


_APP: Final = """
import asyncio
import sqlite3

SHOP = sqlite3.connect(":memory:", check_same_thread=False)
SHOP.execute("create table book (id integer primary key, author integer)")
SHOP.execute("{index}")


async def app(scope, receive, send):
    for author in range({times}):
        SHOP.execute("select id from book where author = ?", (author,))
    await send({{"type": "http.response.start", "status": 200, "headers": []}})
    await send({{"type": "http.response.body", "body": b"1"}})
"""
_ASK: Final = """
import asyncio

import httpx
import shop


async def ask(method, path, **sent):
    transport = httpx.ASGITransport(shop.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        return await client.request(method, path, **sent)

"""
_TEST: Final = f"""{_ASK}
def test_books():
    assert asyncio.run(ask("GET", "/books/7")).status_code == 200
"""
_INDEX: Final = "create index by_author on book (author)"
_ONE: Final = _APP.format(index=_INDEX, times=1)
_POOL: Final = "import time, concurrent.futures\nPOOL = concurrent.futures.ThreadPoolExecutor(1)\n"
_WAITS: Final = (
    "    POOL.submit(time.sleep, 0.1)  # by then the loop waits\n"
    "        await asyncio.get_running_loop().run_in_executor(POOL, SHOP.execute, "
)
_PLAIN: Final = {"pytest.ini": "[pytest]\naddopts = --disable-plugin-autoload\n"}
Project = Callable[[dict[str, str]], Path]


@pytest.fixture
def project(bench: Bench) -> Project:
    """A function that makes a repository of some files; the environment is this one.

    Its pytest loads none of our plugins, which takes longer than the tests themselves, and a second
    look is the last one.
    """
    bench.patch.setenv("VIRTUAL_ENV", sys.prefix)
    bench.patch.setattr(suite, "_LOOKS", suite._LOOKS[:1])
    return lambda files: work_in(bench.folder / "shop", {**_PLAIN, **files}, bench.patch)


def test_without_any_option_a_comparison_is_of_the_tests(bench: Bench, project: Project) -> None:
    """A limit is of the requests' figures; a dropped index shows although no statement changed."""
    root = project({"shop.py": _ONE, "tests/test_shop.py": _TEST})
    head = _APP.format(index="", times=3).replace("    SHOP.execute(", _WAITS)
    write(root, "shop.py", _POOL + head)
    result = bench("compare", "--limit", "sql=0", "-o", "-")
    comparison = Comparison.model_validate_json(result.out)
    (case,) = comparison.cases
    assert (case.case.endpoint.method, case.case.endpoint.path) == ("GET", "/books/{}")
    assert case.effects is not None
    assert case.effects.tests == ("tests/test_shop.py::test_books",)
    # The line of a statement that a thread sends is the one that waits for it.
    assert [(e.base, e.head, e.place) for e in case.effects.differ if e.kind == "sql"] == [
        (1, 3, "app, shop.py:15")
    ]
    assert result.code == 1
    assert "sends 3 SQL statements instead of 1" in result.err
    (plan,) = (finding for finding in comparison.findings if finding.subject == "plan")
    assert plan.text.startswith("SCAN book instead of SEARCH book USING COVERING INDEX by_author")
    git(root, "checkout", "--quiet", ".")
    assert "Nothing to judge: base and head do not differ." in bench.done("compare")
    assert "= same" in bench("compare", "--control", "--tests", str(root / "tests")).out
    assert (root / "tests/test_shop.py").exists()  # the copies' tests are replaced, not ours
    assert bench("compare", "--tests", "tests", "--start").code == 2


def test_a_late_import_is_watched_and_a_slow_callback_is_no_effect(project: Project) -> None:
    """A loop in debug mode warns of each; whether one is slow is decided by the machine's load."""
    driver = "class Cursor:\n    def _query(self, q):\n        return q\n"
    late = {"pymysql/__init__.py": "", "pymysql/cursors.py": driver}
    sends = "    from pymysql.cursors import Cursor\n    Cursor()._query('select 1')\n"
    slow = f"{sends}    time.sleep(0.2)\n    await asyncio.sleep(0)\n    for author"
    app = "import asyncio, time\n" + _ONE.replace("    for author", slow)
    test = _TEST.replace('7"))', '7"), debug=True)')
    root = project({"shop.py": app, "tests/test_shop.py": test, **late})
    (operation,) = suite.record(Suite.find(root, ["tests"]), root, print).operations.values()
    assert ("sql", "select ?", "Cursor._query, pymysql/cursors.py:2") in operation.did.events[0]
    assert "log" not in {kind for kind, *_ in operation.did.events[0]}


@pytest.mark.real
def test_declared_tests_stand_for_an_application(bench: Bench, project: Project) -> None:
    root = project({"shop.py": _ONE, "api/test_shop.py": _TEST})
    result = bench("init", "--tests", "api")
    assert "1 test, of which 0 fail: 1 request to 1 endpoint\n" in result.out
    assert (root / "duetbench.toml").read_text("utf-8") == 'tests = ["api"]\n'
    write(root, "shop.py", _ONE.replace("range(1)", "range(2)"))
    assert "sends 2 SQL statements instead of 1" in " ".join(bench("compare").out.split())
    for number in range(9):  # of so many, pytest's last words are their names
        write(root, f"api/test_shop_{number}.py", "import nowhere\n")
    (root / "api/test_shop.py").unlink()
    outcome = bench("compare")
    assert outcome.code == 3
    assert "No module named 'nowhere'" in " ".join(outcome.out.split())
    write(root, "api/test_shop.py", "def test_nothing():\n    pass\n")
    (root / "duetbench.toml").unlink()
    assert "no test makes a request" in bench("init", "--tests", "api").err


_ORDERS: Final = asgi(
    'import json\n\nITEMS = {"1": 1}\n',
    """sent, name = (await receive()).get("body"), scope["path"].rpartition("/")[2]
    known = json.loads(sent)["item"] if sent else ITEMS.get(name)
    status, body = 200 if known else 404, b"%d" % (known or 0)""",
)
_OF_ORDERS: Final = f"""{_ASK}
def test_orders(monkeypatch):
    monkeypatch.setitem(shop.ITEMS, "seven", 7)
    assert asyncio.run(ask("GET", "/items/1", params={{"q": "a b"}})).status_code == 200
    assert asyncio.run(ask("GET", "/item/seven")).status_code == 200
    assert asyncio.run(ask("GET", "/none")).status_code == 404
    assert asyncio.run(ask("POST", "/orders", json={{"item": 7}})).content == b"7"
"""


@pytest.mark.real
def test_what_tests_request_is_loaded_where_the_application_answers_alike(
    bench: Bench, project: Project
) -> None:
    """What they write needs a copied database; data of the tests alone are not there."""
    root = project({"shop.py": _ORDERS, "tests/test_shop.py": _OF_ORDERS})
    result = bench("init", "--tests", "tests", "--app", "shop:app")
    assert "not written: 1 request, answered otherwise here: GET /item/seven: expected status" in (
        " ".join(result.out.split())
    )
    keys = tomllib.loads((root / "duetbench.toml").read_text("utf-8"))
    assert keys == {"app": "shop:app", "tests": ["tests"], "requests": ["GET /items/1?q=a+b"]}
    (root / "duetbench.toml").unlink()
    write(root, "shop.db", "")
    copied = ("--copy-database", "URL", "--env", "URL=sqlite:///shop.db")
    assert bench("init", "--tests", "tests", "--app", "shop:app", *copied).code == 0
    keys = tomllib.loads((root / "duetbench.toml").read_text("utf-8"))
    assert keys["requests"] == ["GET /items/1?q=a+b", 'POST /orders {"item": 7}']


def test_a_function_is_compared_like_a_request(bench: Bench, project: Project) -> None:
    """The second call of each side: what only the first one does, such as an import, is not in."""
    benchmark = """
import sqlite3

class Books:
    params = [[3, 9], ["title"]]

    def setup(self, number, column):
        self.shop = sqlite3.connect(":memory:")
        self.shop.execute(f"create table book ({{column}} text)")

    def time_titles(self, number, column):
        for _ in range(number * {times}):
            self.shop.execute(f"select {{column}} from book")
"""
    task = """
import sqlite3

SHOP = sqlite3.connect(":memory:")


async def send():
    import colorsys
    return [SHOP.execute("select 1").fetchone() for _ in range({times})]


def fail():
    raise LookupError
"""
    files = {"shop/tasks.py": task, "benchmarks/books.py": benchmark}
    root = project({name: text.format(times=1) for name, text in files.items()})
    for name, text in files.items():
        write(root, name, text.format(times=2))
    names = ("shop.tasks:send", "shop.tasks:fail", "benchmarks.books:Books.time_titles")
    result = bench("compare", *(word for name in names for word in ("--call", name)), "-o", "-")
    comparison = Comparison.model_validate_json(result.out)
    by_name = {case.case.endpoint.name: case for case in comparison.cases}
    timed = by_name["call benchmarks.books:Books.time_titles"].effects
    assert timed is not None
    assert [timed.figure("sql", side) for side in (0, 1)] == [3, 6]
    assert len(by_name) == 2
    case = by_name["call shop.tasks:send"]
    assert case.effects is not None
    assert [case.effects.figure("sql", side) for side in (0, 1)] == [1, 2]
    assert case.effects.figure("first import", 1) == 0
    assert [answer.what for answer in case.effects.answers] == ["head answers 2 rows instead of 1"]
    assert tuple(note for note in comparison.notes if not note.startswith("not seen: ")) == (
        "1 of the functions fail on both sides: shop.tasks:fail",
        "2 calls, each on both sides",
    )
    alone = bench("compare", "--call", "shop.tasks:fail")
    words = "1 of the functions fail on both sides: shop.tasks:fail; on base no call came to an end"
    ended = f"Nothing to judge: {words}; the last words: LookupError"
    assert (alone.code, ended in " ".join(alone.out.split())) == (3, True), alone
    bench.refused("--call shop.tasks: expected MODULE:FUNCTION", "compare", "--call", "shop.tasks")


@pytest.mark.real
def test_the_commit_is_found_by_the_tests_of_the_last_one(bench: Bench, project: Project) -> None:
    """The first commit has no test; what tests do not show of one in between is unknown."""
    root = project({"shop.py": _ONE})
    changes = (
        _ONE.replace("range(1)", "range(2)"),
        "raise LookupError\n",
        _ONE.replace("range(1)", "range(2)") + "# a remark\n",
    )
    for number, text in enumerate(changes):
        write(root, "shop.py", text)
        write(root, f"tests/test_{number}.py", _TEST)
        commit(root, f"Change {number}")
    result = bench("bisect", "HEAD~3", "HEAD", "--tests", "tests/test_2.py", "--json")
    assert "Change 0: has the change" in result.err
    cause = Cause.model_validate_json(result.out)
    (share,) = cause.shares
    assert [commit.subject for commit in share.commits] == ["Change 0"]
    assert {(f.subject, f.base, f.head) for f in share.findings} >= {("sql", 1, 2)}
    assert bench("bisect", "HEAD", "--tests", "tests").code == 2
    swapped = bench("bisect", "HEAD", "HEAD~1", "--tests", "tests")
    assert (swapped.code, "is HEAD the earlier one?" in swapped.err) == (2, True)


def test_a_test_that_fails_on_head_only_decides_the_exit_code(
    bench: Bench, project: Project
) -> None:
    root = project({"shop.py": _ONE, "tests/test_shop.py": _TEST})
    write(root, "shop.py", _ONE.replace("200", "500"))
    result = bench("compare", "--tests", "tests", "-o", "-")
    assert result.code == 1
    test = "tests/test_shop.py::test_books"
    output = " ".join(result.err.split())
    assert f"▼ worse: most of all {test} passes on base and fails on head" in output
    findings = Comparison.model_validate_json(result.out).findings
    texts = {(f.case, f.text or f.why) for f in findings if f.verdict is Verdict.WORSE}
    assert texts == {
        (test, "passes on base and fails on head"),  # … and where it parts:
        ("shop/GET /books/{}", "/books/7: head answers status 500 instead of 200"),
    }
    commit(root, "Break it")
    swapped = bench("compare", "HEAD", "HEAD~1", "--tests", "tests")
    assert swapped.code == 0
    assert "1 of the tests fail on base only" in swapped.out
    assert "head answers status 200 instead of 500" in " ".join(swapped.out.split())


@pytest.mark.thorough
@pytest.mark.real
@pytest.mark.skipif(counted.missing() is not None, reason="it needs Valgrind")
def test_the_instructions_of_a_function_are_counted(bench: Bench, project: Project) -> None:
    """Twice as many turns of a loop are nearly twice as many instructions."""
    task = "def total():\n    return sum(number * number for number in range({turns}))\n"
    root = project({"shop/tasks.py": task.format(turns=3_000), "shop/__init__.py": ""})
    commit(root, "Do more", **{"shop/tasks.py": task.format(turns=6_000)})
    words = ("--call", "shop.tasks:total", "--only", "counts", "--limit", "cpu=30%", "-o", "-")
    result = bench("compare", "HEAD~1", "HEAD", *words)
    comparison = Comparison.model_validate_json(result.out)
    (counted,) = (f for f in comparison.findings if f.subject == "instructions")
    assert counted.case == "shop/call shop.tasks:total"
    assert counted.ratio == pytest.approx(2, rel=0.025)
    assert counted.limit == 0.3
    assert result.code == 1


_DRIVERS: Final = asgi(
    """
import os

import asyncpg
import psycopg
import psycopg2

URL = os.environ["URL"]
FIND = "select id from book where title = 'a secret' and author = "


async def of_asyncpg():
    connection = await asyncpg.connect(URL)
    async with connection.transaction():
        await connection.fetch(FIND + "$1", 7)
    await connection.close()


async def of_psycopg():
    async with await psycopg.AsyncConnection.connect(URL) as connection:
        await connection.execute("insert into book (author) values (%s)", (7,))
        await (await connection.execute(FIND + "%(who)s", {"who": 7})).fetchall()


async def of_psycopg2():
    connection = psycopg2.connect(URL)
    with connection, connection.cursor() as cursor:
        cursor.execute(FIND + "%s", (7,))
    connection.close()
""",
    'body = b"%d" % (await globals()[scope["path"].strip("/")]() is None)',
)
_OF_DRIVERS: Final = f"""{_ASK}
import psycopg
import pytest
import schema


@pytest.fixture(autouse=True)
def tables():
    with psycopg.connect(shop.URL) as connection:
        connection.execute("drop table if exists book")
        connection.execute("create table book (id serial primary key, author int, title text)")
        connection.execute(schema.INDEX)


@pytest.mark.parametrize("name", ["of_asyncpg", "of_psycopg", "of_psycopg2"])
def test_a_driver(name):
    assert asyncio.run(ask("GET", "/" + name)).status_code == 200
    with psycopg.connect(shop.URL) as connection:
        left = connection.execute("select count(*) from pg_prepared_statements").fetchone()
        written = connection.execute("select count(*) from book").fetchone()
    assert (left, written) == ((0,), (int(name == "of_psycopg"),))
"""


@pytest.mark.thorough
@pytest.mark.real
def test_a_dropped_index_is_named_though_no_statement_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By each driver, with the sides swapped; a plan shows no value, and asking leaves nothing."""
    drivers = ("psycopg[binary]==3.3.9", "psycopg2-binary==2.9.13", "asyncpg==0.32.0")
    install(tmp_path / "venv", sys.executable, "pytest==9.2.0", "httpx==0.28.1", *drivers)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "venv"))
    for name, made in (("base", _INDEX), ("head", "select 1"), ("copy", _INDEX)):
        write(tmp_path / name, "shop.py", _DRIVERS)
        write(tmp_path / name, "schema.py", f"INDEX = {made!r}\n")
        write(tmp_path / name, "tests/test_shop.py", _OF_DRIVERS)
    base, head, copy = (tmp_path / name for name in ("base", "head", "copy"))
    with postgres.server() as server:
        tests = Suite.find(base, ["tests"], env={"URL": f"{server}/postgres"})

        def plans(before: Path, after: Path) -> set[str]:
            seen = suite.compare(tests, before, after, print)
            assert (len(seen.pairs), seen.broken) == (3, [])
            differ = [effect for effects in seen.effects.values() for effect in effects.differ]
            assert all(effect.kind == "plan" for effect in differ)
            return {effect.text for effect in differ}

        by_index = "Bitmap Heap Scan on book; Bitmap Index Scan on by_author"
        by_all = "Seq Scan on book"
        statement = "select id from book where title = ? and author = ?"
        assert plans(base, head) == {f"{by_all} instead of {by_index}: {statement}"}
        assert plans(head, base) == {f"{by_index} instead of {by_all}: {statement}"}
        assert plans(base, copy) == set()
