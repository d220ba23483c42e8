"""Reads the answers of servers of this machine whole, within a time and up to a size."""

import asyncio
import http.client
import socket
import ssl
import threading
import time
from typing import Final

import httpx

from duetbench.core.errors import FlagName, LaunchError
from duetbench.core.text import LARGEST_ANSWER, endless

_NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""It spares reading all root certificates, 20 ms each."""


class LocalClient(httpx.AsyncClient):
    """A client without a proxy from the environment, and with the time limits of `read` alone."""

    def __init__(self, base_url: str = "", *, kept: int | None = 20) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=kept)
        super().__init__(
            base_url=base_url, timeout=None, limits=limits, trust_env=False, verify=_NO_TLS
        )

    async def read(
        self, request: httpx.Request, where: str, seconds: float
    ) -> tuple[httpx.Response, int]:
        """Return the answer without its encoding, and its bytes as sent; LaunchError, HTTPError."""
        began, body, ends = time.monotonic(), bytearray(), False
        try:
            async with asyncio.timeout(seconds):
                answer = await self.send(request, stream=True)
                try:
                    async for piece in answer.aiter_bytes():
                        body += piece
                        if len(body) > LARGEST_ANSWER:
                            break
                    else:
                        ends = True
                finally:
                    await answer.aclose()
        except TimeoutError:
            pass
        if not ends:
            raise _without_end(where, min(seconds, time.monotonic() - began), len(body))
        headers = [item for item in answer.headers.multi_items() if item[0] != "content-encoding"]
        whole = httpx.Response(answer.status_code, headers=headers, content=bytes(body))
        return whole, answer.num_bytes_downloaded


def receive(
    connection: http.client.HTTPConnection, where: str, seconds: float
) -> tuple[http.client.HTTPResponse, bytes]:
    """Return the answer to a request that was sent, and its body as sent.

    Raises LaunchError if it does not end, or OSError or HTTPException.
    """
    began, server = time.monotonic(), connection.sock
    end = threading.Timer(seconds, server.shutdown, [socket.SHUT_RDWR])
    end.daemon = True
    end.start()
    try:
        reply = connection.getresponse()
        body = reply.read(LARGEST_ANSWER + 1)
    except (OSError, http.client.HTTPException) as error:
        if time.monotonic() - began < seconds:
            raise
        body = getattr(error, "partial", b"")
    finally:
        end.cancel()
    spent = time.monotonic() - began
    if spent >= seconds or len(body) > LARGEST_ANSWER:
        raise _without_end(where, min(seconds, spent), len(body))
    return reply, body


def _without_end(where: str, seconds: float, size: int) -> LaunchError:
    detail = f"{endless(where, seconds, size)}; see the server's log"
    return LaunchError(FlagName.NO_ANSWER, detail)
