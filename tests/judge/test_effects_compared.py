"""Both sides' answers and effects, compared: what is said first, and what is left out."""

import gzip
import json
import tracemalloc
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bare import QUIET
from bench import Bench
from comparing import SAME, SLOWER, comparison_of, judged_case
from duetbench.core.model import (
    AnswerDifference,
    Case,
    Effects,
    Keeping,
    KeptMemory,
    RequestEffect,
)
from duetbench.judge import answers, counted, effects, preparation, revisions
from duetbench.judge.pairs import Pair
from duetbench.judge.preparation import Scope
from duetbench.measure.effects.observation import Activity
from duetbench.project.project import Project
from duetbench.project.target import Target
from duetbench.show import effects as words
from duetbench.show.comparison_view import make_view
from duetbench.show.conclusion import exit_code
from repos import commit, work_in

NAMES = [{"name": "a", "at": 1}, {"name": "b", "at": 1}]


def reply(body: Any, status: int = 200, kind: str = "application/json", **headers: str) -> Any:
    text = body if isinstance(body, str | bytes) else json.dumps(body)
    body = text if isinstance(text, bytes) else text.encode()
    named = [["content-type", kind], *([n.replace("_", "-"), v] for n, v in headers.items())]
    fields = {"status": status, "headers": named, "length": len(body), "digest": str(hash(body))}
    return {**fields, "body": body.decode("latin-1"), "cut": False, "checkout": "/srv/shop"}


def packed(text: str, when: int = 0, by: str = "gzip", end: int | None = None) -> Any:
    body = (
        zlib.compress(text.encode()) if by != "gzip" else gzip.compress(text.encode(), mtime=when)
    )
    return reply(
        body[2:-4] if by == "bare" else body[:end], content_encoding=by.replace("bare", "deflate")
    )


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
        (reply(b"a\0b"), reply(b"a\0c"), "head answers other bytes, 3 → 3"),
    ],
)  # fmt: skip
def test_answers_are_compared_as_their_reader_gets_them(
    base: Any, head: Any, what: str | None
) -> None:
    tracemalloc.start()
    both = [answers.difference([one] * 2, [two] * 2) for one, two in ((base, head), (head, base))]
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 20_000_000
    assert both[0] == (what and (what, False))
    assert (both[1] is None) == (what is None)


@pytest.mark.parametrize(
    ("base", "head", "what"),
    [
        (NAMES, [], "head answers 0 rows instead of 2"),
        ({"items": NAMES, "n": 2}, {"items": NAMES[:1], "n": 1},
         "head answers 1 rows instead of 2 in $.items"),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, "head answers $.a.b[1] = 3 instead of 2"),
        ({"a": 1, "b": 2}, {"b": 2}, "head answers without $.a"),
        ({"b": 2}, {"b": 2, "a": 1}, "head answers with $.a, which is new"),
        ({"a": 1}, {"a": "1"}, 'head answers $.a = "1" instead of 1'),
        ("one\ntwo\n", "one\n2\n", 'head answers line 2: "2" instead of "two"'),
        ("a" * 99 + "b", "a" * 99 + "c",
         f'head answers line 1: "…{"a" * 20}c" instead of "…{"a" * 20}b"'),
        ("one\ntwo\n", "one\n", "head answers 1 lines instead of 2"),
    ],
)  # fmt: skip
def test_the_first_place_that_differs_is_named(base: Any, head: Any, what: str) -> None:
    assert answers.difference([reply(base)], [reply(head)]) == (what, False)
    assert answers.difference([reply(head)], [reply(base)]) not in {None, (what, False)}
    assert answers.difference([reply(head)] * 3, [reply(head)] * 3) is None


@pytest.mark.parametrize(
    ("head", "what"),
    [
        (reply(NAMES, 500), "head answers status 500 instead of 200"),
        (reply(NAMES, kind="text/html"),
         "head answers content type text/html instead of application/json"),
    ],
)  # fmt: skip
def test_another_status_or_type_is_broken(head: Any, what: str) -> None:
    assert answers.difference([reply(NAMES)], [head]) == (what, True)


def test_a_header_that_matters_is_compared_and_one_of_the_time_is_not() -> None:
    base, head = (
        [reply(NAMES, cache_control=control, date=str(n), x_request_id=str(n)) for n in range(3)]
        for control in ("no-store", "public")
    )
    what = 'head answers header cache-control "public" instead of "no-store"'
    assert answers.difference(base, head) == (what, False)


