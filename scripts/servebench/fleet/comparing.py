"""Comparing foreign code: `servebench compare` as another user, and what may come out of it.

The program that compares is ours, from this checkout; what it starts is anybody's. Both run as the
other user, so whoever wrote the code could also have written the result: it is read with bounds and
checked as if it had come from outside. What they cannot do is reach the runner's credentials and
files, the machine's cache, other machines around it, or the next job.
"""

from __future__ import annotations

import os
import re
import secrets
import select
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from servebench import machine, paths
from servebench.artifacts import comparisons, trusted
from servebench.artifacts.folder import Limits
from servebench.compare.model import Comparison
from servebench.errors import ArtifactError
from servebench.fleet.other_user import OtherUser
from servebench.fleet.place import Place
from servebench.fleet.room import Room

PROGRAM: Final = "from servebench.cli import main; main()"
RESULT: Final = "out/comparison.json"
_HEARD: Final = 4_000_000
"""Bytes of the program's words that are passed on; a comparison says a hundredth of it."""

_PATIENCE_S: Final = 0.5
_CONTROL: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def compare(
    root: Path, base: str, head: str, options: Sequence[str], place: Place
) -> tuple[Comparison, bytes]:
    """Compare two commits of a checkout in the machine's room.

    Args:
        root: The checkout, whose own servebench compares.
        base: 40 hex digits.
        head: The same: foreign code.
        options: Of `servebench compare`.
        place: What the machine says of itself.

    Returns:
        The checked comparison, and its bytes.

    Raises:
        SetupError: The machine is not prepared.
        ArtifactError: No comparison came out, or not the one that was asked for.
    """
    room = Room(OtherUser(place.user), place.room)
    room.empty()
    try:
        room.furnish(paths.cache_dir())
        room.require_readable(Path(sys.executable), root / "pyproject.toml")
        env = room.environment() | environment(root)
        env |= {name: os.environ[name] for name in place.passes if name in os.environ}
        argv = [sys.executable, "-I", "-c", PROGRAM, "compare", base, head]
        argv += ["--output", str(room.folder / RESULT), *options]
        code = _heard(room, argv, env)
        room.user.end_all()  # nobody is left who could change it while it is read
        try:
            data = room.collect(RESULT, Limits().file_bytes)
        except ArtifactError as error:
            raise ArtifactError(
                f"servebench compare ended with exit code {code}: {error}"
            ) from error
        found = comparisons.comparison(
            data,
            base,
            head,
            trusted.of_checkout(root),
            datetime.now(UTC),
            machine.fingerprint().id,
        )
        return found, data
    finally:
        room.empty()


def environment(root: Path) -> dict[str, str]:
    """What the program needs to know of the checkout, which belongs to somebody else."""
    return {
        "SERVEBENCH_ROOT": str(root),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": str(root),
    }


def _heard(room: Room, argv: Sequence[str], env: dict[str, str]) -> int:
    """Run a program in the room and pass on what it says, up to a bound; returns its exit code.

    Whoever still holds its pipe when it has ended is ended, too, and keeps nobody waiting.
    """
    process = room.user.start(argv, env, room.folder)
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
                sys.stdout.write(_CONTROL.sub("", piece[:left].decode("utf-8", "replace")))
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
