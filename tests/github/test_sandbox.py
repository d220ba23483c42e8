"""A verb in the sandbox: what is handed in, what comes out, and what cannot.

Without systemd a shell stands in for its unit, on a real socket: what the sandbox closes off is the
unit's, what this tests is the script that it gets and what is made of the answer.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Final

import pytest

from acting import PROJECT, load
from duetbench.core.errors import ArtifactError, SetupError
from duetbench.host import machine
from observatory.github import sandbox

pytestmark = [pytest.mark.real, pytest.mark.thorough]

MAIN: Final = """\
import json, os, pathlib, signal, sys, time
script = pathlib.Path(os.environ["STAND_IN"]).read_text()
exec(script)
"""


@pytest.fixture
def verb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file: what it holds is run in place of a verb, in what stands in for the sandbox."""
    here, home, script = tmp_path / "here", tmp_path / "home", tmp_path / "verb.py"
    for folder in (here, home, tmp_path / "cache"):
        folder.mkdir()
    place = tmp_path / "socket"
    monkeypatch.chdir(here)
    monkeypatch.setenv(sandbox.VARIABLE, str(place))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sandbox, "_MAIN", MAIN)
    monkeypatch.setattr(sandbox, "_WALLED", "")
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "STAND_IN": str(script),
        "XDG_CACHE_HOME": f"{home}/cache",
        "XDG_STATE_HOME": f"{home}/state",
    }
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))
        listening.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    end = connection.fileno()
                    shell = subprocess.Popen(
                        ["/bin/sh", "-s"],
                        stdin=end,
                        stdout=end,
                        env=env,
                        cwd=home,
                        start_new_session=True,
                    )
                # What the unit does when its main process has ended.
                shell.wait()
                with suppress(ProcessLookupError):
                    os.killpg(shell.pid, signal.SIGKILL)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield script
        listening.shutdown(socket.SHUT_RDWR)


def run(*words: str) -> int:
    return sandbox.run(Path("/checkout"), list(words))


