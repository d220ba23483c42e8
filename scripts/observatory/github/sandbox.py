"""Runs a command in this machine's sandbox, where untrusted code may run.

The sandbox is systemd's: `scripts/runner/duetbench-sandbox@.service`, a shell behind a Unix socket
to which only the runner's user can connect (docs/runners.md). This module writes the shell's
script, which ends in `serve`. That sends what the command prints, and the files that it has written
as soon as they change: whatever ends the command, what it had measured is outside by then. All is
unpacked within bounds. The author of the measured code may also have written it: whoever uses it
checks it.
"""

import base64
import codecs
import io
import json
import math
import os
import secrets
import select
import shlex
import socket
import struct
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import IO, Final

from duetbench.ci import archives
from duetbench.core.errors import ArtifactError, SetupError, UsageError
from duetbench.core.text import printable, without_control
from duetbench.host import cache as artefact
from duetbench.host import files, paths
from duetbench.host.machine import measuring

SOCKET: Final = Path("/run/duetbench/sandbox")
VARIABLE: Final = "DUETBENCH_SANDBOX"
"""Names another socket, for tests."""

READ: Final = frozenset({"--plan", "--from"})
"""Options that name a file or folder to read."""

WRITTEN: Final = frozenset({"--results", "--to", "-o", "--output"})
"""Options that name a file or folder to write, which may exist already."""

_MOST_LOG: Final = 4_000_000  # bytes of output passed on; a comparison prints a hundredth of it
_MOST_SENT: Final = 20 * archives.MOST_PACKED
"""Bytes of all archives: a night's files of some 100 kB each go out a few hundred times."""

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

_FRAME: Final = struct.Struct(">cI")  # kind and length of what follows
_TEXT, _FILES, _CODE = b"t", b"f", b"c"
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

# The script is one command, so the shell has read all of it before it starts anything.
_SCRIPT: Final = """{{
mkdir -p "$HOME/work" && cd "$HOME/work" || exit
printf '[safe]\\n\\tdirectory = *\\n' >"$HOME/.gitconfig"
{lines}
exec {serve}
}}
"""


def run(root: Path, words: Sequence[str]) -> int:
    """Run a command in the sandbox on a checkout, and return its exit code.

    Files that it names in this folder are copied in, and out whenever they change. Raises
    SetupError if the machine has no sandbox, or it is in use; BusyError if something else is
    measuring; UsageError if a file or folder is not a name in this folder; ArtifactError if the
    output is not a set of plain files within bounds.
    """
    if words[0] not in _PROGRAMS:
        raise UsageError(f"{words[0]!r}: expected {' or '.join(_PROGRAMS)}, and a command of it")
    names: dict[str, str] = {}
    for option, name in pairwise(words):
        if option in READ | WRITTEN:
            if not archives.is_plain(name):  # the name is the same in the sandbox
                raise UsageError(f"{option} {name!r}: expected a name in this folder")
            names[option] = name
    written = [name for option, name in names.items() if option in WRITTEN]
    if not written:
        raise UsageError(f"expected one of {', '.join(sorted(WRITTEN))} and a name: the output")
    reply = _Reply(written)
    with measuring(), _connected() as connection:  # nobody out here sees the lock of those in there
        try:
            with suppress(ConnectionError):
                connection.sendall(script(root, words, names.values(), written).encode())
                reply.receive(connection)
        except (KeyboardInterrupt, SystemExit):  # until then; the rest is handed out now
            with suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
                reply.receive(connection)
            raise
    return reply.code()


