"""The service."""

from collections.abc import AsyncIterator
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


def database(request: Request) -> Session:
    """A session, which its handler closes: a dependency that `yield`s it would be closed later.

    Then requests that wait for a connection hold the threads in which others would give theirs
    back, and from some forty requests at once on nobody gets any further.
    """
    return Session(request.app.state.engine)


Database = Annotated[Session, Depends(database)]


class Wanted(BaseModel):
    """An order as it is sent."""

    item: int
    count: int = 1


@app.get("/items/{item_id}")
def item(item_id: int, request: Request, session: Database) -> dict[str, object]:
    with session:
        found = session.get(Item, item_id)
        if found is None:
            raise HTTPException(404)
        price = written(found.cents, request.app.state.settings.currency)
        return {"id": found.id, "name": found.name, "price": price}


@app.get("/items")
def items(request: Request, session: Database, limit: int = 20) -> list[dict[str, object]]:
    currency = request.app.state.settings.currency
    with session:
        found = session.scalars(select(Item).order_by(Item.id).limit(limit))
        return [
            {"id": one.id, "name": one.name, "price": written(one.cents, currency)} for one in found
        ]


@app.post("/orders")
def order(wanted: Wanted, session: Database) -> dict[str, int]:
    with session:
        session.add(Order(item_id=wanted.item, count=wanted.count))
        session.commit()
    return {"item": wanted.item, "count": wanted.count}
