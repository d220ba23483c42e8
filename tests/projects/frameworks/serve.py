"""The same routes by each framework."""

from typing import Any

from fastapi import APIRouter, FastAPI
from flask import Flask, jsonify
from litestar import Litestar, get
from quart import Quart
from quart import jsonify as quart_jsonify
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from work import WORK

fastapi = FastAPI()


@fastapi.get("/fastapi/{kind}")
async def of_fastapi(kind: str) -> Any:
    return WORK[kind]()


threads = APIRouter()


@threads.get("/{kind}")
def of_fastapi_thread(kind: str) -> Any:
    return WORK[kind]()


fastapi.include_router(threads, prefix="/thread")


async def of_starlette(request: Request) -> JSONResponse:
    return JSONResponse(WORK[request.path_params["kind"]]())


starlette = Starlette(routes=[Mount("/starlette", routes=[Route("/{kind}", of_starlette)])])


@get("/litestar/{kind:str}")
async def of_litestar(kind: str) -> Any:
    return WORK[kind]()


litestar = Litestar([of_litestar])
quart = Quart("shop")


@quart.get("/quart/<kind>")
async def of_quart(kind: str) -> Any:
    return quart_jsonify(WORK[kind]())


def make_flask() -> Flask:
    app = Flask("shop")

    @app.get("/flask/<kind>")
    def of_flask(kind: str) -> Any:
        return jsonify(WORK[kind]())

    return app
