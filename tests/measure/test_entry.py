"""In front of an application: who answers is told, all else is the application's, at no cost."""

import functools
import gc
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import execute, lives
from duetbench.app import interpreters, stacks
from duetbench.app.deployment import find_interface
from duetbench.app.entry import duetbench_entry as entry
from duetbench.app.entry.duetbench_names import COLLECT
from duetbench.app.stacks import Stack
from duetbench.app.subject import Subject
from duetbench.app.target import STACK, Target
from duetbench.app.testbed import ENTRY, SideCase, Testbed, inherited_variables
from duetbench.core.errors import UsageError
from duetbench.host.machine import fingerprint
from goldens import assert_said
from observatory.matrix.checkout import Checkout


async def coroutine(_scope: Any, _receive: Any, send: Any) -> None:
    await send("answered")


def plain(scope: Any, receive: Any, send: Any) -> Any:
    return coroutine(scope, receive, send)


def wsgi(environ: Any, _start_response: Any) -> list[bytes]:
    return [environ["PATH_INFO"].encode()]


class Instance:
    """As frameworks of ASGI have it."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await coroutine(scope, receive, send)


class Old:
    """As frameworks of WSGI have it."""

    def __call__(self, environ: Any, start_response: Any) -> list[bytes]:
        return wsgi(environ, start_response)


def test_the_interface_is_found_out_and_what_makes_an_application_is_called() -> None:
    application: Any
    for application in (coroutine, plain, Instance(), functools.partial(coroutine)):
        assert entry.interface_of(application) == "asgi"
    for application in (wsgi, Old(), Old().__call__):
        assert entry.interface_of(application) == "wsgi"
    for application, words in ((lambda *_: coroutine, "none"), (lambda scope: scope, "scope")):
        with pytest.raises(TypeError, match=f"which takes {words}: say asgi or wsgi"):
            entry.interface_of(application)
    assert all(map(entry.makes_one, (lambda: coroutine, lambda _settings=None, **_: wsgi, Old)))
    assert not any(map(entry.makes_one, (Old(), lambda *_: wsgi, wsgi, coroutine)))


@pytest.mark.parametrize("application", [coroutine, Instance(), wsgi, Old()])
def test_what_is_in_front_of_an_application_costs_a_call_and_a_comparison(application: Any) -> None:
    def calls(made: Any) -> int:
        """Functions of Python and of C that one request calls."""
        events = list[str]()
        request = [{"path": "/x", "PATH_INFO": "/x"}, None, None][: 3 if interface == "asgi" else 2]
        sys.setprofile(lambda _frame, event, _argument: events.append(event))
        answer = made(*request)
        sys.setprofile(None)
        assert answer == [b"/x"] or answer.close() is None
        return sum(event.endswith("call") for event in events)

    interface = entry.interface_of(application)
    wrapped = entry.in_front_of(application, interface)
    assert 0 < calls(wrapped) - calls(application) <= 2


def test_garbage_is_collected_once_when_asked_unless_the_application_collects_none() -> None:
    """A batch of questions reaches each worker several times."""

    def after(query: str) -> int:
        entry.identity(query)
        full: int = gc.get_stats()[-1]["collections"]
        return full

    full = after(COLLECT)
    assert after(COLLECT) == full
    gc.collect(0)
    assert after("") == full
    assert after(COLLECT) == full + 1
    gc.collect(0)
    gc.disable()
    try:
        assert after(COLLECT) == full + 1
    finally:
        gc.enable()


def find_in(root: Path, **more: Any) -> tuple[str, bool]:
    python = interpreters.identify(Path(sys.executable), "3")
    target = Target(app="web:app").model_copy(update=more)
    served = Subject(root, target=target, search=(".",), interpreters={"3": python})
    testbed = Testbed(
        subject=served, oha=Path(), machine=fingerprint(), interpreters={"3": python},
        stacks={STACK: Stack(STACK, root, "", {})},
        pythons={(STACK, "3"): Path(sys.executable)}, logs=root, inherited=inherited_variables(),
    )  # fmt: skip
    (case,) = served.declared_cases()
    return find_interface(SideCase(case, testbed), Path(os.environ["XDG_STATE_HOME"], "import.log"))


@pytest.mark.usefixtures("state_home")
def test_an_import_may_start_processes_ask_or_end(tmp_path: Path) -> None:
    """A process that keeps the output open is neither waited for nor left.

    The time to be ready bounds it.
    """

    def imported(last: str) -> str:
        (tmp_path / "web.py").write_text(
            "import subprocess, time\nfrom pathlib import Path\n"
            "child = subprocess.Popen(['sleep', '313'], start_new_session=True)\n"
            f"Path({str(tmp_path / 'pid')!r}).write_text(str(child.pid))\n"
            f"print('hi', flush=True)\n{last}\n"
        )
        try:
            return str(find_in(tmp_path, ready_timeout=1.0 if last.startswith("time") else 30.0))
        except UsageError as error:
            return str(error).partition(". ")[0]  # advice follows
        finally:
            assert not lives(int((tmp_path / "pid").read_text()))

    assert_said("imports", imported)


SCRIPT = """
from fastapi import APIRouter, FastAPI
from flask import Flask
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Mount, Route
from werkzeug.middleware.proxy_fix import ProxyFix
from duetbench_routes import routes

inner, outer = APIRouter(prefix="/deep"), APIRouter(prefix="/v1")
inner.get("/z")(print)
outer.get("/items")(print)
outer.get("/items/{item}")(print)
outer.post("/items")(print)
outer.include_router(inner)
fast = FastAPI(openapi_url=None)
fast.include_router(outer, prefix="/api")
fast.websocket("/ws")(print)
sub = FastAPI(openapi_url=None)
sub.get("/in")(print)
fast.mount("/sub", sub)
fast.routes.append(Mount("/m", routes=[Route("/in/{x}", print)]))
listed = ["/api/v1/items", "/api/v1/items/{item}", "/api/v1/deep/z", "/sub/in", "/m/in/{x}"]
assert routes(CORSMiddleware(fast)) == listed

flask = Flask("x")
flask.get("/x")(print)
flask.post("/y")(print)
flask.get("/x/<n>")(print)
listed = ["/static/<path:filename>", "/x", "/x/<n>"]
assert sorted(routes(flask)) == sorted(routes(ProxyFix(flask.wsgi_app))) == listed
flask.wsgi_app = ProxyFix(flask.wsgi_app)
assert sorted(routes(flask)) == listed

assert routes(lambda environ, start_response: []) == []
"""


@pytest.mark.real
def test_paths_are_those_that_the_framework_lists() -> None:
    project = Checkout.here()
    python = stacks.executable(project.lock("current"), project.interpreter("3.14"))
    result = execute([python, "-c", SCRIPT], env={"PYTHONPATH": str(ENTRY)})
    assert (result.returncode, result.stderr) == (0, "")
