"""Runs a command in this machine's sandbox, where untrusted code may run.

The sandbox is systemd's: `scripts/runner/duetbench-sandbox@.service`, a shell behind a Unix socket
to which only the runner's user can connect (docs/observatory/runners.md). The shell starts `serve`
with a `_Job`, and that answers by lines of JSON, each a `_Message`: what the command prints, and
the files that it has written as soon as they change. Whatever ends the command, the last of them
are written outside. All is read within bounds. The author of the measured code may also have
written it: whoever uses it checks it.
"""

import io
import os
import secrets
import select
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import IO, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from duetbench.ci import archives
from duetbench.core.errors import ArtifactError, SetupError, UsageError
from duetbench.core.text import printable, without_control
from duetbench.host import cache, files, paths
from duetbench.host.machine import measuring

SOCKET: Final = Path("/run/duetbench/sandbox")
VARIABLE: Final = "DUETBENCH_SANDBOX"
"""Names another socket, for tests."""

READ: Final = frozenset({"--plan", "--from"})
"""Options that name a file or folder to read."""

WRITTEN: Final = frozenset({"--results", "--to", "-o", "--output"})
"""Options that name a file or folder to write, which may exist already."""

_MOST_LOG: Final = 4_000_000  # bytes of output passed on; a comparison prints a hundredth of it
_MOST_TEXT: Final = 1_000_000  # characters of output in a message
_MOST_LINE: Final = 2 * archives.MOST_TOTAL  # bytes of a message
_MOST_SENT: Final = 20 * archives.MOST_PACKED
"""Bytes of all messages: a night's files of some 100 kB each go out a few hundred times."""

_SHARED: Final = ("environments/*", "interpreters/*", "tools/*")
_PYTHON: Final = (sys.executable, "-I", "-c")
_MAIN: Final = "from {}.cli import main; main()"
_PROGRAMS: Final = ("duetbench", "observatory")
_SERVE: Final = (*_PYTHON, "from observatory.github.sandbox import serve; serve()")
_LOGS: Final = (
    "sh",
    "-c",
    """find "$XDG_STATE_HOME" -name '*.log' -size +0 -exec tail -n 20 {} + 2>/dev/null""",
)

_POLL_S: Final = 0.25
_LOOK_S: Final = 2.0  # between looks for changed files
_SAVE_S: Final = 6.0
"""Seconds in which a cancelled command saves what it has. GitHub's runner sends SIGINT to a step,
SIGTERM after 7.5 s, and kills it after 2.5 s more."""

# A network of its own lists no socket of another process. In the machine's, the sandbox could reach
# services, and any name server by the machine's resolver.
_WALLED: Final = """
from pathlib import Path
if Path("/proc/net/unix").read_text().count("\\n") > 1:
    print("the sandbox shares this machine's network: run scripts/prepare-runner.sh again")
    raise SystemExit(4)
"""

_JOB_FD: Final = 3