@pytest.mark.parametrize(
    ("base", "head", "what"),
    [
        ([{"id": 1, "n": 5}, {"id": 2, "n": 5}], [{"id": 3, "n": 5}, {"id": 4, "n": 5}], None),
        ([{"id": 1, "n": 5}, {"id": 2, "n": 5}], [{"id": 3, "n": 6}, {"id": 4, "n": 6}],
         "head answers $.n = 6 instead of 5"),
        ([[1], [1, 2]], [[1, 2, 3], [1]], None),  # rows that come and go
        (["at 1\nx", "at 2\nx"], ["at 3\nx", "at 4\nx"], None),
        (["at 1\nx", "at 2\nx"], ["at 3\ny", "at 4\ny"], 'head answers line 2: "y" instead of "x"'),
    ],
)  # fmt: skip
def test_what_differs_within_one_side_is_left_out(
    base: Sequence[Any], head: Sequence[Any], what: str | None
) -> None:
    found = answers.difference([*map(reply, base)], [*map(reply, head)])
    assert found == (what and (what, False))


SQL = RequestEffect(
    kind="sql",
    text="SELECT book.id, book.title, book.author_id FROM book WHERE author_id = ?",
    place="authors, shop/main.py:41",
    base=0,
    head=20,
)
FOR_EACH = "for each of the first 200 requests (shop/main.py:12)"
LEAK = KeptMemory(course="constant", bytes=2_100, place="shop/main.py:12", requests=200)
NOTHING = KeptMemory(course="none", requests=200)


def test_a_report_says_answers_first_then_leaks_then_effects() -> None:
    """All above the verdicts; an answer with other content decides only where that is asked."""
    found = Effects(
        differ=(SQL,),
        totals={"sql": (2, 21), "log": (1, 1)},
        answers=(AnswerDifference(what="head answers 0 rows instead of 20", broken=False),),
        kept_base=NOTHING,
        kept_head=LEAK,
    )
    comparison = comparison_of(judged_case("x/a/py3.14", SAME, effects=found))
    view = make_view(comparison)
    parts = (
        "does different work: head answers 0 rows instead of 20",
        f"▼ may leak: x/a/py3.14 keeps 2.1 kB {FOR_EACH}",
        "sends 21 SQL statements instead of 2",
        "= no change: x/a/py3.14; a change of 0.81 % or more in CPU per request would have been",
    )
    assert view.headline.startswith("≠ other answers: ")
    assert view.answer.rows[0] == [
        "SQL statements",
        "2 → 21",
        "",
        "",
        "≠ +20 × SELECT … FROM book WHERE author_i…",
    ]
    places = [view.headline.index(part) for part in parts]
    assert places == sorted(places)
    (section,) = (part for part in view.sections if part.title == "What one request does")
    first = "+20 × SELECT … FROM book WHERE author_id = ?   authors, shop/main.py:41"
    assert section.rows[0] == ["SQL statements", "2", "21", first]
    assert section.lines[0] == ("", "the same on both sides: 1 log record")
    assert exit_code(comparison) == 0
    assert exit_code(comparison, same=True) == 1


@pytest.mark.parametrize(
    ("others", "text"),
    [
        ((), ""),
        ((-1,), "; −1 × another"),
        ((-3, 2), "; 2 others differ, −1 in all"),
        ((-1, 1), "; 2 others cancel out"),
    ],
)
def test_a_row_adds_up_to_its_figures(others: Sequence[int], text: str) -> None:
    less = [RequestEffect(kind="sql", text=f"SELECT {n}", base=3, head=3 + n) for n in others]
    total = 21 + sum(others)
    found = Effects(differ=(SQL, *less), totals={"sql": (2, total)})
    view = make_view(comparison_of(judged_case("x/a/py3.14", SAME, effects=found)))
    assert view.answer.rows[0][-1] == f"≠ +20 × SELECT … FROM book WHERE author_i…{text}"


def test_one_sentence_says_what_it_costs_and_what_it_does() -> None:
    found = Effects(differ=(SQL,), totals={"sql": (2, 21)})
    case = judged_case("x/a/py3.14", SLOWER, effects=found)
    costs, does = (
        "x/a/py3.14 needs 2.1 % more CPU per request",
        "sends 21 SQL statements instead of 2",
    )
    assert make_view(comparison_of(case)).headline == f"▼ slower: {costs} and {does}"
    other = judged_case("x/b/py3.14", SAME)
    apart = f"; ≠ effects: x/a/py3.14 {does}"
    assert apart in make_view(comparison_of(case, other, planned=2)).headline


