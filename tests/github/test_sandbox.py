"""The wall around untrusted code, attacked from within; and what comes out of it.

Every attack also runs with a part of the wall missing, and has to succeed then: otherwise it would
prove nothing.
"""

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import psutil
import pytest

from acting import load
from bench import PROJECT
from duetbench.core.errors import ArtifactError, SetupError, UsageError
from duetbench.host import paths
from observatory.github import packages, sandbox

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        "GITHUB_ACTIONS" not in os.environ
        and os.system("bwrap --ro-bind / / --unshare-net true 2>&-") != 0,
        reason="bubblewrap is not here, or may make no namespaces",
    ),
]

MAIN: Final = """\
from observatory.github.packages import hand_out
hand_out()
import ctypes, os, pathlib, re, resource, signal, socket, subprocess, sys, time
exec(pathlib.Path("attack.py").read_text())
"""
SECRET: Final = secrets.token_hex(8)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to run verbs in, whose file `attack.py` is run in place of a verb."""
    (folder := tmp_path / "here").mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sandbox, "_MAIN", MAIN)
    return folder


def run(script: str, *words: str) -> int:
    Path("attack.py").write_text(script)
    return sandbox.run(PROJECT, ["observatory", "attack.py", *(words or ("--to", "out"))])


# What is on the machine, and how it could be reached.


Wall = list[str]
Break = Callable[[Wall], Wall]


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, object]]:
    """What untrusted code would like to reach, by the names in `ATTACKS`."""
    with ExitStack() as stack:
        folder = Path.home() / f".duetbench-test-{SECRET}"
        folder.mkdir()
        stack.callback(shutil.rmtree, folder)
        (folder / "secret").touch()
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        for place in (f"\0{SECRET}", f"{folder}/socket"):
            listening = stack.enter_context(socket.socket(socket.AF_UNIX))
            listening.bind(place)
            listening.listen()
        process = stack.enter_context(subprocess.Popen(["sleep", "600"]))
        stack.callback(process.kill)
        memory = subprocess.check_output(["ipcmk", "--shmem", "10"], text=True).split()[-1]
        stack.callback(subprocess.run, ["ipcrm", "--shmem-id", memory], check=True)
        monkeypatch.setenv("OF_THE_RUNNER", SECRET)
        ready = next(sandbox._complete())
        marks = [place / f".{SECRET}" for place in (PROJECT, ready)]
        for mark in marks:
            stack.callback(mark.unlink, missing_ok=True)
        port, pid = tcp.getsockname()[1], process.pid
        yield {"port": port, "home": folder, "pid": pid, "root": marks[0], "ready": marks[1]}


def replaced(old: str, *new: str) -> Break:
    """Break a wall: put words in place of one, wherever it stands."""

    def broken(wall: Wall) -> Wall:
        assert old in wall
        return [part for word in wall for part in (new if word == old else (word,))]

    return broken


def shared(name: str) -> Break:
    """Break a wall: one namespace is the machine's."""
    kinds = ("ipc", "net", "pid", "uts", "cgroup-try")
    return replaced("--unshare-all", *(f"--unshare-{kind}" for kind in kinds if kind != name))


def with_processes(wall: Wall) -> Wall:
    place = wall.index("--proc")
    return shared("pid")([*wall[:place], "--bind", "/proc", *wall[place + 1 :]])


NET, FILES = shared("net"), replaced("bwrap", "bwrap", "--bind", "/", "/")
WRITABLE = replaced("--ro-bind", "--bind")
VARIABLE: Final = "OF_THE_RUNNER"
READ_ALL: Final = f"""b'{VARIABLE}' in b''.join(
        file.read_bytes() for file in pathlib.Path('/proc').glob('[0-9]*/environ')
    )"""
