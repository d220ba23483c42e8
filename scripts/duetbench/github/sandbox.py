"""Runs a verb of duetbench in this machine's sandbox, where code that anybody wrote may run.

The sandbox is systemd's: `scripts/runner/duetbench-sandbox@.service`, a shell behind a Unix socket
to which the runner's user alone can connect (docs/runners.md). This module writes the shell's
script, passes on what the verb prints, and unpacks the files that it leaves, all within bounds.
Whoever wrote the measured code can also have written what comes out: whoever uses it checks it.
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
from duetbench.store import files

SOCKET: Final = Path("/run/duetbench/sandbox")
VARIABLE: Final = "DUETBENCH_SANDBOX"
"""Names another socket, for tests."""

READ: Final = frozenset({"--plan", "--from"})
"""Options of verbs that name a file or folder to read."""

WRITTEN: Final = frozenset({"--results", "--to", "--output", "--why"})
"""Options that name what the verb writes, which may hold something already."""

SOURCES: Final = Path(__file__).resolve().parents[2] / "runner"
"""What prepare-runner.sh installs."""

INSTALLED: Final = {
    "job-started.sh": Path("/usr/local/lib/duetbench"),
    "duetbench-sandbox@.service": Path("/etc/systemd/system"),
    "duetbench-sandbox.socket": Path("/etc/systemd/system"),
    "duetbench-runner.service": Path("/etc/systemd/system"),
}
_MOST_LOG: Final = 4_000_000  # bytes that are passed on; a comparison prints a hundredth of it
_SHARED: Final = ("environments/*", "interpreters/*", "tools/*")
_VERB: Final = (sys.executable, "-I", "-c", "from duetbench.cli import main; main()")

# Without a filter of addresses in the kernel, systemd starts a unit all the same. A datagram to an
# address for documentation, where nobody is, shows whether it is there.
_WALLED: Final = """
import socket
try:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"", ("192.0.2.1", 9))
except PermissionError:
    raise SystemExit(0)
except OSError as error:
    raise SystemExit(0 if error.errno == 101 else str(error))
raise SystemExit("the sandbox reaches the network: this kernel does not filter addresses")
"""

# The script is one command, so that the shell has read it as a whole before it starts anything.
# When the connection is closed from outside, the verb has half a minute to save what it has.
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
    """Run a verb in the sandbox on a checkout; files that it names here are handed in and out.

    Gives the verb's exit code. SetupError: the machine has no sandbox, or it is in use. UsageError:
    a file or folder is not a name in this folder. ArtifactError: what came out is not a set of
    plain files within bounds.
    """
    names: dict[str, str] = {}
    for option, name in pairwise(words):
        if option in READ | WRITTEN:
            if not archives.is_plain(name):  # it is the same in the sandbox as here
                raise UsageError(f"{option} {name!r}: expected a name in this folder")
            names[option] = name
    written = [name for option, name in names.items() if option in WRITTEN]
    if not written:
        raise UsageError(f"expected one of {', '.join(sorted(WRITTEN))} and a name: what comes out")
    reply = _Reply()
    with _connected() as connection:
        try:
            connection.sendall(script(root, words, names.values(), written).encode())
            reply.receive(connection)
        except BaseException:  # interrupted: what was measured by then comes out as well
            connection.shutdown(socket.SHUT_WR)
            reply.receive(connection)
            reply.unpack(written)
            raise
    return reply.unpack(written)


def script(root: Path, words: Sequence[str], handed: Iterable[str], written: Sequence[str]) -> str:
    """The shell script that runs a verb."""
    cache = paths.cache_dir()
    lines = [f"export DUETBENCH_ROOT={shlex.quote(str(root))}"]
    for entry in _shared(cache):
        below = entry.relative_to(cache)
        lines.append(f'mkdir -p "$XDG_CACHE_HOME/duetbench/{below.parent}"')
        lines.append(f'ln -s {shlex.quote(str(entry))} "$XDG_CACHE_HOME/duetbench/{below.parent}/"')
    for name in handed:
        for file in [Path(name)] if Path(name).is_file() else sorted(Path(name).rglob("*")):
            if file.is_file():
                where, text = shlex.quote(str(file)), base64.encodebytes(file.read_bytes())
                lines.append(f"mkdir -p {shlex.quote(str(file.parent))}")
                lines.append(f"base64 -d >{where} <<'END'\n{text.decode()}END")
    commands = [shlex.join([*_VERB, *words])]
    if words[0] == "run":
        # Making an environment runs code of its packages too, so it is not made outside.
        commands.insert(0, shlex.join([*_VERB, "setup"]))
    return _SCRIPT.format(
        python=shlex.quote(sys.executable),
        walled=shlex.quote(_WALLED),
        files="\n".join(lines),
        commands=" && ".join(commands),
        written=shlex.join(written),
    )


def _shared(cache: Path) -> Iterator[Path]:
    """Whole artefacts of the cache, which nothing changes any more: the sandbox reads them."""
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
                f"{place}: {error.strerror}: this machine has no sandbox for code of others; "
                "scripts/prepare-runner.sh makes it (docs/runners.md)"
            ) from error
        yield connection


class _Reply:
    """What comes from the sandbox: text of the verb, its exit code, and an archive of files."""

    def __init__(self) -> None:
        self._parts: list[bytearray] = [bytearray()]
        self._left = _MOST_LOG
        self._text = codecs.getincrementaldecoder("utf-8")("replace")

    def receive(self, connection: socket.socket) -> None:
        """Print the text as it comes, and keep the rest, until the sandbox has ended."""
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
        """Write the files here, and return the verb's exit code."""
        if len(self._parts) < 3:
            raise SetupError(
                "the sandbox ended before the verb did, or another job uses it: see "
                "`journalctl -u 'duetbench-sandbox*'`"
            )
        _, code, archive = map(bytes, self._parts)
        for name, data in (archives.untarred(archive) if archive else {}).items():
            if name.partition("/")[0] not in written:
                raise ArtifactError(f"the file {name}, which the verb was not to write")
            files.replace(Path(name), data)
        if not code.isdigit() or len(code) > 3:
            raise ArtifactError("the sandbox sent no exit code")
        return int(code)


@contextmanager
def _quoted() -> Iterator[None]:
    """Keep GitHub's runner from taking a line of foreign text for a command."""
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
    """What is missing on this machine as a runner, or differs from this checkout."""
    messages = []
    for name, folder in installed.items():
        file = folder / name
        try:
            if file.read_bytes() != (SOURCES / name).read_bytes():
                messages.append(f"{file} is not that of this checkout")
            messages += [
                f"{entry}: expected root as its owner, and nobody else who can write to it"
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