def test_what_explains_a_cost_comes_after_it() -> None:
    calls = RequestEffect(kind="library exception", text="KeyError", base=0, head=6)
    found = Effects(differ=(calls, SQL), totals={"sql": (2, 21), "library exception": (0, 6)})
    rows = make_view(comparison_of(judged_case("x/a/py3.14", SLOWER, effects=found))).answer.rows
    assert [row[0] for row in rows] == [
        "SQL statements",
        "CPU per request",
        "exceptions in libraries",
    ]


@pytest.mark.parametrize(("broken", "code"), [(True, 1), (False, 0)])
def test_an_answer_of_another_status_fails(broken: bool, code: int) -> None:
    answer = AnswerDifference(what="head answers status 500 instead of 200", broken=broken)
    case = judged_case("x/a/py3.14", SAME, effects=Effects(answers=(answer,)))
    assert exit_code(comparison_of(case)) == code


def activity(*places: str) -> Activity:
    """Two requests that raise a KeyError at each of these places."""
    events = [[("exception", "KeyError", place) for place in places]] * 2
    return Activity(
        paths=("",), events=events, calls=[0, 0], functions=[], peaks=[0], young=None, kept=None,
        answers=[[reply(NAMES)] * 2], alone=[], unseen=(), seconds=0.0,
    )  # fmt: skip


@pytest.mark.parametrize("alone", [True, False])
def test_of_wrong_answers_nothing_is_said_but_that(alone: bool) -> None:
    """A real server may do something else than what is observed."""
    seen = activity("get, a.py:9")
    right, wrong = (replace(seen, alone=seen.answers, status=status) for status in (200, 404))
    reason = effects._finish(wrong, wrong, 1.0, alone=alone)
    assert reason == "an observed answer has status 200, expected 404"
    assert not isinstance(effects._finish(right, right, 1.0, alone=alone), str)


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


def test_an_answer_says_its_lengths_and_its_status_if_that_is_not_200() -> None:
    assert words.same(Effects(length=22, status=404)) == "the answer (status 404, 22 bytes)"
    seen = effects.describe(replace(activity(), answers=[[reply("a" * n) for n in (9, 1_204, 5)]]))
    assert words.same(seen).startswith("the answer (5 to 1,204 bytes)")


def test_sides_that_keep_as_much_do_not_differ() -> None:
    for base, head, leaks in (
        (LEAK, LEAK, False), (NOTHING, LEAK, True), (LEAK, NOTHING, False), (None, LEAK, False),
        (LEAK, LEAK.model_copy(update={"bytes": 4_000}), True),
    ):  # fmt: skip
        assert Effects(kept_base=base, kept_head=head).leaks is leaks


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
def pairs(
    tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Sequence[Pair]]]:
    """A repository whose application is at its top, and pairs of two versions of a module."""
    assert bench.folder == tmp_path
    project = '[project]\nname = "shop"\nversion = "0.1"\nrequires-python = ">=3.11"\n'
    files = {"pyproject.toml": project, ".python-version": "3.14\n", "main.py": MAIN}
    root = work_in(tmp_path / "shop", {**files, "items.py": ITEMS}, monkeypatch)
    with revisions.copies() as copies:

        def prepare(base: str, head: str) -> Sequence[Pair]:
            for text in (base, head):
                commit(root, "A version", **{"items.py": text})
            target = Target.model_validate({"app": "main:app", "requests": ("GET /items",)})
            scope = Scope("quick", (), tmp_path / "logs", QUIET, copies)
            return preparation.of_revisions(Project(root, target), "HEAD~1", None, scope).pairs

        yield prepare


@pytest.mark.real
def test_both_sides_of_a_repository_are_compared(pairs: Callable[..., Sequence[Pair]]) -> None:
    """Times, ids and what a process has once differ on equal sides: they are no difference."""
    told: list[Effects] = []

    def tell(_case: Case, first: Effects) -> None:
        told.append(first)

    seen = effects.observe(pairs(ITEMS, f"{ITEMS}# the same\n"), tell)
    assert not seen.reasons
    assert not told
    (same,) = seen.effects.values()
    assert same.same, same
    assert same.totals["sql"] == (2, 2)
    lazy = ITEMS.replace("def rows", "def once") + LAZY
    for base, head, times in ((ITEMS, lazy, (2, 4)), (lazy, ITEMS, (4, 2))):
        (found,) = effects.observe(pairs(base, head), tell).effects.values()
        assert found.totals["sql"] == told.pop().totals["sql"] == times
        assert not found.leaks
        (answer,) = found.answers  # by owner, and so in another order
        assert answer.what.startswith("head answers $.items[1] = ")
    (found,) = effects.observe(pairs(ITEMS, ITEMS + NONE)).effects.values()
    (answer,) = found.answers
    assert (answer.what, answer.broken) == ("head answers 0 rows instead of 12 in $.items", False)


