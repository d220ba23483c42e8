"""Starts, and never answers who it is."""

import asyncio

from answers import right
from bare_asgi import Answer, App


async def silence(_app: App) -> Answer:
    await asyncio.sleep(3600)
    return 200, ""


app = App({"/right": right, "/_identity": silence})
