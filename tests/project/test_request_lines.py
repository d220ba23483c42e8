"""Requests of tests as lines: what is written is read as the same request."""

from pathlib import Path

import pytest

from duetbench.app.request_lines import FOLDER, read, write
from duetbench.core.model import Endpoint, Expectation
from repos import write as write_file

EXPECTED = Expectation(status=200)
_FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("method", "path", "query", "kind", "body", "line"),
    [
        ("GET", "/items/7", "", "", "", "GET /items/7"),
        ("GET", "/a b/ä {1..3}", "q=x%20y 2", "", "", "GET /a%20b/%C3%A4%20%7B1..3%7D?q=x%20y%202"),
        ("POST", "/orders", "", "application/json; charset=utf-8", '{"item": 7}',
         f"POST /orders @{FOLDER}/post-orders.json"),
        ("PUT", "/login", "", _FORM, "name=a&word=b+c", f"PUT /login @{FOLDER}/put-login.form"),
    ],
)  # fmt: skip
def test_a_line_is_read_as_the_request_that_was_written(
    method: str, path: str, query: str, kind: str, body: str, line: str, tmp_path: Path
) -> None:
    written = write(method, path, query, kind, body)
    assert written is not None
    assert written[0] == line
    if written[1]:
        write_file(tmp_path, written[1], body)
    like = Endpoint(name="x", path="/", app="a:b", interface="asgi", floor=0.0, expect=EXPECTED)
    endpoint = read(line, tmp_path, like)
    assert (endpoint.method, endpoint.path, endpoint.body) == (method, line.split()[1], body)
    assert endpoint.headers.get("content-type", "") == kind.partition(";")[0]


@pytest.mark.parametrize(
    ("kind", "body"), [("multipart/form-data; boundary=x", "--x"), ("", "word"), (_FORM, "a b")]
)
def test_other_bodies_are_not_written(kind: str, body: str) -> None:
    assert write("POST", "/", "", kind, body) is None
