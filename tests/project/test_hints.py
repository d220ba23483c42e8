"""What is said of an application that does not work: what to do, of what a command takes."""

from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from duetbench.app import hints
from duetbench.app.testbed import SideCase
from repos import write

NO_PACKAGE = "has no package with six: install it, or name a group"
OF_OS = '    os.environ["X"]\n  File "<frozen os>", line 717, in __getitem__\n'
FIELDS = """ValidationError: 2 validation errors for Configuration
address
  Field required [type=missing, input_value={}, input_type=dict]
SECRET_KEY
  Field required [type=missing, input_value={}, input_type=dict]
"""


def advice(error: str, root: Path, source: str = "x", given: Collection[str] = ()) -> str:
    """What is said of a traceback with this error, or of an answer that was found."""
    traceback = f'Traceback (most recent call last):\n  File "/srv/a.py", line 1, in f\n{error}\n'
    printed = error if error.startswith("found ") else traceback
    routes = ["/items/{id}", "/health"] if "/itemz" in error else []
    endpoint = SimpleNamespace(app="shop.main:app", path="/itemz/7?a")
    side = SimpleNamespace(
        case=SimpleNamespace(endpoint=endpoint),
        testbed=SimpleNamespace(subject=SimpleNamespace(source=source)),
        interpreter=SimpleNamespace(version="3.14.7"),
        folders=(root, root.parent),
        environment=lambda: given,
    )
    return hints.advise(cast(SideCase, side), printed, routes)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("No module named 'six'", f"x {NO_PACKAGE}"),
        ("No module named 'shop'", "Name it as it is imported from the top folder or src/"),
        ("No module named 'shop._version'", ""),
        ("OperationalError at /: no such table: wagtailcore_site", "make them with --before"),
        ('UndefinedTable: relation "users" does not exist', "make them with --before"),
        ("(1146, \"Table 'shop.items' doesn't exist\")", "make them with --before"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/tmp/x/copy/shop/data'",
         "other small ones: make more with --before"),
        ("sqlalchemy.exc.TimeoutError: QueuePool limit of size 5 overflow 10 reached",
         "or add --with connections=8"),
        ("No such file or directory: '/etc/shop/key'", ""),
        ("OSError: [Errno 111] Connect call failed ('127.0.0.1', 5432)",
         "It needs a server at 127.0.0.1:5432, and none answers"),
        ('connection to server at "localhost" (127.0.0.1), port 15432 failed: refused',
         "a server at localhost:15432"),
        ("Error 111 connecting to localhost:6379. Connection refused.", "at localhost:6379"),
        ("ValueError: a table for two", ""),
        ("found 404 with 'no such page'", "answers WebSockets there, name another one with --path"),
        ("found 404 with 'no /itemz'", "It has /items/{id}, /health: name one with --path"),
        ("found 201 with ''", "add --with expect-status=201"),
        ("found 400 with 'Invalid host header'", "--header 'Host: NAME'"),  # Starlette
        ("found 400 with 'Bad Request (400)'", "--header 'Host: NAME'"),  # Django
        ("found 400 with \"Bad Request: Host 'localhost' is not trusted.\"", "'Host: NAME'"),
        ("found 400 with 'no number'", ""),
        ("found 301 to https://localhost/x with ''", "--header 'X-Forwarded-Proto: https', or swi"),
        ("found 302 to /first?a=b with ''",
         "--path '/first?a=b', or the redirect with --with expect-status=302"),
    ],
)  # fmt: skip
def test_an_error_says_what_to_do(error: str, words: str, tmp_path: Path) -> None:
    sentence = advice(error, tmp_path)
    assert words.lower() in sentence.lower()
    assert bool(sentence) is bool(words)


def test_what_is_around_an_error_counts(tmp_path: Path) -> None:
    alone = advice("No module named 'six'", tmp_path, source="nowhere")
    assert alone.startswith("No file lists its packages, such as requirements.txt")
    chained = (
        "ModuleNotFoundError: No module named 'six'\n\nThe above exception was the direct cause of "
        "the following exception:\n\nTraceback (most recent call last):\nValueError: no handler"
    )
    assert advice(chained, tmp_path).startswith(f"x {NO_PACKAGE}")
    assert advice('Environment variable "URL" is no URL', tmp_path, given=["URL"]) == ""


@pytest.mark.parametrize(
    ("error", "alone", "beside"),
    [
        (f"{OF_OS}KeyError: 'SHOP_URL'", "SHOP_URL is not set: add --env SHOP_URL=VALUE",
         "SHOP_URL is not set: add --env-file .env.example"),
        (f"{OF_OS}KeyError: 'OTHER'", "OTHER is not set: add --env OTHER=VALUE",
         "OTHER is not set: add --env OTHER=VALUE"),
        # A file's variables may have a prefix.
        ("KeyError: 'URL'", "URL is not set: add --env URL=VALUE",
         "URL is not set: add --env-file .env.example"),
        ("KeyError: 'row'", "", ""),
        ("KeyError: \"Config 'KEY' is missing, and has no default.\"",
         "KEY is not set: add --env KEY=VALUE",
         "KEY is not set: add --env KEY=VALUE"),
        ("decouple.UndefinedValueError: SHOP_URL not found. Declare it as envvar",
         "SHOP_URL is not set: add --env SHOP_URL=VALUE",
         "SHOP_URL is not set: add --env-file .env.example"),
        (FIELDS, "ADDRESS, SECRET_KEY are not set: add --env ADDRESS=VALUE --env SECRET_KEY=VALUE",
         "ADDRESS, SECRET_KEY are not set: add --env-file .env.example --env SECRET_KEY=VALUE"),
        (FIELDS.replace("Configuration", "Item"), "", ""),
    ],
)  # fmt: skip
def test_a_variable_that_is_not_set_is_named_with_the_options_that_set_it(
    error: str, alone: str, beside: str, tmp_path: Path
) -> None:
    assert advice(error, tmp_path / "shop") == alone
    write(tmp_path, "shop/.env.example", "SHOP_URL=private\nexport SHOP_ADDRESS='x y'\nKEY=\n")
    assert advice(error, tmp_path / "shop") == beside
