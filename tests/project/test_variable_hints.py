"""The variables that an application lacks, all at once, and the options that set them."""

from pathlib import Path

import pytest

from duetbench.project import variable_hints
from repos import write

SOURCES = {
    "shop/main.py": "import shop.settings\nimport jobs\nimport os\n",
    "shop/settings.py": """
import os
from environs import Env
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict
env = Env()
class Base(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="SHOP_")
    debug: bool
class Configuration(Base):
    debug: bool = False
    name: str = Field(default="x")
    address: str
    key: str = Field(..., alias="SECRET_KEY")
    kinds: ClassVar[int]
    _private: int
settings = Configuration()
class Unused(Base):
    other: str
BROKER = os.environ["BROKER_URL"]
MODE = os.environ.get("MODE")
PORT = int(os.getenv("PORT", "80"))
TOKEN = env.str("TOKEN")
LEVEL = env("LEVEL", default="info")
os.environ["SET_HERE"] = "1"
def app(environ, start_response):
    return environ["PATH_INFO"]
""",
    "jobs.py": "from starlette.config import Config\nQ = config('QUEUE', cast=str)\n"
    "from os import environ\nW = environ['WORKERS']\n",
    "shop/tests/test_x.py": "import os\nos.environ['OF_TESTS']\n",
    "beside.py": "import os\nos.environ['OF_NOBODY']\n",
}
TRACEBACK = (
    'Traceback (most recent call last):\n  File "/srv/shop/settings.py", line 1, in <module>\n'
)
FIELDS = """pydantic_core._pydantic_core.ValidationError: 2 validation errors for Configuration
address
  Field required [type=missing, input_value={}, input_type=dict]
SECRET_KEY
  Field required [type=missing, input_value={}, input_type=dict]
"""
ALL = ("BROKER_URL", "TOKEN", "QUEUE", "WORKERS", "SHOP_ADDRESS", "SECRET_KEY")
OF_OS = '    os.environ["X"]\n  File "<frozen os>", line 717, in __getitem__\n'


@pytest.mark.parametrize(
    ("error", "names"),
    [
        (FIELDS, ("SHOP_ADDRESS", "SECRET_KEY", "BROKER_URL", "TOKEN", "QUEUE", "WORKERS")),
        # Of settings that no source has, and another model's fields.
        (FIELDS.replace("Configuration", "TheirSettings"),
         ("ADDRESS", "SECRET_KEY", "BROKER_URL", "TOKEN", "QUEUE", "WORKERS", "SHOP_ADDRESS")),
        (FIELDS.replace("Configuration", "Item"), ()),
        (f"{OF_OS}KeyError: 'BROKER_URL'", ALL),
        (f"{OF_OS}KeyError: 'BY_A_NAME'", ("BY_A_NAME", *ALL)),
        ("KeyError: 'row'", ()),
        ("KeyError: \"Config 'QUEUE' is missing, and has no default.\"",
         ("QUEUE", *ALL[:2], *ALL[3:])),
        ('environs.EnvError: Environment variable "TOKEN" not set', ("TOKEN", ALL[0], *ALL[2:])),
        ("decouple.UndefinedValueError: ELSE not found. Declare it as envvar", ("ELSE", *ALL)),
        ("RuntimeError: PORT has to be a number", ("PORT", *ALL)),
        ("TypeError: int() argument must be a string, not 'NoneType'", ("MODE", *ALL)),
        ("RuntimeError: UNKNOWN has to be a number", ()),
    ],
)  # fmt: skip
def test_all_variables_are_named_at_once(
    error: str, names: tuple[str, ...], tmp_path: Path
) -> None:
    for name, text in SOURCES.items():
        write(tmp_path, name, text)
    reads = variable_hints.read([tmp_path / "src", tmp_path], "shop.main")
    assert variable_hints.missing(TRACEBACK + error, reads, {"PATH"}) == names
    given = {"shop_address", "TOKEN"}
    some = tuple(name for name in names if name not in {"SHOP_ADDRESS", "TOKEN"})
    assert variable_hints.missing(TRACEBACK + error, reads, given) == some


def test_values_come_from_what_the_repository_has_for_that(tmp_path: Path) -> None:
    root, names = tmp_path / "backend", ("A", "B", "C", "DJANGO_SETTINGS_MODULE")

    def options(*some: str) -> str:
        return variable_hints.options(some or names, root, [tmp_path])

    write(root, "manage.py", 'os.environ.setdefault("DJANGO_SETTINGS_MODULE", "site.settings")')
    module = "--env DJANGO_SETTINGS_MODULE=site.settings"
    assert options() == f"--env A=VALUE --env B=VALUE --env C=VALUE {module}"
    write(tmp_path, ".github/workflows/test.yml",
          "env:\n  A: ${{ secrets.A }}\n  B: 'of a test' # why\n  C: |\n    x\n")  # fmt: skip
    write(
        root, "docker-compose.yml", "environment:\n  - A=${A:-of compose}\n  - B=${B}\n  AC: no\n"
    )
    assert options() == f"--env 'A=of compose' --env 'B=of a test' --env C=VALUE {module}"
    # Of real values only the name of the file is shown.
    write(root, ".env", "A=private\nB=private\n")
    assert options() == f"--env-file .env --env C=VALUE {module}"
    write(tmp_path, ".env.example", "A=example\nexport C='x y'\nB=\n")
    assert options("A", "C") == "--env-file ../.env.example"
    assert options("A", "B") == "--env-file .env"
    assert options("B", "C") == "--env-file ../.env.example --env 'B=of a test'"
    write(tmp_path, ".env.example", "no line of variables\n")
    assert options("A") == "--env-file .env"
    lacks = variable_hints.Reads(needed={"URL": None, "A": None})
    assert variable_hints.advise(f"{TRACEBACK}ValueError: no URL", lacks, (), root) == (
        "URL, A are not set: add --env-file .env --env URL=VALUE"
    )
    assert variable_hints.advise(f"{TRACEBACK}ValueError: no X", lacks, (), root) == ""
