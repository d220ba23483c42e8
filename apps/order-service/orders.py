"""An order service: all that a request passes in production, in one file.

- A signed token says who asks and what for (JWT, HMAC with SHA-256).
- Pydantic validates what comes in and what goes out.
- SQLAlchemy's async engine keeps products and orders in SQLite.
- Every request writes one line of JSON to the log.
- Pages of other origins may ask (CORS), long answers are compressed (gzip), and `/openapi.json`
  describes it all.

`ORDERS_DATABASE` and `ORDERS_LOG` name two files; without the second, standard error is the log.
An empty database gets the same 500 products every time.
"""

import asyncio
import json
import logging
import os
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import jwt
from fastapi import Depends, FastAPI, HTTPException, Path, Query, Request
from fastapi.middleware.cors import CORSMiddleware
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy import ForeignKey, Index, event, func, select
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship
from starlette.types import ASGIApp, Message, Receive, Scope, Send

DATABASE = os.environ.get("ORDERS_DATABASE", "orders.db")
LOG = os.environ.get("ORDERS_LOG")
KEY = os.environ.get("ORDERS_KEY", "a key that everybody may know: it guards nothing")
AUDIENCE = "orders"
ORIGINS = ("https://shop.example", "https://admin.shop.example")

COMPRESSED_FROM = 500  # bytes
CONNECTIONS = 5  # to the database
PRODUCTS = 500

Category = Literal["books", "garden", "kitchen", "music", "tools"]


# ---- The log

log = logging.getLogger("orders")


