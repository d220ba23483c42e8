"""What a right answer looks like, and how an answer differs from it."""

import json
import re
from collections.abc import Mapping
from typing import Final

import jsonschema

from duetbench.core.errors import FlagName, LaunchError
from duetbench.core.model import Endpoint, Expectation
from duetbench.core.text import short
from duetbench.host.command import page_text

PAGE: Final = 100_000
"""Characters of a page that are searched for its title and text."""

_EXCERPT: Final = 120
_EXCERPT_OF_PAGE: Final = 300


def check_answer(
    endpoint: Endpoint, where: str, status: int, headers: Mapping[str, str], body: bytes
) -> None:
    """Compare an answer to `where` with its declaration; LaunchError wrong_answer."""
    if problem := _problem(endpoint, status, headers, body):
        raise LaunchError(FlagName.WRONG_ANSWER, f"{where}: {problem}")


def _problem(
    endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes
) -> str | None:
    expect = endpoint.expect
    if status != expect.status:
        location = headers.get("location", "")
        scheme = endpoint.headers.get("x-forwarded-proto", "http")
        here = location.removeprefix(f"{scheme}://{endpoint.headers.get('host', '')}")
        to = f" to {location if here == endpoint.path else here}" if location else ""
        actual = f"found {status}{to} with {excerpt(body)}; see the server's log"
        return f"expected status {expect.status}, {actual}"
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    if expect.content_type is not None and media != expect.content_type.lower():
        return f"expected content type {expect.content_type}, found {media or 'none'}"
    problem = _body_problem(expect, body)
    return problem and f"{problem}, found {excerpt(body)}; see the handler"


def _body_problem(expect: Expectation, body: bytes) -> str | None:
    if not expect.tells_body:
        return None
    if expect.text is not None:
        text = body.decode(errors="replace")
        return None if re.fullmatch(expect.text, text) else f"expected text like {expect.text!r}"
    try:
        value = json.loads(body)
    except ValueError:
        return "expected JSON"
    if expect.json_schema is not None:
        errors = jsonschema.Draft202012Validator(expect.json_schema).iter_errors(value)
        worst = jsonschema.exceptions.best_match(errors)
        return worst and f"expected JSON of the schema, but {worst.json_path}: {worst.message}"
    # As text, since 1 == True == 1.0 in Python.
    expected = json.dumps(expect.json_value, sort_keys=True)
    return None if json.dumps(value, sort_keys=True) == expected else f"expected {expected}"


def excerpt(body: bytes) -> str:
    """Quote the beginning of a body, or what a page says."""
    text = body[:PAGE].decode(errors="replace")
    if text.lstrip()[:1] == "<" and (page := page_text(text)):
        return repr(short(page, _EXCERPT_OF_PAGE))
    return repr(text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}…")
