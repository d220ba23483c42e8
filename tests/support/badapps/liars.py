"""Applications whose figures are plausible, and right whenever one request is sent alone."""

import asyncio
import time

from bare_asgi import Answer, App

BEFORE = 8
"""More requests than verification and warm-up send (3, and one per connection)."""
WAIT = 0.03
kept: list[bytes] = []


def measured(app: App) -> bool:
    """Tell whether a load is on; verification afterwards asks one at a time again."""
    return app.served > BEFORE and app.in_flight > 1


async def truthful(_app: App) -> Answer:
    await asyncio.sleep(WAIT)
    return 200, "right"


async def strained(app: App) -> Answer:
    await asyncio.sleep(0.1)
    return 500 if measured(app) else 200, "right"


async def hasty(app: App) -> Answer:
    if not measured(app):
        await asyncio.sleep(0.1)
    return 200, "right"


async def inside(_app: App) -> Answer:
    """Fail, and say so with the status of a success."""
    return 200, '{"error": "no database today"}'


async def uneven(app: App) -> Answer:
    """Of 500 answers one is empty and nine are too long, but never one that is alone."""
    place = app.served
    await asyncio.sleep(0)  # others may come in
    if app.in_flight == 1 or place % 50:
        return 200, "right"
    return 200, "right!!" if place % 500 else ""


async def ragged(app: App) -> Answer:
    """Be right, and seldom as long as before."""
    return 200, "right" + "!" * (app.served * 97 % 400)


async def mask(app: App) -> Answer:
    """Be wrong for as long as a load lasts, by a body of the right length."""
    await asyncio.sleep(0.002)  # who checks is off the generator's core by then: others come in
    return 200, "wrong" if app.in_flight > 1 else "right"


async def keep(_app: App) -> Answer:
    await asyncio.sleep(WAIT)
    kept.append(b"x" * 40_000 + bytes(1))
    return 200, "right"


async def quicken(app: App) -> Answer:
    """Be slow until connections are older than those of a warm-up ever get."""
    if time.monotonic() - app.joined < 0.7:
        await asyncio.sleep(WAIT)
    return 200, "right"


LIARS = truthful, strained, hasty, inside, uneven, ragged, mask, keep, quicken
app = App({f"/{liar.__name__}": liar for liar in LIARS})
