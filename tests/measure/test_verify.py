"""Who serves is what the case names, and every answer is what it should be."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from bench import eventually
from duetbench.app.expectation import check_answer
from duetbench.core.errors import FlagName, LaunchError
from duetbench.core.model import Endpoint, Expectation, InterpreterRecord
from duetbench.load.identity import Identity, check_identity, probe
from duetbench.load.verify import Answer as Found
from duetbench.load.verify import (
    SpotChecks,
    choose_paths,
    right_sizes,
    tells_error,
    verify,
)
from synthetic import make_case
from tiny_http import Answer, serving

SCHEMA = {
    "type": "object",
    "properties": {"count": {"type": "integer", "minimum": 1}},
    "required": ["count"],
}


def text(pattern: str = "hello") -> Expectation:
    return Expectation(content_type="text/plain", text=pattern)


def endpoint(expect: Expectation | None = None, floor: float = 0.0) -> Endpoint:
    return Endpoint(
        name="x", app="app:app", interface="asgi", path="/x", expect=expect or text(),
        floor=floor,
    )  # fmt: skip


def came(status: int, media: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
    return status, {"content-type": media}, body


def refusal(expect: Expectation, body: bytes, media: str, status: int = 200) -> LaunchError:
    with pytest.raises(LaunchError) as caught:
        check_answer(endpoint(expect), "GET /x", *came(status, media, body))
    return caught.value


@pytest.mark.parametrize(
    ("expect", "body", "media"),
    [
        (text(), b"hello", "text/plain; charset=utf-8"),
        (text(r"Hello from [\d.]+t?"), b"Hello from 3.14t", "Text/Plain"),
        (Expectation(content_type="application/json", json_value={"a": 1, "b": [True, None]}),
         b'{"b": [true, null],\n"a": 1}', "application/json"),
        (Expectation(content_type="application/json", json_schema=SCHEMA), b'{"count": 20}',
         "application/json"),
    ],
)  # fmt: skip
def test_a_right_answer_passes(expect: Expectation, body: bytes, media: str) -> None:
    check_answer(endpoint(expect), "GET /x", *came(expect.status, media, body))


@pytest.mark.parametrize(
    ("expect", "body", "words"),
    [
        (text(), b"hello!", "expected text like 'hello', found 'hello!'"),
        (Expectation(content_type="text/plain", json_value={"a": 1}), b'{"a": true}', '{"a": 1}'),
        (Expectation(content_type="text/plain", json_value=[1]), b"[1.0]", "expected [1], found"),
        (Expectation(content_type="text/plain", json_value=[1]), b"<html>", "expected JSON"),
        (
            Expectation(content_type="text/plain", json_schema=SCHEMA),
            b'{"count": 0}',
            "$.count: 0 is less than the minimum of 1",
        ),
    ],
)
def test_a_wrong_body_says_what_was_expected_and_found(
    expect: Expectation, body: bytes, words: str
) -> None:
    error = refusal(expect, body, "text/plain")
    assert error.flag is FlagName.WRONG_ANSWER
    assert words in error.detail


def test_status_and_media_type_come_first() -> None:
    error = refusal(text(), b"Internal Server Error" * 9, "text/plain", status=500)
    assert error.flag is FlagName.WRONG_ANSWER
    assert "expected status 200, found 500" in error.detail
    assert len(error.detail) < 200
    error = refusal(text(), b"hello", "text/html")
    assert error.flag is FlagName.WRONG_ANSWER
    assert "expected content type text/plain, found text/html" in error.detail


@pytest.mark.parametrize(
    ("location", "shown"),
    [("http://localhost/x/", "/x/"), ("/x", "/x"), ("https://localhost/x", "https://localhost/x"),
     ("http://localhost/x", "http://localhost/x")],
)  # fmt: skip
def test_a_redirect_is_shown_without_the_host_that_was_asked(location: str, shown: str) -> None:
    endpoint_ = endpoint().model_copy(update={"headers": {"host": "localhost"}, "path": "/x"})
    with pytest.raises(LaunchError, match=re.escape(f"found 307 to {shown} with ''")):
        check_answer(endpoint_, "GET /x", 307, {"location": location}, b"")


@pytest.mark.real
def test_a_quick_endpoint_is_asked_one_at_a_time() -> None:
    """The fastest of three is its unit; no connection is left open."""
    with serving(Answer()) as server:
        found = verify(endpoint(), server.port)
        assert (len(found), server.requests, server.connections) == (3, 3, 1)
    assert {answer.size for answer in found} == {5}
    assert min(answer.seconds for answer in found) > 0


@pytest.mark.real
def test_a_mix_is_asked_for_each_of_its_paths() -> None:
    """Thrice the first, once the others, each path once however much weight it has."""
    asked: list[str] = []

    def note(path: str, _number: int) -> Answer:
        asked.append(path)
        return Answer()

    mix = endpoint().model_copy(update={"paths": ("/y", "/y", "/z")})
    with serving(note) as server:
        found = verify(mix, server.port)
        assert asked == ["/x", "/x", "/x", "/y", "/z"] == [answer.path for answer in found]
        with SpotChecks(mix, server.port, throughput=1e9, timeout=30, cores=None):
            eventually("all paths", lambda: asked[5:9] == ["/x", "/y", "/z", "/x"])


def test_of_many_paths_some_are_chosen_from_all_over() -> None:
    paths = tuple(f"/{number}" for number in range(1, 1000))
    some = choose_paths(endpoint().model_copy(update={"path": "/0", "paths": paths}))
    assert len(set(some)) == 16
    assert (some[0], some[1], some[-1]) == ("/0", "/62", "/937")


@pytest.mark.real
def test_a_request_is_sent_as_it_is_declared() -> None:
    """Method, headers and body, by verification and by spot checks; any media type, any body."""
    post = endpoint(Expectation(status=201)).model_copy(
        update={"method": "POST", "body": '{"name": "Zoë"}', "headers": {"x-token": "t"}}
    )
    with serving(Answer(status=201, media="text/whatever")) as server:
        verify(post, server.port, repeats=1)
        with SpotChecks(post, server.port, throughput=1e9, timeout=30, cores=None) as checks:
            eventually("a check", lambda: len(server.heads) > 1)
        assert checks.problem is None
        for head, body in zip(server.heads[:2], server.bodies[:2], strict=True):
            assert head.startswith("POST /x HTTP/1.1")
            assert "\r\nx-token: t\r\n" in head
            assert body.decode() == '{"name": "Zoë"}'


@pytest.mark.parametrize(
    ("bodies", "right", "without"),
    [
        ([], set(), set()),
        (["abc"], {3}, {3}),
        (["abc"] * 24, {3}, {3}),
        (["abc", "abd", "abe"], {3}, set()),
        (["abc", "abcd"] * 2, {3, 4}, set()),
        (["abc"] * 23 + ["abcd"], set(), set()),  # a third may follow
        (["a", "ab", "abc"] * 8, set(), set()),
        (["a" * size for size in range(24)], set(), set()),
    ],
)
def test_sizes_are_known_unless_they_vary_with_and_without_an_expectation(
    bodies: list[str], right: set[int], without: set[int]
) -> None:
    answers = [Found(0.1, len(body), "/x", body.encode(), "") for body in bodies]
    assert right_sizes(endpoint(), answers) == right
    assert right_sizes(endpoint(Expectation()), answers) == without


@pytest.mark.real
def test_spot_checks_find_a_wrong_answer_of_the_right_length() -> None:
    """The third one is wrong: it is kept, and nothing is asked any more."""
    with serving(lambda _path, number: Answer(body=b"hello" if number < 2 else b"hullo")) as server:
        port = server.port
        with SpotChecks(endpoint(), port, throughput=1e9, timeout=30, cores=None) as checks:
            eventually("the wrong answer", lambda: checks.problem is not None)
        assert (checks.sent, server.requests, server.connections) == (3, 3, 3)
        with SpotChecks(endpoint(), port, throughput=0, timeout=30, cores=None) as too_slow:
            pass
        assert (too_slow.sent, too_slow.problem) == (0, None)
    assert checks.problem is not None
    assert checks.problem.flag is FlagName.WRONG_ANSWER
    assert "GET /x, spot check 3 under load: expected text like 'hello'" in checks.problem.detail


@pytest.mark.real
def test_the_right_answer_too_fast_is_too_good_to_be_true() -> None:
    with serving(Answer()) as server, pytest.raises(LaunchError) as caught:
        verify(endpoint(floor=3.0), server.port)
    assert caught.value.flag is FlagName.IMPOSSIBLE
    assert "too fast to be true: expected at least 3 s" in caught.value.detail


@pytest.mark.real
@pytest.mark.parametrize(
    ("answers", "flag"),
    [
        ([Answer(status=500)], FlagName.WRONG_ANSWER),
        ([Answer(), Answer(body=b"bye")], FlagName.WRONG_ANSWER),
        ([Answer(), Answer(), Answer(media="text/html")], FlagName.WRONG_ANSWER),
        ([Answer(delay=30)], FlagName.NO_ANSWER),
    ],
)
def test_every_answer_counts(answers: list[Answer], flag: FlagName) -> None:
    with serving(lambda _path, n: answers[min(n, len(answers) - 1)]) as server:
        with pytest.raises(LaunchError) as caught:
            verify(endpoint(), server.port, timeout=0.3 if answers[-1].delay else 30)
        assert server.requests == len(answers)
    assert caught.value.flag is flag
    assert caught.value.detail.startswith("GET /x: ")


@pytest.mark.real
@pytest.mark.parametrize(
    ("answer", "seconds", "words"),
    [
        (Answer(endless=0.01), 0.5, r"more than 0\.5 s and \d kB"),
        (Answer(body=bytes(10_000), endless=0), 30, r"more than [\d.e-]+ s and 1\d\d kB"),
        (Answer(delay=30), 0.5, r"more than 0\.5 s and 0 kB"),
    ],
)
def test_an_answer_without_end_is_read_up_to_a_time_and_a_size(
    answer: Answer, seconds: float, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duetbench.load.verify.LARGEST_ANSWER", 100_000)
    expected = f"GET /x: an answer without end: {words}"
    with serving(answer) as server, pytest.raises(LaunchError, match=expected):
        verify(endpoint(), server.port, timeout=seconds)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"errors": [{"message": "no such field"}], "data": null}', True),
        (b'{"ok": false}', True),
        (b'{"status": "error"}', True),
        (b"<html><head><title>500 Internal Server Error</title></head><body>x", True),
        (b'{"errors": [], "error": null, "ok": true, "status": "active"}', False),
        (b'[{"error": "an item may tell one"}]', False),
        (b"<title>Orders</title><p>Error rates", False),
        (b"error", False),
    ],
)
def test_a_body_that_calls_itself_an_error_is_recognised(body: bytes, error: bool) -> None:
    assert tells_error(body) is error


LOCK = {"fastapi": "0.163.2", "granian": "2.8.7", "pydantic": "2.14.3", "pywin32": "400"}


def identity(**changes: Any) -> Identity:
    known = {
        "pid": 100,
        "python": "3.14.7",
        "build": "GCC 12.2.0 -O3 Py_GIL_DISABLED=0",
        "gil_enabled": True,
        "packages": {"fastapi": "0.163.2", "granian": "2.8.7", "pydantic": "2.14.3", "pip": "26"},
        "loop": "asyncio.unix_events._UnixSelectorEventLoop",
        "worker": "100-1",
    }
    return Identity.model_validate(known | changes)


def without_gil(**changes: Any) -> Identity:
    build = "GCC 12.2.0 -O3 Py_GIL_DISABLED=1"
    return identity(**{"build": build, "gil_enabled": False} | changes)


def check(
    *identities: Identity, free_threaded: bool = False, jit: bool = False, **changes: Any
) -> None:
    python = InterpreterRecord(
        name="3.14",
        version="3.14.7",
        free_threaded=free_threaded,
        jit=jit,
        build="",
        origin="found",
    )
    case = make_case("e/x", **{"server": "granian", "loop": "auto", **changes})
    check_identity(identities, case, python, LOCK)


@pytest.mark.parametrize("on", [True, False])
def test_a_jit_is_on_where_it_should_be_and_nowhere_else(on: bool) -> None:
    """Unless the case says itself whether it is."""
    found = identity(jit_enabled=on)
    check(found, jit=on)
    check(found, env={"PYTHON_JIT": "0"})
    check(found, env_names=("PYTHON_JIT",))
    words = "off, found it on" if on else "on, found it off"
    with pytest.raises(LaunchError, match=f"not_ready.*expected the JIT to be {words}"):
        check(found, jit=not on)


def workers(*numbers: int) -> Callable[[str, int], Answer]:
    def behaviour(path: str, n: int) -> Answer:
        assert path == "/_duetbench/identity"
        number = numbers[min(n, len(numbers) - 1)]
        body = identity(pid=number, worker=f"{number}-a").model_dump_json().encode()
        return Answer(body=body, media="application/json")

    return behaviour


def test_the_right_workers_pass() -> None:
    check(identity(), identity(worker="100-2"), loop="asyncio")
    check(without_gil(loop="uvloop.Loop"), free_threaded=True, loop="uvloop")
    check(identity(loop=None), loop="none")
    check(identity(packages={"FastAPI": "0.163.2", "Granian": "2.8.7"}))


@pytest.mark.parametrize(
    ("found", "free_threaded", "words"),
    [
        (without_gil(gil_enabled=True), True, "expected the GIL to be off, found it on"),
        (identity(), True, "expected the GIL to be off"),
        (without_gil(), False, "expected the GIL to be on, found it off"),
        # PYTHON_GIL=1 on a free-threaded build: the GIL is on, and yet it is another interpreter.
        (without_gil(gil_enabled=True), False, "Py_GIL_DISABLED=0, found GCC"),
    ],
)
def test_a_gil_in_the_wrong_state_is_named(
    found: Identity, free_threaded: bool, words: str
) -> None:
    right = without_gil() if free_threaded else identity()
    with pytest.raises(LaunchError, match=re.escape(words)) as caught:
        check(right, found, free_threaded=free_threaded)
    assert caught.value.flag is FlagName.NOT_READY


@pytest.mark.parametrize(
    ("found", "more", "words"),
    [
        (identity(python="3.14.6"), {}, "expected Python 3.14.7, found 3.14.6"),
        (identity(packages={"pydantic": "1.10.27"}), {},
         "pydantic: expected 2.14.3, found 1.10.27"),
        (identity(packages={"fastapi": "0.163.2"}), {},
         "granian: expected 2.8.7, found none installed"),
        (identity(packages={"uvicorn": "0.54.0"}), {"server": "uvicorn"},
         "uvicorn: expected it in the lock, found 0.54.0 installed"),
        (identity(), {"loop": "uvloop"}, "expected the event loop uvloop, found asyncio."),
        (identity(loop=None), {"loop": "asyncio"}, "expected the event loop asyncio, found None"),
    ],
)  # fmt: skip
def test_another_version_is_named(found: Identity, more: dict[str, Any], words: str) -> None:
    with pytest.raises(LaunchError, match=re.escape(words)) as caught:
        check(found, **more)
    assert caught.value.flag is FlagName.NOT_READY
    assert "worker 100-1" in caught.value.detail


@pytest.mark.real
def test_every_worker_answers() -> None:
    """The second worker gets only the seventh connection: the probe goes on until then."""
    with serving(workers(*[2] * 6, 1, 2)) as server:
        found = probe(server.port, workers_expected=2)
        assert server.connections >= 7
    assert sorted(one.pid for one in found) == [1, 2]


@pytest.mark.real
@pytest.mark.parametrize(
    ("numbers", "flag", "words"),
    [
        ((7,), FlagName.NOT_READY, "found 1 (7-a)"),
        ((1, 2, 3), FlagName.SERVER_DIED, "expected 2 workers, found 3"),
    ],
)
def test_a_worker_too_few_or_too_many(numbers: tuple[int, ...], flag: FlagName, words: str) -> None:
    """One that never answers is missed; one too many is a restart."""
    with serving(workers(*numbers)) as server, pytest.raises(LaunchError) as caught:
        probe(server.port, workers_expected=2, timeout=2)
    assert caught.value.flag is flag
    assert "expected 2 workers" in caught.value.detail
    assert words in caught.value.detail
