"""What the claims of 2026 are about: bare ASGI, and FastAPI with little and with more to do."""

from typing import Annotated, Any

from fastapi import Depends, FastAPI
from pydantic import BaseModel

TEN_KILOBYTES = b"x" * 10_000
GREETING = b'{"message":"Hello, world!"}'
BODIES = {"/10k": (b"text/plain", TEN_KILOBYTES), "/json": (b"application/json", GREETING)}


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """Answer without a framework."""
    if scope["type"] == "lifespan":
        while (message := await receive())["type"] != "lifespan.shutdown":
            await send({"type": f"{message['type']}.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    kind, body = BODIES[scope["path"]]
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Item(BaseModel):
    """A row of the answer that FastAPI turns into JSON by its return type."""

    number: int
    name: str
    price: float
    tags: list[str]


ITEMS = [Item(number=n, name=f"item {n}", price=n / 4, tags=["a", "b"]) for n in range(100)]


def find_number() -> int:
    """Return what the handler depends on."""
    return 1


def make() -> FastAPI:
    """Make an application; several are served, one each."""
    made = FastAPI()

    @made.get("/json")
    async def greet() -> dict[str, str]:
        return {"message": "Hello, world!"}

    @made.get("/def")
    def greet_in_a_thread() -> dict[str, str]:
        return {"message": "Hello, world!"}

    @made.get("/items")
    async def list_items() -> list[Item]:
        return ITEMS

    @made.get("/number")
    async def tell_number(number: Annotated[int, Depends(find_number)]) -> dict[str, int]:
        return {"number": number}

    return made


api = make()

overridden = make()
overridden.dependency_overrides = {make: make}  # not empty, and about nothing that is asked for
