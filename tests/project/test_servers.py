"""The server registry: a contract over every entry, and the two command lines in full."""

from pathlib import Path
from typing import Final

import pytest

from bare import QUIET
from bench import Bench, Once, failures, launches, undisturbed
from duetbench.app import deployment, target_locks
from duetbench.app.servers import GRANIAN_BACKLOG, SERVERS, Server, loop_taken, misfit
from duetbench.app.subject import Subject
from duetbench.app.target import Setting, Target
from duetbench.core.model import Case, Interface, Launch, Run
from goldens import assert_said
from observatory.matrix.checkout import Checkout
from repos import asgi, install, work_in
from synthetic import make_case

BOTH: Final = (
    asgi("def make():\n    return wsgi", 'body = b"right"')
    + """

def wsgi(environ, start_response):
    start_response("200 OK", [("content-type", "text/plain"), ("content-length", "5")])
    return [b"right"]
"""
)
OTHERS: Final = ("gunicorn", "hypercorn", "gevent", "packaging")
"""Servers that are in none of our stacks, and what they need."""


def case_for(server: Server, interface: Interface, workers: int = 2) -> Case:
    threads = 64 if interface == "wsgi" else None
    how = {"server": server.name, "workers": workers, "threads": threads}
    return make_case("x/right", endpoint_interface=interface, **how)


@pytest.fixture(scope="module")
def others(once: Once) -> Path:
    """An environment with them."""
    python = Checkout.here().interpreter("3.14").executable
    return once("servers", lambda folder: install(folder / "venv", python, *OTHERS)) / "venv"


@pytest.mark.real
@pytest.mark.parametrize(
    ("app", "server", "more"),
    [
        pytest.param("both:app", "hypercorn", ["workers=2"], marks=pytest.mark.thorough),
        ("both:make", "gunicorn", ["workers=2", "loop=gevent"]),
        pytest.param("both:app", "gunicorn", ["workers=2"], marks=pytest.mark.thorough),
        pytest.param("both:make", "gunicorn", ["threads=4"], marks=pytest.mark.thorough),
    ],
)
def test_servers_of_no_stack_of_ours_are_measured(
    others: Path, app: str, server: str, more: list[str], bench: Bench
) -> None:
    """They get ready, every worker is who it should be, keep-alive holds, and they end well.

    Gunicorn reads the user's file of settings beside ours: its hook runs, and our workers stand.
    """
    hook, file = bench.folder / "hook", bench.folder / "gunicorn.conf.py"
    file.write_text(
        f"workers = 5\ndef when_ready(server):\n    open({str(hook)!r}, 'w').write("
        "f'{server.num_workers} {server.cfg.control_socket_disable}')\n"
    )
    project = '[project]\nname = "both"\nversion = "1"\ndependencies = []\n'
    work_in(bench.folder / "both", {"both.py": BOTH, "pyproject.toml": project}, bench.patch)
    bench.patch.setenv("VIRTUAL_ENV", str(others))
    words = [f"server={server}", *more, *[f"arg=--config={file}"] * (server == "gunicorn")]
    options = [part for word in words for part in ("--with", word)]

    def perform() -> Launch:
        result = bench("run", "--app", app, *options, "-o", "-")
        ((launch,),) = launches(Run.model_validate_json(result.out)).values()
        return launch

    launch = undisturbed(perform)
    assert not failures(launch.flags), launch
    assert launch.metrics["requests"] > 0
    assert server != "gunicorn" or hook.read_text() in {"1 True", "2 True"}


def test_workers_that_are_threads_or_busy() -> None:
    """Granian's backlog // workers each: of three, one of 1,024 is left over."""
    server = SERVERS["granian"]
    assert (server.worker_kind(False), server.worker_kind(True)) == ("process", "thread")
    assert [server.backpressure(n) for n in (1, 2, 3)] == [GRANIAN_BACKLOG, 1024, 1023]
    # A busy worker of uvicorn is not killed.
    uvicorn = SERVERS["uvicorn"]
    one, two = (uvicorn.arguments(case_for(uvicorn, "asgi", n), 12345) for n in (1, 2))
    assert ("worker-healthcheck" in one, "--timeout-worker-healthcheck 60" in two) == (False, True)


def test_an_argument_that_duetbench_depends_on_is_refused() -> None:
    def fault(words: str) -> str:
        server, word = words.split()
        case = case_for(SERVERS[server], "asgi").model_copy(update={"server_args": ("--zz", word)})
        return " ".join(map(str, misfit(case) or ("none",)))

    assert_said("arguments", fault)


def test_the_server_takes_the_loop_that_is_installed_unless_one_side_alone_names_it(
    tmp_path: Path,
) -> None:
    """It is installed for both, so what the other one would take by itself is settled before."""
    assert SERVERS["gunicorn"].needs("gevent") == {"gunicorn", "gevent", "packaging"}
    taken = {name: loop_taken(name, "auto", {"uvloop"}) for name in SERVERS}
    assert {name for name, loop in taken.items() if loop != "uvloop"} == {"hypercorn"}
    assert loop_taken("uvicorn", "auto", ()) == "asyncio"
    target = Target(app="a:b", interface="asgi", server="uvicorn")
    sides = Setting(values={"loop": "uvloop"}), Setting()
    python = Checkout.here().interpreter("3.14")
    target_locks.put(tmp_path, "", (), python)
    project = Subject(tmp_path, target=target, interpreters={"3.14": python})
    head = deployment._choose_way(project, sides, QUIET)
    assert head.target.loop == "asyncio"