@pytest.mark.real
def test_sides_that_disturb_each_other_are_observed_one_after_the_other(
    pairs: Callable[..., Sequence[Pair]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counted, "EARLY", 1.0)
    taken = str(tmp_path / "taken")
    alone = f"{ITEMS}\nimport fcntl\nlock = open({taken!r}, 'w')\n"
    alone += "fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
    seen = effects.observe(pairs(alone, alone.replace("def rows", "def once") + LAZY))
    assert not seen.reasons
    assert seen.apart
    (found,) = seen.effects.values()
    assert found.totals["sql"] == (2, 4)


@pytest.mark.real
@pytest.mark.parametrize("swapped", [False, True])
def test_a_side_that_varies_as_the_other_runs_is_observed_without_it(
    pairs: Callable[..., Sequence[Pair]], tmp_path: Path, swapped: bool
) -> None:
    """As where both use one file, which each recreates when it starts."""
    taken = str(tmp_path / "taken")
    shared = f"""{ITEMS}
import fcntl, itertools

lock, requests = open({taken!r}, 'w'), itertools.count()
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    disturbed = False
except BlockingIOError:
    disturbed = True
find_alone = find


def find():
    for _ in range(disturbed * next(requests) % 2):
        db.execute("select 1")
    return find_alone()
"""
    sides = [shared, shared.replace("def rows", "def once") + LAZY]
    seen = effects.observe(pairs(*(sides[::-1] if swapped else sides)))
    assert seen.apart
    (found,) = seen.effects.values()
    assert found.totals["sql"] == ((4, 2) if swapped else (2, 4))
    assert "sql" not in found.unsteady


@pytest.mark.parametrize(
    ("first", "seconds", "attempts"),
    [("the port is taken", 1e6, [True, False]), ("it failed late", 0.0, [True]), (1, 1e6, [True])],
)
def test_what_fails_early_is_tried_one_side_after_the_other(
    first: int | str, seconds: float, attempts: list[bool]
) -> None:
    tried: list[bool] = []

    def attempt(at_once: bool) -> tuple[int | str, ...]:
        tried.append(at_once)
        return (0, first) if at_once else (0, 2)

    assert counted.try_sides(attempt, seconds) == ((0, 2) if len(attempts) == 2 else (0, first))
    assert tried == attempts


@pytest.mark.real
def test_what_may_start_slowly_is_waited_for(
    pairs: Callable[..., Sequence[Pair]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The application may take 30 s to start."""
    monkeypatch.setattr(effects, "SECONDS", 0.01)
    both = pairs(ITEMS, f"{ITEMS}# the same\n")
    assert not effects.observe(both).reasons
    monkeypatch.setattr(effects, "LEAST", 0.0)
    assert {*effects.observe(both, budget=0).reasons.values()} == {
        "there was no time to observe it"
    }


@pytest.mark.parametrize(
    ("base", "head", "words"),
    [
        (LEAK, LEAK, f"both keep memory: head keeps 2.1 kB {FOR_EACH}"),
        (None, LEAK, f"head keeps 2.1 kB {FOR_EACH}: there was no time"),
        (LEAK, None, f"base keeps 2.1 kB {FOR_EACH}: there was no time"),
        (NOTHING, NOTHING, ""),
    ],
)
def test_memory_that_one_side_keeps_is_no_news_without_the_other(
    base: KeptMemory | None, head: KeptMemory | None, words: str
) -> None:
    case = judged_case("x/a/py3.14", SAME, effects=Effects(kept_base=base, kept_head=head))
    view = make_view(comparison_of(case))
    assert "keeps" not in view.headline
    (section,) = (part for part in view.sections if part.title == "What one request does")
    said = " ".join(line for _, line in section.lines)
    assert words in said
    assert ("keeps" in said) is bool(words)


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
    one, two = (replace(activity(), kept=kept) for kept in (first, second))
    for joined in (one.with_(two), two.with_(one)):
        assert joined.kept is not None
        assert joined.kept.bytes == size


def test_a_leak_that_head_repairs_is_told_with_its_line() -> None:
    comparison = comparison_of(
        judged_case("x/a/py3.14", SAME, effects=Effects(kept_base=LEAK, kept_head=NOTHING))
    )
    view = make_view(comparison)
    says = f"▲ better: x/a/py3.14 keeps nothing; before 2.1 kB {FOR_EACH}"
    assert view.headline.startswith(says)
    (section,) = (part for part in view.sections if part.title == "What one request does")
    assert section.rows == [["memory kept after it", "2.1 kB", "0 kB", "shop/main.py:12"]]
    assert exit_code(comparison) == 0
    found = Effects(kept_base=LEAK, kept_head=LEAK.model_copy(update={"bytes": 100}))
    headline = make_view(comparison_of(judged_case("x/a/py3.14", SLOWER, effects=found))).headline
    less = f"keeps 0.10 kB; before 2.1 kB {FOR_EACH}"
    assert headline == f"▼ slower: x/a/py3.14 needs 2.1 % more CPU per request and {less}"


AFTER = " FROM book WHERE id = ?"


@pytest.mark.parametrize(
    ("base", "head", "shown"),
    [
        # Without the columns, these are one text.
        (
            f"SELECT book.id AS book_id, book.title AS title{AFTER}",
            f"SELECT book.id, book.title{AFTER}",
            {
                f"−1 × SELECT book.id AS book_id, book.title AS title{AFTER}",
                f"+1 × SELECT book.id, book.title{AFTER}",
            },
        ),
        # Their beginnings are as well.
        (
            f"SELECT {'book.id, ' * 9}book.title{AFTER}",
            f"SELECT {'book.id, ' * 9}book.isbn{AFTER}",
            {f"−1 × … book.title{AFTER}", f"+1 × … book.isbn{AFTER}"},
        ),
    ],
)
def test_statements_that_differ_look_different(base: str, head: str, shown: set[str]) -> None:
    both = (
        RequestEffect(kind="sql", text=text, base=text == base, head=text == head)
        for text in (base, head)
    )
    found = Effects(differ=tuple(both), totals={"sql": (1, 1)})
    assert {text for _, _, _, text in words.rows(found)} == shown


def test_what_says_most_leads() -> None:
    """Six times the calls say more than fewer tasks, and tasks that stay more than both."""
    task, left, calls = (
        RequestEffect(kind=kind, text="", base=base, head=head)
        for kind, base, head in (("task", 9, 6), ("tasks left", 0, 1), ("function", 103, 602))
    )
    for differ, says in (
        ((task, calls), "makes 602 function calls instead of 103"),
        ((task, left, calls), "leaves 1 task behind instead of 0"),
    ):
        totals = {effect.kind: (effect.base, effect.head) for effect in differ}
        seen = Effects(differ=differ, totals=totals)
        (news,) = words.news(comparison_of(judged_case("x/a/py3.14", SAME, effects=seen)))
        assert news == (words.LEAST, f"x/a/py3.14 {says}")


@pytest.mark.parametrize(
    ("base", "head", "limit", "code", "sql"),
    [
        (2, 21, 10, 1, 1), (2, 10, 10, 0, 1), (2, 2, 10, 0, 0), (21, 11, 10, 1, 1),
        (21, 21, 10, 1, 1), (2, 3, None, 0, 1), (3, 2, None, 0, 0),
    ],
)  # fmt: skip
def test_more_statements_than_declared_fail(
    base: int, head: int, limit: float | None, code: int, sql: int
) -> None:
    effect = RequestEffect(kind="sql", text="SELECT ?", base=base, head=head)
    seen = Effects(differ=(effect,) * (base != head), totals={"sql": (base, head)})
    comparison = comparison_of(judged_case("x/a/py3.14", SAME, effects=seen))
    limits = {"limit_sql": limit} if limit is not None else {}
    comparison = comparison.model_copy(update={"method": {**comparison.method, **limits}})
    assert (exit_code(comparison), exit_code(comparison, sql=True)) == (code, sql)
    words = f"sends {head} SQL statements, more than the limit 10"
    answer = make_view(comparison).answer
    assert ((words in answer.verdict), answer.news) == (bool(code), base != head or bool(code))


def test_statements_that_nobody_saw_are_undecided() -> None:
    unsteady = Effects(unsteady={"sql": "1 to 3 in head"})
    unseen = Effects(unseen=("statements of apsw",), totals={"sql": (2, 2)})
    for seen in (None, unsteady, unseen):
        comparison = comparison_of(judged_case("x/a/py3.14", SAME, effects=seen))
        assert (exit_code(comparison), exit_code(comparison, sql=True)) == (0, 3)
