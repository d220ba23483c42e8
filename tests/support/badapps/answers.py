"""Right answers, and every wrong one: wrong always, or only while somebody measures."""

import asyncio

from bare_asgi import Answer, App

BEFORE = 8
"""More requests than verification and warm-up send (3, and one per connection)."""


def measured(app: App) -> bool:
    """Tell whether a load is on; verification afterwards asks one at a time again."""
    return app.served > BEFORE and app.in_flight > 1


async def right(_app: App) -> Answer:
    await asyncio.sleep(0.1)
    return 200, "right"


async def error(_app: App) -> Answer:
    return 500, "right"


async def strained(app: App) -> Answer:
    await asyncio.sleep(0.1)
    return 500 if measured(app) else 200, "right"


async def wrong(_app: App) -> Answer:
    return 200, "left"


async def rash(_app: App) -> Answer:
    return 200, "right"


async def hasty(app: App) -> Answer:
    if not measured(app):
        await asyncio.sleep(0.1)
    return 200, "right"


app = App(
    {
        "/right": right,
        "/error": error,
        "/strained": strained,
        "/wrong": wrong,
        "/rash": rash,
        "/hasty": hasty,
    }
)
