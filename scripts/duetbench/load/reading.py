"""Reads the answers of servers of this machine whole, within a time and up to a size."""

import http.client
import select
import socket
import threading
import time
from contextlib import closing

from duetbench.core.errors import FlagName, LaunchError
from duetbench.core.text import LARGEST_ANSWER, endless


def connect(port: int, timeout: float) -> closing[http.client.HTTPConnection]:
    """Provide a connection to a server, which it opens for its first request."""
    return closing(http.client.HTTPConnection("127.0.0.1", port, timeout=timeout))


def readable(connection: socket.socket, seconds: float = 0.0) -> bool:
    """Whether there is something to read, or the end, within a time."""
    poll = select.poll()  # select(2) has a limit of 1,024 files
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


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
        problem = endless(where, min(seconds, spent), len(body))
        raise LaunchError(FlagName.NO_ANSWER, f"{problem}; see the server's log")
    return reply, body
