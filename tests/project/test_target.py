"""Targets: what keys, options and requests in a line come to; and which interpreter."""

import json
import os
import platform
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from bare import QUIET, Programs
from duetbench.app import declarations, interpreters, request_lines, target
from duetbench.app.subject import Subject
from duetbench.app.target import Target
from duetbench.cli.init import write_request
from duetbench.core.errors import SetupError, UsageError
from duetbench.core.model import Endpoint
from goldens import assert_golden, assert_said
from observatory.matrix.checkout import Checkout
from repos import borrow_cache, write
from synthetic import make_endpoint

OWN = ".".join(platform.python_version_tuple()[:2])
KEYS = """\
[project]
name = "shop"

[tool.duetbench]
app = "shop.main:app"
requests = ["GET /items/7", 'POST /orders {"item": 7}']
expect-status = 201
env = { TOKEN = "secret" }
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    write(tmp_path, "shop/pyproject.toml", KEYS)
    return tmp_path / "shop"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("POST / @/etc/passwd", "/etc/passwd"),
        ("POST / @in it/../../../key", "in it/../../../key"),
        ("/{1..2}?q={@link/passwd}", "link/passwd"),
    ],
)
def test_keys_name_files_of_the_repository_only(shop: Path, line: str, name: str) -> None:
    """They may be a pull request's; who writes an option may read any file."""
    (shop.parent / ".git").mkdir()
    (shop / "link").symlink_to("/etc")
    keys = KEYS.replace("GET /items/7", "POST / @../order.json")
    write(shop, "pyproject.toml", keys)
    target.of(shop, {})
    write(shop, "pyproject.toml", KEYS.replace("GET /items/7", line))
    with pytest.raises(UsageError, match=rf"^{name}: expected a path in the repository"):
        target.of(shop, {})
    target.of(shop, {"requests": (line,)})
    write(shop, "pyproject.toml", KEYS.replace("expect-status = 201", 'results = "../../x"'))
    with pytest.raises(UsageError, match=r"^\.\./\.\./x: expected a path in the repository"):
        declarations.results_dir(shop)


def test_private_variables_come_from_files_and_then_from_what_is_said(tmp_path: Path) -> None:
    lines = ("# x", "", "export A=1 # one", "B = 'two # 2'", 'C="x=y"', "D=it#self", "E=", "A2='")
    write(tmp_path, "dev.env", "\n".join((*lines, "F='${D}'\n")))
    wanted = Target.model_validate({"app": "a:b", "env-file": "dev.env", "env": {"A": "10"}})
    assert target.private(wanted, tmp_path) == {
        "A": "10", "B": "two # 2", "C": "x=y", "D": "it#self", "E": "", "A2": "'",
        "F": "${D}",
    }  # fmt: skip
    write(tmp_path, "dev.env", "TOKEN=a\nsecret words\n")
    with pytest.raises(UsageError, match=r"dev\.env, line 2: expected NAME=value$"):
        target.private(wanted, tmp_path)
    with pytest.raises(UsageError, match=r"none\.env: it cannot be read"):
        target.private(wanted.model_copy(update={"env_file": ("none.env",)}), tmp_path)


