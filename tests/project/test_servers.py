"""The server registry: a contract over every entry, and the two command lines in full."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bare import QUIET
from bench import PROJECT, Once, failures
from duetbench.app import stacks, tools
from duetbench.app.servers import (
    GRANIAN_BACKLOG,
    SERVERS,
    Server,
    loop_taken,
    misfit,
    start_commands,
)
from duetbench.app.testbed import SideCase, Testbed, assemble
from duetbench.core.model import Case, Interface
from duetbench.load import launch
from observatory.matrix.checkout import Checkout
from repos import asgi, borrow_cache, write
from synthetic import make_case

OTHERS = {
    "pyproject.toml": (PROJECT / "pyproject.toml").read_text("utf-8"),
    "apps/pyproject.toml": (
        '[project]\nname = "apps"\nversion = "0"\nrequires-python = ">=3.14"\n'
        "[dependency-groups]\n"
        'others = ["gunicorn", "hypercorn", "gevent", "packaging", "uvicorn-worker"]\n'
    ),
    "apps/both/both.py": asgi("def make():\n    return wsgi", 'body = b"right"')
    + """

def wsgi(environ, start_response):
    start_response("200 OK", [("content-type", "text/plain"), ("content-length", "5")])
    return [b"right"]
""",
    "apps/both/experiment.toml": """\
question = "Are other servers served?"
[source]
title = "Made up"
date = "2026-11"
[profiles]
quick = { seconds = 0.6 }
[endpoints.asgi]
app = "both:app"
interface = "asgi"
path = "/"
expect = { content_type = "text/plain", text = "right" }
[endpoints.wsgi]
app = "both:make"
factory = true
interface = "wsgi"
path = "/"
expect = { content_type = "text/plain", text = "right" }
[loads.closed]
model = "closed"
connections = 8
duration = "seconds"
timeout = 10
[defaults]
id = "{endpoint}/{server}"
profiles = ["quick"]
python = "3.14"
stack = "others"
loop = "asyncio"
load = "closed"
cores = "split"
[[cases]]
endpoint = "asgi"
server = ["hypercorn", "gunicorn", "uvicorn-worker"]
[[cases]]
endpoint = "wsgi"
server = "gunicorn"
threads = 4
[[cases]]
id = "{endpoint}/{loop}"
endpoint = "wsgi"
server = "gunicorn"
loop = "gevent"
""",
}
"""A checkout that measures them."""

EVERY = pytest.mark.parametrize("server", SERVERS.values(), ids=SERVERS.keys())


def case_for(server: Server, interface: Interface, workers: int = 2) -> Case:
    base = make_case("experiment/right", server=server.name, workers=workers)
    return base.model_copy(
        update={
            "endpoint": base.endpoint.model_copy(update={"interface": interface}),
            "threads": 64 if interface == "wsgi" else None,
        }
    )


@pytest.fixture(scope="module")
def others(once: Once) -> Iterator[Testbed]:
    """What starts the servers that are in none of our stacks, and applications for them."""
    python = Checkout.here().interpreter("3.14")

    def make(root: Path) -> None:
        for name, text in OTHERS.items():
            write(root, name, text)
        with pytest.MonkeyPatch.context() as patch:
            borrow_cache(root / "cache", patch)
            write(root, "apps/stacks/others.txt", Checkout(root).resolve("others", None))
            stacks.make_environment(Checkout(root).lock("others"), python, QUIET)

    root = once("others", make)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(root / "cache"))
        cases = Checkout(root).cases()
        yield assemble(
            Checkout(root), cases, root / "logs",
            generator=tools.find_oha(Checkout.here().configuration.oha),
            interpreter=lambda _: python,
        )  # fmt: skip


@pytest.mark.real
@pytest.mark.usefixtures("state_home")
@pytest.mark.parametrize(
    ("case_id", "workers"),
    [
        ("asgi/hypercorn", 2),
        ("asgi/gunicorn", 2),
        ("asgi/uvicorn-worker", 2),
        ("wsgi/gunicorn", 1),
        ("wsgi/gevent", 2),
    ],
)
def test_servers_of_no_stack_of_ours_are_measured(
    others: Testbed, case_id: str, workers: int, tmp_path: Path
) -> None:
    """They get ready, every worker is who it should be, keep-alive holds, and they end well."""
    root = others.subject.root
    cases = Checkout(root).cases()
    case = next(case for case in cases if case.id == f"both/{case_id}")
    case = case.model_copy(update={"workers": workers})
    for _ in range(3):  # on a machine that does other things, the closed loop may empty for long
        outcome = launch.perform(SideCase(case, others), tmp_path / "server.log")
        if not failures(outcome) & {"impossible", "no_answer"}:
            break
    assert not failures(outcome), (outcome.flags, (tmp_path / "server.log").read_text())
    assert outcome.metrics["requests"] > 0
    assert "connections_closed" not in {flag.name for flag in outcome.flags}


@pytest.mark.real
@pytest.mark.usefixtures("state_home")
def test_gunicorn_reads_the_users_file_of_settings_beside_ours(
    others: Testbed, tmp_path: Path
) -> None:
    """A hook of the file runs, and the workers are those of the case."""
    hook, root = tmp_path / "hook", others.subject.root
    file = tmp_path / "gunicorn.conf.py"
    file.write_text(
        f"workers = 5\ndef when_ready(server):\n    open({str(hook)!r}, 'w').write("
        "f'{server.num_workers} {server.cfg.control_socket_disable}')\n"
    )
    case = next(case for case in Checkout(root).cases() if case.id == "both/wsgi/gunicorn")
    case = case.model_copy(update={"server_args": (f"--config={file}",)})
    launch.perform(SideCase(case, others), tmp_path / "server.log")
    assert hook.read_text() == "1 True", (tmp_path / "server.log").read_text()


@pytest.mark.real
@EVERY
def test_the_locked_version_knows_every_option(server: Server, others: Testbed) -> None:
    ours = server.name in Checkout.here().lock("current").packages
    python = (
        stacks.executable(Checkout.here().lock("current"), Checkout.here().interpreter("3.14"))
        if ours
        else others.pythons["others", "3.14"]
    )
    said = subprocess.run(
        [python, "-m", server.module or server.name, "--help"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for interface in server.interfaces:
        words = server.arguments(case_for(server, interface), 12345).split()
        for word in (*server.settings, *words):
            if word.startswith("--"):
                positive = word.replace("--no-", "--(no-)?")
                assert re.search(rf"(?<![\w-])({word}|{positive})(?![\w-])", said), word


def test_granians_workers_and_its_backlog() -> None:
    """Threads without the GIL; backlog // workers each: of three, one of 1,024 is left over."""
    server = SERVERS["granian"]
    assert (server.worker_kind(False), server.worker_kind(True)) == ("process", "thread")
    assert [server.backpressure(n) for n in (1, 2, 3)] == [GRANIAN_BACKLOG, 1024, 1023]


