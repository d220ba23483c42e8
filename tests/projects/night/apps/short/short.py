"""Two paths that wait, and are right."""

import asyncio

from bare_asgi import Answer, App


async def right(_: App) -> Answer:
    await asyncio.sleep(0.1)
    return 200, "right"


app = App(dict.fromkeys(("/one", "/two"), right))
