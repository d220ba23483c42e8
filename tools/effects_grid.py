"""Measures which planted changes `duetbench compare` sees in what one request does.

    .venv/bin/python tools/effects_grid.py [NAME=PYTHON …]

Each change is planted alone in small ASGI and WSGI applications, on several interpreters, and
looked for in both directions; the same application twice must show nothing. It takes minutes.
"""

import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "tests" / name) for name in ("support", "measure")]

from test_effects import DATABASE, EFFECTS, PLAIN  # noqa: E402

from duetbench.judge.effects import compare  # noqa: E402
from duetbench.store.effects import Effects  # noqa: E402
from effects import WAYS, seen, source  # noqa: E402

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
CHANGES = {name: (*case[:3], name) for name, case in EFFECTS.items()} | MORE


def kinds(effects: Effects) -> set[str]:
    """Name what differs."""
    found: set[str] = {*effects.moved}
    found |= {"answer"} if effects.answers else set()
    return found | ({"memory kept"} if effects.leaks else set())


def main() -> None:
    """Print a row per change and interpreter, and the sums."""
    pythons = dict(text.split("=") for text in sys.argv[1:]) or {"this": sys.executable}
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as top, ThreadPoolExecutor(2) as pool:
        for turn, (name, (before, base, head, kind)) in enumerate(CHANGES.items()):
            for index, (version, python) in enumerate(pythons.items()):
                way = WAYS[(turn + index) % len(WAYS)]
                interface = "wsgi" if way == "wsgi" else "asgi"
                texts = [source(work, way, before) for work in (base, head)]
                folders = [Path(top, f"{turn}-{index}-{side}", "app") for side in (0, 1)]
                for folder in folders:
                    folder.mkdir(parents=True)
                    (folder / "this_day.py").write_text("")
                began = time.monotonic()
                old, new = pool.map(
                    lambda folder, text, python=python, interface=interface: seen(
                        folder, text, Path(python), interface, 0.6
                    ),
                    *(folders, texts),
                )
                took = time.monotonic() - began
                found, back = kinds(compare(old, new)), kinds(compare(new, old))
                expected = {kind} if kind != "memory kept" else set()
                results = [
                    "found" if kind in found else "NOT FOUND",
                    "found" if expected <= back else "NOT FOUND",
                    "none"
                    if not (kinds(compare(old, old)) | kinds(compare(new, new)))
                    else "FALSE",
                ]
                counts.update(results)
                others = ", ".join(sorted((found | back) - {kind})) or "-"
                row = (name, version, way, *results, others, f"{took:.1f} s")
                print(" | ".join(row), flush=True)
            old, new = pool.map(
                lambda folder, text, python=python, interface=interface: seen(
                    folder, text, Path(python), interface, 0.6
                ),
                *(folders, texts[1:] * 2),
            )
            alike = kinds(compare(old, new))
            counts[f"A/A {'false' if alike else 'none'}"] += 1
            print(f"{name} | {version} | {way} | A/A: {alike or 'none'}", flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main()
