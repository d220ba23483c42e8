"""Handlers that wait and handlers that compute, each as `def` and as `async def`."""

import asyncio
import os
import platform
import time

from fastapi import FastAPI

WAIT_S = float(os.environ.get("DUETBENCH_WAIT_S", "3"))
STEPS = 10**7

# No response model: FastAPI would validate a `def` handler's answer in the thread pool too, and a
# second wait for a thread is not the question.
app = FastAPI()


def add_up(steps: int) -> int:
    """Sum range(steps) in pure Python: one core busy, no memory traffic, no C code to hide in."""
    total = 0
    for step in range(steps):
        total += step
    return total


@app.get("/", response_model=None)
def greet() -> dict[str, str]:
    return {"message": f"Hello from Python {platform.python_version()}"}


@app.get("/sync_sleep", response_model=None)
def sync_sleep() -> dict[str, str]:
    time.sleep(WAIT_S)
    return {"message": "slept"}


@app.get("/async_sleep", response_model=None)
async def async_sleep() -> dict[str, str]:
    await asyncio.sleep(WAIT_S)
    return {"message": "slept"}


@app.get("/sync_cpu", response_model=None)
def sync_cpu() -> dict[str, int]:
    return {"total": add_up(STEPS)}


@app.get("/async_cpu", response_model=None)
async def async_cpu() -> dict[str, int]:
    return {"total": add_up(STEPS)}
