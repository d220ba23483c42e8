"""Small applications whose requests do known things, and what is seen of them."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

from duetbench.app.inside.process import Program
from duetbench.app.testbed import ENTRY
from duetbench.core.model import Effects, Interface
from duetbench.effects import difference
from duetbench.effects.activity import PROGRAM, Activity
from duetbench.effects.difference import compare

WAYS: Final = ("asgi", "threads", "wsgi")
"""How an application runs its function `work`: in a coroutine, in a thread, or plainly."""

_ASGI: Final = """
import asyncio

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        return await receive()
    body = CALL
    kind = [(b"content-type", TYPE.encode())]
    await send({"type": "http.response.start", "status": STATUS, "headers": kind})
    await send({"type": "http.response.body", "body": body})
"""
_WSGI: Final = """
def app(environ, start_response):
    body = work()
    start_response(f"{STATUS} Well", [("content-type", TYPE)])
    return [body]
"""
_AROUND: Final = '\nTYPE, STATUS = "text/plain", 200\nOK = b"ok"\n'


def source(work: str, way: str, before: str = "") -> str:
    """Write an application with a function `work` of these lines, which returns the body."""
    lines = "\n".join(f"    {line}" for line in (*work.splitlines(), "return OK"))
    call = "work()" if way == "asgi" else "await asyncio.to_thread(work)"
    frame = _WSGI if way == "wsgi" else _ASGI.replace("CALL", call)
    return f"{_AROUND}{before}\n\ndef work():\n{lines}\n{frame}"


def seen(
    folder: Path,
    text: str,
    python: Path,
    interface: Interface,
    seconds: float = 0.0,
    patience: float = 60,
) -> Activity:
    """Observe requests for / to an application with this source, in a new process.

    The first answer has `patience` s.
    """
    folder.mkdir(exist_ok=True)
    (folder / "shop.py").write_text(text)
    ask = {"path": "/", "paths": [], "method": "GET", "headers": {}, "body": "", "status": 200}
    (folder / "ask.json").write_text(json.dumps({**ask, "secrets": {}}))
    env = {
        "PYTHONPATH": f"{ENTRY}:{folder}",
        "DUETBENCH_CHECKOUT": str(folder),
        "DUETBENCH_WORKSPACE": str(folder),
        "DUETBENCH_REQUEST": str(folder / "ask.json"),
        "DUETBENCH_APP": "shop:app",
        "DUETBENCH_INTERFACE": interface,
    }
    client = Program(python, ["-P", "-m", PROGRAM], env)
    ends = time.monotonic() + 60
    with difference.start(client, seconds=seconds, ends=ends, patience=patience) as collect:
        return collect()


def describe(side: Activity) -> Effects:
    """Compare a side with one whose requests do nothing."""
    rounds = len(side.events)
    idle = replace(side, calls=[0] * rounds, functions=(), events=[()] * rounds)
    return compare(idle, side)
