"""`duetbench site` as people use it: built, served here, built again when results change."""

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

import duetbench
import sites
from bench import eventually
from duetbench.cli import app
from duetbench.core.errors import UsageError
from duetbench.show.site import local
from duetbench.store import store
from site_builds import a_run

_MAIN = "from duetbench.cli import main; main()"


class Answer(NamedTuple):
    """What a server said."""

    status: int
    type: str
    body: bytes


def get(address: str, path: str, method: str = "GET") -> Answer:
    host = address.removeprefix("http://").rstrip("/")
    connection = http.client.HTTPConnection(host, timeout=30)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return Answer(response.status, response.getheader("Content-Type", ""), response.read())
    finally:
        connection.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    store.finalise(folder / "results", a_run(1))
    sites.made(folder)
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with local.served(folder / "site", 0) as address:
        yield address


def test_pages_data_and_modules_are_served_with_their_types(address: str, folder: Path) -> None:
    page = get(address, "/")
    assert (page.status, page.type) == (200, "text/html")
    assert page.body == (folder / "site" / "index.html").read_bytes()
    assert get(address, f"/runs/{a_run(1).id}.json").type == "application/json"
    assert get(address, "/changes.atom").type == "application/atom+xml"
    assert get(address, "/index.json").type == "application/json"
    (module,) = (folder / "site" / "static").rglob("trend.js")
    path = module.relative_to(folder / "site").as_posix()
    assert get(address, f"/{path}").type == "text/javascript"
    assert get(address, "/", "HEAD").body == b""


@pytest.mark.parametrize(
    "path",
    ["/nothing/", "/static/", "/../results/", "/%2e%2e/results/", "/..%2f..%2fetc/passwd", "//etc"],
)
def test_nothing_but_files_of_the_site_is_served(address: str, path: str) -> None:
    answer = get(address, path)
    assert answer.status in {301, 404}
    if answer.status == 404:
        assert b"This address leads to no page" in answer.body


def test_it_listens_on_the_loopback_interface_and_a_port_that_is_taken_is_named(
    address: str, folder: Path
) -> None:
    assert address.startswith("http://127.0.0.1:")
    port = int(address.rstrip("/").rpartition(":")[2])
    with (
        pytest.raises(UsageError, match=rf"port {port}: .*choose another one with --port"),
        local.served(folder / "site", port),
    ):
        pass


def test_the_verb_says_what_it_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    store.finalise(tmp_path / "results", a_run(1))
    common = ["site", "--no-asv", "--results", str(tmp_path / "results")]
    place = str(tmp_path / "made")
    address = ["--base", "https://example.org/bench"]
    done = CliRunner().invoke(app, [*common, "-o", place, "--json", *address])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["output"] == place
    assert answer["pages"] > 5
    feed = Path(place, "changes.atom").read_text()
    assert 'href="https://example.org/bench/changes.atom"' in feed
    done = CliRunner().invoke(app, [*common, "-o", place, *address])
    assert done.exit_code == 0, done.output
    output = done.output.replace("\n", " ")
    assert f"{place}: {answer['pages']} pages" in output
    assert "0 files written" in output
    assert f"duetbench site -o {place} --serve" in output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--serve", "--json"], "choose one"),
        (["--base", "example.org"], "expected an address like"),
        (["--results", "/no/such/folder"], "expected a results folder"),
    ],
)
def test_wrong_usage_is_explained(tmp_path: Path, options: list[str], message: str) -> None:
    done = CliRunner().invoke(app, ["site", "-o", str(tmp_path / "made"), *options])
    assert isinstance(done.exception, UsageError)
    assert message in str(done.exception)
    assert not (tmp_path / "made").exists()


def test_a_new_run_appears_while_the_site_is_served(tmp_path: Path) -> None:
    results = tmp_path / "results"
    store.finalise(results, a_run(1))
    command = [sys.executable, "-u", "-c", _MAIN, "site", "--no-asv", "--results", str(results)]
    command += ["-o", str(tmp_path / "made"), "--serve", "--port", "0"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(duetbench.__file__).parents[1]),
        "DUETBENCH_ROOT": str(sites.PROJECT),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert process.stdout is not None
        line = next(line for line in process.stdout if line.startswith("http://"))
        address = line.partition(" ")[0]
        assert get(address, f"/runs/{a_run(1).id}.json").status == 200
        store.finalise(results, a_run(2))
        eventually("the new run", lambda: get(address, f"/runs/{a_run(2).id}.json").status == 200)
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(30) == 0, rest
        assert "Traceback" not in rest
    finally:
        process.kill()
        process.wait()
