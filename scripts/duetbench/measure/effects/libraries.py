"""Functions of libraries whose entering is an effect: statements, calls, commands, log records.

Each is the lowest one in Python that all ways through its library lead to, so that none counts
twice. sqlite3 is not here: it reports its statements itself (`recorder`).

Standard library only, for any CPython from 3.10 on.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

Locals = Mapping[str, Any]
Words = Callable[[Locals], "str | None"]

_LITERAL = re.compile(r"'(?:[^']|'')*'|(?<![\w$\"])\d[\w.]*|\$\d+|%\(\w+\)s|%s|(?<!:):\w+")
_SAVEPOINT = re.compile(r"(?i)((?:savepoint|rollback to)\s+)\S+")
_LIST = re.compile(r"\(\s*\?(?:\s*,\s*\?)*\s*\)(?:\s*,\s*\(\s*\?(?:\s*,\s*\?)*\s*\))*")
_REMARK = re.compile(r"/\*.*?\*/|--[^\n]*", re.S)
_SPACE = re.compile(r"\s+")
_TRANSACTION = re.compile(r"(?i)(begin|commit|rollback|savepoint|release|start transaction|end)\b")
_RANDOM = re.compile(r"tmp\w{8}|[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{12,}|\d+")
_SCRATCH = re.compile(r"[^\s'\"=]*/duetbench-[a-z]+-[\d-]+-\w{8}(?:/copy/|/(?=tmp\b))?")
_LONGEST = 1_000
hide: Callable[[str], str] = str  # removes private values, before anything is cut or masked
_LOOKED_AT = 10_000  # characters of a statement: the rest are values


def statement(text: object) -> tuple[str, str] | None:
    """Return the kind and the text of a statement, with `?` instead of values; None if empty."""
    words = _REMARK.sub(" ", _text(text)[:_LOOKED_AT])
    words = _LITERAL.sub("?", _SAVEPOINT.sub(r"\1?", words))
    words = _SPACE.sub(" ", _LIST.sub("(?)", words)).strip(" ;")[:_LONGEST]
    if not words:
        return None
    return ("transaction" if _TRANSACTION.match(words) else "sql"), words


def plain(name: object) -> str:
    """Remove the random parts and numbers of a name: of temporary files, of hosts, of messages.

    A path in the folder of a launch is one from the application's own folder, or from `tmp`.
    """
    known = _SCRATCH.sub(lambda found: "" if found[0].endswith("/") else "*", _text(name))
    return _RANDOM.sub("*", known)[:_LONGEST]


def _text(value: object) -> str:
    return hide(value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value))


def _request(method: object, host: object) -> str:
    return f"{_text(method)} {_text(host)}"


def _record(variables: Locals) -> str:
    record = variables["record"]
    return f"{record.levelname} {record.name}: {plain(_text(record.msg)[:80])}"


def _task(variables: Locals) -> str:
    coroutine = variables["coro"]
    return getattr(coroutine, "__qualname__", type(coroutine).__qualname__)


def _command(variables: Locals) -> str | None:
    words = variables["args"]
    return _text(words[0]).upper() or None if words else None


def _bare(variables: Locals) -> str | None:
    """Return a statement of asyncpg that has no values; one with values is executed elsewhere."""
    return None if variables["args"] else variables["query"]


def _prepared(variables: Locals) -> str:
    return variables["self"].get_query()  # type: ignore[no-any-return]


PYTHON: tuple[tuple[str, str, str, Words], ...] = (
    # From 3.12 on an audit event reports all threads.
    *((("threading", "Thread.start", "thread", lambda v: plain(v["self"].name)),)
      if sys.version_info < (3, 12) else ()),
    ("logging", "Logger.callHandlers", "log", _record),
    ("asyncio.base_events", "BaseEventLoop.create_task", "task", _task),
    ("http.client", "HTTPConnection.putrequest", "call",
     lambda v: _request(v["method"], v["self"].host)),
    ("httpcore._sync.connection_pool", "ConnectionPool.handle_request", "call",
     lambda v: _request(v["request"].method, v["request"].url.host)),
    ("httpcore._async.connection_pool", "AsyncConnectionPool.handle_async_request", "call",
     lambda v: _request(v["request"].method, v["request"].url.host)),
    ("aiohttp.client_reqrep", "ClientRequest.send", "call",
     lambda v: _request(v["self"].method, v["self"].url.host)),
    ("redis.connection", "PythonRespSerializer.pack", "cache", _command),
    ("redis.connection", "HiredisRespSerializer.pack", "cache", _command),
    *((module, "Connection.pack_command", "cache", _command)
      for module in ("redis.connection", "redis.asyncio.connection", "aioredis.connection")),
    *(("pymemcache.client.base", f"Client.{name}", "cache", lambda v: plain(v["name"]))
      for name in ("_fetch_cmd", "_store_cmd")),
    ("pymemcache.client.base", "Client._misc_cmd", "cache", lambda v: plain(v["cmd_name"])),
    *((module, f"BaseCursor.{name}", "sql", itemgetter("query"))
      for module in ("psycopg._cursor_base", "psycopg.cursor")
      for name in ("_execute_gen", "_stream_send_gen", "_executemany_gen_pipeline",
                   "_executemany_gen_no_pipeline")),
    *((module, "ServerCursorMixin._declare_gen", "sql", itemgetter("query"))
      for module in ("psycopg._server_cursor_base", "psycopg.server_cursor")),
    *((module, "BaseConnection._exec_command", "sql", itemgetter("command"))
      for module in ("psycopg._connection_base", "psycopg.connection")),
    ("psycopg.connection", "Connection.connect", "connect", lambda _: "PostgreSQL"),
    ("psycopg.connection_async", "AsyncConnection.connect", "connect", lambda _: "PostgreSQL"),
    ("psycopg2", "connect", "connect", lambda _: "PostgreSQL"),
    ("asyncpg.connection", "Connection.execute", "sql", _bare),
    ("asyncpg.connection", "Connection._do_execute", "sql", itemgetter("query")),
    ("asyncpg.prepared_stmt", "PreparedStatement.__bind_execute", "sql", _prepared),
    ("asyncpg.prepared_stmt", "PreparedStatement.executemany", "sql", _prepared),
    *(("asyncpg.cursor", f"BaseCursor.{name}", "sql", lambda v: v["self"]._query)
      for name in ("_bind", "_bind_exec")),
    ("pymysql.cursors", "Cursor._query", "sql", itemgetter("q")),
    ("aiomysql.cursors", "Cursor._query", "sql", itemgetter("q")),
    ("MySQLdb.connections", "Connection.query", "sql", itemgetter("query")),
    ("mysql.connector.connection", "MySQLConnection.cmd_query", "sql", itemgetter("query")),
    ("mysql.connector.connection_cext", "CMySQLConnection.cmd_query", "sql", itemgetter("query")),
    ("oracledb.cursor", "Cursor.execute", "sql", itemgetter("statement")),
)  # fmt: skip
"""Module, qualified name, kind of effect, and what tells its text by the function's variables."""

COMPILED = tuple(
    ("psycopg2.extensions", f"cursor.{name}") for name in ("execute", "executemany", "callproc")
)
"""Methods of compiled classes that send statements; the object's `query` is then the last one."""

SEND_ONE = "execute", "executemany"
SEND = *SEND_ONE, "executescript"
"""Methods of sqlite3 that send statements; those that send one may report more: they count once."""

UNSEEN = (
    "apsw", "asyncmy", "clickhouse_driver", "cx_Oracle", "duckdb", "grpc", "ibm_db", "pycurl",
    "pymongo", "pymssql", "pyodbc",
)  # fmt: skip
"""Packages that talk to others, and whose calls nothing here sees."""
