"""An application without a framework: an order is taken from whoever has the token."""

import json
import os
from typing import Any


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answer `POST /orders`, with `Authorization: Bearer $BARE_TOKEN`, by what it comes to."""
    if scope["type"] != "http":
        raise NotImplementedError(scope["type"])
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    status, answer = _answer(scope, body)
    text = json.dumps(answer).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(text))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text})


def _answer(scope: dict[str, Any], body: bytes) -> tuple[int, dict[str, object]]:
    token = f"Bearer {os.environ['BARE_TOKEN']}".encode()
    if dict(scope["headers"]).get(b"authorization") != token:
        return 401, {"error": "who are you?"}
    if (scope["method"], scope["path"]) != ("POST", "/orders"):
        return 404, {"error": "not here"}
    lines = json.loads(body)["lines"]
    return 201, {"cents": sum(line["cents"] * line["count"] for line in lines)}
