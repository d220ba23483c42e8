"""What the history weighs after years: nights as large as real ones, on a real branch.

Nothing of it was measured. Each night is a copy of a recorded run whose figures scatter as figures
do from night to night, so that git finds as much in common as it will between real nights.
"""

from __future__ import annotations

import random
import shutil
import statistics
import subprocess
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Final

from servebench import codec, store
from servebench.errors import HistoryError
from servebench.git import BRANCH, Remote, run
from servebench.history.kinds import File
from servebench.history.pull import pull
from servebench.history.push import push
from servebench.model import Launch, Run

SCATTER: Final = 0.01
"""Standard deviation of a figure's logarithm from night to night."""

_LAST: Final = datetime(2026, 11, 20, 3, tzinfo=UTC)
_LEVEL: Final = 6  # as git compresses


@dataclass(frozen=True, slots=True)
class Growth:
    """What was found; sizes in bytes, times in s.

    Attributes:
        nights: How many.
        run_bytes: Mean size of a run file.
        compressed_bytes: The same, compressed by itself.
        remote_bytes: The remote after its housekeeping.
        clone_bytes: A full clone, without files.
        clone_seconds: Making it.
        shallow_bytes: A clone without the past.
        shallow_seconds: Making it.
        pull_seconds: The first `history pull`.
        push_seconds: `history push` of one more night.
        next_pull_seconds: The pull after that.
    """

    nights: int
    run_bytes: int
    compressed_bytes: int
    remote_bytes: int
    clone_bytes: int
    clone_seconds: float
    shallow_bytes: int
    shallow_seconds: float
    pull_seconds: float
    push_seconds: float
    next_pull_seconds: float


def measure(
    template: Run,
    nights: int,
    folder: Path,
    *,
    seed: int = 1,
    told: Callable[[str], None] = lambda _: None,
) -> Growth:
    """Make a history and measure it.

    Args:
        template: A recorded run.
        nights: So many, one a day.
        folder: Where all of it is made; must be empty.
        seed: Of the scatter.
        told: Called with a sentence for each step.

    Raises:
        HistoryError: Git fails.
    """
    source = random.Random(seed)  # noqa: S311 - scatter that can be repeated, not a secret
    remote = folder / "remote.git"
    run(["init", "--quiet", "--bare", f"--initial-branch={BRANCH}", str(remote)], {})
    told(f"writing {nights} nights")
    sizes = _import(remote, _nights(template, nights, source))
    told("the remote's housekeeping")
    run([f"--git-dir={remote}", "config", "uploadpack.allowFilter", "true"], {})
    run([f"--git-dir={remote}", "gc", "--quiet"], {})
    address = remote.resolve().as_uri()
    told("cloning")
    full = _clone(address, folder / "full.git")
    shallow = _clone(address, folder / "shallow.git", "--depth=1")
    told("pulling, pushing one more night, and pulling again")
    where = Remote(address)
    results, cache = folder / "results", folder / "cache"
    pull_seconds = _timed(lambda: pull(where, results, cache=cache))
    (path, data) = next(_nights(template, 1, source, last=_LAST + timedelta(days=1)))
    one_more = [File(path, data, replaceable=False)]
    push_seconds = _timed(lambda: push(one_more, where, subject="One more night"))
    next_pull_seconds = _timed(lambda: pull(where, results, cache=cache))
    return Growth(
        nights=nights,
        run_bytes=round(statistics.fmean(size for size, _ in sizes)),
        compressed_bytes=round(statistics.fmean(small for _, small in sizes)),
        remote_bytes=_size(remote),
        clone_bytes=full[0],
        clone_seconds=full[1],
        shallow_bytes=shallow[0],
        shallow_seconds=shallow[1],
        pull_seconds=pull_seconds,
        push_seconds=push_seconds,
        next_pull_seconds=next_pull_seconds,
    )


def _nights(
    template: Run, nights: int, source: random.Random, last: datetime = _LAST
) -> Iterator[tuple[str, bytes]]:
    """Paths below `results/` and bytes of run files, oldest first."""
    for number in range(nights):
        started = (last - timedelta(days=nights - 1 - number)).isoformat()
        commit = source.randbytes(20).hex()
        night = template.model_copy(
            update={
                "id": store.run_id(started, template.profile, commit),
                "started": started,
                "finished": started,
                "commit": commit,
                "results": tuple(
                    result.model_copy(
                        update={
                            "launches": tuple(
                                _scattered(launch, started, source) for launch in result.launches
                            )
                        }
                    )
                    for result in template.results
                ),
            }
        )
        yield store.path_for(Path(), night).as_posix(), codec.encode(night)


def _scattered(launch: Launch, started: str, source: random.Random) -> Launch:
    def near(value: float) -> float:
        return value * source.lognormvariate(0, SCATTER)

    return launch.model_copy(
        update={
            "started": started,
            "seconds": near(launch.seconds),
            "load_seconds": near(launch.load_seconds),
            "metrics": {name: near(value) for name, value in launch.metrics.items()},
        }
    )


def _import(remote: Path, nights: Iterator[tuple[str, bytes]]) -> list[tuple[int, int]]:
    """Write one commit per night; sizes of the files, as they are and compressed."""
    sizes: list[tuple[int, int]] = []
    with subprocess.Popen(
        ["git", f"--git-dir={remote}", "fast-import", "--quiet"], stdin=subprocess.PIPE
    ) as process:
        if process.stdin is None:
            raise RuntimeError("a pipe was asked for")
        for number, (path, data) in enumerate(nights):
            _commit(process.stdin, number, path, data)
            sizes.append((len(data), len(zlib.compress(data, _LEVEL))))
    if process.returncode != 0:
        raise HistoryError(f"git fast-import failed with exit code {process.returncode}")
    return sizes


def _commit(stream: IO[bytes], number: int, path: str, data: bytes) -> None:
    when = f"{1_700_000_000 + 86_400 * number} +0000"
    text = f"Night {number}"
    stream.write(
        f"commit refs/heads/{BRANCH}\ncommitter servebench <servebench@localhost> {when}\n"
        f"data {len(text)}\n{text}\nM 100644 inline results/{path}\ndata {len(data)}\n".encode()
    )
    stream.write(data + b"\n")


def _clone(address: str, place: Path, *options: str) -> tuple[int, float]:
    """Size and seconds of a clone, which is removed again."""
    arguments = ["clone", "--quiet", "--bare", f"--branch={BRANCH}", *options, address, str(place)]
    seconds = _timed(lambda: run(arguments, {}))
    size = _size(place)
    shutil.rmtree(place)
    return size, seconds


def _timed(action: Callable[[], object]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
