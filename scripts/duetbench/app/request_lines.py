"""Reads a request from one line, as declarations and the command line write it.

    GET /items/7
    /items/{1..1000}
    GET /items/{1..1000} /search?q={@words.txt}
    POST /orders @order.json
    POST /orders {"item": 7}

A line has a method (default: GET), one or more paths, and a body: a file's, or the rest of the
line. In a path, `{1..1000}` stands for each of the numbers and `{@words.txt}` for each line of a
file; there are at most 10,000 paths. Each path has the same share of the requests; one that is
repeated has more.
"""

import itertools
import json
import math
import mimetypes
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from duetbench.core.errors import UsageError
from duetbench.core.model import Endpoint
from duetbench.core.text import from_bytes

MOST: Final = 10_000
"""Most paths of one endpoint."""

_LONGEST_BODY: Final = 4_000
"""Characters of a body that a line contains: a longer one belongs in a file."""

_PRINTABLE: Final = "".join(map(chr, range(0x21, 0x7F)))
_METHOD: Final = re.compile(r"([A-Z]+)\s+(?=/)")
_PATH: Final = re.compile(r"(/\S*)\s*")
_FORM: Final = re.compile(r"[\w.%+\[\]-]+=[^\s&]*(&[\w.%+\[\]-]+=[^\s&]*)*")
_FORM_TYPE: Final = "application/x-www-form-urlencoded"
_WORD: Final = re.compile(r"[^a-z0-9]+")
_LONGEST_NAME: Final = 40
_SEVERAL: Final = re.compile(r"\{(\d+\.\.\d+|@[^{}]+)\}")


def read(line: str, folder: Path, like: Endpoint) -> Endpoint:
    """Read a request with its files in a folder, to the application of another endpoint.

    Raises UsageError if it is invalid.
    """
    rest = line.strip()
    method = "GET"
    if match := _METHOD.match(rest):
        method, rest = match[1], rest[match.end() :]
    texts: list[str] = []
    while match := _PATH.match(rest):
        texts.append(match[1])
        rest = rest[match.end() :]
    if not texts:
        raise UsageError(
            f"request {line!r}: expected [METHOD] /PATH … [@FILE or a body], such as "
            "'GET /items/7' or 'POST /orders @order.json'"
        )
    body = from_bytes(_bytes(folder / rest[1:], line)) if rest.startswith("@") else rest
    headers = _headers(rest, body)
    if _FORM_TYPE in headers.values():
        body = body.strip()  # the end of a file's line is no part of a password
    first, *others = paths(texts, folder)
    request = {
        "name": _name(f"{method} {' '.join(texts)}"),
        "method": method,
        "path": first,
        "paths": tuple(others),
        # A name that applications allow, as Django's ALLOWED_HOSTS does by default.
        "headers": {"host": "localhost", **headers, **like.headers},
        "body": body,
    }
    return like.model_copy(update=request)


def write(method: str, path: str, query: str, kind: str, body: str) -> str | None:
    """Write a request as a line that `read` reads; a body as JSON on one line, or as a form.

    None if that is not possible: the body is neither, or too long. `path` is not percent-encoded,
    `query` is, and `kind` is a content type.
    """
    line = f"{method} {quote(path)}{'?' * bool(query)}{quote(query, safe=_PRINTABLE)}"
    if not body:
        return line
    kind = kind.partition(";")[0]
    text = body if kind == _FORM_TYPE and _FORM.fullmatch(body) else ""
    if kind == "application/json":
        with suppress(ValueError):
            text = json.dumps(json.loads(body), ensure_ascii=False)
    return f"{line} {text}" if 0 < len(text) <= _LONGEST_BODY else None


def _name(text: str) -> str:
    return _WORD.sub("-", text.lower()).strip("-")[:_LONGEST_NAME].strip("-")


def paths(texts: Iterable[str], folder: Path) -> tuple[str, ...]:
    """Expand texts to all paths that they stand for.

    Raises UsageError for an invalid path, an unreadable file, or too many paths.
    """
    return tuple(path for text in texts for path in _expand(text, folder))


def _expand(text: str, folder: Path) -> Iterator[str]:
    """Expand a path: every second part of the split has several values."""
    if not _PATH.fullmatch(text) or set(text) - set(_PRINTABLE):
        raise UsageError(
            f"expected a path, percent-encoded, such as '/items/{{1..100}}'; found {text!r}"
        )
    choices = [
        _choices(part, text, folder) if number % 2 else [part]
        for number, part in enumerate(_SEVERAL.split(text))
    ]
    if (total := math.prod(map(len, choices))) > MOST:
        raise UsageError(f"{text}: expected at most {MOST:,} paths, found {total:,}")
    return map("".join, itertools.product(*choices))


def _choices(part: str, path: str, folder: Path) -> Sequence[str]:
    first, _, last = part.partition("..")
    if part.startswith("@"):
        name = part[1:]
        try:
            text = _bytes(folder / name, path).decode()
        except UnicodeDecodeError as error:
            raise UsageError(f"{path}: expected text in UTF-8 in {name}, found {error}") from error
        lines = [line.strip() for line in text.splitlines()]
        if not any(lines):
            raise UsageError(f"{path}: expected lines in {name}, found none")
        return [quote(line, safe=_PRINTABLE) for line in lines if line]
    if not 0 < int(last) - int(first) + 1 <= MOST:
        raise UsageError(
            f"{path}: expected 1 to {MOST:,} numbers, the smaller first, in {{{part}}}"
        )
    width = len(first) if first.startswith("0") else 0
    return [f"{n:0{width}}" for n in range(int(first), int(last) + 1)]


def _bytes(file: Path, where: str) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(f"{where}: expected a file {file}, found {error}") from error


def _headers(text: str, body: str) -> dict[str, str]:
    kind = mimetypes.guess_type(text)[0] if text.startswith("@") else None
    if kind in {None, "text/plain"} and body:
        kind = _FORM_TYPE if _FORM.fullmatch(body.strip()) else kind
        with suppress(ValueError):
            json.loads(body)
            kind = "application/json"
    return {"content-type": kind} if kind else {}
