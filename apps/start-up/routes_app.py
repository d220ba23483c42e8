"""FastAPI with 144 routes, which answer with 50 Pydantic models."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from documents import make_models
from fastapi import FastAPI

ROUTES = 144
MODELS = make_models(50)

app = FastAPI()


def handler(place: int) -> Callable[[], Awaitable[dict[str, Any]]]:
    """Make the handler of a route."""
    document = {"number": place, "name": "document", "created_at": datetime(2026, 11, 1)}

    async def answer() -> dict[str, Any]:
        return document

    return answer


for route in range(ROUTES):
    app.get(f"/documents/{route}", response_model=MODELS[route % len(MODELS)])(handler(route))
