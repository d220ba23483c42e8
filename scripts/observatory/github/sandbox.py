"""Runs a command behind a wall, where untrusted code may run: `wall` is all of it.

bubblewrap builds it from the kernel's namespaces (docs/observatory/runners.md). The command writes
to a fresh folder, from which the files that it was to write are copied out, within bounds. The
author of the measured code may also have written them: whoever uses them checks them.
"""

import json
import os
import secrets
import select
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from io import FileIO
from itertools import chain, pairwise
from pathlib import Path
from threading import Thread
from typing import IO, Final

import psutil

from duetbench.ci import archives
from duetbench.core.errors import SetupError, UsageError
from duetbench.core.text import printable, without_control
from duetbench.host import cache, files, paths
from duetbench.host.machine import measuring
from observatory.github import packages

WRITTEN: Final = frozenset({"--results", "--to", "-o", "--output"})
"""Options that name a file or folder to write, which may exist already."""

_PROGRAMS: Final = ("duetbench", "observatory")
_MAIN: Final = """\
import os
from observatory.github.packages import hand_out
from {}.cli import main
hand_out()
try:
    main()
except SystemExit as end:
    if end.code:
        os.system("find $XDG_STATE_HOME -name '*.log' -size +0 -exec tail -n 20 {{}} + 2>&-")
    raise
"""

