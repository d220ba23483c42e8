"""Flask: a JSON greeting, a 10 ms wait, and some 1 ms of computing. The twin of asgi_app."""

import time

from flask import Flask, Response

app = Flask(__name__)


@app.get("/json")
def greet() -> dict[str, str]:
    return {"message": "Hello, world!"}


@app.get("/io")
def wait() -> Response:
    time.sleep(0.010)
    return Response("Hello, waiter!", content_type="text/plain; charset=utf-8")


@app.get("/cpu")
def compute() -> dict[str, int]:
    total = 0
    for number in range(30_000):
        total += number
    return {"total": total}
