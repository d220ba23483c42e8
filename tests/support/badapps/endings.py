"""Applications that end in the middle, or do not end when they are asked to."""

import asyncio
import os
import subprocess
import sys

from answers import right
from bare_asgi import Answer, App

DEATH = 8  # requests: more than verification and warm-up send, fewer than the load


async def die(app: App) -> Answer:
    if app.served > DEATH:
        os._exit(9)
    return await right(app)


async def hang(_app: App) -> None:
    await asyncio.sleep(3600)


async def leave_an_orphan(app: App) -> None:
    """Start a process in a session of its own that shares our port, and wait until it does."""
    child = subprocess.Popen(
        [sys.executable, "-c", _ORPHAN, str(app.port)],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert child.stdout is not None
    print("orphan", child.pid, app.port, child.stdout.readline(), flush=True)  # noqa: T201


_ORPHAN = """
import socket, sys, time
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
server.bind(("127.0.0.1", int(sys.argv[1])))
server.listen()
print("listening", flush=True)
time.sleep(120)
"""

dying = App({"/right": die})
hanging = App({"/right": right}, hang)
orphaning = App({"/right": right}, leave_an_orphan)
