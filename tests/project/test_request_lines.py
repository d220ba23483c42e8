"""Requests of tests as lines: what is written is read as the same request."""

from pathlib import Path

import pytest

from duetbench.app.request_lines import read, write
from duetbench.core.model import Endpoint, Expectation

EXPECTED = Expectation(status=200)
_FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("method", "path", "query", "kind", "body", "line"),
    [
        ("GET", "/items/7", "", "", "", "GET /items/7"),
        ("GET", "/a b/ä {1..3}", "q=x%20y 2", "", "", "GET /a%20b/%C3%A4%20%7B1..3%7D?q=x%20y%202"),
        ("POST", "/orders", "", "application/json; charset=utf-8", '{"item": 7}',
         'POST /orders {"item": 7}'),
        ("PUT", "/login", "", _FORM, "name=a&word=b+c", "PUT /login name=a&word=b+c"),
    ],
)  # fmt: skip
def test_a_line_is_read_as_the_request_that_was_written(
    method: str, path: str, query: str, kind: str, body: str, line: str, tmp_path: Path
) -> None:
    assert write(method, path, query, kind, body) == line
    like = Endpoint(name="x", path="/", app="a:b", interface="asgi", floor=0.0, expect=EXPECTED)
    endpoint = read(line, tmp_path, like)
    assert (endpoint.method, endpoint.path, endpoint.body) == (method, line.split()[1], body)
    assert endpoint.headers.get("content-type", "") == kind.partition(";")[0]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data; boundary=x", "--x"),
        ("", "word"),
        (_FORM, "a b"),
        ("application/json", f'"{"x" * 4_000}"'),
        ("application/json", "7"),
    ],
)
def test_other_bodies_are_not_written(kind: str, body: str) -> None:
    assert write("POST", "/", "", kind, body) is None
