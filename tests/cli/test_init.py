"""Applications in somebody's code, found without running it."""

from pathlib import Path

import pytest

from duetbench.cli.init import Application, applications
from repos import write

FASTAPI = """\
from fastapi import FastAPI
app: FastAPI = FastAPI(title="x")

@app.get("/items/{item}")
async def read(item: int): ...

@app.get("/health", tags=["x"])
async def health(): ...

@app.post("/orders")
async def order(): ...
"""
FLASK = """\
import flask
def create_app(config=None):
    app = flask.Flask(__name__)
    @app.route("/notes")
    def notes(): ...
    @app.route("/notes/<int:n>")
    def note(n): ...
    @app.route("/new", methods=["POST"])
    def new(): ...
    return app
def create_engine(url):
    return flask.Flask(url)
"""


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (
            {"src/shop/main.py": FASTAPI, "src/shop/__init__.py": ""},
            [Application("shop.main:app", "FastAPI", False, ("/health",))],
        ),
        ({"notes.py": FLASK}, [Application("notes:create_app", "Flask", True, ("/notes",))]),
        (
            {"site/wsgi.py": "from x import get_wsgi_application\n"
                             "application = get_wsgi_application()\n"},
            [Application("site.wsgi:application", "Django", False, ())],
        ),
        ({"hook.py": "import falcon\napi = falcon.App()\n"},
         [Application("hook:api", "Falcon", False, ())]),
        # From where its package lies; what another function makes; and without a framework.
        ({"code/py/shop/web.py": FASTAPI, "code/py/shop/__init__.py": ""},
         [Application("shop.web:app", "FastAPI", False, ("/health",))]),
        ({"web.py": "from kit import create_application\napp = create_application(debug=False)\n"
                    "x = create_engine()\n"},
         [Application("web:app", "made by create_application", False, ())]),
        ({"web.py": "import fasthtml.common as fh\napp, rt = fh.fast_app()\n"},
         [Application("web:app", "FastHTML", False, ())]),
        ({"web.py": "def application(environ, start_response): ...\n"
                    "async def other(scope, receive, send): ...\ndef some(environ): ...\n"},
         [Application("web:application", "WSGI", False, ()),
          Application("web:other", "ASGI", False, ())]),
        # Not what tests make, nor environments, nor what only looks like code.
        ({"tests/test_x.py": FASTAPI, ".venv/app.py": FASTAPI, "env/pyvenv.cfg": "",
          "env/lib/app.py": FASTAPI, "broken.py": "def ("}, []),
    ],
)  # fmt: skip
def test_an_application_is_found(
    files: dict[str, str], found: list[Application], tmp_path: Path
) -> None:
    for name, text in files.items():
        write(tmp_path, name, text)
    assert list(applications(tmp_path)) == found
