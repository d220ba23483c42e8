"""What requests do, by kind: head does each `MORE` times more often."""

import logging
import sqlite3
from contextlib import suppress
from pathlib import Path

MORE = 0
SHOP = sqlite3.connect(":memory:", check_same_thread=False)
SHOP.execute("create table book (id integer primary key, price real)")
SHOP.execute("insert into book values (7, 9.5)")


def sql() -> object:
    for _ in range(1 + MORE):
        SHOP.execute("select price from book where id = ?", (7,)).fetchone()
    return 1


def answer() -> object:
    return {"price": "9.5" if MORE else 9.5}


def log() -> object:
    for _ in range(MORE):
        logging.getLogger("shop").warning("slow")
    return 1


def read() -> object:
    for _ in range(MORE):
        Path("word.txt").read_text("utf-8")
    return 1


def fail() -> None:
    raise LookupError


def exception() -> object:
    for _ in range(MORE):
        with suppress(LookupError):
            fail()
    return 1


def price(book: int) -> int:
    return book


def function() -> object:
    return sum(price(book) for book in range(10 + 1000 * MORE))


def same() -> object:
    return 1


WORK = {f.__name__: f for f in (sql, answer, log, read, exception, function, same)}
