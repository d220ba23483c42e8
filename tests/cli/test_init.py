"""Applications in somebody's code, found without running it."""

from pathlib import Path

import pytest

from duetbench.cli.init import Application, applications
from repos import write

FASTAPI = "from fastapi import FastAPI\napp: FastAPI = FastAPI(title='x')\n"
FLASK = """\
import flask
def create_app(config=None):
    app = flask.Flask(__name__)
    return app
def create_engine(url):
    return flask.Flask(url)
"""
POETRY = '[tool.poetry]\npackages = [{include = "shop", from = "lib"}]\n'
HATCH = '[tool.hatch.build.targets.wheel]\npackages = ["code/py/shop"]\n'
SETUPTOOLS = '[tool.setuptools.package-dir]\n"" = "lib"\n'
UV = '[tool.uv.build-backend]\nmodule-root = "lib"\n'


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (
            {"src/shop/main.py": FASTAPI, "src/shop/__init__.py": ""},
            [Application("shop.main:app", "FastAPI", False)],
        ),
        ({"notes.py": FLASK}, [Application("notes:create_app", "Flask", True)]),
        (
            {"site/wsgi.py": "from x import get_wsgi_application\n"
                             "application = get_wsgi_application()\n"},
            [Application("site.wsgi:application", "Django", False)],
        ),
        ({"hook.py": "import falcon\napi = falcon.App()\n"},
         [Application("hook:api", "Falcon", False)]),
        # From where its package lies; what another function makes; and without a framework.
        ({"code/py/shop/web.py": FASTAPI, "code/py/shop/__init__.py": ""},
         [Application("shop.web:app", "FastAPI", False)]),
        ({"web.py": "from kit import create_application\napp = create_application(debug=False)\n"
                    "x = create_engine()\n"},
         [Application("web:app", "made by create_application", False)]),
        ({"web.py": "import fasthtml.common as fh\napp, rt = fh.fast_app()\n"},
         [Application("web:app", "FastHTML", False)]),
        ({"web.py": "def application(environ, start_response): ...\n"
                    "async def other(scope, receive, send): ...\ndef some(environ): ...\n"},
         [Application("web:application", "WSGI", False),
          Application("web:other", "ASGI", False)]),
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


@pytest.mark.parametrize(
    ("files", "name"),
    [
        # From the folder of its project or its `src`, with the folders of a namespace.
        ({"src/acme/web/pyproject.toml": "", "src/acme/web/acme/web/main.py": FASTAPI,
          "src/acme/web/acme/web/__init__.py": "from acme.web.x import y\nimport web\n"},
         "acme.web.main:app"),
        ({"src/acme/web/__init__.py": FASTAPI}, "acme.web:app"),
        # From where its build backend takes it.
        ({"pyproject.toml": HATCH, "code/py/shop/api/web.py": FASTAPI}, "shop.api.web:app"),
        ({"pyproject.toml": POETRY, "lib/shop/api/web.py": FASTAPI}, "shop.api.web:app"),
        ({"pyproject.toml": SETUPTOOLS, "lib/shop/api/web.py": FASTAPI}, "shop.api.web:app"),
        ({"pyproject.toml": UV, "lib/shop/api/web.py": FASTAPI}, "shop.api.web:app"),
        # As its own code imports it.
        ({"src/py/shop/__init__.py": "", "src/py/shop/web.py": f"import shop.x\n{FASTAPI}"},
         "shop.web:app"),
        ({"acme/web/__init__.py": "", "acme/web/main.py": f"from acme.web.x import y\n{FASTAPI}"},
         "acme.web.main:app"),
        ({"acme/web/__init__.py": "", "acme/web/main.py": FASTAPI}, "web.main:app"),
        ({"app/main.py": f"from database import x\n{FASTAPI}", "app/database.py": ""}, "main:app"),
        ({"app/main.py": f"from app.database import x\n{FASTAPI}", "app/database.py": ""},
         "app.main:app"),
        ({"pyproject.toml": "[", "app/main.py": FASTAPI}, "app.main:app"),
    ],
)  # fmt: skip
def test_an_application_is_named_as_it_is_imported(
    files: dict[str, str], name: str, tmp_path: Path
) -> None:
    for file, text in files.items():
        write(tmp_path, file, text)
    assert [application.name for application in applications(tmp_path)] == [name]
