"""Measures which planted changes `duetbench compare` sees in what one request does.

    .venv/bin/python tools/effects_grid.py [NAME=PYTHON …]

Each change is planted alone in small ASGI and WSGI applications, on several interpreters, and
looked for in both directions; the same application twice must show nothing. It takes minutes.
"""

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

sys.path[:0] = [str(Path(__file__).parents[1] / "tests" / name) for name in ("support", "measure")]

from test_effects import DATABASE, EFFECTS, MODULE, PLAIN  # noqa: E402

from duetbench.core.model import Effects, Interface  # noqa: E402
from duetbench.effects.activity import Activity  # noqa: E402
from duetbench.effects.difference import compare  # noqa: E402
from effects import WAYS, seen, source  # noqa: E402

SECONDS: Final = 0.6  # for the memory of each side, as in a comparison
TITLES: Final = ("base → head", "head → base", "head twice")

SERVER = "import socket\nserver = socket.create_server(('127.0.0.1', 0))\n"

# Name: what the module does first, what base's and head's requests do, and the kind that differs.
MORE = {
    "sql, other text": (
        DATABASE, "list(db.execute('select id from book'))",
        "list(db.execute('select title from book'))", "sql",
    ),
    "a connection per request": (
        f"{SERVER}port = server.getsockname()[1]",
        PLAIN,
        "socket.create_connection(('127.0.0.1', port)).close()\nserver.accept()[0].close()",
        "connect",
    ),
    "fork": (
        "import os", PLAIN,
        "pid = os.posix_spawn('/bin/true', ['true'], {})\nos.waitpid(pid, 0)", "process",
    ),
    "a leak": ("KEPT = []", PLAIN, "KEPT.append(bytes(2_000))", "memory kept"),
    "other content": ("", PLAIN, "return b'other'", "answer"),
    "a template read": ("", PLAIN, "open(__file__).read()", "read"),
}  # fmt: skip
CHANGES = {name: (MODULE, base, head, name) for name, (base, head, *_) in EFFECTS.items()} | MORE


def kinds(effects: Effects) -> set[str]:
    """Name what differs."""
    found: set[str] = {*effects.moved}
    found |= {"answer"} if effects.answers else set()
    return found | ({"memory kept"} if effects.leaks else set())


def look(texts: Sequence[str], folder: Path, python: Path, interface: Interface) -> list[Activity]:
    """Observe applications with these sources, two at a time."""

    def observe(side: int, text: str) -> Activity:
        place = folder / f"{side}" / "app"
        place.mkdir(parents=True, exist_ok=True)
        (place / "this_day.py").write_text("")
        return seen(place, text, python, interface, SECONDS)

    with ThreadPoolExecutor(2) as pool:  # each thread waits for its own process
        return [*pool.map(observe, range(len(texts)), texts)]


def row(name: str, folder: Path, version: str, python: Path, way: str) -> Iterator[str]:
    """Measure one change, and yield the cells of its row."""
    before, base, head, kind = CHANGES[name]
    interface: Interface = "wsgi" if way == "wsgi" else "asgi"
    texts = [source(work, way, before) for work in (base, head)]
    began = time.monotonic()
    old, new = look(texts, folder, python, interface)
    (again,) = look(texts[1:], folder, python, interface)
    took = time.monotonic() - began
    if not (compare(old, new).same and compare(new, again).same):  # as a comparison does it
        sides = zip(
            (old, new, again), look([*texts, texts[1]], folder, python, interface), strict=True
        )
        old, new, again = (side.with_(second) for side, second in sides)
    found, back, alike = (kinds(compare(*p)) for p in ((old, new), (new, old), (new, again)))
    if kind == "memory kept":  # head that keeps no more is no leak: the way back finds nothing
        back = back ^ {kind}
    yield from (name, version, way)
    yield from ("found" if kind in moved else "NOT FOUND" for moved in (found, back))
    yield f"FALSE {sorted(alike)}" if alike else "none"
    yield ", ".join(sorted((found | back) - {kind})) or "-"
    yield f"{took:.1f} s"


def main() -> None:
    """Print a row per change and interpreter, and the sums."""
    pythons = dict(text.split("=") for text in sys.argv[1:]) or {"this": sys.executable}
    counts: Counter[str] = Counter()
    print(" | ".join(("change", "Python", "way", *TITLES, "beside it", "seconds")))
    for turn, name in enumerate(CHANGES):
        for index, (version, python) in enumerate(pythons.items()):
            with tempfile.TemporaryDirectory() as top:
                way = WAYS[(turn + index) % len(WAYS)]
                cells = [*row(name, Path(top), version, Path(python), way)]
            counts.update(
                f"{title}: {cell[:5]}" for title, cell in zip(TITLES, cells[3:6], strict=True)
            )
            print(" | ".join(cells), flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main()
