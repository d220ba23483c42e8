"""FastAPI: work on the event loop, of which each worker has one. The twin of sharing_wsgi."""

import work
from fastapi import FastAPI

app = FastAPI()


@app.get("/shared")
async def shared() -> dict[str, int]:
    return {"done": work.encode_shared()}


@app.get("/private")
async def private() -> dict[str, int]:
    return {"done": work.encode_private()}
