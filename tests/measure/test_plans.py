"""Plans of statements as PostgreSQL executes them, by each driver, on both sides."""

import sys
from pathlib import Path
from typing import Final

import pytest

import postgres
from duetbench.app.project_tests import Suite
from duetbench.effects import suite
from repos import install, write

_PACKAGES: Final = (
    "pytest==9.2.0", "httpx==0.28.1", "psycopg[binary]==3.3.9", "psycopg2-binary==2.9.13",
    "asyncpg==0.32.0",
)  # fmt: skip
_APP: Final = """
import os

import asyncpg
import psycopg
import psycopg2

URL = os.environ["URL"]
FIND = "select id from book where title = 'a secret' and author = "


async def of_asyncpg():
    connection = await asyncpg.connect(URL)
    async with connection.transaction():
        await connection.fetch(FIND + "$1", 7)
    await connection.close()


async def of_psycopg():
    async with await psycopg.AsyncConnection.connect(URL) as connection:
        await connection.execute("insert into book (author) values (%s)", (7,))
        await (await connection.execute(FIND + "%(who)s", {"who": 7})).fetchall()


async def of_psycopg2():
    connection = psycopg2.connect(URL)
    with connection, connection.cursor() as cursor:
        cursor.execute(FIND + "%s", (7,))
    connection.close()


async def app(scope, receive, send):
    await globals()[scope["path"].strip("/")]()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"1"})
"""
_TEST: Final = """
import asyncio

import httpx
import psycopg
import pytest
import schema
import shop


@pytest.fixture(autouse=True)
def tables():
    with psycopg.connect(shop.URL) as connection:
        connection.execute("drop table if exists book")
        connection.execute("create table book (id serial primary key, author int, title text)")
        connection.execute(schema.INDEX)


async def ask(name):
    transport = httpx.ASGITransport(shop.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        return await client.get(f"/{name}")


@pytest.mark.parametrize("name", ["of_asyncpg", "of_psycopg", "of_psycopg2"])
def test_a_driver(name):
    assert asyncio.run(ask(name)).status_code == 200
    with psycopg.connect(shop.URL) as connection:
        left = connection.execute("select count(*) from pg_prepared_statements").fetchone()
        written = connection.execute("select count(*) from book").fetchone()
    assert (left, written) == ((0,), (int(name == "of_psycopg"),))
"""


@pytest.mark.thorough
@pytest.mark.real
def test_a_dropped_index_is_named_though_no_statement_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By each driver, with the sides swapped; a plan shows no value, and asking leaves nothing."""
    install(tmp_path / "venv", sys.executable, *_PACKAGES)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "venv"))
    index = "create index by_author on book (author)"
    for name, made in (("base", index), ("head", "select 1"), ("copy", index)):
        write(tmp_path / name, "shop.py", _APP)
        write(tmp_path / name, "schema.py", f"INDEX = {made!r}\n")
        write(tmp_path / name, "tests/test_shop.py", _TEST)
    base, head, copy = (tmp_path / name for name in ("base", "head", "copy"))
    with postgres.server() as server:
        tests = Suite.find(base, ["tests"], env={"URL": f"{server}/postgres"})

        def plans(before: Path, after: Path) -> set[str]:
            seen = suite.compare(tests, before, after, lambda _: None)
            assert (len(seen.pairs), seen.broken) == (3, [])
            differ = [effect for effects in seen.effects.values() for effect in effects.differ]
            assert all(effect.kind == "plan" for effect in differ)
            return {effect.text for effect in differ}

        by_index, by_all = (
            "Bitmap Heap Scan on book; Bitmap Index Scan on by_author",
            "Seq Scan on book",
        )
        statement = "select id from book where title = ? and author = ?"
        assert plans(base, head) == {f"{by_all} instead of {by_index}: {statement}"}
        assert plans(head, base) == {f"{by_index} instead of {by_all}: {statement}"}
        assert plans(base, copy) == set()
