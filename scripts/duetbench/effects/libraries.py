"""Functions of libraries whose entering is an effect: statements, calls, commands, log records.

Each is the lowest one in Python that all ways through its library lead to, so that none counts
twice. sqlite3 is not here: it reports its statements itself (`recorder`).

Standard library only, for any CPython from 3.11 on.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from typing import Any

Locals = Mapping[str, Any]
Words = Callable[[Locals], "str | None"]

_STRING = r"{0}(?:[^{0}\\]|{0}{0}|\\[^{0}])*{0}(?!{0})"
"""No backslash before its end: databases differ in whether the string goes on there."""
_SAFE = r"(?:[^\n'\"`/#$\[\]-]|-(?!-)|/(?!\*)|\$\d|'[^'\n\\\]]*')"
"""A part of a line after which a string, name or remark goes on to no database."""
_TOKEN = re.compile(
    r"(?P<space>\s+|--(?=\s|\Z)[^\n]*|/\*(?![!M])(?:(?!/\*|\*/).)*\*/)"
    rf"|(?P<value>(?:[benx]|u&)?{_STRING.format(chr(39))}"
    r"|\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$"
    r"|\d(?:e[+-]|[\w.])*|\?\d*|\$\w+(?!\w*\$)|%s|%\(\w+\)s|(?<!:):\w+)"
    rf"|(?P<name>{_STRING.format(chr(34))}|`(?:[^`]|``)*`(?!`))"
    rf"|(?P<end>n?q'|[\"'`$]|--|/\*|\#(?!>>? *[$%?:'])|\#(?!>>?{_SAFE}*(?:\n|\Z))|\[(?!{_SAFE}*\]))"
    r"|(?P<word>[^\W\d][\w$]*)|(?P<sign>.)",
    re.IGNORECASE | re.DOTALL,
)
"""Tokens that all databases read in the same way, up to the `end` of those: where one reads a
remark or a name, another goes on with values."""
_PLAIN = re.compile(r"[^\W\d][\w$]{0,62}")
_DOT = re.compile(r"\s*\.\s*[^\W\d]|\s*\.\s*[*\"`\[]")
_INTO = re.compile(r"(?i)INTO\s+{0}(?:\s*\.\s*{0})*\s*(?=\()".format(r"[\w\"`$]+"))
_ASSIGNED, _LISTED = re.compile(r"\s*=(?!=)"), re.compile(r"\s*[,)]")
_BEGINNINGS = {"DELETE", "INSERT", "SELECT", "TABLE", "UPDATE", "VALUES", "WITH"}
_CLAUSES = {*_BEGINNINGS, "FROM", "GROUP", "HAVING", "LIMIT", "ON", "ORDER", "RETURNING", "SET",
            "UNION", "VALUE", "WHERE"}  # fmt: skip
_BEFORE_VALUES = {("PRAGMA", "="), ("PRAGMA", "("), ("SET", "="), ("SET", "TO")}
_BEFORE_NAMES = {".", "AS", "INTO", "JOIN", "TABLE", "UPDATE"}
_SAVEPOINT = re.compile(r"(?i)((?:savepoint|rollback to|^release) +)(?!savepoint\b)\S+")
_LIST = re.compile(r"\(\s*\?(?:\s*,\s*\?)*\s*\)(?:\s*,\s*\(\s*\?(?:\s*,\s*\?)*\s*\))*")
_SPACE = re.compile(r"\s+")
_TRANSACTION = re.compile(r"(?i)(begin|commit|rollback|savepoint|release|start transaction|end)\b")
_RANDOM = re.compile(r"tmp\w{8}|[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{12,}|\d+")
_SCRATCH = re.compile(
    r"[^\s'\"=]*/duetbench-tmp-\w{8}/\w{8}(?:/copy/|/[0-9a-f]{8}\b/?|/(?=tmp\b))?"
)
_LONGEST = 1_000
hide: Callable[[str], str] = str  # removes private values, before anything is cut or masked
_LOOKED_AT = 10_000  # characters of a statement: the rest are values


def statement(text: object) -> tuple[str, str] | None:
    """Return the kind and the text of a statement, with `?` instead of values; None if empty."""
    words = _SPACE.sub(" ", "".join(_Scan(_text(text)[:_LOOKED_AT]).parts()))
    words = _LIST.sub("(?)", words).strip(" ;")[:_LONGEST]
    if not words:
        return None
    if _TRANSACTION.match(words):
        return "transaction", _SAVEPOINT.sub(r"\1?", words)
    return "sql", words


class _Scan:
    """Reads a statement from left to right, and leaves out its values and remarks.

    It ends where databases differ about what follows. What is in double quotes is a name or a
    value: it is shown where it is a name to every database.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._first = self._before = self._last = ""  # words in capitals, or signs
        self._scopes = ["("]  # of the statement and each open parenthesis: its clause, if known
        self._columns = -1  # where a list of columns begins

    def parts(self) -> Iterator[str]:
        for token in _TOKEN.finditer(self._text):
            kind = str(token.lastgroup)
            shown = None if kind == "end" else self._shown(kind, token)
            yield "?" if shown is None else shown
            if shown is None:
                return

    def _shown(self, kind: str, token: re.Match[str]) -> str | None:
        """Return what is shown of a token; None: a value that nothing marks begins here."""
        if kind == "space":
            return " "
        shown, word, last = token[0], token[0].upper(), self._last
        if (self._first, last) in _BEFORE_VALUES or last == "IDENTIFIED":
            return None
        if last in {"", ";"}:
            self._first, self._scopes = word, ["("]
        if kind == "value" or (word == "NULL" and last in {"(", ",", "="}):
            shown = word = "?"
        elif kind == "name":
            known = shown[0] == "`" or self._names(token.end())
            shown, word = shown if known and _PLAIN.fullmatch(shown[1:-1]) else "?", "name"
        elif word == "(":
            listed = token.start() == self._columns or last in {"CONFLICT", "USING"}
            self._scopes.append("COLUMNS" if listed else "(")
        elif word == ")":
            self._scopes[1:] = self._scopes[1:-1]
        elif word == "INTO" and (list_ := _INTO.match(self._text, token.start())):
            self._columns = list_.end()
        elif (word in _CLAUSES and self._scopes[-1] not in {"(", "COLUMNS"}) or (
            word in _BEGINNINGS and last in {"", ";", "("}
        ):
            self._scopes[-1] = word
        self._before, self._last = last, word
        return shown

    def _names(self, end: int) -> bool:
        """Whether what is in double quotes, and ends there, can only be a name."""
        last, scope = self._last, self._scopes[-1]
        if (self._before, last) in {("DISTINCT", "FROM"), ("VACUUM", "INTO")}:
            return False
        return bool(
            last in _BEFORE_NAMES
            or _DOT.match(self._text, end)
            or last == "FROM" == scope
            or (last in {"SET", ","} and scope == "SET" and _ASSIGNED.match(self._text, end))
            or (last in {"(", ","} and scope == "COLUMNS" and _LISTED.match(self._text, end))
        )


