"""The in-process drivers: what they hand to an application, and what they accept from it."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from pprint import pformat
from typing import Any

import pytest

from duetbench.app.inside import drivers
from duetbench.app.inside.phases import UnfitError
from goldens import assert_golden

Message = dict[str, Any]
Drive = Callable[..., Any]


def start(status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Message:
    return {"type": "http.response.start", "status": status, "headers": headers}


def body(content: bytes = b"", more: bool = False) -> Message:
    return {"type": "http.response.body", "body": content, "more_body": more}


@pytest.fixture
def drive() -> Iterator[Drive]:
    """A driver of an ASGI application; of `/` unless asked for more."""
    made = []

    def make(app: Any, ask: drivers.Ask = drivers.Ask("/"), *, lives: bool = False) -> Any:  # noqa: B008
        async def without_lifespan(scope: Any, *channels: Any) -> None:
            assert scope["type"] == "http"
            await app(scope, *channels)

        made.append(drivers.AsgiDriver(app if lives else without_lifespan, ask))
        return made[-1]

    yield make
    for driver in made:
        driver.close()


def sending(*messages: Message) -> Any:
    async def app(_scope: Message, _receive: Any, send: Any) -> None:
        for message in messages:
            await send(message)

    return app


def answering(drive: Drive, interface: str, answer: Callable[[], Any], ask: drivers.Ask) -> Any:
    """A driver of an application that answers with a status and pieces of a body."""

    async def asgi(_scope: Message, _receive: Any, send: Any) -> None:
        status, pieces = answer()
        await send(start(status))
        for piece in pieces:
            await send(body(piece, True))
        await send(body())

    def wsgi(_environ: Message, start_response: Any) -> Iterable[bytes]:
        status, pieces = answer()
        start_response(f"{status} ", [])
        yield from pieces

    return drive(asgi, ask) if interface == "asgi" else drivers.WsgiDriver(wsgi, ask)


BOTH = pytest.mark.parametrize("interface", ["asgi", "wsgi"])
ORDER = drivers.Ask(
    "/caf%C3%A9?gift=1&x=%20", ("/orders",), "POST",
    {"Authorization": "Bearer 1", "content-type": "a/b"}, b"7 of it",
)  # fmt: skip


def test_an_asgi_application_gets_whole_requests_and_paths_in_turn(drive: Drive) -> None:
    """Path decoded, raw path and query not, header names in lower case; a new scope each time."""
    scopes: list[Message] = []
    requests: list[Message] = []

    async def app(scope: Message, receive: Any, send: Any) -> None:
        scopes.append({**scope, "headers": dict(scope["headers"])})
        requests.append(await receive())
        scope["path"] = "changed"
        scope["headers"].clear()
        await send(start())
        await send(body())

    driver = drive(app, ORDER)
    for _ in range(3):
        driver()
    first, second, third = scopes
    assert_golden("answers/scope.txt", pformat(first))
    assert second == {**first, "path": "/orders", "raw_path": b"/orders", "query_string": b""}
    assert third == first
    assert requests == [{"type": "http.request", "body": b"7 of it", "more_body": False}] * 3


def test_an_asgi_answer_is_put_together_and_a_broken_one_is_an_error(drive: Drive) -> None:
    kind = ((b"content-type", b"text/plain"),)
    driver = drive(sending(start(201, kind), body(b"one ", True), body(b"", True), body(b"two")))
    assert driver() == (201, [*kind], b"one two")
    assert drive(sending(start(204), {"type": "http.response.body"}))() == (204, [], b"")
    for messages in (
        (),
        (start(), body(b"half", True)),
        (body(b"too soon"),),
        (start(), body(), body(b"once more")),
    ):
        driver = drive(sending(*messages))
        for _ in range(2):
            with pytest.raises(drivers.ProtocolError, match=r"expected|before its answer"):
                driver()


@BOTH
def test_pieces_of_a_body_may_share_a_buffer_and_one_without_end_ends(
    drive: Drive, interface: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = bytearray(b"0")

    def numbers() -> Iterator[bytearray]:
        for number in b"123":
            buffer[0] = number
            yield buffer

    pieces: Any = numbers()
    request = answering(drive, interface, lambda: (200, pieces), drivers.Ask("/"))
    assert request()[2] == b"123"
    monkeypatch.setattr(drivers, "LARGEST_ANSWER", 100_000)
    pieces = itertools.repeat(bytes(10_000))
    with pytest.raises(UnfitError, match=r"GET /: an answer without end: more than .* and 110 kB"):
        request()


@BOTH
def test_a_later_answer_of_another_status_has_no_figure(drive: Drive, interface: str) -> None:
    """Of two paths in turn, the second is gone from its third request on."""
    statuses = iter([204, 204, 204, 204, 204, 404])
    ask = drivers.Ask("/", ("/items/7",), "DELETE", status=204)
    request = answering(drive, interface, lambda: (next(statuses), []), ask)
    for _ in range(5):
        request()
    words = "^DELETE /items/7: expected status 204, found 404 for request 3 in a row$"
    with pytest.raises(UnfitError, match=words):
        request()


def test_an_asgi_application_lives_before_its_first_request(drive: Drive) -> None:
    """Each request has a copy of its state, and no event announces the end."""
    events: list[Any] = []

    async def app(scope: Message, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            events.append((await receive())["type"])
            scope["state"]["pool"] = "open"
            await send({"type": "lifespan.startup.complete"})
            events.append((await receive())["type"])
        events.append(dict(scope["state"]))
        scope["state"]["pool"] = "taken"
        await send(start())
        await send(body())

    driver = drive(app, lives=True)
    driver()
    driver()
    assert events == ["lifespan.startup", {"pool": "open"}, {"pool": "open"}]