ATTACKS: Final[dict[str, tuple[str, Break | None]]] = {
    # What fails where there is a wall, and the wall without what stops it.
    "a server": ("socket.create_connection(('127.0.0.1', {port}), 5)", NET),
    "an interface": ("assert socket.if_nameindex()[1:]", NET),
    "an abstract socket": (f"socket.socket(socket.AF_UNIX).connect('\\x00{SECRET}')", NET),
    "a socket in a folder": ("socket.socket(socket.AF_UNIX).connect('{home}/socket')", FILES),
    "a file": ("open('{home}/secret')", FILES),
    "the checkout": ("open('{root}', 'w')", WRITABLE),
    "what is set up": ("open('{ready}', 'w')", WRITABLE),
    "the top": ("os.mkdir('/x')", replaced("--remount-ro", "--chmod", "755")),
    "a process": ("os.kill({pid}, 0)", with_processes),
    "its words": ("open('/proc/{pid}/cmdline')", with_processes),
    # A part of its own: who is in another user namespace may not.
    "its memory": ("assert ctypes.CDLL(None).ptrace(16, {pid}, 0, 0) == 0", None),
    "shared memory": ("assert open('/proc/sysvipc/shm').readlines()[1:]", shared("ipc")),
    "a variable": (f"assert {READ_ALL}", lambda wall: ["env", f"{VARIABLE}=x", *wall]),
    "a capability": (
        "assert re.findall(r'CapEff:\\s0*[1-9a-f]', open('/proc/self/status').read())",
        replaced("ALL", "CAP_CHOWN") if os.geteuid() == 0 else None,
    ),
    "rights": ("assert 'NoNewPrivs:\\t0' in open('/proc/self/status').read()", None),
    "a device": ("os.mknod('x', 0o20600, os.makedev(1, 1))", None),
    "a user namespace": (
        "subprocess.run(['unshare', '--user', 'true'], check=True)",
        replaced("--disable-userns"),
    ),
    "a huge file": (
        "os.truncate('attack.py', 5 << 30)",
        replaced("--fsize=4294967296", "--fsize=unlimited"),
    ),
    "many processes": (
        "assert resource.getrlimit(resource.RLIMIT_NPROC)[1] != 8192",
        replaced("--nproc=8192", "--nproc=9000"),
    ),
    "all memory": (
        "assert open('/proc/self/oom_score_adj').read() != '1000\\n'",
        replaced("1000", "0"),
    ),
}


TRY: Final = """\
for attack in {attacks!r}:
    try: exec(attack)
    except Exception: continue
    sys.exit(attack)
sys.exit(7)
"""


def test_every_attack_is_stopped(target: dict[str, object]) -> None:
    attacks = [attack.format(**target) for attack, _ in ATTACKS.values()]
    assert run(TRY.format(attacks=attacks)) == 7


BROKEN: Final = {name: parts for name, parts in ATTACKS.items() if parts[1]}


@pytest.mark.parametrize(("attack", "broken"), BROKEN.values(), ids=BROKEN)
def test_an_attack_succeeds_without_its_part_of_the_wall(
    target: dict[str, object], monkeypatch: pytest.MonkeyPatch, attack: str, broken: Break
) -> None:
    built = sandbox.wall
    monkeypatch.setattr(sandbox, "wall", lambda *where: broken(built(*where)))
    assert run(attack.format(**target)) == 0


# What is left, and what comes out.

LEAVE: Final = f"""\
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.execvp("sleep", ["{SECRET}", "500"])
"""
VERB: Final = f"""\
#!{sys.executable} -I
import sys
from pathlib import Path
from duetbench.host.signals import interruptible
from observatory.github import sandbox
sandbox._MAIN, sandbox._SAVE_S = {MAIN!r}, 2
with interruptible():
    sandbox.run(Path({str(PROJECT)!r}), sys.argv[3:])
"""
SAVE: Final = """\
def save(*_): sys.exit(os.mkdir('measured') or open('measured/a', 'w').close())
signal.signal(signal.SIGTERM, save)
"""
STUBBORN: Final = """\
os.mkdir('measured')
open('measured/a', 'w').close()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
"""


def left() -> list[psutil.Process]:
    """The processes that LEAVE has left; those that end in a moment are none."""
    return psutil.wait_procs(
        [p for p in psutil.process_iter(["cmdline"]) if SECRET in (p.info["cmdline"] or ())], 20
    )[1]


def scratch() -> set[Path]:
    with paths.scratch() as own:
        return {*own.parent.iterdir()} - {own}


def test_what_is_left_behind_ends_with_the_command() -> None:
    """And folders that are closed to their owner are removed."""
    before = scratch()
    assert run(f"{LEAVE}os.mkdir('closed', 0)") == 0
    assert (left(), scratch()) == ([], before)


