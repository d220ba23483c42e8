"""FastAPI: a JSON greeting, a 10 ms wait, and some 1 ms of computing. The twin of wsgi_app."""

import asyncio

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse

app = FastAPI()


@app.get("/json")
async def greet() -> dict[str, str]:
    return {"message": "Hello, world!"}


@app.get("/io", response_class=PlainTextResponse)
async def wait() -> str:
    await asyncio.sleep(0.010)
    return "Hello, waiter!"


@app.get("/cpu")
async def compute() -> dict[str, int]:
    total = 0
    for number in range(30_000):
        total += number
    return {"total": total}