def test_a_busy_worker_of_uvicorn_is_not_killed() -> None:
    server = SERVERS["uvicorn"]
    one, two = (server.arguments(case_for(server, "asgi", n), 12345).split() for n in (1, 2))
    assert "--timeout-worker-healthcheck" not in one
    assert two[two.index("--timeout-worker-healthcheck") + 1] == "60"


@pytest.mark.parametrize(
    ("server", "word", "fixed"),
    [
        ("uvicorn", "--port=1", True),
        ("uvicorn", "--fd", True),
        ("uvicorn", "--no-access-log", False),
        ("uvicorn", "--http=h11", False),
        ("granian", "--blocking-threads=9", True),
        ("granian", "--port-x", False),
        ("granian", "--", True),
        ("gunicorn", "-b:80", True),
        ("gunicorn", "--config=gunicorn.conf.py", False),
        ("uvicorn-worker", "--worker-class=sync", True),
        ("hypercorn", "--access-logfile=-", False),
    ],
)
def test_an_argument_that_duetbench_depends_on_is_refused(
    server: str, word: str, fixed: bool
) -> None:
    case = case_for(SERVERS[server], "asgi").model_copy(update={"server_args": ("--zz", word)})
    fault = misfit(case)
    assert (fault and fault[:2]) == (("arg", word) if fixed else None)


@pytest.mark.parametrize(
    ("file", "text", "interface", "said"),
    [
        ("Procfile", "release: x\nweb: gunicorn -k uvicorn.workers.UvicornWorker a:b", "asgi",
         "uvicorn-worker auto None"),
        ("gunicorn.conf.py", 'worker_class = os.getenv("X", "gevent")', "wsgi",
         "gunicorn gevent None"),
        ("a/start.sh", "exec /bin/gunicorn a:b \\\n -k asgi \\\n --asgi-loop uvloop", "asgi",
         "gunicorn uvloop None"),
        ("Procfile", "web: gunicorn a:b --threads=4", "wsgi",
         "gunicorn auto 4"),
        ("Procfile", "web: gunicorn a:b", "wsgi", "gunicorn auto 1"),
        ("Procfile", "web: gunicorn a:b", "asgi", ""),
        ("Dockerfile", 'RUN uv add granian -q\nCMD ["sh", "-c", "x && hypercorn -k uvloop a:b"]',
         "asgi", "hypercorn uvloop None"),
        ("Dockerfile", 'CMD ["fastapi", "run", "a.py"]', "asgi", "uvicorn auto None"),
        ("compose.yml", "command: uvicorn c:d -x\ncommand: [granian, 'a:b', --loop=rloop]", "asgi",
         "granian rloop None"),
        ("start.sh", "# uvicorn a:b\necho uvicorn a:b\nuvicorn-x a:b", "asgi", ""),
    ],
)  # fmt: skip
def test_a_server_is_started_as_in_production(
    file: str, text: str, interface: Interface | None, said: str, tmp_path: Path
) -> None:
    write(tmp_path, file, text)
    able = [s for s in start_commands(tmp_path, "a:b") if s.serves(interface, free_threaded=False)]
    found = next((f"{start} {start.loop} {start.threads}" for start in able), "")
    assert found.replace(f", as {file} says", "") == said


def test_a_loop_that_nobody_names_is_the_one_that_the_server_takes() -> None:
    taken = {name: loop_taken(name, "auto", {"uvloop"}) for name in SERVERS}
    assert {name for name, loop in taken.items() if loop != "uvloop"} == {"hypercorn"}
    assert loop_taken("uvicorn", "auto", ()) == loop_taken("uvicorn", "asyncio", {"uvloop"})