class _Lines(BaseModel):
    model_config = ConfigDict(extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")


class _Job(_Lines):
    """What the sandbox does: commands one after another, until one fails."""

    root: str  # of the checkout
    commands: list[list[str]]
    inputs: dict[str, bytes]  # by their paths in the folder of the commands
    links: dict[str, str]  # path in the sandbox's cache → what the machine has there
    written: list[str]  # files and folders of the commands


class _Message(_Lines):
    """What the sandbox says: some of it."""

    text: str = ""
    files: dict[str, bytes] | None = None  # all that was written, as it is now
    code: int | None = Field(default=None, ge=0, le=255)  # at the end


def run(root: Path, words: Sequence[str]) -> int:
    """Run a command in the sandbox on a checkout, and return its exit code.

    Files that it names in this folder are copied in, and out whenever they change. Raises
    SetupError if the machine has no sandbox, or it is in use; BusyError if something else is
    measuring; UsageError if a file or folder is not a name in this folder; ArtifactError if the
    output is not a set of plain files within bounds.
    """
    if words[0] not in _PROGRAMS:
        raise UsageError(f"{words[0]!r}: expected {' or '.join(_PROGRAMS)}, and a command of it")
    pairs = [pair for pair in pairwise(words) if pair[0] in READ | WRITTEN]
    for option, name in pairs:
        if not archives.is_plain(name):  # the name is the same in the sandbox
            raise UsageError(f"{option} {name!r}: expected a name in this folder")
    written = [name for option, name in pairs if option in WRITTEN]
    if not written:
        raise UsageError(f"expected one of {', '.join(sorted(WRITTEN))} and a name: the output")
    job = _Job(
        root=str(root),
        commands=[[*_PYTHON, _WALLED], [*_PYTHON, _MAIN.format(words[0]), *words[1:]]],
        inputs={str(file): file.read_bytes() for file in _files(name for _, name in pairs)},
        links={str(entry.relative_to(paths.cache_dir())): str(entry) for entry in _shared()},
        written=written,
    )
    # One command, so the shell has read all of it before it starts anything.
    script = f"exec {shlex.join(_SERVE)} {_JOB_FD}<<'END'\n{job.model_dump_json()}\nEND\n"
    with (
        measuring(),  # nobody out here sees the lock of those in there
        _connected() as connection,
        ThreadPoolExecutor(1) as pool,  # signals come to this thread
    ):
        with suppress(ConnectionError):
            connection.sendall(script.encode())
        reply = pool.submit(_receive, connection, written)
        try:
            return reply.result()
        except (KeyboardInterrupt, SystemExit):  # what it has until then is handed out
            with suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
            raise


def _shared() -> Iterator[Path]:
    """Yield complete artefacts of the cache, which no longer change: the sandbox reads them."""
    for entry in chain.from_iterable(map(paths.cache_dir().glob, _SHARED)):
        is_complete = any(cache.facts(kind) is not None for kind in (entry, *entry.glob("*")))
        if is_complete and not entry.name.startswith("."):
            yield entry


def _files(names: Iterable[str]) -> Iterator[Path]:
    """Yield the plain files of this folder that have these names, or lie in such a folder."""
    for name in names:
        for path in (Path(name), *sorted(Path(name).rglob("*"))):
            if path.is_file() and not path.is_symlink():
                yield path


def require() -> None:
    """Raise SetupError if this machine has no sandbox, or its user may not use it."""
    with _connected():
        pass


@contextmanager
def _connected() -> Iterator[socket.socket]:
    place = os.environ.get(VARIABLE, str(SOCKET))
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(place)
        except OSError as error:
            raise SetupError(
                f"{place}: {error.strerror}: this machine has no sandbox for untrusted code; "
                "scripts/prepare-runner.sh creates it (docs/observatory/runners.md)"
            ) from error
        yield connection


def _receive(connection: socket.socket, written: Sequence[str]) -> int:
    """Print the text as it arrives, then write the last files; return the command's exit code."""
    room, code = _MOST_LOG, None
    sent: Mapping[str, bytes] = {}
    with _quoted(), connection.makefile("rb") as reader:
        try:
            for message in _messages(reader):
                text = message.text[:room]
                room -= len(text)
                sys.stdout.write(without_control(text))
                sys.stdout.flush()
                sent = sent if message.files is None else message.files
                if (code := message.code) is not None:
                    break
        finally:
            _lay_out(sent, written)
    if code is None:
        raise SetupError(
            "the sandbox ended before the command, or another job uses it: see "
            "`journalctl -u 'duetbench-sandbox*'`"
        )
    return code


def _messages(reader: IO[bytes]) -> Iterator[_Message]:
    """Yield what the sandbox sends until it has ended; raises ArtifactError beyond the bounds."""
    sent = 0
    with suppress(ConnectionError):
        while line := reader.readline(_MOST_LINE):
            sent += len(line)
            if len(line) == _MOST_LINE or sent > _MOST_SENT:
                raise ArtifactError(
                    f"the sandbox sent more than {_MOST_LINE:,} bytes at once, or {_MOST_SENT:,}"
                )
            try:
                yield _Message.model_validate_json(line)
            except ValidationError as error:  # words of the shell, perhaps
                words = printable(line.decode("utf-8", "replace").rstrip())
                raise ArtifactError(f"the sandbox sent {words}") from error


def _lay_out(sent: Mapping[str, bytes], written: Sequence[str]) -> None:
    """Write the files of the sandbox to this folder; raises ArtifactError."""
    checked = archives.bounded((name, partial(io.BytesIO, data)) for name, data in sent.items())
    for name in checked:
        if name.partition("/")[0] not in written:
            raise ArtifactError(f"the file {name}, which the command was not to write")
    for name, data in checked.items():
        files.replace(Path(name), data)


@contextmanager
def _quoted() -> Iterator[None]:
    """Prevent GitHub's runner from executing a line of untrusted text as a command."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        yield
        return
    token = secrets.token_hex(16)
    sys.stdout.write(f"::stop-commands::{token}\n")
    try:
        yield
    finally:
        sys.stdout.write(f"\n::{token}::\n")
        sys.stdout.flush()


def serve() -> None:
    """Do a job in the sandbox: a file descriptor has it, and standard input is the client."""
    with os.fdopen(_JOB_FD, "rb") as file:
        job = _Job.model_validate_json(file.read())
    home = Path(os.environ["HOME"])
    (home / ".gitconfig").write_text("[safe]\n\tdirectory = *\n")
    os.environ["DUETBENCH_ROOT"] = job.root
    for name, target in job.links.items():
        link = paths.cache_dir() / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
    (home / "work").mkdir()
    os.chdir(home / "work")
    for name, data in job.inputs.items():
        files.replace(Path(name), data)
    server = _Server(home / "output", job.written)
    if code := next(filter(None, map(server.run, job.commands)), 0):
        server.run(_LOGS)
    server.send_files()
    server.send(_Message(code=code))


class _Server:
    """Runs commands, whose output goes to a file, and sends what they print and write."""

    def __init__(self, output: Path, written: Sequence[str]) -> None:
        self._client, self._written = socket.socket(fileno=0), written
        self._output = output.open("ab")
        self._printed = output.open(encoding="utf-8", errors="replace")
        self._sent: object = []

    def run(self, command: Sequence[str]) -> int:
        """Run a command to its end, or until the client wants no more; return its exit code."""
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self._output, stderr=subprocess.STDOUT
        )
        look = 0.0
        while process.poll() is None:
            self._send_text()
            heard = select.select([self._client], [], [], _POLL_S)[0]
            if heard and not self._client.recv(1024):  # the client sends nothing but its end
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_SAVE_S)
                process.kill()
                process.wait()
            elif time.monotonic() > look:
                look = time.monotonic() + _LOOK_S
                self.send_files()
        self._send_text()
        return process.returncode if process.returncode >= 0 else 128 - process.returncode

    def _send_text(self) -> None:
        while text := self._printed.read(_MOST_TEXT):
            self.send(_Message(text=text))

    def send_files(self) -> None:
        """Send all files, if any has changed; hidden ones are drafts of others."""
        with suppress(OSError):  # a file has gone meanwhile: the next look sees that
            found = [path for path in _files(self._written) if "/." not in f"/{path}"]
            state = [(path, path.stat().st_mtime_ns, path.stat().st_size) for path in found]
            if state != self._sent:
                self.send(_Message(files={str(path): path.read_bytes() for path in found}))
                self._sent = state

    def send(self, message: _Message) -> None:
        """Send a line."""
        self._client.sendall(message.model_dump_json(exclude_defaults=True).encode() + b"\n")
