"""Who serves is what the case names, and every answer is what it should be."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from duetbench.app.expectation import check_answer
from duetbench.core.errors import FlagName, LaunchError
from duetbench.core.model import Endpoint, Expectation, InterpreterRecord
from duetbench.load import verify as verification
from duetbench.load.verify import Identity, probe, right_sizes, verify
from goldens import assert_said
from synthetic import make_case, make_endpoint
from tiny_http import Answer, serving

HELLO: Final = Expectation(content_type="text/plain", text="hello")


def endpoint(expect: Expectation = HELLO, **changes: Any) -> Endpoint:
    return make_endpoint(**{"path": "/x", "expect": expect, **changes})


def test_a_wrong_answer_says_what_was_expected_and_found() -> None:
    """Status and media type come first, and an answer may be long."""

    def check_one(case: str) -> str:
        expected, head, body = case.split("\n", 2)
        status, _, media = head.partition(" ")
        asked = endpoint(Expectation.model_validate_json(expected))
        check_answer(asked, "GET /x", int(status), {"content-type": media}, body.encode())
        return "right"

    assert_said("wrong-answers", check_one)


@pytest.mark.real
def test_each_path_is_asked_one_at_a_time() -> None:
    """Thrice the first, once the others, each path once however much weight it has.

    No connection is left open.
    """
    asked: list[str] = []

    def note(path: str, _number: int) -> Answer:
        asked.append(path)
        return Answer()

    mix = endpoint(paths=("/y", "/y", "/z"))
    with serving(note) as server:
        answers = verify(mix, server.server_port)
        assert asked == ["/x", "/x", "/x", "/y", "/z"] == [answer.path for answer in answers]
        assert server.connections == 1
    assert {answer.size for answer in answers} == {5}
    assert min(answer.seconds for answer in answers) > 0
    paths = tuple(f"/{number}" for number in range(1, 1000))
    some = verification.choose_paths(endpoint(path="/0", paths=paths))
    assert len(set(some)) == 16
    assert (some[0], some[1], some[-1]) == ("/0", "/62", "/937")


def test_sizes_are_known_unless_they_vary_with_and_without_an_expectation() -> None:
    def known(bodies: str) -> str:
        texts = bodies.replace("none", "").split()
        answers = [verification.Answer(0.1, len(text), "/x", text.encode(), "") for text in texts]
        sizes = (right_sizes(endpoint(expect), answers) for expect in (HELLO, Expectation()))
        return "; ".join(" ".join(map(str, sorted(each))) or "unknown" for each in sizes)

    assert_said("sizes", known)


@pytest.mark.real
@pytest.mark.parametrize(
    ("answers", "more", "flag", "words"),
    [
        ([Answer(), Answer(body=b"bye")], {}, FlagName.WRONG_ANSWER, ""),
        ([Answer(delay=30)], {"timeout": 0.3}, FlagName.NO_ANSWER,
         r"an answer without end: more than 0\.3 s and 0 kB"),
        ([Answer(endless=0.01)], {"timeout": 0.3}, FlagName.NO_ANSWER,
         r"an answer without end: more than 0\.3 s and \d kB"),
        ([Answer(body=bytes(10_000), endless=0)], {}, FlagName.NO_ANSWER,
         r"an answer without end: more than [\d.e-]+ s and 1\d\d kB"),
        # The right one, too good to be true.
        ([Answer()], {"floor": 3.0}, FlagName.IMPOSSIBLE, "too fast .* expected at least 3 s"),
    ],
)  # fmt: skip
def test_every_answer_counts(
    answers: Sequence[Answer], more: dict[str, float], flag: FlagName, words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(verification, "LARGEST_ANSWER", 100_000)
    asked, timeout = endpoint(floor=more.get("floor", 0.0)), more.get("timeout", 30)
    with serving(lambda _path, n: answers[min(n, len(answers) - 1)]) as server:
        with pytest.raises(LaunchError) as caught:
            verify(asked, server.server_port, timeout=timeout)
        assert len(server.heads) == len(answers)
    assert caught.value.flag is flag
    assert re.match(f"GET /x: .*{words}", caught.value.detail)


def test_a_body_that_calls_itself_an_error_is_recognised() -> None:
    assert_said(
        "errors", lambda body: "an error" if verification.tells_error(body.encode()) else "none"
    )
    assert not verification.tells_error(b"\xff error")


LOCK = {
    "fastapi": "0.163.2",
    "granian": "2.8.7",
    "pydantic": "2.14.3",
    "orjson": "git+1a2b3c4d",  # a commit tells no version
}


def identity(**changes: Any) -> Identity:
    known = {
        "pid": 100,
        "python": "3.14.7",
        "free_threaded": False,
        "gil_enabled": True,
        "packages": {**LOCK, "pip": "26", "orjson": "3.11"},
        "loop": "asyncio.unix_events._UnixSelectorEventLoop",
        "worker": "100-1",
    }
    return Identity.model_validate(known | changes)


def check(*identities: Identity, free: bool = False, jit: bool = False, **changes: Any) -> None:
    python = InterpreterRecord(
        name="3.14", version="3.14.7", free_threaded=free, jit=jit, build="", origin="found"
    )
    case = make_case("e/x", **{"server": "granian", "loop": "auto", **changes})
    verification.check_identity(identities, case, python, LOCK)


def test_what_another_worker_is_is_named() -> None:
    """PYTHON_GIL=1 on a free-threaded build: the GIL is on, and it is another interpreter.

    A case may say itself whether the JIT is on.
    """

    def check_one(case: str) -> str:
        changes, more = map(json.loads, case.splitlines())
        check(identity(**changes), **more)
        return "right"

    assert_said("workers", check_one)


def workers(*numbers: int) -> Callable[[str, int], Answer]:
    def behaviour(path: str, n: int) -> Answer:
        assert path == "/_duetbench/identity"
        number = numbers[min(n, len(numbers) - 1)]
        body = identity(pid=number, worker=f"{number}-a").model_dump_json().encode()
        return Answer(body=body, media="application/json")

    return behaviour


@pytest.mark.real
def test_every_worker_answers() -> None:
    """The second worker gets only the seventh connection: the probe goes on until then."""
    with serving(workers(*[2] * 6, 1, 2)) as server:
        identities = probe(server.server_port, workers_expected=2)
        assert server.connections >= 7
    assert sorted(worker.pid for worker in identities) == [1, 2]
    # One that never answers is missed; one too many is a restart; another server is none of ours.
    for answers, flag, words in (
        (workers(7), FlagName.NOT_READY, r"expected 2 workers.*found 1 \(7-a\)"),
        (workers(1, 2, 3), FlagName.SERVER_DIED, "expected 2 workers, found 3"),
        (Answer(status=500), FlagName.WRONG_ANSWER, "expected status 200, found 500 with 'hello'"),
        (Answer(), FlagName.WRONG_ANSWER, "expected an identity, found 'hello'"),
    ):
        with serving(answers) as server, pytest.raises(LaunchError, match=words) as caught:
            probe(server.server_port, workers_expected=2, timeout=0.5)
        assert caught.value.flag is flag
