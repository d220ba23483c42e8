"""Run other programs: their logs, and what a log or an error page says about a failure."""

import html
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import uv as uv_package

from duetbench.core.errors import LaunchError, SetupError
from duetbench.core.text import without_control
from duetbench.host import paths
from duetbench.host.process_session import Session

Tick = Callable[[str], None]
"""Called from time to time with a few words about the progress of a step."""

_POLL_S: Final = 0.25
_TAIL: Final = 8192  # characters
MOST: Final = 600
"""Most characters of a program's output in a reason: enough for a resolver's usual one, or a
validation error of some variables. The log has the rest."""

_ERROR: Final = re.compile(r"^\s*((?:error|fatal).*)$", re.IGNORECASE | re.MULTILINE)

_TRACEBACK: Final = "Traceback (most recent call last):\n"
_EDGE: Final = re.compile(r"^ *[|+] ?", re.MULTILINE)  # the frame of an exception group
_FRAME: Final = re.compile(r'^ +File "([^"<]+)", line (\d+)', re.MULTILINE)
_FOREIGN: Final = re.compile(r"/(site-packages|lib/python3[^/]*)/")
_COPY: Final = re.compile(r"/[^\s()'\"]*/(?:tmp|duetbench)[\w./-]*/copy/")
_OURS: Final = re.compile(r"/duetbench_\w+\.py$")
_OTHER: Final = re.compile(
    r"\s*$|[-=]{3}|(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b|\[(\d|[A-Z]+\])|Traceback \("
    r"|During handling|The above"
)
"""Lines of a log that end an exception's message."""

_VERBOSE: Final = re.compile(r"\n +For further information visit \S+| \[type=[^\]]*\]")
_TITLE: Final = re.compile(r"<title\b[^>]*>(.*?)</title", re.DOTALL | re.IGNORECASE)
_UNSEEN: Final = re.compile(
    r"<(script|style|head|title|svg|template)\b.*?(</\1\s*>|\Z)|<!--.*?-->|<[a-z/!?][^>]*>",
    re.DOTALL | re.IGNORECASE,
)
"""Elements of a page that show no text, comments, and tags."""


def uv() -> Path:
    """The locked uv of the harness's own environment; SetupError if it is missing."""
    try:
        return Path(uv_package.find_uv_bin())
    except FileNotFoundError as error:
        raise SetupError(
            "uv is missing from the environment of duetbench: install duetbench again"
        ) from error


def no_build() -> tuple[str, ...]:
    """Options of `uv pip` that keep releases from running code here, if UV_NO_BUILD is set.

    uv itself reads that variable only for other commands.
    """
    forbidden = os.environ.get("UV_NO_BUILD", "").lower() in {"1", "true", "yes"}
    return ("--no-build",) if forbidden else ()


def new_log(name: str, *key: str) -> Path:
    """The file for a tool's output, without an earlier one's output.

    `key` distinguishes logs of the same name, which tools may write at the same time.
    """
    log = paths.cache_dir() / "logs" / f"{'-'.join((name, *key))}.log"
    log.unlink(missing_ok=True)
    return log


def free_gb(folder: Path) -> float:
    """Free space (10⁹ bytes) for a folder, which need not exist yet."""
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
    """Run a tool to its end; append its output to `log`, and pass its last line to `tick`.

    Whatever ends the wait ends its session, so an interrupted set-up leaves no compiler running.
    `env` is added to ours. Raises SetupError if the tool fails.
    """
    paths.make_logs(log.parent)
    words, variables = [*map(str, argv)], {**os.environ, **(env or {})}
    try:
        with Session.start(
            words,
            role="command",
            cores=None,
            env=variables,
            cwd=cwd or Path.cwd(),
            log=log,
            append=True,
        ) as session:
            while (code := session.wait(_POLL_S)) is None:
                tick(last_line(log))
    except LaunchError as error:
        raise SetupError(f"{what}: {error.detail}") from error
    tick(last_line(log))
    if code:
        said = _tool_words(read_log(log)).replace(f"{cwd}/", "")  # nobody knows a copy's path
        raise SetupError(f"{what} failed (exit code {code}); it said: {said}. Log: {log}")


def read_log(path: Path) -> str:
    """Read a log as far as it exists."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def scrub(text: str) -> str:
    """Remove this machine's folders, and terminal control sequences, from a text."""
    short = {paths.project_root(): ".", paths.cache_dir(): "$CACHE", Path.home(): "~"}
    for folder, name in short.items():
        text = text.replace(str(folder), name)
    return without_control(re.sub(r"\s+", " ", text))


def last_line(log: Path) -> str:
    """Return the last line of a log that says something; empty if there is none."""
    lines = reversed(read_log(log)[-_TAIL:].splitlines())
    return next((line.strip() for line in lines if line.strip()), "")


def _tool_words(text: str) -> str:
    """Quote a tool's first error, which names the package whose build fails, and its last lines."""
    words, first = _last_lines(text), _ERROR.search(text)
    return (f"{first[1]} {words}" if first and first[1] not in words else words).removesuffix(".")


def last_exception(text: str) -> str:
    """Return a program's last exception with its whole message; empty if it printed none."""
    _, traceback, last = _EDGE.sub("", text).rpartition(_TRACEBACK)
    lines = last.splitlines() if traceback else []
    while lines and lines[0][:1] in {" ", ""}:
        lines.pop(0)
    end = next((n for n, line in enumerate(lines) if n and _OTHER.match(line)), len(lines))
    return _VERBOSE.sub("", "\n".join(lines[:end]))


def last_words(text: str) -> str:
    """Return a program's last exception with the application's line, or else its last lines.

    On one line of about `MOST` characters.
    """
    message = " ".join(last_exception(text).split())
    if not message:
        return _last_lines(text)
    message = message if len(message) <= MOST else f"{message[:MOST]} …"
    frames = _FRAME.findall(_EDGE.sub("", text).rpartition(_TRACEBACK)[2])
    frames = [frame for frame in frames if not _OURS.search(frame[0])]
    own = [frame for frame in frames if not _FOREIGN.search(frame[0])]
    # Of the standard library and of temporary copies, people have no use for the path.
    own = own or [frame for frame in frames if "/site-packages/" in frame[0]]
    place = " ({}, line {})".format(*own[-1]) if own else ""
    return _COPY.sub("", f"{message}{place}")


def _last_lines(text: str) -> str:
    """Quote the last lines that fit, whole, or the end of a line that does not."""
    lines = (" ".join(line.split()) for line in text.splitlines() if line.strip())
    words = " / ".join(lines) or "nothing"
    if len(words) <= MOST:
        return words
    _, cut, whole = words[-MOST - 3 :].partition(" / ")
    return f"…{cut}{whole}" if cut else f"… {words[-MOST:]}"


def page_text(page: str) -> str:
    """Convert an HTML page to its text, title first, on one line."""
    parts = [match[1] if (match := _TITLE.search(page)) else "", _UNSEEN.sub(" ", page)]
    title, text = (" ".join(html.unescape(part).split()) for part in parts)
    return ": ".join(filter(None, (title, text.removeprefix(title).strip())))


AT: Final = "; its log: "
"""Separates the reason of a failure from the launch's log."""


def reason(detail: str) -> str:
    """A failure's reason without its log; equal if launches failed alike."""
    return detail.partition(AT)[0]
