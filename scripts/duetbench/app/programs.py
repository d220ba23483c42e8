"""What the programs inside an application's process share with the tool: names, and the login.

Standard library only, for any CPython from 3.11 on.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from duetbench.core.text import HIDDEN

PROGRAM = "duetbench.app.inside.program"
"""The module whose instructions are counted, in a process of its own."""

PLAN = "DUETBENCH_PLAN"
"""The variable with the file that says what a program is to do."""

REPORT = "report.json"
"""The file beside the plan with what it did."""

DUMP = "getppid"
"""The call at which Callgrind writes its counters."""

ROUNDS = 3
"""Times that a unit's calls are counted."""

# A JSON file with the request to a served application: the fields of an `Ask`, the status of a
# right answer, the texts that nobody may see, with their names, and perhaps the same of a login.
REQUEST = "DUETBENCH_REQUEST"

# The folder that the application is started in.
WORKSPACE = "DUETBENCH_WORKSPACE"

# The folder that paths are relative to.
CHECKOUT = "DUETBENCH_CHECKOUT"

_EXCERPT = 200  # bytes of a login's wrong answer

Headers = list[Any]
"""Names and values, which are bytes of an ASGI application, and text of a WSGI application."""

Answer = tuple[int, Headers, bytes]


def checkout() -> Path:
    """The folder that paths are relative to."""
    return Path(os.environ[CHECKOUT]).resolve()


def identify(answer: Answer, token: str) -> dict[str, str]:
    """Return the headers that a login gives to all later requests: its token, its cookies.

    `token` is the field of the answer's JSON that has one; empty: there must be a cookie. Raises
    ValueError if the login failed.
    """
    status, headers, body = answer
    said = repr(body[:_EXCERPT].decode("utf-8", "replace"))
    if not 200 <= status < 400:
        raise ValueError(f"expected to be logged in, found status {status} with {said}")
    texts = to_texts(headers)
    pairs = [text.partition(";")[0] for name, text in texts if name.lower() == "set-cookie"]
    cookies = "; ".join(pair for pair in pairs if pair.partition("=")[2])
    given = {"cookie": cookies} if cookies else {}
    if not token:
        if not given:
            raise ValueError("found no cookie: name the token's field by --with token=access_token")
        return given
    value: Any = None
    with contextlib.suppress(ValueError):
        value = json.loads(body)
    for name in token.split("."):
        fields = value if isinstance(value, dict) else {}
        value = fields.get(name)
    if not value or not isinstance(value, str):
        # Not what they have, which may be private.
        names = f"the fields {', '.join(fields)}" if fields else "JSON without it"
        raise ValueError(f"expected a token in the field {token} (--with token=), found {names}")
    return {**given, "authorization": f"Bearer {value}"}


def identified(headers: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Add what a login gave to the headers of a request."""
    cookies = filter(None, (headers.get("cookie"), given.get("cookie")))
    both = {**headers, **given}
    return {**both, "cookie": "; ".join(cookies)} if "cookie" in both else both


def private_parts(given: Mapping[str, str]) -> list[str]:
    """List the texts in a login's headers that nobody may see."""
    token, cookies = given.get("authorization", ""), given.get("cookie", "")
    texts = token.partition(" ")[2], *(pair.partition("=")[2] for pair in cookies.split("; "))
    return [text for text in texts if len(text) >= HIDDEN]


def to_texts(headers: Headers) -> list[tuple[str, str]]:
    """Names and values of headers as text."""
    return [
        (str(name, "latin-1"), str(value, "latin-1")) if isinstance(name, bytes) else (name, value)
        for name, value in headers
    ]