def test_files_go_in_and_come_out_with_the_exit_code(
    verb: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan and what an earlier verb has left; its words without what acts on a terminal."""
    Path("night.json").write_bytes(bytes(range(256)) * 10_000)
    (Path("measured") / "runs").mkdir(parents=True)
    (Path("measured") / "runs" / "a.json").write_text("earlier")
    verb.write_text(
        "assert pathlib.Path('night.json').read_bytes() == bytes(range(256)) * 10_000\n"
        "pathlib.Path('measured/runs/b.json').write_text(\n"
        "    json.dumps([*sys.argv[1:], pathlib.Path('measured/runs/a.json').read_text()]))\n"
        "pathlib.Path('measured/link').symlink_to('/etc/passwd')\n"
        "print('\\033[31mmeasured', os.environ['DUETBENCH_ROOT'], os.environ.get('SECRET'))\n"
        "raise SystemExit(3)\n"
    )
    words = ("observatory", "anchor", "run", "--plan", "night.json", "--results", "measured")
    assert run(*words) == 3
    written = json.loads((Path("measured") / "runs" / "b.json").read_text())
    assert written == [*words[1:], "earlier"]
    assert not (Path("measured") / "link").is_symlink()
    assert capsys.readouterr().out == "measured /checkout None\n"


FORGED: Final = """\
import json, os
os.read(3, 1_000_000)
def say(**what): print(json.dumps(what), flush=True)
def files(*names): say(files=dict.fromkeys(names, ""))
"""


@pytest.mark.parametrize(
    ("forged", "script", "reason"),
    [
        (False, "open('out', 'wb').truncate(40_000_000)", "expected at most 8,000,000 bytes per"),
        (False, "open('out', 'wb').truncate(60_000_000)", "sent more than 64,000,000 bytes at"),
        (True, "files('out/.bashrc'); say(code=0)", "the name 'out/.bashrc'"),
        (True, "files('other.json'); say(code=0)", "other.json, which the command was not"),
        (True, "files('out/a'); files('out/../b'); say(code=0)", "the name 'out/../b'"),
        (True, "say(files={'out': '?'})", """sent '{"files": {"out": "?"}}'"""),
        (True, "say(code=-1)", """sent '{"code": -1}'"""),
        (True, "say(link='out')", """sent '{"link": "out"}'"""),
        (True, "print('sh: 1: python: not found')", "sent 'sh: 1: python: not found"),
    ],
)
def test_what_is_no_set_of_plain_files_stays_outside(
    verb: Path, monkeypatch: pytest.MonkeyPatch, forged: bool, script: str, reason: str
) -> None:
    """Whoever wrote the code may have the connection as well."""
    verb.write_text(script)
    if forged:
        monkeypatch.setattr(sandbox, "_SERVE", (sys.executable, "-I", "-c", FORGED + script))
    with pytest.raises(ArtifactError, match=re.escape(reason)):
        run("duetbench", "run-it", "--to", "out")
    assert {str(path) for path in Path().rglob("*")} <= {"out", "out/a"}


@pytest.mark.usefixtures("verb")
@pytest.mark.parametrize(("messages", "refused"), [(3, False), (4, True)])
def test_what_it_sends_is_bounded_in_all(
    monkeypatch: pytest.MonkeyPatch, messages: int, refused: bool
) -> None:
    """A message of a file has 23 bytes, and the end 12."""
    script = f"{FORGED}for _ in range({messages}): files('out')\nsay(code=0)"
    monkeypatch.setattr(sandbox, "_SERVE", (sys.executable, "-I", "-c", script))
    monkeypatch.setattr(sandbox, "_MOST_SENT", 3 * 23 + 12)
    with pytest.raises(ArtifactError) if refused else nullcontext():
        run("duetbench", "run-it", "--to", "out")


def test_files_come_out_while_the_verb_runs(verb: Path) -> None:
    """Whatever ends the sandbox, what was written is outside: as it was, and without drafts."""
    verb.write_text(
        f"outside = pathlib.Path({str(Path.cwd() / 'out')!r})\n"
        "def write(*names):\n"
        "    for name in names: pathlib.Path('out', name).write_text(name)\n"
        "def expect(*names):\n"
        "    ends = time.monotonic() + 30\n"
        "    while {path.name for path in outside.glob('*')} != {*names}:\n"
        "        if time.monotonic() > ends: raise SystemExit(9)\n"
        "        time.sleep(0.01)\n"
        "os.mkdir('out')\n"
        "write('a.partial.json', '.draft')\n"
        "expect('a.partial.json')\n"
        "write('a.json')\n"
        "os.unlink('out/a.partial.json')\n"
        "expect('a.json')\n"
        "os.kill(os.getppid(), signal.SIGKILL)\n"
    )
    with pytest.raises(SetupError, match="the sandbox ended before the command"):
        run("duetbench", "run", "--results", "out")
    assert [path.name for path in Path("out").iterdir()] == ["a.json"]


COMMAND: Final = f"""\
#!{sys.executable} -I
import sys
from pathlib import Path
from observatory.github import sandbox
from duetbench.host.signals import interruptible
sandbox._MAIN, sandbox._WALLED = {MAIN!r}, ""
with interruptible():
    sandbox.run(Path("/checkout"), sys.argv[3:])
"""


def test_a_cancelled_step_saves_what_it_has(verb: Path, tmp_path: Path) -> None:
    """GitHub's runner sends SIGINT to the step's shell alone; SIGTERM and SIGKILL come later."""
    verb.write_text(
        "def save(*_): sys.exit(os.mkdir('measured') or open('measured/a', 'w').close())\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "print('began', flush=True)\n"
        "time.sleep(600)\n"
    )
    command = tmp_path / "observatory"
    command.write_text(COMMAND)
    command.chmod(0o755)
    jobs = load((PROJECT / ".github" / "workflows" / "shard.yml").read_text("utf-8"))["jobs"]
    (script,) = [s["run"] for s in jobs["run"]["steps"] if " anchor run " in s.get("run", "")]
    Path("step.sh").write_text(script)
    Path("night.json").touch()
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "SHARD": "1"}
    shell = subprocess.Popen(
        ["bash", "-e", "step.sh"],
        env=env,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert shell.stdout is not None
    assert shell.stdout.readline() == "began\n"
    for number, seconds in ((signal.SIGINT, 7.5), (signal.SIGTERM, 2.5), (signal.SIGKILL, 60)):
        os.kill(shell.pid, number)
        with suppress(subprocess.TimeoutExpired):
            shell.wait(seconds)
            break
    with suppress(ProcessLookupError):  # what the shell has left, if this fails
        os.killpg(shell.pid, signal.SIGKILL)
    assert shell.returncode == 128 + signal.SIGINT
    assert Path("measured/a").is_file()


def test_nobody_measures_beside_it(verb: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The machine is held by this process, which shares its network with others."""
    verb.write_text(
        f"os.environ[{machine.LOCK!r}] = {os.environ[machine.LOCK]!r}\n"
        "from duetbench.host.machine import measuring\n"
        "with measuring(): print('free')\n"
    )
    assert run("duetbench", "run", "--results", "out") == 1
    assert f"another duetbench is measuring on it (pid {os.getpid()} " in capsys.readouterr().out


def test_no_line_of_it_is_a_command_to_the_runner(
    verb: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    verb.write_text("print('::set-env name=LD_PRELOAD::/tmp/x.so'); open('out', 'w')\n")
    assert run("observatory", "detect", "--to", "out") == 0
    first, *others = capsys.readouterr().out.splitlines()
    token = first.removeprefix("::stop-commands::")
    assert others == ["::set-env name=LD_PRELOAD::/tmp/x.so", "", f"::{token}::"]


def test_a_sandbox_without_a_network_of_its_own_measures_nothing(
    verb: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on the machine that this test runs on, outside of the unit."""
    verb.write_text("open('out', 'w')")
    monkeypatch.setattr(sandbox, "_WALLED", WALLED)
    assert run("observatory", "detect", "--to", "out") == 4
    assert "the sandbox shares this machine's network" in capsys.readouterr().out
    assert not Path("out").exists()


def test_a_network_of_its_own_is_recognised() -> None:
    unshare = ["unshare", "--map-root-user", "--net"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system gives processes no network of their own")
    subprocess.run([*unshare, sys.executable, "-I", "-c", WALLED], check=True)


WALLED: Final = sandbox._WALLED


def test_the_script_is_read_whole_and_names_are_quoted(verb: Path, tmp_path: Path) -> None:
    """A name of the cache, or a word, that a shell would take for more."""
    result = tmp_path / "cache" / "duetbench" / "tools" / "x $(touch evil)"
    result.mkdir(parents=True)
    (result / "made.json").write_text("{}")
    verb.write_text("pathlib.Path('out').write_text(json.dumps(sys.argv[1:]))")
    words = ("duetbench", "compare", "--select", "$(touch evil) 'x' \"y\" \\ \n", "--to", "out")
    assert run(*words) == 0
    assert json.loads(Path("out").read_text()) == list(words[1:])
    link = tmp_path / "home" / "cache" / "duetbench" / "tools" / result.name
    assert link.resolve() == result
    assert not list(tmp_path.rglob("evil"))