def plain(name: object) -> str:
    """Remove the random parts and numbers of a name: of temporary files, of hosts, of messages.

    A path in the folder of a launch, or in the copy of a revision, is one from the application's
    own folder, or from `tmp`.
    """
    known = _SCRATCH.sub(lambda match: "" if match[0].endswith("/") else "*", _text(name))
    return _RANDOM.sub("*", known)[:_LONGEST]


def _text(value: object) -> str:
    return hide(value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value))


def _request(method: object, host: object) -> str:
    return f"{_text(method)} {_text(host)}"


def _record(variables: Locals) -> str:
    record = variables["record"]
    # Only the logging of the application may turn anything else into text: that can do anything.
    text = hide(record.msg) if isinstance(record.msg, str) else f"<{type(record.msg).__qualname__}>"
    return f"{record.levelname} {record.name}: {plain(text[:80])}"


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
    *((f"{core}.{module}.connection_pool", name, "call",
       lambda v: _request(v["request"].method, v["request"].url.host))
      for core in ("httpcore", "httpcore2")
      for module, name in (("_sync", "ConnectionPool.handle_request"),
                           ("_async", "AsyncConnectionPool.handle_async_request"))),
    ("aiohttp.client_reqrep", "ClientRequest.send", "call",
     lambda v: _request(v["self"].method, v["self"].url.host)),
    ("redis.connection", "PythonRespSerializer.pack", "cache", _command),
    ("redis.connection", "HiredisRespSerializer.pack", "cache", _command),
    *((module, "Connection.pack_command", "cache", _command)
      for module in ("redis.connection", "redis.asyncio.connection", "aioredis.connection")),
    *(("pymemcache.client.base", f"Client.{name}", "cache", lambda v: plain(v["name"]))
      for name in ("_fetch_cmd", "_store_cmd")),
    ("pymemcache.client.base", "Client._misc_cmd", "cache", lambda v: plain(v["cmd_name"])),
    *(("psycopg.cursor", f"BaseCursor.{name}", "sql", itemgetter("query"))
      for name in ("_execute_gen", "_stream_send_gen", "_executemany_gen_pipeline",
                   "_executemany_gen_no_pipeline")),
    *((module, "ServerCursorMixin._declare_gen", "sql", itemgetter("query"))
      for module in ("psycopg._server_cursor_base", "psycopg.server_cursor")),
    ("psycopg.connection", "BaseConnection._exec_command", "sql", itemgetter("command")),
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

SCRIPT = "executescript"
SEND = "execute", "executemany", SCRIPT
"""Methods of sqlite3 that send statements: but for a script, one, whatever is reported of it."""

LOGGED = "_quote_params_for_last_executed_query"
"""Function of Django that sends a statement to SQLite for its own log of statements, with DEBUG."""

UNSEEN = {
    "statements": (
        "apsw", "asyncmy", "clickhouse_driver", "cx_Oracle", "duckdb", "ibm_db", "pymssql",
        "pyodbc", "pysqlite3", "sqlcipher3",
    ),
    "calls": ("grpc", "pycurl", "pymongo"),
}  # fmt: skip
"""Packages that talk to others, by what nothing here sees of them."""
