"""Right answers, and those that are wrong always."""

import asyncio

from bare_asgi import Answer, App


async def right(_app: App) -> Answer:
    await asyncio.sleep(0.1)
    return 200, "right"


async def error(_app: App) -> Answer:
    return 500, "right"


async def wrong(_app: App) -> Answer:
    return 200, "left"


app = App({"/right": right, "/error": error, "/wrong": wrong})
