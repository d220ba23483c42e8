"""Right answers of every shape that HTTP has: without a body, in pieces, compressed."""

import gzip

from bare_asgi import Message, Receive, Send

BODY = b'{"a": "' + b"x" * 2_000 + b'"}'
PACKED = gzip.compress(BODY, mtime=0)


async def app(scope: Message, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        return
    wanted = dict(scope["headers"])
    status, parts = 200, [BODY]
    headers = [(b"content-type", b"application/json"), (b"etag", b'"7"')]
    if scope["path"] == "/nothing":
        status, headers, parts = 204, [], [b""]
    elif wanted.get(b"if-none-match") == b'"7"':
        status, parts = 304, [b""]
    elif b"gzip" in wanted.get(b"accept-encoding", b""):
        headers.append((b"content-encoding", b"gzip"))
        parts = [PACKED[:20], PACKED[20:]]  # of no stated length: in chunks
    if scope["method"] == "HEAD":
        headers.append((b"content-length", b"%d" % len(BODY)))
        parts = [b""]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    for part in parts:
        await send({"type": "http.response.body", "body": part, "more_body": part != parts[-1]})
