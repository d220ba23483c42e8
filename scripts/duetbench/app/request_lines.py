"""Reads a request from one line, as declarations and the command line write it.

    GET /items/7
    /items/{1..1000}
    GET /items/{1..1000} 3 /search?q={@words.txt} 1
    POST /orders @order.json
    POST /orders {"item": 7}

A line has a method (default: GET), one or more paths, and a body: a file's, or the rest of the
line. In a path, `{1..1000}` stands for each of the numbers and `{@words.txt}` for each line of a
file. A whole number after a path is its share of the requests, however many paths it stands for.
Without one, each path that it stands for has a share of 1. Of more than 10,000 paths, as many are
drawn, the same ones each time.
"""

import itertools
import json
import math
import mimetypes
import random
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from duetbench.core.errors import UsageError
from duetbench.core.model import Endpoint
from duetbench.core.text import from_bytes

MOST: Final = 10_000
"""Most paths of one endpoint, counted as often as they are requested: more are drawn from."""

_FARTHEST: Final = 2**62  # numbers of a range, as Python can draw from

PRINTABLE: Final = "".join(map(chr, range(0x21, 0x7F)))
_METHOD: Final = re.compile(r"([A-Z]+)\s+(?=/)")
_PATH: Final = re.compile(r"(/\S*)(?:\s+(\d+)(?=\s|$))?\s*")
FORM: Final = re.compile(r"[\w.%+\[\]-]+=[^\s&]*(&[\w.%+\[\]-]+=[^\s&]*)*")
FORM_TYPE: Final = "application/x-www-form-urlencoded"
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
        texts.append(" ".join(filter(None, match.groups())))
        rest = rest[match.end() :]
    if not texts:
        raise UsageError(
            f"request {line!r}: expected [METHOD] /PATH [SHARE] … [@FILE or a body], such as "
            "'GET /items/7' or 'POST /orders @order.json'"
        )
    body = from_bytes(_bytes(folder / rest[1:], line)) if rest.startswith("@") else rest
    headers = _headers(rest, body)
    if FORM_TYPE in headers.values():
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


def _name(text: str) -> str:
    return _WORD.sub("-", text.lower()).strip("-")[:_LONGEST_NAME].strip("-")


def paths(texts: Iterable[str], folder: Path) -> tuple[str, ...]:
    """Expand texts, each a path with or without a share, to paths, repeated by their weight.

    Raises UsageError for an invalid path or unreadable file.
    """
    parts = [_part(text, folder) for text in texts]
    # A path is repeated r times, so that r × (paths of its part) has the ratio of the shares.
    share = math.lcm(*(len(values) // math.gcd(len(values), weight) for values, weight in parts))
    times = [share * weight // len(values) for values, weight in parts]
    least = math.gcd(*times)
    counts = [n // least * len(values) for n, (values, _) in zip(times, parts, strict=True)]
    if (total := sum(counts)) > MOST:
        counts = [max(1, MOST * count // total) for count in counts]
    return tuple(
        values[number * len(values) // count]
        for count, (values, _) in zip(counts, parts, strict=True)
        for number in range(count)
    )


def _part(text: str, folder: Path) -> tuple[Sequence[str], int]:
    match = _PATH.fullmatch(text)
    if not match or set(match[1]) - set(PRINTABLE) or match[2] == "0":
        raise UsageError(
            f"expected a path, percent-encoded, and its share of the requests or none, such as "
            f"'/items/{{1..100}} 3'; found {text!r}"
        )
    values = _expand(match[1], folder)
    return values, int(match[2] or len(values))


def _expand(path: str, folder: Path) -> Sequence[str]:
    """Expand a path: every second part of the split has several values."""
    choices = [
        _choices(part, path, folder) if number % 2 else [part]
        for number, part in enumerate(_SEVERAL.split(path))
    ]
    if math.prod(map(len, choices)) <= MOST:
        return ["".join(parts) for parts in itertools.product(*choices)]
    draw = random.Random(path).choice  # noqa: S311 - both sides draw the same
    return ["".join(map(draw, choices)) for _ in range(MOST)]


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
        return [quote(line, safe=PRINTABLE) for line in lines if line]
    if int(first) > int(last):
        raise UsageError(f"{path}: expected the smaller number first, found {{{part}}}")
    width = len(first) if first.startswith("0") else 0
    numbers: Sequence[int] = range(int(first), min(int(last), int(first) + _FARTHEST) + 1)
    if len(numbers) > MOST:
        numbers = random.Random(part).sample(numbers, MOST)  # noqa: S311
    return [f"{n:0{width}}" for n in numbers]


def _bytes(file: Path, where: str) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(f"{where}: expected a file {file}, found {error}") from error


def _headers(text: str, body: str) -> dict[str, str]:
    kind = mimetypes.guess_type(text)[0] if text.startswith("@") else None
    if kind in {None, "text/plain"} and body:
        kind = FORM_TYPE if FORM.fullmatch(body.strip()) else kind
        with suppress(ValueError):
            json.loads(body)
            kind = "application/json"
    return {"content-type": kind} if kind else {}
