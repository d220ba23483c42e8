"""FastAPI: a JSON greeting, for which a request costs little but its server."""

from fastapi import FastAPI

app = FastAPI()


@app.get("/json")
async def greet() -> dict[str, str]:
    return {"message": "Hello, world!"}
