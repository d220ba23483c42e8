"""Verify what an endpoint serves: status, content type, body and floor."""

import hashlib
import http.client
import json
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from typing import Final, NamedTuple

import httpx

from duetbench.app.expectation import PAGE, check_answer, excerpt
from duetbench.core.errors import FlagName, LaunchError
from duetbench.core.model import Endpoint
from duetbench.core.text import LARGEST_ANSWER, endless, to_bytes
from duetbench.host.command import page_text
from duetbench.load.validity import FLOOR_SLACK

_ERROR: Final = re.compile(r"(?i)\b(error|exception|not found|forbidden|unavailable|denied)\b")

MIXED: Final = 16  # most paths of a mix that are requested before and after a load


class Answer(NamedTuple):
    """A right answer."""

    seconds: float
    size: int  # bytes of its body as sent
    path: str
    body: bytes  # digest
    excerpt: str
    tells_error: bool = False  # the body reports an error
    waited: float = 0.0  # of its seconds, those in which the client did not compute


def choose_paths(endpoint: Endpoint) -> tuple[str, ...]:
    """Different paths of an endpoint, spread over all of them, the first included."""
    paths = tuple(dict.fromkeys((endpoint.path, *endpoint.paths)))
    few = min(len(paths), MIXED)
    return tuple(paths[number * len(paths) // few] for number in range(few))


def verify(
    endpoint: Endpoint, port: int, *, repeats: int = 3, timeout: float = 60.0
) -> list[Answer]:
    """Send requests to an idle server and check every answer; close the connection afterwards.

    `repeats` requests go out one after another, and one to each further path of `choose_paths`.
    LaunchError wrong_answer, no_answer, or impossible (too fast to be true).
    """
    first, *others = choose_paths(endpoint)
    with connect(port, timeout) as connection:
        return [
            ask(connection, endpoint, path, f"{endpoint.method} {path}", timeout)
            for path in [first] * max(1, repeats) + others
        ]


def ask(
    connection: http.client.HTTPConnection,
    endpoint: Endpoint,
    path: str,
    where: str,
    timeout: float,
) -> Answer:
    """Send one request, and check its answer; LaunchError as `verify`."""
    began, core = time.perf_counter(), time.thread_time()
    answer, size = exchange(connection, endpoint, path, where, timeout)
    seconds = time.perf_counter() - began
    waited = seconds - (time.thread_time() - core)
    check_answer(endpoint, where, answer.status_code, answer.headers, answer.content)
    if seconds < endpoint.floor - FLOOR_SLACK:
        raise LaunchError(
            FlagName.IMPOSSIBLE,
            f"{where}: too fast to be true: expected at least {endpoint.floor:g} s, "
            f"found {seconds:.6f} s; does the handler wait as declared?",
        )
    body = answer.content
    wrong = not endpoint.expect.tells_body and tells_error(body)
    digest = hashlib.sha256(body).digest()
    return Answer(seconds, size, path, digest, excerpt(body), wrong, waited)


def right_sizes(endpoint: Endpoint, answers: Sequence[Answer]) -> frozenset[int]:
    """Sizes in bytes of right bodies, as the answers without a load show them; empty if unknown.

    One, or two that came more than once each: more are a sample of others that may follow. Without
    an expectation they are known only if the body was always the same.
    """
    sizes, bodies = Counter(answer.size for answer in answers), {a.body for a in answers}
    known = len(bodies) == 1 or (
        endpoint.expect.tells_body and len(sizes) in {1, 2} and min(sizes.values()) >= len(sizes)
    )
    return frozenset(sizes if known and not endpoint.paths else ())


def exchange(
    connection: http.client.HTTPConnection,
    endpoint: Endpoint,
    path: str,
    where: str,
    timeout: float,
) -> tuple[httpx.Response, int]:
    """Send a request; return its answer, and the bytes of the body as sent; LaunchError if none."""
    # The headers that the generator sends, and no others: an answer may depend on any.
    headers, body = {"accept": "*/*", **endpoint.headers}, to_bytes(endpoint.body)
    try:
        connection.putrequest(
            endpoint.method, path, skip_host="host" in headers, skip_accept_encoding=True
        )
        for name, text in headers.items():
            connection.putheader(name, text)
        if body:
            connection.putheader("content-length", str(len(body)))
        connection.endheaders(body)
        reply, sent = receive(connection, where, timeout)
        # httpx decompresses the body.
        answer = httpx.Response(reply.status, headers=reply.getheaders(), content=sent)
    except (OSError, http.client.HTTPException, httpx.DecodingError) as error:
        raise LaunchError(
            FlagName.NO_ANSWER,
            f"{where}: expected an answer, found {type(error).__name__} ({error}); "
            "see the server's log",
        ) from error
    return answer, len(sent)


def connect(port: int, timeout: float) -> closing[http.client.HTTPConnection]:
    """Provide a connection to a server, which it opens for its first request."""
    return closing(http.client.HTTPConnection("127.0.0.1", port, timeout=timeout))


def receive(
    connection: http.client.HTTPConnection, where: str, seconds: float
) -> tuple[http.client.HTTPResponse, bytes]:
    """Return the answer to a request that was sent, and its body as sent.

    Raises LaunchError if it does not end, or OSError or HTTPException.
    """
    began, server = time.monotonic(), connection.sock
    end = threading.Timer(seconds, server.shutdown, [socket.SHUT_RDWR])
    end.daemon = True
    end.start()
    try:
        reply = connection.getresponse()
        body = reply.read(LARGEST_ANSWER + 1)
    except (OSError, http.client.HTTPException) as error:
        if time.monotonic() - began < seconds:
            raise
        body = getattr(error, "partial", b"")
    finally:
        end.cancel()
    spent = time.monotonic() - began
    if spent >= seconds or len(body) > LARGEST_ANSWER:
        problem = endless(where, min(seconds, spent), len(body))
        raise LaunchError(FlagName.NO_ANSWER, f"{problem}; see the server's log")
    return reply, body


def tells_error(body: bytes) -> bool:
    """Whether a body reports an error: JSON by its keys, a page by its title."""
    text = body[:PAGE].decode(errors="replace")
    if text.lstrip()[:1] == "<":
        return _ERROR.search(page_text(text).partition(":")[0]) is not None
    try:
        value = json.loads(body)
    except ValueError:
        return False
    return isinstance(value, dict) and (
        any(value.get(name) for name in ("error", "errors", "exception", "traceback"))
        or any(value.get(name) is False for name in ("success", "ok"))
        or value.get("status") in {"error", "fail", "failed"}
    )