class JsonLines(logging.Formatter):
    """Writes a record as one line of JSON: time, level, event, and what its `fields` add."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def open_log() -> None:
    handler = logging.FileHandler(LOG) if LOG else logging.StreamHandler()
    handler.setFormatter(JsonLines())
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False


class RequestLog:
    """Gives each request an id, which its answer has as well, and logs how it was answered."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        identifier = uuid.uuid4().hex
        state = scope.setdefault("state", {})
        answered = 500

        async def send_with_id(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", identifier.encode())]
            await send(message)

        try:
            await self.app(scope, receive, send_with_id)
        finally:
            fields = {
                "request": identifier,
                "method": scope["method"],
                "path": scope["path"],
                "status": answered,
                "milliseconds": round(1000 * (time.perf_counter() - began), 3),
                "customer": state.get("customer"),
            }
            log.info("answered", extra={"fields": fields})


# ---- The database


class Base(DeclarativeBase):
    pass


class Product(Base):
    __tablename__ = "products"
    __table_args__ = (Index("products_by_category", "category", "price_cents"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    sku: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str]
    category: Mapped[str]
    price_cents: Mapped[int]
    grams: Mapped[int]
    listed_on: Mapped[datetime]


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str]
    note: Mapped[str | None]
    total_cents: Mapped[int]
    created_at: Mapped[datetime]
    lines: Mapped[list["OrderLine"]] = relationship(back_populates="order")


class OrderLine(Base):
    __tablename__ = "order_lines"

    order_id: Mapped[int] = mapped_column(ForeignKey("orders.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    product_id: Mapped[int] = mapped_column(ForeignKey("products.id"))
    quantity: Mapped[int]
    price_cents: Mapped[int]
    order: Mapped[Order] = relationship(back_populates="lines")
    product: Mapped[Product] = relationship()

    @property
    def name(self) -> str:
        return self.product.name


class Database:
    """Sessions on a file of SQLite, of which one at a time writes."""

    def __init__(self, path: str) -> None:
        self.engine = create_async_engine(
            f"sqlite+aiosqlite:///{path}", pool_size=CONNECTIONS, max_overflow=0
        )
        event.listen(self.engine.sync_engine, "connect", configure)
        self.sessions = async_sessionmaker(self.engine, expire_on_commit=False)
        self.writing = asyncio.Lock()

    async def fill(self) -> None:
        """Make the tables, and the catalogue where it is empty."""
        async with self.engine.begin() as connection:
            await connection.run_sync(Base.metadata.create_all)
        async with self.sessions.begin() as session:
            if not await session.scalar(select(func.count()).select_from(Product)):
                session.add_all(catalogue())


def configure(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    # No wait for the disk: how long that takes says nothing about the packages under test.
    cursor.execute("PRAGMA synchronous = OFF")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def catalogue() -> list[Product]:
    """Make the products, which are the same every time."""
    adjectives = ("plain", "folding", "large", "silent", "painted", "light", "double")
    nouns = ("chair", "lamp", "kettle", "atlas", "hammer", "flute", "rake", "shelf", "bowl", "vice")
    categories = ("books", "garden", "kitchen", "music", "tools")
    return [
        Product(
            id=number,
            sku=f"SKU-{number:05d}",
            name=f"{adjectives[number % 7]} {nouns[number % 10]} {number}",
            category=categories[number % 5],
            price_cents=199 + number * 3_701 % 9_800,
            grams=50 + number * 211 % 4_950,
            listed_on=datetime(2026, 1 + number % 12, 1 + number % 28, tzinfo=UTC),
        )
        for number in range(1, PRODUCTS + 1)
    ]


# ---- What comes in and goes out


class ProductFilter(BaseModel):
    model_config = ConfigDict(extra="forbid")

    category: Category | None = None
    price_to: int | None = Field(None, ge=0, description="The highest price, in cents.")
    offset: int = Field(0, ge=0)
    limit: int = Field(20, ge=1, le=100)


class LineIn(BaseModel):
    product_id: int = Field(ge=1)
    quantity: int = Field(ge=1, le=99)


class OrderIn(BaseModel):
    model_config = ConfigDict(extra="forbid")

    lines: list[LineIn] = Field(min_length=1, max_length=20)
    note: str | None = Field(None, max_length=200)


class Stored(BaseModel):
    """Base of what is made from rows."""

    model_config = ConfigDict(from_attributes=True)


class ProductOut(Stored):
    id: int
    sku: str
    name: str
    category: Category
    price_cents: int = Field(ge=0)
    grams: int
    listed_on: datetime


class ProductPage(Stored):
    total: int = Field(description="Products that fit, on all pages.")
    products: list[ProductOut]


class LineOut(Stored):
    product_id: int
    name: str
    quantity: int
    price_cents: int


class OrderOut(Stored):
    id: int
    customer: str
    created_at: datetime
    lines: list[LineOut]
    total_cents: int


class Problem(BaseModel):
    detail: str


# ---- Who asks


class Claims(BaseModel):
    """What a token says."""

    sub: str = Field(min_length=1)
    scope: str = ""


bearer = HTTPBearer(auto_error=False, description="A JSON Web Token, signed with HS256.")
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]


async def claims(request: Request, credentials: Credentials) -> Claims:
    """Check signature, audience and expiry of the request's token."""
    token = credentials.credentials if credentials else ""
    try:
        payload = jwt.decode(
            token, KEY, ["HS256"], audience=AUDIENCE, options={"require": ["exp", "sub"]}
        )
        found = Claims.model_validate(payload)
    except (jwt.InvalidTokenError, ValidationError) as error:
        wanted = {"WWW-Authenticate": "Bearer"}
        raise HTTPException(401, "a valid token is needed", wanted) from error
    request.state.customer = found.sub
    return found


async def buyer(found: Annotated[Claims, Depends(claims)]) -> str:
    """Name the customer, who must be allowed to order."""
    if "orders:write" not in found.scope.split():
        raise HTTPException(403, "the token does not allow to order")
    return found.sub


# ---- The application and its endpoints


@asynccontextmanager
async def lifespan(application: FastAPI) -> AsyncIterator[None]:
    open_log()
    database = application.state.database = Database(DATABASE)
    await database.fill()
    log.info("started")
    yield
    await database.engine.dispose()
    log.info("stopped")


app = FastAPI(
    title="Orders",
    lifespan=lifespan,
    dependencies=[Depends(claims)],
    responses={401: {"model": Problem}},
)
app.add_middleware(GZipMiddleware, minimum_size=COMPRESSED_FROM)
app.add_middleware(
    CORSMiddleware, allow_origins=ORIGINS, allow_methods=["GET", "POST"], allow_headers=["*"]
)
app.add_middleware(RequestLog)


async def database_of(request: Request) -> Database:
    return request.app.state.database


Data = Annotated[Database, Depends(database_of)]


@app.get("/products", tags=["products"])
async def list_products(database: Data, wanted: Annotated[ProductFilter, Query()]) -> ProductPage:
    """A page of the catalogue, cheapest first: two statements."""
    conditions = []
    if wanted.category is not None:
        conditions.append(Product.category == wanted.category)
    if wanted.price_to is not None:
        conditions.append(Product.price_cents <= wanted.price_to)
    counted = select(func.count()).select_from(Product).where(*conditions)
    page = select(Product).where(*conditions).order_by(Product.price_cents, Product.id)
    async with database.sessions() as session:
        total = await session.scalar(counted)
        products = await session.scalars(page.offset(wanted.offset).limit(wanted.limit))
        return ProductPage.model_validate({"total": total, "products": products.all()})


@app.get("/products/{product_id}", tags=["products"], responses={404: {"model": Problem}})
async def get_product(database: Data, product_id: Annotated[int, Path(ge=1)]) -> ProductOut:
    """One product: one statement."""
    async with database.sessions() as session:
        product = await session.get(Product, product_id)
    if product is None:
        raise HTTPException(404, f"there is no product {product_id}")
    return ProductOut.model_validate(product)


@app.post("/orders", status_code=201, tags=["orders"])
async def create_order(
    database: Data, customer: Annotated[str, Depends(buyer)], wanted: OrderIn
) -> OrderOut:
    """Order products at their present prices: three statements, in one transaction."""
    numbers = {line.product_id for line in wanted.lines}
    async with database.writing, database.sessions.begin() as session:
        found = await session.scalars(select(Product).where(Product.id.in_(numbers)))
        products = {product.id: product for product in found}
        if unknown := sorted(numbers - products.keys()):
            raise HTTPException(422, f"there are no products {unknown}")
        order = new_order(customer, wanted, products)
        session.add(order)
    return OrderOut.model_validate(order)


def new_order(customer: str, wanted: OrderIn, products: Mapping[int, Product]) -> Order:
    lines = [
        OrderLine(
            number=number,
            product=products[line.product_id],
            quantity=line.quantity,
            price_cents=products[line.product_id].price_cents,
        )
        for number, line in enumerate(wanted.lines, 1)
    ]
    return Order(
        customer=customer,
        note=wanted.note,
        total_cents=sum(line.quantity * line.price_cents for line in lines),
        created_at=datetime.now(UTC).replace(microsecond=0),
        lines=lines,
    )
