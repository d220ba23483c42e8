"""What an application lacks around it: errors as libraries print them."""

from pathlib import Path

import pytest

from duetbench.project.service_hints import advise
from repos import write


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        ("OperationalError at /: no such table: wagtailcore_site", "make them with --before"),
        ('UndefinedTable: relation "users" does not exist', "make them with --before"),
        ("(1146, \"Table 'shop.items' doesn't exist\")", "make them with --before"),
        ("sqlite3.OperationalError: unable to open database file", "'mkdir -p FOLDER', and"),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '/tmp/x/copy/shop/data'",
            "make shop/data with --before 'mkdir -p shop/data'",
        ),
        (
            "RuntimeError: Frontend directory 'shop/ui' does not exist",
            "--before 'mkdir -p shop/ui'",
        ),
        ("No such file or directory: 'shop/key.pem'", "make shop/key.pem with --before"),
        ("No such file or directory: '/etc/shop/key'", ""),
        (
            "OSError: [Errno 111] Connect call failed ('127.0.0.1', 5432)",
            "it needs a server at 127.0.0.1:5432, and none answers",
        ),
        (
            'connection to server at "localhost" (127.0.0.1), port 15432 failed: refused',
            "a server at localhost:15432",
        ),
        ("Error 111 connecting to localhost:6379. Connection refused.", "at localhost:6379"),
        ("ModuleNotFoundError: No module named 'jinja2'", "its packages lack jinja2"),
        ("ValueError: a table for two", ""),
    ],
)
def test_an_error_names_what_is_lacking(error: str, advice: str, tmp_path: Path) -> None:
    write(tmp_path, "shop/__init__.py", "")
    assert advice in advise(error, tmp_path)
    assert bool(advise(error, tmp_path)) is bool(advice)


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("manage.py", "python manage.py migrate"),
        ("alembic.ini", "python -m alembic upgrade head"),
        ("migrations/env.py", "python -m flask db upgrade"),
    ],
)
def test_tables_are_made_by_the_tool_of_the_project(
    file: str, command: str, tmp_path: Path
) -> None:
    write(tmp_path, file, "")
    assert advise("no such table: x", tmp_path).endswith(f"with --before '{command}'")
