"""Measuring foreign code: duetbench's verbs as another user, and what may come out of it.

Foreign are the commits of a pull request, and the newest releases, which a night executes. The
program that measures is ours, from this checkout; what it starts is anybody's. Both run as the
other user, so whoever wrote the code could also have written the result: it is read with bounds,
and checked as if it had come from outside (a comparison here, a night's results before they are
stored). What they cannot do is reach the runner's credentials and files, the machine's cache, other
machines around it, or the next job.
"""

import os
import re
import secrets
import select
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Final

from duetbench.core.errors import ArtifactError, UsageError
from duetbench.core.text import without_control
from duetbench.github.incoming import comparisons, facts, folder
from duetbench.github.incoming.facts import Checkout
from duetbench.github.incoming.folder import Limits
from duetbench.github.runner.room import OtherUser, Room, RunnerConfig
from duetbench.host import machine, paths
from duetbench.store import files
from duetbench.store.comparison import Comparison

VERB: Final = (sys.executable, "-I", "-c", "from duetbench.cli import main; main()")
RESULT: Final = "out/comparison.json"
EXPLAINED: Final = "out/attribution.json"
HANDED: Final = ("--plan", "--from")
"""Options of verbs that name a file to read."""

FILLED: Final = ("--results", "--to")
"""Options that name the folder of results, which may hold some already."""

_PACKED: Final = Limits().total_bytes + 4096 * Limits().entries
"""Bytes of an archive of such a folder, at most."""

_HEARD: Final = 4_000_000
"""Bytes of the program's words that are passed on; a comparison says a hundredth of it."""

_LOGS: Final = 'find "$0" -name "*.log" -size +0 -exec tail -n 20 {} +'
_NAME: Final = re.compile(r"\w[\w.-]*", re.ASCII)
_PATIENCE_S: Final = 0.5


def compare(
    root: Path,
    base: str,
    head: str,
    options: Sequence[str],
    place: RunnerConfig,
    *,
    explain: bool = False,
) -> tuple[Comparison, bytes, bytes | None]:
    """Compare two commits of a checkout in the machine's room; raises SetupError or ArtifactError.

    Returns:
        The checked comparison, its bytes, and those of what was found out of its code.
    """
    with _furnished(root, place) as (room, env):
        words = ["compare", base, head, "--output", str(room.folder / RESULT), *options]
        words += ["--why", str(room.folder / EXPLAINED)] if explain else []
        code = _heard(room, [*VERB, *words], env)
        room.user.end_all()  # nobody is left who could change it while it is read
        try:
            data = room.collect(RESULT, Limits().file_bytes)
        except ArtifactError as error:
            raise ArtifactError(
                f"duetbench compare ended with exit code {code}: {error}"
            ) from error
        trusted, now = facts.of_checkout(root), datetime.now(UTC)
        here = machine.fingerprint().id
        found = comparisons.comparison(data, base, head, trusted, now, here)
        return found, data, _explained(room, found, trusted, now) if explain else None


def _explained(room: Room, found: Comparison, trusted: Checkout, now: datetime) -> bytes | None:
    """What came out beside a comparison; the comparison stands without it, too."""
    try:
        data = room.collect(EXPLAINED, Limits().file_bytes)
        comparisons.explanation(data, found, trusted, now)
    except ArtifactError:
        return None
    return data


def measure(root: Path, words: Sequence[str], place: RunnerConfig) -> int:
    """Run a verb of duetbench in the machine's room, and bring out the folder that it fills.

    The verb works in a folder of the room. What it is to read is handed in, and what it leaves
    below its folder for results comes out, whatever its exit code; both keep their names.

    Returns:
        The verb's exit code.

    Raises:
        SetupError: The machine is not prepared, or a stack cannot be made in the room.
        UsageError: A file or folder is not named as one of this folder.
        ArtifactError: What came out is no folder of plain files within bounds.
    """
    named = {}
    for option, name in pairwise(words):
        if option not in {*HANDED, *FILLED}:
            continue
        named[option] = name
        if not _NAME.fullmatch(name):  # it is the same in the room as here
            raise UsageError(f"{option} {name!r}: expected a name in this folder")
    filled = [name for option, name in named.items() if option in FILLED]
    if not filled:
        raise UsageError(
            f"expected {' or '.join(FILLED)} and a name: what is measured comes out as that folder"
        )
    with _furnished(root, place) as (room, env):
        for name in named.values():
            for file in [Path(name)] if Path(name).is_file() else sorted(Path(name).rglob("*")):
                if file.is_file():
                    room.hand(f"out/{file}", file.read_bytes())
        if words[0] == "run":
            # Also this runs code of packages: an environment's files for `site`, for example.
            _heard(room, [*VERB, "setup"], env)
        try:
            code = _heard(room, [*VERB, *words], env)
            if code:  # its logs go with the room
                _heard(room, ["/bin/sh", "-c", _LOGS, room.folder / "state"], env)
            return code
        finally:
            room.user.end_all()
            for name in filled:
                bring(room, name)


def bring(room: Room, name: str) -> None:
    """Bring a folder of the room here, as far as it is one that we would read from outside.

    ArtifactError: it is none.
    """
    try:
        found = folder.untarred(room.collect_folder("out", name, _PACKED))
    except ArtifactError as error:
        raise ArtifactError(f"{name}: {error}") from error
    for path, data in found.items():
        files.replace(Path(path), data)


@contextmanager
def _furnished(root: Path, place: RunnerConfig) -> Iterator[tuple[Room, dict[str, str]]]:
    """The machine's room, empty before and after, and what its programs find in their environment.

    SetupError: the machine is not prepared.
    """
    room = Room(OtherUser(place.user), place.room)
    room.empty()
    try:
        room.furnish(paths.cache_dir())
        room.require_readable(Path(sys.executable), root / "pyproject.toml")
        # The checkout is somebody else's. (When asv clones it, git drops settings of variables.)
        room.hand("home/.gitconfig", b"[safe]\n\tdirectory = *\n")
        env = room.environment() | {"DUETBENCH_ROOT": str(root)}
        env |= {name: os.environ[name] for name in place.passes if name in os.environ}
        yield room, env
    finally:
        room.empty()


def _heard(room: Room, argv: Sequence[str | Path], env: dict[str, str]) -> int:
    """Run a program in the room and pass on what it says, up to a bound; returns its exit code.

    Whoever still holds its pipe when it has ended is ended, too, and keeps nobody waiting.
    """
    process = room.user.start(argv, env, room.folder / "out")
    assert process.stdout is not None  # noqa: S101 - it was asked for
    left = _HEARD
    try:
        with _quoting():
            while True:
                ready, _, _ = select.select([process.stdout], [], [], _PATIENCE_S)
                if process.poll() is not None:
                    room.user.end_all()
                elif not ready:
                    continue
                piece = os.read(process.stdout.fileno(), 65536)
                if not piece:
                    break
                sys.stdout.write(without_control(piece[:left].decode("utf-8", "replace")))
                sys.stdout.flush()
                left -= len(piece[:left])
        return process.wait()
    finally:
        if process.poll() is None:
            room.user.end_all()
            process.wait()
        process.stdout.close()


@contextmanager
def _quoting() -> Iterator[None]:
    """Between its ends, GitHub's runner takes no line of the log for a command of ours."""
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
