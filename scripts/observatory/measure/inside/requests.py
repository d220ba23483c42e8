"""Declared endpoints as callables that send one request each, checked once before use.

Standard library only, until a request is opened.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from duetbench.app.inside import drivers
from duetbench.app.inside.request import Headers, to_texts
from observatory.measure.inside import checkout, endpoints

Request = Callable[[], tuple[int, list[Any], bytes]]

BASELINES = ("driver/asgi", "driver/wsgi")
"""Applications that do nothing but answer: the cost of the drivers themselves."""


def names(root: Path) -> list[str]:
    """All names of requests: the baselines, and the endpoints of a checkout."""
    return [*BASELINES, *endpoints.declared(root)]


def missing(name: str) -> str | None:
    """Say why an endpoint cannot be requested in this commit and on this stack; None if it can."""
    if name in BASELINES:
        return None
    endpoint = endpoints.declared(checkout.checkout()).get(name)
    if endpoint is None:
        return f"this commit declares no endpoint {name}"
    if checkout.stack() not in endpoint.stacks:
        return f"{name} is for stack {', '.join(sorted(endpoint.stacks))}"
    return None if endpoint.plain else f"{name} is more than a GET of one path"


def waits(name: str) -> bool:
    """Whether an endpoint waits although its waits are cut, so its wall time says nothing."""
    return name not in BASELINES and endpoints.declared(checkout.checkout())[name].waits


def seconds(name: str) -> float:
    """Return the declared seconds of one request; 0: less than matters."""
    return 0.0 if name in BASELINES else endpoints.declared(checkout.checkout())[name].takes


def preload() -> None:
    """Import the applications of this stack, so that opening a request takes milliseconds.

    If an import fails, opening a request to the application reports the error.
    """
    for name, endpoint in endpoints.declared(checkout.checkout()).items():
        if missing(name) is None:
            with contextlib.suppress(Exception):
                checkout.load_app(endpoint.experiment, endpoint.app, endpoint.env)


def open_request(name: str) -> Request:
    """Make the callable for one of `names()` that is not `missing`, and check its first answer.

    It sets the endpoint's variables in this process, which then serves only that endpoint. Raises
    ValueError if the answer is not the declared one.
    """
    if name == "driver/asgi":
        return drivers.AsgiDriver(_empty_asgi, drivers.Ask("/"))
    if name == "driver/wsgi":
        return drivers.WsgiDriver(_empty_wsgi, drivers.Ask("/"))
    endpoint = endpoints.declared(checkout.checkout())[name]
    if not endpoint.plain:
        raise ValueError(missing(name))
    app = checkout.load_app(endpoint.experiment, endpoint.app, endpoint.env)
    os.environ.update(endpoint.env)
    ask = drivers.Ask(endpoint.path, status=endpoint.expect.get("status", 200))
    request = drivers.DRIVERS[endpoint.interface](app, ask)
    check_answer(name, endpoint.expect, *request())
    return request


def check_answer(
    name: str, expect: Mapping[str, Any], status: int, headers: Headers, body: bytes
) -> None:
    """Compare an answer with its declaration, except JSON schemas; ValueError if they differ."""
    answer: dict[str, Any] = {"status": status, "content_type": _media_type(headers)}
    expected = {"status": expect.get("status", 200)}
    expected["content_type"] = expect.get("content_type", answer["content_type"])
    if answer == expected and "json_value" in expect:
        answer["body"], expected["body"] = json.loads(body), expect["json_value"]
    if answer == expected and "text" in expect:
        answer["body"], expected["body"] = body.decode(), expect["text"]
        if re.fullmatch(expect["text"], body.decode()):
            return
    if answer != expected:
        raise ValueError(f"{name}: expected {expected}, found {answer} with body {body[:200]!r}")


def _media_type(headers: Headers) -> str:
    for key, text in to_texts(headers):
        if key.lower() == "content-type":
            return text.partition(";")[0].strip()
    return ""


async def _empty_asgi(
    _scope: drivers.Message, _receive: drivers.Receive, send: drivers.Send
) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def _empty_wsgi(_environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    start_response("200 OK", [])
    return [b""]
