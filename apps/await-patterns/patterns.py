"""Three waits per request: blocking, awaited one after another, or awaited together."""

import asyncio
import os
import time

from fastapi import FastAPI

WAIT_S = float(os.environ.get("DUETBENCH_WAIT_S", "5"))

# No response model: FastAPI would validate a `def` handler's answer in the thread pool too, behind
# all the requests that wait for a thread. The question is about the handlers' own waits.
app = FastAPI()


def blocking_task(text: str) -> str:
    time.sleep(WAIT_S)
    return f"{text}."


async def task(text: str) -> str:
    await asyncio.sleep(WAIT_S)
    return f"{text}."


@app.get("/sync_baseline", response_model=None)
def sync_baseline() -> list[str]:
    return [blocking_task("one"), blocking_task("two"), blocking_task("three")]


@app.get("/async_independent", response_model=None)
async def async_independent() -> list[str]:
    return [await task("one"), await task("two"), await task("three")]


@app.get("/async_dependent", response_model=None)
async def async_dependent() -> list[str]:
    first = await task("one")
    second = await task(first)
    third = await task(second)
    return [first, second, third]


@app.get("/async_concurrent", response_model=None)
async def async_concurrent() -> list[str]:
    return await asyncio.gather(task("one"), task("two"), task("three"))
