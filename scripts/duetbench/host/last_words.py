"""What a failed program's output, or an error page, says about the reason: its traceback first."""

import html
import re
from pathlib import Path
from typing import Final

from duetbench.host.command import read_log

MOST: Final = 600
"""Characters of other people's words in a reason: a validation error of some variables."""

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
        line = " ".join(text.split())
        return (line if len(line) <= most else f"… {line[-most:]}") or "nothing"
    end = next((n for n, line in enumerate(lines) if n and _OTHER.match(line)), len(lines))
    words = _VERBOSE.sub("", "\n".join(lines[:end]))
    said = " ".join(words.split())
    said = said if len(said) <= most else f"{said[:most]} …"
    frames = _FRAME.findall(last)
    own = [frame for frame in frames if not _FOREIGN.search(frame[0])] or frames
    place = " ({}, line {})".format(*own[-1]) if own else ""
    return f"{said}{place}{_remedy(words, last)}"


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
