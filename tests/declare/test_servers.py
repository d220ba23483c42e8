"""The server registry: a contract over every entry, and the two command lines in full."""

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
    assert "asyncio" in server.loops
    assert all((server.interfaces, server.grace > 0, server.exit_codes))
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
            assert not any(Path(word).is_absolute() for word in line)


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


def test_granians_workers_and_its_backlog() -> None:
    """Threads without the GIL; backlog // workers each: of three, one of 1,024 is left over."""
    server = SERVERS["granian"]
    assert (server.worker_kind(False), server.worker_kind(True)) == ("process", "thread")
    assert [server.backpressure(n) for n in (1, 2, 3)] == [GRANIAN_BACKLOG, 1024, 1023]


@pytest.mark.parametrize(
    ("server", "log", "lines"),
    [
        ("granian", "[INFO] Listening at: http://127.0.0.1:1\n", 0),
        ("granian", "[INFO] Listening at: http://127.0.0.1:1\n[INFO] Started worker-1\n", 1),
        ("granian", "[INFO] Started worker-1\n[INFO] Started worker-2\n", 2),
        ("uvicorn", "INFO:     Uvicorn running on http://127.0.0.1:1 (Press CTRL+C to quit)\n"
         "INFO:     Started parent process [1]\nINFO:     Waiting for application startup.\n"
         + 2 * "INFO:     Application startup complete.\n", 2),
    ],
)  # fmt: skip
def test_servers_announce_themselves_before_their_workers(
    server: str, log: str, lines: int
) -> None:
    assert len(SERVERS[server].ready.findall(log)) == lines


def test_a_busy_worker_of_uvicorn_is_not_killed() -> None:
    server = SERVERS["uvicorn"]
    one, two = (server.arguments(case_for(server, "asgi", n), 12345, None) for n in (1, 2))
    assert "--timeout-worker-healthcheck" not in one
    assert two[two.index("--timeout-worker-healthcheck") + 1] == "60"
