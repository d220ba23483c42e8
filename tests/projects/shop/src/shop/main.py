"""The service."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request
from pydantic import BaseModel
from sqlalchemy import create_engine, select
from sqlalchemy.orm import Session

from shop.models import Item, Order
from shop.prices import written
from shop.settings import Settings


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Connect once; without the lifespan every request fails."""
    app.state.settings = Settings()
    app.state.engine = create_engine(app.state.settings.database_url)
    yield
    app.state.engine.dispose()


app = FastAPI(lifespan=lifespan)


def session(request: Request) -> Iterator[Session]:
    with Session(request.app.state.engine) as opened:
        yield opened


Database = Annotated[Session, Depends(session)]


class Wanted(BaseModel):
    """An order as it is sent."""

    item: int
    count: int = 1


@app.get("/items/{item_id}")
def item(item_id: int, request: Request, database: Database) -> dict[str, object]:
    found = database.get(Item, item_id)
    if found is None:
        raise HTTPException(404)
    price = written(found.cents, request.app.state.settings.currency)
    return {"id": found.id, "name": found.name, "price": price}


@app.get("/items")
def items(request: Request, database: Database, limit: int = 20) -> list[dict[str, object]]:
    currency = request.app.state.settings.currency
    found = database.scalars(select(Item).order_by(Item.id).limit(limit))
    return [
        {"id": one.id, "name": one.name, "price": written(one.cents, currency)} for one in found
    ]


@app.post("/orders")
def order(wanted: Wanted, database: Database) -> dict[str, int]:
    made = Order(item_id=wanted.item, count=wanted.count)
    database.add(made)
    database.commit()
    return {"item": wanted.item, "count": wanted.count}
