"""Flask: work on the server's threads. The twin of sharing_asgi."""

import work
from flask import Flask

app = Flask(__name__)


@app.get("/shared")
def shared() -> dict[str, int]:
    return {"done": work.encode_shared()}


@app.get("/private")
def private() -> dict[str, int]:
    return {"done": work.encode_private()}


@app.get("/counter")
def counter() -> dict[str, int]:
    return {"done": work.count_shared()}


@app.get("/executor")
def executor() -> dict[str, int]:
    return {"done": work.make_executor()}


@app.get("/context")
def context() -> dict[str, int]:
    return {"done": work.set_variables()}
