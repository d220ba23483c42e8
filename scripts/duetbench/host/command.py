"""Running other people's tools: argument lists, a log, and a sentence when they fail."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import uv as uv_package

from duetbench.core.errors import SetupError
from duetbench.core.text import without_control
from duetbench.host import paths

Tick = Callable[[str], None]
"""Called from time to time with a few words about how far a step is."""

_POLL_S: Final = 0.25
_TAIL_BYTES: Final = 8192
_SHOWN_CHARACTERS: Final = 600
"""Of a tool's own words: the longest of a resolver's usual reasons; the log has the rest."""

_CAUSES: Final = {
    r"no space left|disk quota exceeded": "the disk is full: make room",
    r"dns error|resolve host|name or service not known|connection (refused|reset|timed)"
    r"|network (is )?unreachable|failed to (fetch|download|connect|lookup)"
    r"|failed to get .* as a dependency|offline|timed out|tunnel|spurious network"
    r"|newconnectionerror|no matching distribution":
        "the network or the index cannot be reached: check the connection and the proxy settings",
}  # fmt: skip


_UNBUILT: Final = re.compile(r"(Failed to (?:download and )?build .*)$", re.MULTILINE)
"""What uv says before what a compiler does, which names no package."""

_ERROR: Final = re.compile(r"^\s*((?:error|fatal).*)$", re.IGNORECASE | re.MULTILINE)


def uv() -> Path:
    """The locked uv of the harness's own environment; SetupError if its program is not there."""
    try:
        return Path(uv_package.find_uv_bin())
    except FileNotFoundError as error:
        raise SetupError(
            "uv has gone from the environment of duetbench: install duetbench again"
        ) from error


def no_build() -> tuple[str, ...]:
    """Options of `uv pip` by which no release runs code here, where UV_NO_BUILD asks for it.

    uv itself reads that variable for other commands only.
    """
    forbidden = os.environ.get("UV_NO_BUILD", "").lower() in {"1", "true", "yes"}
    return ("--no-build",) if forbidden else ()


def new_log(name: str, *of: str) -> Path:
    """Where a tool's output goes, without what an earlier one has said there.

    `of`: what tells it from others of its name, which may write at the same time.
    """
    log = paths.cache_dir() / "logs" / f"{'-'.join((name, *of))}.log"
    log.unlink(missing_ok=True)
    return log


def missing(tool: str, why: str, remedy: str) -> list[str]:
    """Say that a tool is not on PATH, why it is needed and what to do; nothing if it is there."""
    if shutil.which(tool):
        return []
    return [f"{tool} is needed {why}, and is not on PATH: {remedy}"]


def require(faults: Sequence[str]) -> None:
    """Refuse to begin while anything is missing; the SetupError says all of it at once."""
    distinct = list(dict.fromkeys(faults))
    if len(distinct) > 1:
        listed = "".join(f"\n  - {fault}" for fault in distinct)
        raise SetupError(f"{len(distinct)} things are missing, so nothing was built:{listed}")
    if distinct:
        raise SetupError(distinct[0])


def free_gb(folder: Path) -> float:
    """Free space (10⁹ bytes) where a folder is, or will be."""
    there = next(place for place in (folder, *folder.parents) if place.exists())
    return shutil.disk_usage(there).free / 1e9


def run(
    argv: Sequence[str | Path],
    *,
    what: str,
    log: Path,
    tick: Tick,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> None:
    """Run a tool to its end; its output is appended to `log`, its last line goes to `tick`.

    It gets a process group of its own, which is killed whatever ends the wait, so that an
    interrupted set-up leaves no compiler running. `env` is added to ours; SetupError if it fails.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        try:
            process = subprocess.Popen(
                # The kernel ends the tool when we are killed without a chance to clean up.
                [
                    *(["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []),
                    *map(str, argv),
                ],
                cwd=cwd,
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise SetupError(f"{what}: {argv[0]} cannot be started: {error.strerror}") from error
        try:
            while process.returncode is None:
                try:
                    process.wait(timeout=_POLL_S)
                except subprocess.TimeoutExpired:
                    tick(_last_line(log))
        finally:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if code := process.returncode:
        raise SetupError(f"{what} failed (exit code {code}): {_explained(log)}. Log: {log}")


def read_log(path: Path) -> str:
    """Read a log as far as it is there."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def scrub(text: str) -> str:
    """Take this machine's folders, and what acts on a reader's terminal, out of a text."""
    short = {paths.project_root(): ".", paths.cache_dir(): "$CACHE", Path.home(): "~"}
    for folder, name in short.items():
        text = text.replace(str(folder), name)
    return without_control(re.sub(r"\s+", " ", text))


def _tail(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        return file.read().decode(errors="replace")


def _last_line(log: Path) -> str:
    return next((line.strip() for line in reversed(_tail(log).splitlines()) if line.strip()), "")


def _explained(log: Path) -> str:
    tail, words = _tail(log), _last_line(log)
    # The first line that calls itself an error, with the causes that uv lists below.
    first = _UNBUILT.search(read_log(log)) or _ERROR.search(tail)
    if first:
        causes = re.findall(r"^\s+cause: (.*\S)", first.string[first.end() :], re.MULTILINE)
        words = ": ".join(filter(None, (first[1].strip(), "; ".join(causes))))
    if len(words) > _SHOWN_CHARACTERS:
        words = f"{words[:_SHOWN_CHARACTERS]} …"
    for pattern, cause in _CAUSES.items():
        if re.search(pattern, tail, re.IGNORECASE):
            return f"{cause}, then repeat; what is done is kept. It said: {words}"
    return f"it said: {words.removesuffix('.')}"