@pytest.mark.parametrize(
    ("script", "first"), [(SAVE, signal.SIGINT), (STUBBORN, signal.SIGINT), (SAVE, signal.SIGKILL)]
)
def test_a_cancelled_step_saves_what_it_has(
    tmp_path: Path, script: str, first: signal.Signals
) -> None:
    """GitHub's runner sends SIGINT to the step's shell alone, and SIGKILL after ten seconds."""
    (verb := tmp_path / "observatory").write_text(VERB)
    verb.chmod(0o755)
    jobs = load((PROJECT / ".github/workflows/machine.yml").read_text("utf-8"))["jobs"]
    (step,) = [s["run"] for s in jobs["run"]["steps"] if " anchor " in s.get("run", "")]
    Path("step.sh").write_text(step.replace("--budget 36m", "attack.py"))
    Path("attack.py").write_text(f"{script}{LEAVE}print('began', flush=True); time.sleep(600)")
    shell = subprocess.Popen(
        ["bash", "-e", "step.sh"],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert shell.stdout is not None
    assert shell.stdout.readline() == "began\n"
    os.kill(shell.pid, first)
    with suppress(subprocess.TimeoutExpired):
        shell.wait(60)
    with suppress(ProcessLookupError):  # what the shell has left, if this fails
        os.killpg(shell.pid, signal.SIGKILL)
    assert shell.stdout.read() == ""  # nobody has it any more
    assert left() == []
    if first == signal.SIGINT:
        assert shell.returncode == 128 + signal.SIGINT
        assert Path("measured/a").is_file()


ODD: Final = "$(touch evil) 'x' \"y\" \\ \n"
"""What a shell would take for more."""


def test_files_go_in_and_come_out_with_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    """What an earlier verb has left, too; its words without what acts on a terminal."""
    Path("measured").mkdir()
    Path("measured/a").write_text("earlier")
    script = """
assert sys.argv[3] == {ODD!r}
open('measured/b', 'w').write(open('measured/a').read())
os.mkdir('measured/.draft')
for name in ('measured/.draft/a', 'measured/.b', 'other', '../out'): open(name, 'w')
os.symlink('/etc/passwd', 'measured/link')
os.mkfifo('measured/fifo')
print('\\033[31mmeasured', os.environ['DUETBENCH_ROOT'])
sys.exit(3)
""".replace("{ODD!r}", repr(ODD))
    words = ("--select", ODD, "--profile", "/etc/passwd", "--to", "../out", "--results", "measured")
    assert run(script, *words) == 3
    assert capsys.readouterr().out == f"measured {PROJECT}\n"
    names = sorted(map(str, Path().rglob("*")))
    assert names == ["attack.py", "measured", "measured/a", "measured/b"]
    assert Path("measured/b").read_text() == "earlier"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("os.truncate(os.open('out', 66), 2 << 30)", "expected at most 8,000,000 bytes per"),
        ("os.mkdir('out')\nopen('out/x\\n::x', 'w')", "the name 'out/x\\n::x'"),
    ],
)
def test_what_is_no_set_of_plain_files_stays_inside(script: str, reason: str) -> None:
    with pytest.raises(ArtifactError, match=re.escape(reason)):
        run(script)
    assert [*map(str, Path().iterdir())] == ["attack.py"]


def test_no_line_of_it_is_a_command_to_the_runner(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is its output endless."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setattr(sandbox, "_MOST_LOG", 50)
    line = "::set-env name=LD_PRELOAD::/tmp/x.so"
    assert run(f"print({line!r})\nfor _ in range(100_000): print('more')") == 0
    first, *others = capsys.readouterr().out.splitlines()
    token = first.removeprefix("::stop-commands::")
    assert others == [line, "more", "more", "mor", f"::{token}::"]


def test_only_our_verbs_are_run() -> None:
    with pytest.raises(UsageError, match="'sh': expected duetbench or observatory"):
        sandbox.run(PROJECT, ["sh", "-c", "id", "--to", "out"])


def test_without_a_wall_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "wall", lambda *_: ["bwrap", "--not-known"])
    with pytest.raises(SetupError, match=r"Unknown option --not-known.*prepare-runner\.sh"):
        run("open('out', 'w')")
    assert not Path("out").exists()


ASK: Final = """\
def ask(place):
    with socket.create_connection(('127.0.0.1', 3128)) as way:
        way.sendall(f'CONNECT {place} HTTP/1.1\\r\\n\\r\\n'.encode())
        answer = way.makefile('rb')
        print(answer.readline().decode().split()[1])
        while answer.readline().strip(): pass
        way.sendall(b'hello\\n')
        print(answer.readline().decode().strip())
"""


def test_packages_come_from_their_hosts_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a tunnel, through which nothing else of the machine is reached."""
    with socket.create_server(("127.0.0.1", 0)) as index:
        port = index.getsockname()[1]
        monkeypatch.setenv(packages.HOSTS, f"example.org,localhost:{port},")

        def answer() -> None:
            connection, _ = index.accept()
            with connection:
                connection.sendall(connection.recv(100).upper())

        thread = threading.Thread(target=answer)
        thread.start()
        others = (f"127.0.0.1:{port}", "example.org:80", ":443")
        run(f"{ASK}ask('localhost:{port}')\nfor place in {others}: ask(place)")
        thread.join()
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["200", "HELLO"]
    assert [line for line in lines[2:] if line.isdecimal()] == ["403"] * 3
