"""A small, slow JSON API: `python _slow_api.py SECONDS`.

It prints the port on which it listens (loopback only), answers every request after the same delay,
any number of them at once, and ends when its standard input is closed, so with its parent.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys


async def serve(delay: float) -> None:
    """Serve until standard input ends; `delay` in seconds."""
    body = json.dumps({"waited": delay}).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    response = head.encode() + b"\r\n" + body

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await reader.readuntil(b"\r\n\r\n")  # a GET: nothing follows its head
                await asyncio.sleep(delay)
                writer.write(response)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201 - its caller reads it
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1])))