_SYSTEM: Final = ("/usr", "/etc", "/sys", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
_OF_INSTALLERS: Final = ("SSL_CERT_FILE", "UV_DEFAULT_INDEX", "UV_INDEX_URL")
"""Variables that the command has from this process: no others."""

_TMP: Final = "/tmp"  # noqa: S108 - of the box, behind the wall
_MOST_LOG: Final = 4_000_000  # characters of output passed on; a comparison prints a hundredth
_MOST_LINE: Final = 100_000
_SAVE_S: Final = 6.0
"""Seconds in which a cancelled command saves what it has. GitHub's runner sends SIGINT to a step,
SIGTERM after 7.5 s, and kills it after 2.5 s more."""


def wall(root: Path, box: Path) -> list[str]:
    """Return the beginning of a command line, whose rest runs behind the wall.

    `root` is the checkout. `box` is a fresh folder, which is /tmp behind the wall; its folder
    `cache` is the cache there, and `work` the working folder.
    """
    own = str(paths.cache_dir().parent)
    ready = dict.fromkeys(map(str, (root, sys.prefix, sys.base_prefix, *_complete())))
    variables = {
        **{name: os.environ[name] for name in _OF_INSTALLERS if name in os.environ},
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "HOME": _TMP,
        "TMPDIR": _TMP,
        "XDG_CACHE_HOME": own,
        "XDG_STATE_HOME": f"{_TMP}/state",
        "DUETBENCH_ROOT": str(root),
        "HTTPS_PROXY": "http://{}:{}".format(*packages.DOOR),
    }
    return [
        # If memory is short, the kernel ends these processes first.
        *("choom", "--adjust", "1000", "--"),
        *("prlimit", "--nproc=8192", "--fsize=4294967296", "--core=0", "--"),
        # No process, network, shared memory or terminal of the machine; no way to get rights; and
        # nothing that survives this process.
        *("bwrap", "--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"),
        *("--new-session", "--die-with-parent", "--clearenv"),
        # To read: the system, and what set-up has made. To write: the fresh folder.
        *chain.from_iterable(("--ro-bind-try", folder, folder) for folder in _SYSTEM),
        *("--proc", "/proc", "--dev", "/dev", "--bind", str(box), _TMP),
        *("--bind", str(box / "cache"), own),
        *chain.from_iterable(("--ro-bind", folder, folder) for folder in ready),
        *("--remount-ro", "/", "--chdir", f"{_TMP}/work"),
        *chain.from_iterable(("--setenv", *variable) for variable in variables.items()),
    ]


def _complete() -> Iterator[Path]:
    """Yield complete artefacts of the cache, which no longer change."""
    for kind in ("environments", "interpreters", "tools"):
        for entry in (paths.cache_dir() / kind).glob("[!.]*"):
            if any(cache.facts(folder) is not None for folder in (entry, *entry.glob("*"))):
                yield entry


@contextmanager
def standing(root: Path) -> Iterator[tuple[list[str], Path]]:
    """Provide a wall on a checkout, and its box; SetupError if this machine cannot build it."""
    with paths.scratch() as box:
        for folder in ("cache", "work"):
            (box / folder).mkdir()
        built = wall(root, box)
        trial = subprocess.run([*built, "true"], capture_output=True, text=True, check=False)
        if trial.returncode:
            raise SetupError(
                f"this machine runs no untrusted code: {printable(trial.stderr.strip())}; install "
                "bubblewrap, and run scripts/prepare-runner.sh (docs/observatory/runners.md)"
            )
        yield built, box


def run(root: Path, words: Sequence[str]) -> int:
    """Run a command behind the wall on a checkout, and return its exit code.

    Files and folders of this folder that it names are copied in; those that it writes are copied
    out, whatever ends it. Raises SetupError if the machine cannot build the wall; BusyError if
    something else is measuring; UsageError if it is no command of duetbench's; ArtifactError if the
    output is not a set of plain files within bounds.
    """
    if words[0] not in _PROGRAMS:
        raise UsageError(f"{words[0]!r}: expected {' or '.join(_PROGRAMS)}, and a command of it")
    written = {name for option, name in pairwise(words) if option in WRITTEN}
    main = (sys.executable, "-I", "-c", _MAIN.format(words[0]), *words[1:])
    with measuring(), standing(root) as (built, box):  # nobody else sees the lock of those in there
        for source in map(Path, filter(archives.is_plain, words)):
            if source.is_dir():
                shutil.copytree(source, box / "work" / source, symlinks=True, dirs_exist_ok=True)
            elif source.is_file():
                shutil.copy(source, box / "work")
        try:
            with _quoted():
                code = _execute(built, main)
        finally:
            # What is closed to its owner could be neither read nor removed.
            subprocess.run(["chmod", "-R", "u+rwX", box], stderr=subprocess.DEVNULL, check=False)
            _copy_out(box / "work", written)
    return code


def _execute(built: Sequence[str], command: Sequence[str]) -> int:
    """Run a command to its end, show what it prints, and return its exit code."""
    ours, theirs = socket.socketpair()
    reading, writing = os.pipe()
    with ours, os.fdopen(reading) as facts:
        process = subprocess.Popen(
            [*built, "--info-fd", str(writing), "--", *command],
            stdin=theirs.fileno(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            pass_fds=[writing],
            env={"PATH": os.environ["PATH"]},  # of the first process in there, too
            start_new_session=True,  # Ctrl-C reaches this process alone
        )
        theirs.close()
        os.close(writing)
        shown = Thread(target=_show, args=(process.stdout,), daemon=True)
        shown.start()
        first = json.loads(facts.read())["child-pid"]
        end = os.pidfd_open(first)
        try:
            with packages.tunnels(socket.recv_fds(ours, 1, 1)[1]):
                code = process.wait()
        except (KeyboardInterrupt, SystemExit):  # the command saves what it has
            for child in psutil.Process(first).children():
                child.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_SAVE_S)
            raise
        finally:
            process.kill()
            process.wait()
            select.select([end], [], [])  # of the first process in there, after all others
            os.close(end)
            shown.join()
    return code if code >= 0 else 128 - code


def _show(output: IO[str]) -> None:
    """Print some of an output, without what acts on a terminal."""
    room = _MOST_LOG
    with output:  # who prints more when nobody reads any more gets an error
        while text := output.readline(_MOST_LINE):
            sys.stdout.write(without_control(text[:room]))
            sys.stdout.flush()
            room -= len(text[:room])


def _copy_out(work: Path, written: Collection[str]) -> None:
    """Write the files of these names here; raises ArtifactError if they are not within bounds."""

    def output() -> Iterator[tuple[str, Callable[[], IO[bytes]]]]:
        for folder, _, names in os.walk(work):
            for path in (Path(folder, name) for name in names):
                parts = path.relative_to(work).parts
                is_draft = any(part.startswith(".") for part in parts)
                plain = path.is_file() and not path.is_symlink()
                if parts[0] in written and plain and not is_draft:
                    yield "/".join(parts), partial(FileIO, path)

    with archives.reading("folder"):
        contents = archives.bounded(output())
    for name, data in contents.items():
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
