"""Changes whose function is known, planted to learn whether attribution names it.

Each changes one function of a copy of the applications or of an environment, or what is called
from one. Half of them cost a hundredth of the instructions or less, two cost nothing.
"""

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from duetbench.core.errors import SetupError

EXPERIMENT: Final = "asgi-wsgi"


@dataclass(frozen=True, slots=True)
class Edit:
    """Statements put at the beginning of a function, and others before it, at top level.

    `file` is below the folder of packages; empty: the application's own.
    """

    statements: str = ""
    before: str = ""
    function: str = "greet"
    file: str = ""


@dataclass(frozen=True, slots=True)
class Plant:
    """What head has, and base in its place.

    `functions` are the one that was changed and what it newly calls: one of them must be named;
    none: nothing may be.
    """

    name: str
    told: str
    functions: tuple[str, ...]
    head: Edit
    base: Edit = Edit()
    endpoint: str = "asgi-json"


def _loop(steps: int) -> str:
    # As of `injected`: a constant costs nothing to make.
    return f"for _ in {bytes(steps)!r}: pass"


def _chain(steps: int, innermost: str = "_inner") -> Edit:
    before = f"""
def {innermost}():
    {_loop(steps)}
def _middle():
    {innermost}()
def _outer():
    _middle()
"""
    return Edit("_outer()", before)


_SETTINGS: Final = f"""
def _settings():
    {_loop(30)}
    return {{}}
"""

PLANTS: Final = (
    Plant(
        "helper", "a helper three calls deep computes longer", ("_inner",), _chain(30), _chain(1)
    ),
    Plant(
        "middleware", "one more middleware",
        ("_Extra.__call__", "_Extra.__call__.<locals>.onward"),
        Edit(before="""
class _Extra:
    def __init__(self, app):
        self.app = app
    async def __call__(self, scope, receive, send):
        async def onward(message):
            await send(message)
        await self.app(scope, receive, onward)
app.add_middleware(_Extra)
"""),
    ),
    Plant(
        "environ", "one look-up in os.environ",
        ("greet", "Mapping.get", "_Environ.__getitem__"),
        Edit("os.environ.get('MODE')", "import os"),
    ),
    Plant(
        "exception", "an exception is raised and caught", ("greet",),
        Edit("try:\n    {}['x']\nexcept KeyError:\n    pass"),
    ),
    Plant(
        "headers", "the list of headers is copied, deeply", ("Response.__call__", "deepcopy"),
        Edit("import copy\nself.raw_headers = copy.deepcopy(self.raw_headers)",
             function="Response.__call__", file="starlette/responses.py"),
    ),
    Plant(
        "regex", "a regular expression is compiled", ("greet", "compile"),
        Edit("re._compiler.compile('/items/([0-9]+)')", "import re"),
    ),
    Plant(
        "serialiser", "a dependency writes JSON for people",
        ("DefaultJSONProvider.dumps", "JSONEncoder.iterencode", "_make_iterencode",
         "_make_iterencode.<locals>._iterencode", "_make_iterencode.<locals>._iterencode_dict"),
        Edit("kwargs['indent'] = 2", function="DefaultJSONProvider.dumps",
             file="flask/json/provider.py"),
        endpoint="wsgi-json",
    ),
    Plant(
        "cache", "a cache is removed", ("_settings",),
        Edit("_settings()", _SETTINGS),
        Edit("_settings()", f"import functools\n@functools.cache{_SETTINGS}"),
    ),
    Plant(
        "renamed", "a function has another name", (), _chain(30, "_innermost"), _chain(30)
    ),
    Plant(
        "moved", "a function has become a method", (),
        Edit("_Place.inner()", f"""
class _Place:
    @staticmethod
    def inner():
        {_loop(30)}
"""),
        Edit("_Place.inner()", f"""
def _inner():
    {_loop(30)}
class _Place:
    inner = staticmethod(_inner)
"""),
    ),
    Plant(
        "framework", "the framework computes longer", ("Flask.full_dispatch_request",),
        Edit(_loop(30), function="Flask.full_dispatch_request", file="flask/app.py"),
        endpoint="wsgi-json",
    ),
    Plant(
        "often", "what is entered five times computes longer", ("Route.matches",),
        Edit(_loop(6), function="Route.matches", file="starlette/routing.py"),
    ),
    Plant(
        "logging", "two lines for a log that is off", ("greet", "Logger.debug"),
        Edit("_LOG.debug('asked')\n_LOG.debug('answered')",
             "import logging\n_LOG = logging.getLogger('shop')"),
    ),
    Plant(
        "uuid", "a UUID is drawn", ("greet", "uuid4"), Edit("uuid.uuid4()", "import uuid"),
    ),
    Plant(
        "turn", "one more turn of the event loop",
        ("greet", "sleep", "__sleep0", "BaseEventLoop._run_once"),
        Edit("await asyncio.sleep(0)"),
    ),
    Plant(
        "depends", "one more dependency is solved", ("solve_dependencies", "_who"),
        Edit(before="""
from fastapi import Depends
async def _who():
    return None
app.router.dependencies.append(Depends(_who))
"""),
    ),
    Plant(
        "faster", "the handler computes less", ("greet",), Edit(), Edit(_loop(30)),
    ),
    Plant(
        "stamp", "a function runs after each request",
        ("stamp", "Flask.process_response"),
        Edit(before="""
@app.after_request
def stamp(response):
    response.headers["x-stamp"] = "1"
    return response
"""),
        endpoint="wsgi-json",
    ),
    Plant(
        "context", "a context manager is entered",
        ("greet", "contextmanager.<locals>.helper", "_GeneratorContextManager.__enter__",
         "_GeneratorContextManager.__exit__", "_GeneratorContextManagerBase.__init__", "_span"),
        Edit("with _span():\n    pass",
             "import contextlib\n@contextlib.contextmanager\ndef _span():\n    yield"),
    ),
    Plant(
        "checksum", "compiled code is called: a checksum", ("FastAPI.__call__",),
        Edit("import zlib\nzlib.crc32(bytes(2000))", function="FastAPI.__call__",
             file="fastapi/applications.py"),
    ),
)  # fmt: skip


def insert(path: Path, edit: Edit) -> None:
    """Change a file; SetupError: it has no such function (any more)."""
    tree = ast.parse(path.read_text("utf-8"))
    *classes, name = edit.function.split(".")
    body, top = tree.body, None
    for one in (*classes, name):
        named = [node for node in body if getattr(node, "name", None) == one]
        if not named:
            raise SetupError(f"{path}: expected {edit.function}, found none: the plant is outdated")
        # Of overloads the last one is the function.
        found = named[-1]
        top, body = top or found, found.body  # type: ignore[attr-defined]
    body[:0] = ast.parse(edit.statements).body
    if edit.before:
        place = tree.body.index(top)  # type: ignore[arg-type] # it is one of them
        tree.body[place:place] = ast.parse(edit.before).body
    path.write_text(ast.unparse(ast.fix_missing_locations(tree)) + "\n", "utf-8")
