"""Starts, and never answers who it is."""

import asyncio
from typing import Any

import duetbench_entry  # type: ignore[import-not-found, unused-ignore]
from answers import right
from bare_asgi import App


async def silence(_send: Any) -> None:
    await asyncio.sleep(3600)


duetbench_entry._answer = silence
app = App({"/right": right})
