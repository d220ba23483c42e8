"""Requests in a line: what they stand for, and what is wrong with others."""

import re
from collections import Counter
from pathlib import Path

import pytest

from duetbench.core.errors import UsageError
from duetbench.project.request_lines import read


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lines").write_bytes(b"a\r\nb\r\n")
    (tmp_path / "bytes").write_bytes(b"\xff\r\n\x00")
    (tmp_path / "order.json").write_text('{"item": 7}\n')
    (tmp_path / "words.txt").write_text("blue\n\ngreen tea\nZoë&7%20\n")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "method", "asked", "headers", "body", "title"),
    [
        ("/items/7", "GET", ["/items/7"], {}, "", "GET /items/7"),
        ("  DELETE   /items/7 ", "DELETE", ["/items/7"], {}, "", "DELETE /items/7"),
        ("POST /orders @order.json", "POST", ["/orders"], {"content-type": "application/json"},
         '{"item": 7}\n', "POST /orders"),
        ("POST /form @lines", "POST", ["/form"], {}, "a\r\nb\r\n", "POST /form"),
        ("POST /form @bytes", "POST", ["/form"], {}, "data:;base64,/w0KAA==", "POST /form"),
        ('PUT /a?b=c {"item": [7, 8]}', "PUT", ["/a?b=c"], {"content-type": "application/json"},
         '{"item": [7, 8]}', "PUT /a?b=c"),
        ("POST /form a=1&b=2", "POST", ["/form"], {}, "a=1&b=2", "POST /form"),
        ("GET /items/{8..11}", "GET", ["/items/8", "/items/9", "/items/10", "/items/11"], {}, "",
         "GET /items/{8..11}"),
        ("/{09..10}/{1..2}", "GET", ["/09/1", "/09/2", "/10/1", "/10/2"], {}, "",
         "GET /{09..10}/{1..2}"),
        ("/q?w={@words.txt}", "GET", ["/q?w=blue", "/q?w=green%20tea", "/q?w=Zo%C3%AB&7%20"], {},
         "", "GET /q?w={@words.txt}"),
        ("/{a}/{1..}", "GET", ["/{a}/{1..}"], {}, "", "GET /{a}/{1..}"),
    ],
)  # fmt: skip
def test_a_line_says_what_is_sent(
    line: str, method: str, asked: list[str], headers: dict[str, str], body: str, title: str,
    folder: Path,
) -> None:  # fmt: skip
    found = read(line, folder)
    assert (found.method, list(found.paths), found.headers) == (method, asked, headers)
    assert (found.body, found.title) == (body, title)


@pytest.mark.parametrize(
    ("line", "weights"),
    [
        ("/a /b", {"/a": 1, "/b": 1}),
        ("/a 2 /b", {"/a": 2, "/b": 1}),
        ("/a 4 /b 2", {"/a": 2, "/b": 1}),
        # Three of four requests go to one of three: each of them as often as the other path.
        ("/{1..3} 3 /b 1", {"/1": 1, "/2": 1, "/3": 1, "/b": 1}),
        ("/{1..3} 1 /b 1", {"/1": 1, "/2": 1, "/3": 1, "/b": 3}),
        ("/{1..2} 3 /b 1", {"/1": 3, "/2": 3, "/b": 2}),
        ("/{1..3} /b 1", {"/1": 1, "/2": 1, "/3": 1, "/b": 1}),
    ],
)
def test_shares_are_of_all_that_a_path_stands_for(
    line: str, weights: dict[str, int], folder: Path
) -> None:
    assert Counter(read(line, folder).paths) == weights


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("items/7", "request 'items/7': expected [METHOD] /PATH"),
        ("POST /orders @none.json", "POST /orders @none.json: expected a file "),
        ("/zoë", "expected a path, percent-encoded, and its share of the requests or none"),
        ("/a 0", "found '/a 0'"),
        (f"/{'x' * 60_000}", "expected a path of at most 60,000 characters, found 60,001: /xxx"),
        ("/{1..200}/{1..200}", "expected at most 10,000 paths of one endpoint, found 10,001"),
    ],
)
def test_what_is_wrong_is_said(line: str, words: str, folder: Path) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        read(line, folder)
