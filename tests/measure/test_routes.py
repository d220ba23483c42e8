"""The paths that a framework lists of an application, asked in an environment that has it."""

import subprocess

import pytest

from duetbench.measure.testbed import ENTRY
from duetbench.project import stacks
from duetbench.project.project import Project

SCRIPT = """
from fastapi import APIRouter, FastAPI
from flask import Flask
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Mount, Route, WebSocketRoute
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
assert routes(CORSMiddleware(fast)) == ["/api/v1/items", "/api/v1/deep/z", "/sub/in"]

nested = Mount("/m", routes=[Route("/in", print), Route("/in/{x}", print)])
listed = [Route("/home", print), nested, WebSocketRoute("/ws", print)]
assert routes(Starlette(routes=listed)) == ["/home", "/m/in"]

flask = Flask("x")
flask.get("/x")(print)
flask.post("/y")(print)
flask.get("/x/<n>")(print)
assert routes(flask) == routes(ProxyFix(flask.wsgi_app)) == ["/x"]
flask.wsgi_app = ProxyFix(flask.wsgi_app)
assert routes(flask) == ["/x"]

assert routes(lambda environ, start_response: []) == []
"""


@pytest.mark.real
def test_paths_are_those_that_the_framework_lists() -> None:
    project = Project.here()
    python = stacks.executable(project.lock("current"), project.interpreter("3.14"))
    done = subprocess.run(
        [python, "-c", SCRIPT],
        env={"PYTHONPATH": str(ENTRY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
