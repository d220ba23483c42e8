"""Running other people's programs: a log, and what it or an error page says about a failure."""

import contextlib
import html
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
MOST: Final = 600
"""Characters of other people's words in a reason: a resolver's usual one, or a validation error of
some variables; the log has the rest."""

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

_TRACEBACK: Final = "Traceback (most recent call last):\n"
_EDGE: Final = re.compile(r"^ *[|+] ?", re.MULTILINE)  # of an exception group
_FRAME: Final = re.compile(r'^ +File "([^"<]+)", line (\d+)', re.MULTILINE)
_FOREIGN: Final = re.compile(r"/(site-packages|lib/python3[^/]*)/")
_OTHER: Final = re.compile(
    r"\s*$|[-=]{3}|(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b|\[(\d|[A-Z]+\])|Traceback \("
    r"|During handling|The above"
)
"""What a log has behind an exception's own lines."""

_VERBOSE: Final = re.compile(r"\n +For further information visit \S+| \[type=[^\]]*\]")
_SETTINGS: Final = re.compile(
    r"pydantic_settings|env_settings|validation errors? for \w*(Settings|Config|Env)\b"
)
_LACKING: Final = re.compile(r"^(\w+)\n +field required", re.MULTILINE | re.IGNORECASE)
_UNSET: Final = re.compile(r"KeyError: '([A-Z][A-Z0-9_]*)'$")
_TITLE: Final = re.compile(r"<title\b[^>]*>(.*?)</title", re.DOTALL | re.IGNORECASE)
_UNSEEN: Final = re.compile(
    r"<(script|style|head|title|svg|template)\b.*?(</\1\s*>|\Z)|<!--.*?-->|<[a-z/!?][^>]*>",
    re.DOTALL | re.IGNORECASE,
)
"""Elements of a page that show no text, comments, and tags."""


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
    if len(words) > MOST:
        words = f"{words[:MOST]} …"
    for pattern, cause in _CAUSES.items():
        if re.search(pattern, tail, re.IGNORECASE):
            return f"{cause}, then repeat; what is done is kept. It said: {words}"
    return f"it said: {words.removesuffix('.')}"


def last_words(text: str, most: int = MOST) -> str:
    """Give a program's last exception with the application's line, or else its last words.

    On one line of about so many characters; what a setting lacks comes with the option for it.
    """
    plain = _EDGE.sub("", text)
    _, found, last = plain.rpartition(_TRACEBACK)
    lines = last.splitlines() if found else []
    while lines and lines[0][:1] in {" ", ""}:
        lines.pop(0)
    if not lines:
        return _last_lines(text, most)
    end = next((n for n, line in enumerate(lines) if n and _OTHER.match(line)), len(lines))
    words = _VERBOSE.sub("", "\n".join(lines[:end]))
    said = " ".join(words.split())
    said = said if len(said) <= most else f"{said[:most]} …"
    frames = _FRAME.findall(last)
    own = [frame for frame in frames if not _FOREIGN.search(frame[0])] or frames
    place = " ({}, line {})".format(*own[-1]) if own else ""
    return f"{said}{place}{_remedy(words, last)}"


def _last_lines(text: str, most: int) -> str:
    """Quote the last lines that fit, whole, or the end of a line that does not."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    words = lines.pop() if lines else "nothing"
    if len(words) > most:
        return f"… {words[-most:]}"
    while lines and len(f"{lines[-1]} / {words}") <= most:
        words = f"{lines.pop()} / {words}"
    return f"… / {words}" if lines else words


def _remedy(words: str, traceback: str) -> str:
    """Name the options that give variables which an application does not find."""
    names = _LACKING.findall(words) if _SETTINGS.search(traceback) else []
    if (unset := _UNSET.search(words)) and "environ" in traceback:
        names = [unset[1]]
    if not names:
        return ""
    prefix = "" if unset else ", behind the prefix of its variables, if the settings have one"
    return f"; give it {' '.join(f'--env {name.upper()}=VALUE' for name in names)}{prefix}"


def page_text(page: str) -> str:
    """Give an HTML page as its text, title first, on one line."""
    parts = [match[1] if (match := _TITLE.search(page)) else "", _UNSEEN.sub(" ", page)]
    title, text = (" ".join(html.unescape(part).split()) for part in parts)
    return ": ".join(filter(None, (title, text.removeprefix(title).strip())))


def log_words(log: Path) -> str:
    """What a log says, as `last_words`, and where it is."""
    return f"it said: {last_words(read_log(log))}{AT}{log}"


AT: Final = "; its log: "
"""Between the reason of a failure and the log of the launch that it is of."""


def reason(detail: str) -> str:
    """A failure's reason without the place of its log: equal where launches failed alike."""
    return detail.partition(AT)[0]
