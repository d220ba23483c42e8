"""Runs a command of duetbench in this machine's sandbox, where untrusted code may run.

The sandbox is systemd's: `scripts/runner/duetbench-sandbox@.service`, a shell behind a Unix socket
to which only the runner's user can connect (docs/runners.md). This module writes the shell's
script, passes on what the command prints, and unpacks the files that it leaves, all within bounds.
The author of the measured code may also have written the output: whoever uses it checks it.
"""

import base64
import codecs
import os
import secrets
import shlex
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final

from duetbench.core.errors import ArtifactError, DuetbenchError, SetupError, UsageError
from duetbench.core.text import without_control
from duetbench.github import archives
from duetbench.host import cache as artefact
from duetbench.host import paths
from duetbench.host.machine import measuring
from duetbench.store import files

SOCKET: Final = Path("/run/duetbench/sandbox")
VARIABLE: Final = "DUETBENCH_SANDBOX"
"""Names another socket, for tests."""

READ: Final = frozenset({"--plan", "--from"})
"""Options that name a file or folder to read."""

WRITTEN: Final = frozenset({"--results", "--to", "--output", "--why"})
"""Options that name a file or folder to write, which may exist already."""

SOURCES: Final = Path(__file__).resolve().parents[2] / "runner"
"""The files that prepare-runner.sh installs."""

INSTALLED: Final = {
    "job-started.sh": Path("/usr/local/lib/duetbench"),
    "duetbench-network.service": Path("/etc/systemd/system"),
    "duetbench-sandbox@.service": Path("/etc/systemd/system"),
    "duetbench-sandbox.socket": Path("/etc/systemd/system"),
    "duetbench-runner.service": Path("/etc/systemd/system"),
}
_MOST_LOG: Final = 4_000_000  # bytes of output passed on; a comparison prints a hundredth of it
_SHARED: Final = ("environments/*", "interpreters/*", "tools/*")
_VERB: Final = (sys.executable, "-I", "-c", "from duetbench.cli import main; main()")

# A network of its own lists no socket of another process. In the machine's, the sandbox could reach
# services, and any name server by the machine's resolver.
_WALLED: Final = """
from pathlib import Path
if Path("/proc/net/unix").read_text().count("\\n") > 1:
    print("the sandbox shares this machine's network: run scripts/prepare-runner.sh again")
    raise SystemExit(4)
"""

# The script is one command, so the shell has read all of it before it starts anything. When the
# connection is closed from outside, the command has half a minute to save its results.
_SCRIPT: Final = """{{
exec 3<&0 </dev/null 2>&1
mkdir -p "$HOME/work" && cd "$HOME/work" || exit
printf '[safe]\\n\\tdirectory = *\\n' >"$HOME/.gitconfig"
{python} -I -c {walled} || {{ printf '\\0004\\0'; exit; }}
{files}
{commands} &
verb=$!
{{ cat <&3 >/dev/null; kill -TERM "$verb"; sleep 30; kill -KILL "$$"; }} &
wait "$verb"; code=$?
[ "$code" = 0 ] || find "$XDG_STATE_HOME" -name '*.log' -size +0 -exec tail -n 20 {{}} + 2>/dev/null
printf '\\0%s\\0' "$code"
tar -cf - -- {written} 2>/dev/null
exit
}}
"""