def script(root: Path, words: Sequence[str], inputs: Iterable[str], written: Sequence[str]) -> str:
    """Return the shell script that runs a command."""
    cache = paths.cache_dir()
    lines = [f"export DUETBENCH_ROOT={shlex.quote(str(root))}"]
    for entry in _shared(cache):
        below = entry.relative_to(cache)
        lines.append(f'mkdir -p "$XDG_CACHE_HOME/duetbench/{below.parent}"')
        lines.append(f'ln -s {shlex.quote(str(entry))} "$XDG_CACHE_HOME/duetbench/{below.parent}/"')
    for name in inputs:
        for file in [Path(name)] if Path(name).is_file() else sorted(Path(name).rglob("*")):
            if file.is_file():
                where, text = shlex.quote(str(file)), base64.encodebytes(file.read_bytes())
                lines.append(f"mkdir -p {shlex.quote(str(file.parent))}")
                lines.append(f"base64 -d >{where} <<'END'\n{text.decode()}END")
    # Creating an environment also runs code of its packages, so it happens in the sandbox.
    tool, observatory = ([*_PYTHON, _MAIN.format(program)] for program in _PROGRAMS)
    setup = [[*tool, "setup"]] if words[:2] == ["observatory", "measure"] else []
    program = tool if words[0] == _PROGRAMS[0] else observatory
    commands = [[*_PYTHON, _WALLED], *setup, [*program, *words[1:]]]
    return _SCRIPT.format(
        lines="\n".join(lines), serve=shlex.join([*_SERVE, json.dumps([commands, written])])
    )


def _shared(cache: Path) -> Iterator[Path]:
    """Yield complete artefacts of the cache, which no longer change: the sandbox reads them."""
    for pattern in _SHARED:
        for entry in sorted(cache.glob(pattern)):
            kinds = [entry] if artefact.facts(entry) is not None else [*entry.glob("*")]
            if not entry.name.startswith(".") and any(artefact.facts(k) is not None for k in kinds):
                yield entry


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
                "scripts/prepare-runner.sh creates it (docs/runners.md)"
            ) from error
        yield connection


class _Reply:
    """What the sandbox sends: text of the command, archives of its files, and its exit code."""

    def __init__(self, written: Sequence[str]) -> None:
        self._written = written
        self._data, self._end = bytearray(), b""
        self._most_text, self._most_files = _MOST_LOG, _MOST_SENT
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unpacked: archives.Files = {}
        self._fault: ArtifactError | None = None

    def receive(self, connection: socket.socket) -> None:
        """Print the text and unpack the files as they arrive, until the sandbox has ended."""
        with _quoted():
            while not self._end and (data := connection.recv(65536)):
                self._data += data
                while frame := self._frame():
                    self._take(*frame)

    def _frame(self) -> tuple[bytes, bytes] | None:
        """Remove the first frame from the data; None: it is not complete yet."""
        if len(self._data) < _FRAME.size:
            return None
        kind, length = _FRAME.unpack_from(self._data)
        if kind not in {_TEXT, _FILES, _CODE}:  # words of the shell
            raise ArtifactError(f"the sandbox sent {printable(self._data.decode('latin-1'))}")
        if length > archives.MOST_PACKED:
            raise ArtifactError(f"the sandbox sent more than {archives.MOST_PACKED:,} bytes")
        if len(self._data) < (end := _FRAME.size + length):
            return None
        content = bytes(self._data[_FRAME.size : end])
        del self._data[:end]
        return kind, content

    def _take(self, kind: bytes, content: bytes) -> None:
        if kind == _TEXT:
            printed = content[: self._most_text]
            self._most_text -= len(printed)
            sys.stdout.write(without_control(self._decoder.decode(printed)))
            sys.stdout.flush()
        elif kind == _CODE:
            self._end = content
        else:
            self._most_files -= len(content)
            if self._most_files < 0:
                raise ArtifactError(f"the sandbox sent more than {_MOST_SENT:,} bytes of files")
            try:
                self._unpack(content)
                self._fault = None
            except ArtifactError as error:  # a file of a moment, perhaps: the last archive counts
                self._fault = error

    def _unpack(self, archive: bytes) -> None:
        """Lay out the files in this folder as they are in the sandbox now."""
        unpacked = untar(archive)
        for name in unpacked:
            if name.partition("/")[0] not in self._written:
                raise ArtifactError(f"the file {name}, which the command was not to write")
        for name, data in unpacked.items():
            if self._unpacked.get(name) != data:
                files.replace(Path(name), data)
        for name in self._unpacked.keys() - unpacked.keys():
            Path(name).unlink(missing_ok=True)
        self._unpacked = unpacked

    def code(self) -> int:
        """Return the command's exit code; raises if it is none, or the files were refused."""
        if self._fault is not None:
            raise self._fault
        if not self._end:
            raise SetupError(
                "the sandbox ended before the command, or another job uses it: see "
                "`journalctl -u 'duetbench-sandbox*'`"
            )
        if not self._end.isdigit() or len(self._end) > 3:
            raise ArtifactError("the sandbox sent no exit code")
        return int(self._end)