def test_what_is_asked_for_is_what_is_measured(shop: Path) -> None:
    """Every option; a rate is paced; of requests with one name, the later ones are numbered."""
    asked = ('POST /orders {"item": 7}', "GET /i/{1..3} 2 /j 1", "GET /i/1-3", "GET /i/1/3")
    options = {
        "headers": {"authorization": "Bearer {TOKEN}"}, "factory": True, "workers": 2,
        "threads": 3, "rate": 12.5, "connections": 5, "requests": asked, "ready-timeout": "1m30s",
        "before": ("python -m seed",), "after": ("x", "y"),
    }  # fmt: skip
    pythons = {"3.13t": Checkout.here().interpreter("3.14")}
    served = Subject(shop, target=target.of(shop, options), interface="wsgi", server="granian")
    cases = replace(served, interpreters=pythons).cases()
    documents = [case.model_dump(mode="json") for case in cases]
    assert_golden("answers/cases.json", json.dumps(documents, indent=1))
    assert (cases[0].ceiling, "secret" in str(documents)) == (12.5, False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in {
        "lines": b"a\r\nb\r\n", "bytes": b"\xff\r\n\x00", "form.txt": b"a=1&b=2\n",
        "order.json": b'{"item": 7}\n', "words.txt": "blue\n\ngreen tea\nZoë&7%20\n".encode(),
    }.items():  # fmt: skip
        (tmp_path / name).write_bytes(content)
    return tmp_path


def read(line: str, folder: Path) -> Endpoint:
    return request_lines.read(line, folder, make_endpoint(name=""))


def test_a_line_says_what_is_sent(folder: Path) -> None:
    """Or what is wrong with it."""

    def sent(line: str) -> str:
        asked = read(line, folder)
        more = [f"{name}: {value}" for name, value in asked.headers.items() if name != "host"]
        assert asked.headers["host"] == "localhost"
        paths = " ".join((asked.path, *asked.paths))
        return " | ".join((asked.name, f"{asked.method} {paths}", *more, repr(asked.body)))

    assert_said("requests", sent, folder)


def test_shares_are_of_all_that_a_path_stands_for(folder: Path) -> None:
    """Of three of four requests to one of three paths, each has as many as the other path."""

    def shares(line: str) -> str:
        endpoint = read(line, folder)
        counts = Counter((endpoint.path, *endpoint.paths))
        return ", ".join(f"{count} × {path}" for path, count in sorted(counts.items()))

    assert_said("shares", shares)


def test_of_too_many_paths_some_are_drawn_by_their_shares(folder: Path) -> None:
    """Each time the same ones, from all of them."""
    for line, start, fewest in (
        ("/{1..200}/{1..200}", "/", 10_000),
        (f"/{{1..{10**30}}} 3 /search 1", "/search", 2_500),
        ("/{1..3000}/{1..7} /search", "/search", 1),
        ("/{1..9999} 2 /{10000..19998} 1", "/1", 3_333),
    ):
        endpoint = read(line, folder)
        paths = (endpoint.path, *endpoint.paths)
        assert 9_998 <= len(paths) <= 10_001
        assert len(set(paths)) > 0.7 * len(paths)
        assert sum(path.startswith(start) for path in paths) >= fewest
        assert read(line, folder) == endpoint


def test_a_request_of_a_test_is_written_as_a_line_that_is_read_as_it(folder: Path) -> None:
    def written(sent: str) -> str:
        method, path, query, kind, body = sent.split(" | ")
        line = write_request(method, path, query, kind, body)
        if line is None:
            return "not written"
        endpoint = read(line, folder)
        asked = (method, line.split()[1], body)
        assert (endpoint.method, endpoint.path, endpoint.body) == asked
        assert endpoint.headers.get("content-type", "") == kind.partition(";")[0]
        return line

    assert_said("written", written)
    assert write_request("POST", "/", "", "application/json", f'"{"x" * 4_000}"') is None


@pytest.mark.real
@pytest.mark.parametrize(
    ("asked", "version", "requires", "name"),
    [(None, "", "", "3.14"), (None, "# ours\n3.14t\n", "", "3.14t"), (None, "", ">=3.14", "3.14"),
     ("3.14t", "3.14", "", "3.14t"), (None, "", ">=3.11", OWN)],
)  # fmt: skip
def test_uv_chooses_the_interpreter_of_a_project(
    asked: str | None, version: str, requires: str, name: str, tmp_path: Path
) -> None:
    """Those of set-up come before others, and who asks for no version gets a final one.

    That of an environment comes first, unless the project excludes it, or names another one.
    """
    if version:
        write(tmp_path, ".python-version", version)
    project = f'[project]\nname = "x"\nversion = "1"\nrequires-python = "{requires}"\n'
    write(tmp_path, "pyproject.toml", project if requires else "")
    usual = Path(sys.executable) if version or requires else None
    chosen = interpreters.choose(tmp_path, asked, QUIET, usual)
    assert chosen.name == name
    assert name == OWN or chosen.origin == Checkout.here().interpreter(name).origin


@pytest.mark.real
def test_one_of_the_machine_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever Python the machine has beside ours, or behind a script: the harness runs on one."""
    place = borrow_cache(tmp_path / "cache", monkeypatch)
    (place / "interpreters").unlink()
    (shims := tmp_path / "shims").mkdir()
    Programs(shims).write("python3", f'exec {Path(sys.executable).resolve()} "$@"')
    monkeypatch.setenv("PATH", str(shims), prepend=os.pathsep)
    monkeypatch.setenv("UV_OFFLINE", "1")
    interpreter = interpreters.choose(tmp_path, ">=3.11", QUIET)
    assert (interpreter.origin, interpreter.free_threaded) == ("found", False)
    assert interpreter.name == ".".join(interpreter.version.split(".")[:2])
    assert interpreters.identify(interpreter.executable).version == interpreter.version
    assert interpreter.executable.read_bytes()[:4] == b"\x7fELF"  # no script that starts it
    assert not (interpreter.executable.parent.parent / "pyvenv.cfg").exists()
    with pytest.raises(SetupError, match=r"finding Python 3\.99 .*; choose another one by --with"):
        interpreters.choose(tmp_path, "3.99", QUIET)
    Programs(tmp_path).write("python", """echo '{"version": "3.10.1"}'""")
    with pytest.raises(SetupError, match=r"python is Python 3\.10\.1: expected 3\.11 or newer"):
        interpreters.identify(tmp_path / "python")
