"""How a repository starts its application in production: the command lines in its files."""

import argparse
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Final

from duetbench.app.servers import AUTO, GEVENT, SERVERS, blocks
from duetbench.core.model import Interface

_FILES: Final = (
    *("Procfile", "Dockerfile*", "*compose*.y*ml", "*.sh", "*/*.sh", "*/Dockerfile*"),
    *("gunicorn*.py", "*/gunicorn*.py"),
)
"""Files that start servers, the likeliest first."""

_CONTINUED: Final = re.compile(r"\\\n|(?<=[\[,>|])\s*\n|\n\s*(?:- +|(?=--))")
"""Where a command goes on with the next line: of shells, JSON, and lists and blocks of YAML."""

_APP: Final = re.compile(r"[A-Za-z_]\w*(\.\w+)*:[A-Za-z_]\w*(\.\w+)*")

_SERVER: Final = re.compile("|".join((*SERVERS, "fastapi")))

_OTHER: Final = {"install", "add", "echo", "pip", "image:", "apt-get"}
"""Words before the name of a server that is not started."""

_WORKERS: Final[dict[str, tuple[str, Interface, str]]] = {
    r"(?:.*\.)?Uvicorn\w*Worker": ("uvicorn-worker", "asgi", AUTO),
    r"(?:.*\.)?(?:gevent|Gevent\w*Worker)": ("gunicorn", "wsgi", GEVENT),
    r"asgi": ("gunicorn", "asgi", AUTO),
    r"sync|gthread": ("gunicorn", "wsgi", AUTO),
}
"""Pattern of Gunicorn's worker classes → server, interface and event loop."""

_OPTIONS: Final = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
_OPTIONS.add_argument("-k", "--worker-class", default="")
_OPTIONS.add_argument("--loop", "--asgi-loop", default=AUTO)
_OPTIONS.add_argument("--threads", "--blocking-threads", type=int)
_OPTIONS.add_argument("-c", "--config", default="gunicorn.conf.py")


@dataclass(frozen=True, slots=True)
class StartCommand:
    """What a command line starts.

    Attributes:
        interface: The only one that it serves; None: all of its server's.
        threads: Blocking threads per worker; None: the server's default.
        kind: Its workers, as the command names them.
        app: The application, as module:attribute; empty if it is not named like that.
        source: The file that it is from.
    """

    server: str
    interface: Interface | None
    loop: str
    threads: int | None
    kind: str
    app: str
    source: str

    def serves(self, interface: Interface | None, *, free_threaded: bool) -> bool:
        """Whether it can serve an interface (None: any), with or without the GIL."""
        speaks = {self.interface} if self.interface else SERVERS[self.server].interfaces
        loops = {AUTO, *SERVERS[self.server].loops}
        able = self.loop in loops and not (free_threaded and self.loop == GEVENT)
        return able and (interface is None or interface in speaks)

    def __str__(self) -> str:
        name = self.server if not self.kind else f"gunicorn with {self.kind} workers"
        return f"{name}, as {self.source} says"


def find(place: Path, app: str) -> list[StartCommand]:
    """List what a folder's files start, the likeliest first: this application, not for developing.

    `app` is module:attribute.
    """
    found: list[tuple[bool, StartCommand]] = []
    for file in (file for pattern in _FILES for file in sorted(place.glob(pattern))):
        text = file.read_text("utf-8", "replace") if file.is_file() else ""
        whole = _CONTINUED.sub(" ", text)
        whole = f"gunicorn -c {file.name} {app}" if file.suffix == ".py" else whole
        # Of a Dockerfile the last stage counts.
        for line in reversed([one for one in whole.splitlines() if _SERVER.search(one)]):
            with suppress(ValueError, argparse.ArgumentError):
                words = list(_words(_filled(line, text)))
                command = _read(words, file.relative_to(place).as_posix(), place)
                if command is not None:
                    own = any(app.rpartition(".")[2] in word for word in words)
                    found.append((not own or "--reload" in words, command))
    return [command for _, command in sorted(found, key=lambda pair: pair[0])]


def _filled(line: str, text: str) -> str:
    """Fill in the variables that a file sets, or their defaults."""

    def value(match: re.Match[str]) -> str:
        name, default = match[1], match[2] or ""
        own = re.search(rf"\b{name}[= ][\"']?(?:\$\{{\w+:?-[\"']?)?([^\"'\n${{}}]+)", text)
        return default or (own[1].strip() if own else "")

    return re.sub(r"\$\{?(\w+)(?::?-[\"']?([^}\"']*)[\"']?)?\}?", value, line)


def _words(line: str) -> Iterator[str]:
    """Split a line as shells do, and words that are lines themselves, as of `sh -c`."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    for word in lexer:
        if " " in word.strip():
            yield from _words(word)
        else:
            yield word.strip("[],")


def _read(words: Sequence[str], source: str, place: Path) -> StartCommand | None:
    """Read the words of a command line; None if they start no server that is known."""
    for number, word in enumerate(words):
        name = word.rpartition("/")[2]
        rest = [*takewhile(lambda w: w not in {"&&", "||", "|", ";"}, words[number + 1 :])]
        if name in _OTHER:
            return None
        if name == "fastapi" and "run" in rest[:1]:
            return StartCommand("uvicorn", None, AUTO, None, "", "", source)
        if name in SERVERS and any(":" in w or w.startswith("-") for w in rest):
            return _of_server(name, rest, source, place)
    return None


def _of_server(name: str, rest: Sequence[str], source: str, place: Path) -> StartCommand | None:
    given, _ = _OPTIONS.parse_known_args(rest)
    app = next((match[0] for word in rest if (match := _APP.fullmatch(word.rstrip("()")))), "")
    if name != "gunicorn":
        loop = given.worker_class or given.loop  # a class of workers is Hypercorn's loop
        return StartCommand(name, None, loop, given.threads, "", app, source)
    config = Path(given.config).name  # perhaps as of an image
    files = (file for file in (place / config, *place.glob(f"*/{config}")) if file.is_file())
    text = next((file.read_text("utf-8", "replace") for file in files), "")
    classes = re.findall(r"^worker_class\s*=.*[\"']([\w.]+)[\"']", text, re.MULTILINE)
    threads = re.findall(r"^threads\s*=\s*(\d+)", text, re.MULTILINE)
    kind = given.worker_class or next(iter(classes), "sync")
    for pattern, (server, interface, usual) in _WORKERS.items():
        if re.fullmatch(pattern, kind):
            number = given.threads or int(next(iter(threads), 1))
            loop = given.loop if usual == AUTO else usual
            blocking = number if blocks(interface, loop) else None
            shown = "uvicorn" if server == "uvicorn-worker" else kind
            if blocking is not None and blocking > 1:
                shown = "gthread"
            return StartCommand(server, interface, loop, blocking, shown, app, source)
    return None
