"""Plans by which databases execute statements, asked through the connection that sends them.

PostgreSQL reads a small table as a whole, whatever its indexes are, and tests have small ones: so
it is asked what it would do if that were expensive. Nothing is executed, and nothing stays.

Standard library only, for any CPython from 3.11 on.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

Run = Callable[[str], Iterable[Any]]
"""Executes a statement of ours, and returns the first column of its rows."""

# How statements begin for which PostgreSQL has plans.
PLANNED = re.compile(r"(select|insert|update|delete|with|values|table)\b", re.IGNORECASE)
_PARAMETER = re.compile(r"\$(\d+)")
_SECONDS = 5.0  # for another connection
_IDLE, _IN_TRANSACTION = 0, 2  # of libpq
_NUMBERS = itertools.count()
_of_asyncpg: dict[tuple[object, ...], str] = {}

ignored: set[int] = set()
"""Threads whose calls are none of the application's, such as ours."""


def before(module: str, variables: Mapping[str, Any]) -> str:
    """Ask for the plan of what a function of a driver will send; empty if that is not known."""
    package, plan = module.partition(".")[0], ""
    with suppress(Exception):  # of a driver that is otherwise, or a table that is not there
        if package == "psycopg":
            plan = _ask_psycopg(variables["self"], variables["query"], variables["params"])
        elif package == "asyncpg":
            plan = _ask_asyncpg(variables["self"], variables)
    return plan


def after_psycopg2(cursor: Any) -> str:
    """Ask for the plan of what a cursor of psycopg2 has sent; empty if that is not known."""
    with suppress(Exception):
        own, status = sys.modules["psycopg2.extensions"].cursor, cursor.connection.info

        def run(statement: str) -> Iterable[Any]:
            with own(cursor.connection) as other:
                other.execute(statement)
                return [row[0] for row in other.fetchall()] if other.description else []

        return _ask(run, cursor.query.decode(), status.transaction_status)
    return ""


def of_sqlite(connection: Any, kind: type, text: str) -> str:
    """Ask SQLite for the plan of a statement that a connection has just executed."""
    with suppress(Exception):  # it is closed, or the application changes what rows are
        rows = kind(connection).execute(f"explain query plan {text}")
        return "; ".join(str(row[3]) for row in rows)
    return ""


def _ask_psycopg(cursor: Any, query: Any, params: Any) -> str:
    """Ask by libpq, which waits, also where the application does not."""
    connection = cursor.connection.pgconn
    converted = cursor._query_cls(sys.modules["psycopg"].adapt.Transformer(cursor.connection))
    converted.convert(query, params)

    def run(statement: str) -> Iterable[Any]:
        result = connection.exec_(statement.encode())  # without rows, if it fails
        return [result.get_value(row, 0).decode() for row in range(result.ntuples)]

    return _ask(run, converted.query.decode(), connection.transaction_status)


def _ask_asyncpg(sender: Any, variables: Mapping[str, Any]) -> str:
    """Ask by a connection of our own: that of the application needs its loop, which is busy."""
    connection = getattr(sender, "_connection", sender)
    text = variables.get("query") or sender._query
    key = connection._addr, connection._params.database, text
    if key not in _of_asyncpg:
        worker = threading.Thread(target=_connect_and_ask, args=(connection, text, key))
        worker.start()
        worker.join()
    return _of_asyncpg.get(key, "")


def _connect_and_ask(connection: Any, text: str, key: tuple[object, ...]) -> None:
    ignored.add(threading.get_ident())
    known, (host, port) = connection._params, connection._addr
    given = {name: getattr(known, name) for name in ("user", "password", "database")}
    if connection._transport.get_extra_info("ssl_object"):
        given["ssl"] = known.ssl
    with asyncio.Runner() as runner, suppress(Exception):
        own = runner.run(sys.modules["asyncpg"].connect(
            host=host, port=port, timeout=_SECONDS, **given
        ))  # fmt: skip

        def run(statement: str) -> Iterable[Any]:
            return [row[0] for row in runner.run(own.fetch(statement))]

        try:
            _of_asyncpg[key] = _ask(run, text, _IDLE)
        finally:
            runner.run(own.close())
    ignored.discard(threading.get_ident())


def _ask(run: Run, text: str, status: int) -> str:
    """Ask PostgreSQL, in a transaction that ends at once, or in one below that of the sender."""
    if status not in {_IDLE, _IN_TRANSACTION}:
        return ""
    name = f"duetbench_{next(_NUMBERS)}"
    begin, ends = "begin", ["rollback"]
    if status == _IN_TRANSACTION:
        begin, ends = f"savepoint {name}", [f"rollback to {name}", f"release {name}"]
    number = max(map(int, _PARAMETER.findall(text)), default=0)
    values = f"({', '.join(['null'] * number)})" if number else ""
    run(begin)
    try:
        run("set local enable_seqscan = off")
        run("set local plan_cache_mode = force_generic_plan")
        run(f"prepare {name} as {text}")
        lines = [*run(f"explain (costs off) execute {name}{values}")]
        run(f"deallocate {name}")
    finally:
        for statement in ends:
            run(statement)
    # Conditions may have values, which nobody may see.
    return "; ".join(line.strip(" ->") for line in lines if ":" not in line)
