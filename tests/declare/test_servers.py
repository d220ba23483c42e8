"""The server registry: a contract over every entry, and the two command lines in full."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from bench import PROJECT
from servebench.core.model import Case, Interface
from servebench.declare import schema
from servebench.declare.servers import GRANIAN_BACKLOG, SERVERS, Server
from servebench.toolchain import stacks
from synthetic import make_case

EVERY = pytest.mark.parametrize("server", SERVERS.values(), ids=SERVERS.keys())


def case_for(server: Server, interface: Interface, workers: int = 2) -> Case:
    base = make_case("experiment/right", server=server.name, workers=workers)
    return base.model_copy(
        update={
            "endpoint": base.endpoint.model_copy(update={"interface": interface}),
            "threads": 64 if interface == "wsgi" else None,
        }
    )


@EVERY
def test_an_entry_is_complete(server: Server) -> None:
    assert SERVERS[server.name] is server
    assert server.interfaces
    assert "asyncio" in server.loops
    assert server.grace > 0
    assert server.exit_codes
    for workers in (1, 2):
        limit = server.backpressure(workers)
        assert limit is None or limit >= workers
        for interface in server.interfaces:
            case = case_for(server, interface, workers)
            assert server.ready_lines(case) >= 1
            assert {server.worker_kind(free) for free in (False, True)} <= {"process", "thread"}
            line = [str(word) for word in server.arguments(case, 12345, None)]
            assert line[-1] == case.endpoint.app
            assert line[line.index("--workers") + 1] == str(workers)
            assert {"127.0.0.1", "12345"} <= set(" ".join(line).replace(":", " ").split())
            assert case.loop in line, "never left to the server"


@EVERY
def test_a_counter_comes_with_its_exporter(server: Server) -> None:
    case = case_for(server, "asgi")
    plain, counting = (server.arguments(case, 12345, port) for port in (None, 23456))
    assert "23456" not in plain
    assert ("23456" in counting) == (server.counter is not None)


@pytest.mark.real
@EVERY
def test_the_locked_version_knows_every_option(server: Server) -> None:
    python = stacks.environment("current", "3.14")
    said = subprocess.run(
        [python, "-m", server.name, "--help"], capture_output=True, text=True, check=True
    ).stdout
    for interface in server.interfaces:
        for word in server.arguments(case_for(server, interface), 12345, 23456):
            if word.startswith("--"):
                positive = word.replace("--no-", "--(no-)?")
                assert re.search(rf"(?<![\w-])({word}|{positive})(?![\w-])", said), word


def test_the_registry_holds_every_declared_server() -> None:
    for path in sorted((PROJECT / "apps").glob(f"*/{schema.FILE}")):
        declared = schema.validated(schema.Declaration, schema.read_toml(path), path.name)
        for block in declared.cases:
            assert set(block.server) <= SERVERS.keys(), path


def test_granian_in_full() -> None:
    """Event loop, threads and backlog are pinned; HTTP/1 without WebSockets, as uvicorn."""
    server = SERVERS["granian"]
    assert server.arguments(case_for(server, "wsgi"), 12345, 23456) == [
        "--interface", "wsgi", "--host", "127.0.0.1", "--port", "12345", "--http", "1", "--no-ws",
        "--workers", "2", "--backlog", "1024", "--loop", "asyncio", "--blocking-threads", "64",
        "--metrics", "--metrics-port", "23456", "--metrics-scrape-interval", "1", "module:app",
    ]  # fmt: skip


def test_granian_without_the_gil_has_threads_for_workers() -> None:
    server = SERVERS["granian"]
    assert [server.worker_kind(free_threaded) for free_threaded in (False, True)] == [
        "process", "thread",
    ]  # fmt: skip


def test_granian_accepts_its_backlog_at_once() -> None:
    """The backlog // workers each: with three workers one of 1,024 is left over."""
    limit = SERVERS["granian"].backpressure
    assert [limit(workers) for workers in (1, 2, 3)] == [GRANIAN_BACKLOG, 1024, 1023]


@pytest.mark.parametrize(
    ("log", "lines"),
    [
        ("[INFO] Listening at: http://127.0.0.1:1\n", 0),
        ("[INFO] Listening at: http://127.0.0.1:1\n[INFO] Started worker-1\n", 1),
        ("[INFO] Started worker-1\n[INFO] Started worker-2\n", 2),
    ],
)
def test_granian_listens_before_it_serves(log: str, lines: int) -> None:
    assert len(SERVERS["granian"].ready.findall(log)) == lines


def test_uvicorn_announces_itself_before_its_workers() -> None:
    log = (
        "INFO:     Uvicorn running on http://127.0.0.1:1 (Press CTRL+C to quit)\n"
        "INFO:     Started parent process [1]\nINFO:     Waiting for application startup.\n"
        "INFO:     Application startup complete.\nINFO:     Application startup complete.\n"
    )
    assert len(SERVERS["uvicorn"].ready.findall(log)) == 2


def test_a_busy_worker_of_uvicorn_is_not_killed() -> None:
    server = SERVERS["uvicorn"]
    one, two = (server.arguments(case_for(server, "asgi", n), 12345, None) for n in (1, 2))
    assert "--timeout-worker-healthcheck" not in one
    assert two[two.index("--timeout-worker-healthcheck") + 1] == "60"


def test_paths_do_not_matter() -> None:
    assert not [
        word
        for server in SERVERS.values()
        for word in server.arguments(case_for(server, "asgi"), 12345, None)
        if Path(word).is_absolute()
    ]