def run(root: Path, words: Sequence[str]) -> int:
    """Run a command in the sandbox on a checkout, and return its exit code.

    Files that it names in this folder are copied in and out. Raises SetupError if the machine has
    no sandbox, or it is in use; BusyError if something else is measuring; UsageError if a file or
    folder is not a name in this folder; ArtifactError if the output is not a set of plain files
    within bounds.
    """
    names: dict[str, str] = {}
    for option, name in pairwise(words):
        if option in READ | WRITTEN:
            if not archives.is_plain(name):  # the name is the same in the sandbox
                raise UsageError(f"{option} {name!r}: expected a name in this folder")
            names[option] = name
    written = [name for option, name in names.items() if option in WRITTEN]
    if not written:
        raise UsageError(f"expected one of {', '.join(sorted(WRITTEN))} and a name: the output")
    reply = _Reply()
    with measuring(), _connected() as connection:  # nobody out here sees the lock of those in there
        try:
            connection.sendall(script(root, words, names.values(), written).encode())
            reply.receive(connection)
        except BaseException:  # interrupted: results until then are copied out, too
            connection.shutdown(socket.SHUT_WR)
            reply.receive(connection)
            reply.unpack(written)
            raise
    return reply.unpack(written)


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
    commands = [shlex.join([*_VERB, *words])]
    if words[0] == "run":
        # Creating an environment also runs code of its packages, so it happens in the sandbox.
        commands.insert(0, shlex.join([*_VERB, "setup"]))
    return _SCRIPT.format(
        python=shlex.quote(sys.executable),
        walled=shlex.quote(_WALLED),
        files="\n".join(lines),
        commands=" && ".join(commands),
        written=shlex.join(written),
    )


def _shared(cache: Path) -> Iterator[Path]:
    """Yield complete artefacts of the cache, which no longer change: the sandbox reads them."""
    for pattern in _SHARED:
        for entry in sorted(cache.glob(pattern)):
            kinds = [entry] if artefact.facts(entry) is not None else [*entry.glob("*")]
            if not entry.name.startswith(".") and any(artefact.facts(k) is not None for k in kinds):
                yield entry


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
    """Output of the sandbox: text of the command, its exit code, and an archive of files."""

    def __init__(self) -> None:
        self._parts: list[bytearray] = [bytearray()]
        self._left = _MOST_LOG
        self._text = codecs.getincrementaldecoder("utf-8")("replace")

    def receive(self, connection: socket.socket) -> None:
        """Print the text as it arrives, and keep the rest, until the sandbox has ended."""
        with _quoted():
            while data := connection.recv(65536):
                first, *others = data.split(b"\0", 3 - len(self._parts))
                if len(self._parts) == 1:
                    self._print(first)
                else:
                    self._keep(first)
                for other in others:
                    self._parts.append(bytearray())
                    self._keep(other)

    def _print(self, data: bytes) -> None:
        printed = data[: self._left]
        self._left -= len(printed)
        sys.stdout.write(without_control(self._text.decode(printed)))
        sys.stdout.flush()

    def _keep(self, data: bytes) -> None:
        self._parts[-1] += data
        if len(self._parts[-1]) > archives.MOST_PACKED:
            raise ArtifactError(f"the sandbox sent more than {archives.MOST_PACKED:,} bytes")

    def unpack(self, written: Sequence[str]) -> int:
        """Write the files to this folder, and return the command's exit code."""
        if len(self._parts) < 3:
            raise SetupError(
                "the sandbox ended before the command, or another job uses it: see "
                "`journalctl -u 'duetbench-sandbox*'`"
            )
        _, code, archive = map(bytes, self._parts)
        for name, data in (archives.untar(archive) if archive else {}).items():
            if name.partition("/")[0] not in written:
                raise ArtifactError(f"the file {name}, which the command was not to write")
            files.replace(Path(name), data)
        if not code.isdigit() or len(code) > 3:
            raise ArtifactError("the sandbox sent no exit code")
        return int(code)


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


def problems(installed: Mapping[str, Path] = INSTALLED, owner: int = 0) -> tuple[str, ...]:
    """Describe what this machine lacks as a runner, or where it differs from this checkout."""
    messages = []
    for name, folder in installed.items():
        file = folder / name
        try:
            if file.read_bytes() != (SOURCES / name).read_bytes():
                messages.append(f"{file} differs from this checkout's")
            messages += [
                f"{entry}: expected root as its owner, and no other account that can write to it"
                for entry in (file, *file.parents)
                if (status := entry.stat()).st_uid not in {0, owner}
                or (status.st_mode & 0o022 and not status.st_mode & 0o1000)
            ]
        except OSError as error:
            messages.append(f"{file}: {error.strerror}")
    if not messages:
        try:
            with _connected():
                pass
        except DuetbenchError as error:
            messages.append(str(error))
    return tuple(messages)
