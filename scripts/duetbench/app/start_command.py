"""How a repository starts its application in production: the command lines in its files."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from duetbench.app.servers import AUTO, GEVENT, SERVERS, blocks
from duetbench.core.model import Interface

_FILES: Final = (
    *("Procfile", "Dockerfile*", "*compose*.y*ml", "*.sh", "*/*.sh", "*/Dockerfile*"),
    *("gunicorn*.py", "*/gunicorn*.py"),
)
"""Files that start servers, the likeliest first."""

_MARKS: Final = re.compile(r"(?:\\\n|[\[\]\"', ])+")  # around the words of a command

_COMMAND: Final = re.compile(
    r"^(?!\s*#|.*(?:\b(?:install|add|echo) |image:)).*?"
    rf"(?<![\w.-])({'|'.join(SERVERS)}|fastapi run)(?=\s)([^\n;&|]*(?::| -|\.py)[^\n;&|]*)",
    re.MULTILINE,
)
"""On a line that installs nothing: a server, and its arguments, of which one is an option or an
application."""

_APP: Final = re.compile(r"(?<!\S)([A-Za-z_][\w.]*:[A-Za-z_][\w.]*)(?=\(\)|\s|$)")

_SETTING: Final = re.compile(
    r"^(worker_class|threads)\s*=.*?[\"' ]([\w.]+)[\"')\s]*$", re.MULTILINE
)
"""A line of Gunicorn's file of settings."""

_WORKERS: Final[dict[str, tuple[str, Interface, str]]] = {
    r"(?:.*\.)?Uvicorn\w*Worker": ("uvicorn-worker", "asgi", AUTO),
    r"(?:.*\.)?(?:gevent|Gevent\w*Worker)": ("gunicorn", "wsgi", GEVENT),
    r"asgi": ("gunicorn", "asgi", AUTO),
    r"sync|gthread": ("gunicorn", "wsgi", AUTO),
}
"""Pattern of Gunicorn's worker classes → server, interface and event loop."""


@dataclass(frozen=True, slots=True)
class StartCommand:
    """What a command line starts.

    Attributes:
        interface: The only one that it serves; None: all of its server's.
        threads: Blocking threads per worker; None: the server's default.
        app: The application, as module:attribute; empty if it is not named like that.
        source: The file that it is from.
    """

    server: str
    interface: Interface | None
    loop: str
    threads: int | None
    app: str
    source: str

    def serves(self, interface: Interface | None, *, free_threaded: bool) -> bool:
        """Whether it can serve an interface (None: any), with or without the GIL."""
        speaks = {self.interface} if self.interface else SERVERS[self.server].interfaces
        loops = {AUTO, *SERVERS[self.server].loops}
        able = self.loop in loops and not (free_threaded and self.loop == GEVENT)
        return able and (interface is None or interface in speaks)

    def __str__(self) -> str:
        return f"{self.server}, as {self.source} says"


def find(place: Path, app: str) -> list[StartCommand]:
    """List what a folder's files start, the likeliest first: this application, not for developing.

    `app` is module:attribute.
    """
    found: list[tuple[bool, StartCommand]] = []
    configs = (file for pattern in _FILES[-2:] for file in place.glob(pattern))
    settings = _SETTING.findall("\n".join(file.read_text("utf-8", "replace") for file in configs))
    options = "".join(f" --{name.replace('_', '-')} {value}" for name, value in settings)
    for file in (file for pattern in _FILES for file in sorted(place.glob(pattern))):
        text = file.read_text("utf-8", "replace") if file.is_file() else ""
        text = f"gunicorn -c {file.name} {app}" if file.suffix == ".py" else text
        # Of a Dockerfile the last stage counts.
        for name, rest in reversed(_COMMAND.findall(_MARKS.sub(" ", text))):
            arguments = rest + options * (name == "gunicorn")
            for command in _read(name, arguments, file.relative_to(place).as_posix()):
                own = app.rpartition(".")[2] in rest
                found.append((not own or "--reload" in rest, command))
    return [command for _, command in sorted(found, key=lambda pair: pair[0])]


def _read(name: str, rest: str, source: str) -> Iterator[StartCommand]:
    """Read a server's arguments; nothing if its workers are of a kind that is not known."""

    def option(names: str) -> str:
        return next(iter(re.findall(rf"(?<!\S)(?:{names})[ =]*([\w.]+)", rest)), "")

    kind, loop = option("-k|--worker-class"), option("--(?:asgi-)?loop") or AUTO
    threads = option("--(?:blocking-)?threads")
    number = int(threads) if threads.isdigit() else None
    app = next(iter(_APP.findall(rest)), "")
    if name == "fastapi run":
        yield StartCommand("uvicorn", None, AUTO, None, "", source)
    elif name != "gunicorn":
        # A class of workers is Hypercorn's loop.
        yield StartCommand(name, None, kind or loop, number, app, source)
    for pattern, (server, interface, usual) in _WORKERS.items():
        if name == "gunicorn" and re.fullmatch(pattern, kind or "sync"):
            loop = loop if usual == AUTO else usual
            blocking = (number or 1) if blocks(interface, loop) else None
            yield StartCommand(server, interface, loop, blocking, app, source)
