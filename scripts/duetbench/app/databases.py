"""Copies of the database that an application's variables name: one for each launch.

PostgreSQL's server copies one by `CREATE DATABASE … TEMPLATE`; of SQLite its file is copied. The
original is only read.
"""

import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from duetbench.app.target import find_variables
from duetbench.core.errors import FlagName, LaunchError, UsageError
from duetbench.host.command import last_words

OPTION: Final = "--copy-database"

_POSTGRES: Final = re.compile(
    r"((?:postgres|postgresql|postgis|pgsql|psql)(?:\+\w+)?://[^/?#]*/)([^/?#]+)(.*)"
)
_SQLITE: Final = re.compile(r"(sqlite(?:\+\w+)?://)([^?#]*)(.*)")
_OF_LIBPQ: Final = re.compile(r"(?:host|port|user|ssl\w+)=")
"""Parameters of an address that are not a driver's own."""

_ADVICE: Final = {
    "55006": "; PostgreSQL copies no database in use: end a development server, or psql",
    "42501": "; its user needs the right to do so: ALTER ROLE … CREATEDB",
}
"""What to do, by PostgreSQL's codes of errors."""

_CONNECT_SECONDS: Final = "10"

_DRIVERS: Final = """
import asyncio, importlib, sys

def execute(statement, address):
    for name in ("psycopg", "psycopg2"):
        try:
            driver = importlib.import_module(name)
        except ImportError:
            continue
        connection = driver.connect(address)
        connection.autocommit = True
        return connection.cursor().execute(statement)
    import asyncpg
    async def ask():
        await (await asyncpg.connect(address)).execute(statement)
    asyncio.run(ask())

try:
    execute(*sys.stdin.read().split("\\n"))
except ImportError:
    sys.exit("it needs psycopg, psycopg2 or asyncpg in the application's environment")
except Exception as error:
    sys.exit(f"{getattr(error, 'sqlstate', None) or getattr(error, 'pgcode', '')}: {error}")
"""
"""Sends a statement by what the application itself has installed."""


@dataclass(frozen=True, slots=True)
class Database:
    """A database: `head`, `name` and `tail` are its address.

    Attributes:
        variable: The variable that names it, by its address if `whole`, or else by its name alone.
        python: The application's interpreter.
    """

    variable: str
    whole: bool
    head: str
    name: str
    tail: str
    python: Path

    @property
    def variables(self) -> dict[str, str]:
        """The variable with the value that names this database."""
        return {self.variable: self.head + self.name + self.tail if self.whole else self.name}

    @property
    def _in_file(self) -> bool:
        return self.head.startswith("sqlite")

    def fresh(self, folder: Path) -> "Database":
        """Name a copy of it: a file in a folder, or a database of its server."""
        if self._in_file:
            return replace(self, name=str(folder / "database.sqlite"))
        return replace(self, name=f"duetbench-{secrets.token_hex(8)}")

    def fill(self, original: "Database") -> None:
        """Become a copy of another one; LaunchError not_ready."""
        if self._in_file:
            _copy_file(Path(original.name), Path(self.name))
        else:
            words = f"CREATE DATABASE {_name(self.name)} TEMPLATE {_name(original.name)}"
            original._execute(words)

    def drop(self) -> None:
        """Remove this copy, whoever uses it; LaunchError not_ready."""
        if not self._in_file:
            self._execute(f"DROP DATABASE IF EXISTS {_name(self.name)} WITH (FORCE)")

    def _execute(self, statement: str) -> None:
        """Execute a statement by a driver of the application; LaunchError not_ready."""
        user, at, place = self.head.partition("://")[2].rpartition("@")
        known = "&".join(filter(_OF_LIBPQ.match, self.tail.lstrip("?").split("&")))
        address = f"postgresql://{user}{at}{place}postgres?{known}"
        process = subprocess.run(
            (self.python, "-c", _DRIVERS),
            env={**os.environ, "PGCONNECT_TIMEOUT": _CONNECT_SECONDS},
            input="\n".join((statement, address)),  # which no list of processes shows
            check=False,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
        )
        if process.returncode:
            message = last_words(process.stderr)
            advice = next((words for code, words in _ADVICE.items() if code in message), "")
            problem = f"{OPTION}: the server of {self.variable} said: {message}{advice}"
            raise LaunchError(FlagName.NOT_READY, problem)


def find(
    text: str, variables: Mapping[str, str], folders: Sequence[Path], python: Path
) -> Database:
    """Find the database that a variable names, or several: `postgresql://{USER}@{HOST}/{DB}`.

    The last one of several names the database alone. Files are relative to the first of
    `folders`, any of which may have a file that sets the variable. Raises UsageError if a variable
    is not set, or what it names cannot be copied.
    """
    names = re.findall(r"\{(\w+)\}", text) or [text]
    if lacking := next((name for name in names if name not in variables), ""):
        file = find_variables(folders).get(lacking)
        where = f"--env-file {file}, which has it" if file else "the --env-file that has it"
        advice = f"set it, or add --env {lacking}=… or {where}"
        raise UsageError(f"{OPTION}: {lacking} is not set: {advice}")
    variable, whole = names[-1], names == [text]
    address = variables[text] if whole else text.format_map(variables)
    if parts := _POSTGRES.fullmatch(address):
        head, name, tail = parts.groups()
        return Database(variable, whole, head, name, tail, python)
    if parts := _SQLITE.fullmatch(address):
        scheme, path, tail = parts.groups()
        for slash in ("/", ""):  # before a path, most have one
            place = folders[0] / path.removeprefix(slash)
            if path.startswith(slash) and place.is_file():
                name = str(place.resolve())
                return Database(variable, whole, scheme + slash, name, tail, python)
        raise UsageError(f"{OPTION} {variable}: expected a file of SQLite, found no {path}")
    scheme, sign, _ = address.partition("://")
    raise UsageError(
        f"{OPTION} {variable}: expected the address of a database of PostgreSQL or SQLite, such "
        f"as postgresql://user@host/name, found {f'{scheme}://…' if sign else 'another value'}"
    )


def _copy_file(source: Path, target: Path) -> None:
    """Copy a file of SQLite, with its log; LaunchError not_ready."""
    try:
        for suffix in ("", "-wal", "-journal"):
            if not suffix or Path(f"{source}{suffix}").exists():
                shutil.copy(f"{source}{suffix}", f"{target}{suffix}")
    except OSError as error:
        raise LaunchError(FlagName.NOT_READY, f"{OPTION}: {source}: {error}") from error


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
