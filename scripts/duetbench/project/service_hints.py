"""What an application lacks around it, by the error that it prints: tables, folders, servers."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_NO_TABLE: Final = re.compile(r"no such table|relation \S+ does not exist|Table \S+ doesn't exist")
_NO_DATABASE: Final = "unable to open database file"
_MIGRATIONS: Final = {
    "manage.py": "python manage.py migrate",
    "alembic.ini": "python -m alembic upgrade head",
    "migrations/env.py": "python -m flask db upgrade",
}
"""File of a project → the command that makes its tables: Django's, Alembic's, Flask-Migrate's."""

_NO_FILE: Final = re.compile(
    r"No such file or directory: '([^']+)'|[Dd]irectory '([^']+)' does not exist"
)
_SYSTEM: Final = re.compile(r"/(etc|usr|var|run|proc|dev|sys|opt)/")
_NO_SERVER: Final = re.compile(
    r"Connect call failed \('([^']+)', (\d+)|server at \"([^\"]+)\".{0,80}port (\d+) failed"
    r"|connecting to ([\w.-]+):(\d+)"
)
"""What asyncio, libpq and redis print of a server that does not answer."""

_NO_MODULE: Final = re.compile(r"No module named '(\w+)")


def advise(error: str, root: Path) -> str:
    """Say in a sentence what to make or start for a project in `root`; empty if that is unknown."""
    return next(_advice(error, root), "")


def _advice(error: str, root: Path) -> Iterator[str]:
    command = next((text for file, text in _MIGRATIONS.items() if (root / file).is_file()), "")
    example = f" {command!r}" if command else ""
    if _NO_TABLE.search(error):
        yield f"its database lacks tables: make them with --before{example}"
    if _NO_DATABASE in error:
        yield (
            "launches have only what git would commit: make the folder of its database with "
            f"--before 'mkdir -p FOLDER', and its tables with --before{example}"
        )
    if absent := _NO_FILE.search(error):
        path = _inside(absent[1] or absent[2], root)
        how = f"--before 'mkdir -p {path}'" if path and not path.suffix else "--before"
        if path:
            yield f"launches have only what git would commit: make {path} with {how}"
    if server := _NO_SERVER.search(error):
        host, port = filter(None, server.groups())
        yield (
            f"it needs a server at {host}:{port}, and none answers: start it before, or name "
            "another with --env"
        )
    if module := _NO_MODULE.search(error):
        yield (
            f"its packages lack {module[1]}: name another file with --packages, or its group or "
            "extra with --groups or --extras"
        )


def _inside(name: str, root: Path) -> Path | None:
    """Return a path below a project, whose launches have other folders; None if it is elsewhere."""
    if _SYSTEM.match(name):
        return None
    parts = Path(name).parts
    places = (Path(*parts[start:]) for start in range(len(parts)) if parts[start] != "/")
    return next((place for place in places if (root / place.parent).is_dir()), None)
