"""FastAPI with one route: what a start costs before the application adds anything."""

from fastapi import FastAPI

app = FastAPI()


@app.get("/ok")
async def answer() -> dict[str, bool]:
    return {"ok": True}
