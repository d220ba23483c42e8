"""Options that tell a target, and `init`, which finds and keeps one."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from bench import PROGRAMS, Bench
from comparing import comparison_of
from duetbench.cli import options
from duetbench.cli.init import applications
from duetbench.cli.options import Options, left_out, repetition, with_options
from duetbench.judge.repetition import rebuilt, why_command
from goldens import assert_said
from repos import work_in, write, write_all

LACKING = "from fastapi import FastAPI\napp = FastAPI()\n"
FACTORY = "from flask import Flask\ndef create_app():\n    return Flask(__name__)\n"
WSGI = """\
import os
TOKEN = os.environ["SHOP_TOKEN"]
STATUS = {"/docs": "200 OK", "/items": "200 OK", "/new": "200 OK", "/old": "302 Found"}
class Flask:
    def __call__(self, environ, start_response):
        headers = [("content-length", "2"), ("location", "/new?x=1")]
        start_response(STATUS.get(environ["PATH_INFO"], "404 Not Found"), headers)
        return [b"ok"]
app = Flask()
app.routes = [type("Route", (), {"path": path}) for path in ("/docs", "/gone", "/old", "/items")]
"""


@pytest.fixture
def shop(bench: Bench) -> Path:
    project = '[project]\nname = "shop"\nversion = "0"'
    files = {"src/shop/app.py": LACKING, "pyproject.toml": project}
    files |= {".python-version": "3.14\n", "src/shop/factory.py": FACTORY}
    return work_in(bench.folder / "shop", files, bench.patch)


@pytest.mark.real
def test_what_cannot_be_meant_is_refused(bench: Bench, shop: Path) -> None:
    assert_said("refused", lambda line: bench.refused("", *shlex.split(line)).err, shop)


@pytest.mark.real
@pytest.mark.usefixtures("shop")
def test_who_measures_waits_and_prepares_nothing_beside_another(bench: Bench) -> None:
    hold = "import sys; from duetbench.host import machine\nwith machine.measuring(): "
    hold += "print(flush=True); sys.stdin.read()"
    argv = [sys.executable, "-c", hold]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        for verb in ("run", "compare HEAD"):
            words = (*verb.split(), "--app", "shop.app:app", "--wait", "1s")
            result = bench.refused(f"(pid {holder.pid} of ", *words, code=5)
            *repository, waiting = result.out.splitlines()
            assert waiting.startswith("waiting for this machine, at most 1 s: another duetbench")
            assert [line.partition(":")[0] for line in repository] in ([], ["repository"])
        holder.communicate()
    assert bench("run", "--app", "shop.app:app", "--wait", "soon").code == 2


def parse(line: str) -> Options:
    """The options of an application that a command has."""
    program, *words = shlex.split(line)
    _, typed, _ = PROGRAMS[program].parse_args(words)
    options: Options = typed.arguments["application"].read()
    return options


def test_the_value_of_a_private_header_becomes_a_variable() -> None:
    headers = ("Authorization: Bearer secret", "X-Api-Key: {KEY}", "Accept: text/html")
    words = (word for text in headers for word in ("--header", text))
    typed = parse(shlex.join(["duetbench", "compare", "--app", "a:b", *words]))
    assert typed["env"] == {"HEADER_AUTHORIZATION": "Bearer secret"}
    assert typed["headers"] == {
        "authorization": "{HEADER_AUTHORIZATION}", "x-api-key": "{KEY}", "accept": "text/html",
    }  # fmt: skip
    assert "secret" not in str(repetition(typed))


def test_what_starts_in_a_folder_is_imported_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder without a file of packages is no project; what the project has comes first."""
    for name in ("hello/web.py", "hello/both.py", "src/both.py"):
        write(tmp_path, name, "")
    monkeypatch.chdir(tmp_path / "hello")
    roots = [with_options(tmp_path, parse(f"duetbench run --app {module}:app")).root
             for module in ("web", "both")]  # fmt: skip
    assert roots == [tmp_path / "hello", tmp_path]


def test_what_is_printed_repeats_an_option_or_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each option of an application and each word; named are those that reports must not have."""
    monkeypatch.setenv("SHOP_DB", "secret")
    spelled = set[str]()

    def printed(option: str) -> str:
        typed = parse(f"duetbench compare --app a:b {option}")
        again, others = repetition(typed)
        record = comparison_of(reproduce=shlex.join(["duetbench", "compare", *again]))
        record = record.model_copy(update={"budget_seconds": None})
        for command in (rebuilt(record), why_command(record)):
            assert command is not None
            assert (parse(command) == typed) == (not others)
            assert "secret" not in command
        lacking = f"to repeat it, add {others} again: the command omits that"
        assert left_out(typed) == ((lacking,) if others else ())
        flag, value = shlex.split(option)
        spelled.add(value.partition("=")[0] if flag == "--with" else flag[2:])
        return others or "repeated"

    assert_said("options", printed)
    assert spelled == {*options.OPTIONS, *options.WORDS}


@pytest.mark.real
def test_init_writes_what_has_answered_and_keeps_the_rest_of_the_file(
    shop: Path, bench: Bench
) -> None:
    file = shop / "pyproject.toml"
    before = file.read_bytes()
    none = bench.refused("no application answers: name one with --app", "init")
    failed = "not shop.app:app: expected an application, found: "
    assert f"{failed}ModuleNotFoundError: No module named 'fastapi'" in none.out
    assert "pyproject.toml has no package with fastapi: install it," in none.out
    assert none.out.count("No module named") == 2
    write(shop, "src/shop/main.py", WSGI)
    write(shop, ".env.example", "SHOP_TOKEN=example\n")
    bench.refused("SHOP_TOKEN is not set: add --env-file .env.example", "init")
    login = ("--login", "POST /in user=a@b.test&password=pw-of-a")
    assert "pw-of-a" not in f"{bench.refused('committed: put it', 'init', *login)}"
    wrong = ("--env-file", ".env.example", "--app", "shop.main:app", "--path", "/no")
    bench.refused("GET /no: expected status 200, found 404", "init", *wrong)
    assert file.read_bytes() == before

    options = shlex.split(
        "--env-file .env.example --with python=3.14 --with connections=8 --env A=1"
        """ --before "echo 'made' > {tmp}/x" """
    )
    bench.done("init", *options, "--dry-run")
    assert file.read_bytes() == before
    result = bench("init", *options)
    assert (result.code, result.err) == (0, "")
    assert f"{failed}ModuleNotFoundError" in result.out
    assert "application: shop.main:app\n" in result.out
    assert "not written: the value of A: add --env A to each command" in result.out
    assert "next: duetbench run" in result.out
    written = file.read_bytes()
    assert written.startswith(before + b"\n\n[tool.duetbench]\n")
    assert tomllib.loads(written.decode())["tool"]["duetbench"] == {
        "app": "shop.main:app", "requests": ["GET /items"], "connections": 8,
        "python": ["3.14"], "env-file": [".env.example"],
        "before": ["echo 'made' > {tmp}/x"],
    }  # fmt: skip
    bench.refused("already declares what is measured", "init")
    assert file.read_bytes() == written


def test_an_application_is_found(tmp_path: Path) -> None:
    """From where its package lies; not what tests make, nor what only looks like code."""

    def found(files: str) -> str:
        root = tmp_path / str(len([*tmp_path.iterdir()]))
        _, *parts = re.split(r"^# (\S+)\n?", files, flags=re.MULTILINE)
        write_all(root, dict(zip(parts[::2], parts[1::2], strict=True)))
        return ", ".join(applications(root)) or "none"

    assert_said("applications", found)
