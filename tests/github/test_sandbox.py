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
from duetbench.core.errors import ArtifactError, SetupError, UsageError
from duetbench.host import machine
from observatory.github import sandbox

pytestmark = [pytest.mark.real, pytest.mark.thorough]

WALLED: Final = sandbox._WALLED
MAIN: Final = """\
import json, os, pathlib, signal, sys, time
exec(pathlib.Path(os.environ["STAND_IN"]).read_text())
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
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "STAND_IN": str(script)}
    env |= {f"XDG_{name.upper()}_HOME": f"{home}/{name}" for name in ("cache", "state")}
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))
        listening.listen()

        def serve() -> None:
            with suppress(OSError):  # until the test has ended
                while True:
                    connection, _ = listening.accept()
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

        threading.Thread(target=serve, daemon=True).start()
        yield script
        listening.shutdown(socket.SHUT_RDWR)


def run(*words: str) -> int:
    return sandbox.run(Path("/checkout"), list(words))


ODD: Final = "$(touch evil) 'x' \"y\" \\ \n"
"""What a shell would take for more."""


def test_files_go_in_and_come_out_with_the_exit_code(
    verb: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan and what an earlier verb has left; its words without what acts on a terminal.

    Complete artefacts of the machine's cache are there, whatever their names.
    """
    Path("night.json").write_bytes(bytes(range(256)) * 10_000)
    (Path("measured") / "runs").mkdir(parents=True)
    (Path("measured") / "runs" / "a.json").write_text("earlier")
    tools = "duetbench/tools/x $(touch evil)"
    (shared := tmp_path / "cache" / tools).mkdir(parents=True)
    (shared / "made.json").write_text("{}")
    (tmp_path / "cache/duetbench/tools/half").mkdir()
    verb.write_text(
        "assert pathlib.Path('night.json').read_bytes() == bytes(range(256)) * 10_000\n"
        "pathlib.Path('measured/runs/b.json').write_text(\n"
        "    json.dumps([*sys.argv[1:], pathlib.Path('measured/runs/a.json').read_text()]))\n"
        "pathlib.Path('measured/link').symlink_to('/etc/passwd')\n"
        "print('\\033[31mmeasured', os.environ['DUETBENCH_ROOT'], os.environ.get('SECRET'))\n"
        "raise SystemExit(3)\n"
    )
    words = ("anchor", "run", "--plan", "night.json", "--select", ODD, "--results", "measured")
    assert run("observatory", *words) == 3
    assert json.loads(Path("measured/runs/b.json").read_text()) == [*words, "earlier"]
    assert not Path("measured/link").is_symlink()
    assert capsys.readouterr().out == "measured /checkout None\n"
    links = tmp_path / "home/cache/duetbench/tools"
    assert {link.name: link.resolve() for link in links.iterdir()} == {shared.name: shared}
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize(
    "words",
    [
        "sh -c id --to out",
        "observatory measure",
        "observatory measure --to ../out",
        "observatory measure --plan /etc/passwd --to out",
    ],
)
def test_only_verbs_with_names_of_this_folder_are_run(verb: Path, words: str) -> None:
    verb.write_text("print('ran')")
    with pytest.raises(UsageError, match="expected"):
        run(*words.split())


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
        (True, "files('out/a', 'out/../b'); say(code=0)", "the name 'out/../b'"),
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
    assert [*Path().iterdir()] == []


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


def test_whatever_ends_the_sandbox_its_last_files_are_outside(verb: Path) -> None:
    """As they were sent last, without drafts; text after text arrives, too."""
    verb.write_text(
        "os.mkdir('out')\n"
        "for name in ('a.partial.json', '.draft', 'a.json'):\n"
        "    pathlib.Path('out', name).write_text(name)\n"
        "os.unlink('out/a.partial.json')\n"
        "time.sleep(5)\n"  # longer than between two looks
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
    jobs = load((PROJECT / ".github/workflows/shard.yml").read_text("utf-8"))["jobs"]
    (script,) = [s["run"] for s in jobs["run"]["steps"] if " anchor run " in s.get("run", "")]
    Path("step.sh").write_text(script)
    Path("night.json").touch()
    shell = subprocess.Popen(
        ["bash", "-e", "step.sh"],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "SHARD": "1"},
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
    verb.write_text("print('::set-env name=LD_PRELOAD::/tmp/x.so')\n")
    assert run("observatory", "detect", "--to", "out") == 0
    first, *others = capsys.readouterr().out.splitlines()
    token = first.removeprefix("::stop-commands::")
    assert others == ["::set-env name=LD_PRELOAD::/tmp/x.so", "", f"::{token}::"]


def test_a_sandbox_without_a_network_of_its_own_measures_nothing(
    verb: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on the machine that this test runs on, outside of the unit; one of its own is seen."""
    verb.write_text("open('out', 'w')")
    monkeypatch.setattr(sandbox, "_WALLED", WALLED)
    assert run("observatory", "detect", "--to", "out") == 4
    assert "the sandbox shares this machine's network" in capsys.readouterr().out
    assert not Path("out").exists()
    unshare = ["unshare", "--map-root-user", "--net"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system gives processes no network of their own")
    subprocess.run([*unshare, sys.executable, "-I", "-c", WALLED], check=True)