def untar(data: bytes) -> archives.Files:
    """Return the files of a tar archive; ArtifactError if it has more than files and folders."""
    kind = archives.reading("tar archive")
    with kind, tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        entries = (entry for entry in archive if not entry.isdir())
        return archives.bounded(
            (entry.name, partial(_regular, archive, entry)) for entry in entries
        )


def _regular(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> IO[bytes]:
    file = archive.extractfile(entry) if entry.isreg() else None
    if file is None:
        raise ArtifactError(f"{printable(entry.name)} is not a plain file")
    return file


def serve() -> None:
    """Run commands in the sandbox, one after another until one fails; standard input is the client.

    The program's argument has the commands and the names of the files that they write, as JSON.
    """
    commands, written = json.loads(sys.argv[1])
    with socket.socket(fileno=0) as client:
        sender = _Sender(client, written)
        code = 0
        for command in commands:
            if code := sender.run(command):
                sender.run(_LOGS)
                break
        sender.send_files()
        sender.send(_CODE, str(code).encode())


class _Sender:
    """Sends what commands print, and the files that they write whenever those have changed."""

    def __init__(self, client: socket.socket, written: Sequence[str]) -> None:
        self._client, self._written = client, [Path(name) for name in written]
        self._sent: object = []
        self._next = 0.0  # look, on the monotonic clock

    def run(self, command: Sequence[str]) -> int:
        """Run a command to its end, or until the client wants no more; return its exit code."""
        output, into = os.pipe()
        os.set_blocking(output, False)
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=into, stderr=subprocess.STDOUT
        )
        os.close(into)
        sources, ends = [output, self._client.fileno()], math.inf
        while process.poll() is None:
            for source in select.select(sources, [], [], _POLL_S)[0]:
                if data := _read(source):
                    self.send(_TEXT, data)
                    continue
                sources.remove(source)
                if source != output:  # the client sends nothing but its end
                    process.terminate()
                    ends = time.monotonic() + _SAVE_S
            if (now := time.monotonic()) > ends:
                process.kill()
            if now > self._next:
                self._next = now + _LOOK_S
                self.send_files()
        self.send(_TEXT, _read(output))  # not of processes that go on: nobody waits for them
        os.close(output)
        return process.returncode if process.returncode >= 0 else 128 - process.returncode

    def send_files(self) -> None:
        """Send an archive of all files, if any has changed."""
        archive = io.BytesIO()
        try:
            state = [
                (path, (status := path.lstat()).st_mtime_ns, status.st_size)
                for path in self._found()
            ]
            if state == self._sent:
                return
            with tarfile.open(fileobj=archive, mode="w") as tar:
                for path, *_ in state:
                    tar.add(path, recursive=False)
        except OSError:  # a file has gone meanwhile: the next look sees that
            return
        self.send(_FILES, archive.getvalue())
        self._sent = state

    def _found(self) -> Iterator[Path]:
        """Yield the files; hidden ones are drafts of others."""
        for name in self._written:
            for path in (name, *sorted(name.rglob("*"))):
                hidden = any(part.startswith(".") for part in path.parts)
                if not hidden and (path.is_file() or path.is_symlink()):
                    yield path

    def send(self, kind: bytes, content: bytes) -> None:
        """Send a frame."""
        self._client.sendall(_FRAME.pack(kind, len(content)) + content)


def _read(source: int) -> bytes:
    """Read what is there; empty at the end, or if there is nothing."""
    try:
        return os.read(source, 1_000_000)
    except OSError:
        return b""


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
