"""What the machine that runs jobs lacks: files that differ from those of `prepare-runner.sh`."""

import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_SCRIPT: Final = Path(__file__).resolve().parents[2] / "prepare-runner.sh"
_WORDS: Final = "etc/duetbench/words"
_UNITS: Final = "etc/systemd/system"
_WALL: Final = re.compile(r"duetbench-(sandbox|network|packages)|/hosts$")
"""Files that make the sandbox what it is; each of the others is a warning."""


class Difference(NamedTuple):
    """How a machine differs from a runner that is prepared by this checkout's script.

    With an `error`, untrusted code would not run in this checkout's sandbox, so it does not run. A
    `notice` is about an addition of the machine's owner.
    """

    level: str
    text: str


def machine(root: Path = Path("/"), owner: int = 0) -> Iterator[Difference]:
    """Compare this machine, file by file, with what `prepare-runner.sh` writes for its words.

    `root` has the machine's files, of which no account except root and `owner` may change any.
    """
    try:
        words = (root / _WORDS).read_text().split()
    except OSError as error:
        reason = f"{root / _WORDS}: {error.strerror}"
        yield Difference("error", f"this machine is not prepared as a runner: {reason}")
        return
    with tempfile.TemporaryDirectory() as folder:
        script = ["sh", str(_SCRIPT), *words, f"root={folder}"]
        done = subprocess.run(script, capture_output=True, text=True, check=False)
        files = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
        made = {str(path.relative_to(folder)): _effective(path) for path in files}
    if done.returncode:
        yield Difference("error", f"{root / _WORDS}: {done.stderr.strip()}")
    for name, lines in made.items():
        file, level = root / name, "error" if _WALL.search(name) else "warning"
        try:
            if _effective(file) != lines:
                yield Difference(level, f"{file} differs from this checkout's")
            for entry in (file, *file.parents):
                status = entry.stat()
                shared = status.st_mode & 0o022 and not status.st_mode & 0o1000
                if shared or status.st_uid not in {0, owner}:
                    expected = "expected root as its owner, and no other account that can write"
                    yield Difference("error", f"{entry}: {expected} to it")
        except OSError as error:
            yield Difference(level, f"{file}: {error.strerror}")
    for file in sorted((root / _UNITS).glob("duetbench-*.d/*")):
        if str(file.relative_to(root)) not in made:
            yield Difference("notice", f"{file}: an addition of this machine's")


def _effective(file: Path) -> list[str]:
    """Read a file's lines without comments."""
    return [line for line in file.read_text().splitlines() if not line.startswith("#")]
