"""Run as root in mount and process namespaces of its own: what foreign code can do in its room.

    unshare --mount --pid --fork --mount-proc python rooms.py SCENE FOLDER

It becomes the user nobody for real, ends all of that user's processes for real, and sees no other
processes than its own. Prints a JSON object of what it saw.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil

from duetbench.cli import main as duetbench
from duetbench.core.errors import ArtifactError, DuetbenchError
from duetbench.github.runner import foreign
from duetbench.github.runner import room as room_
from duetbench.github.runner.room import PATH, OtherUser, Room
from duetbench.host import paths

USER: Final = "nobody"
OPEN_TO_ALL: Final = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))
KEPT: Final = Path("/mnt")
"""Where what is covered is kept, closed to others."""

_ASV: Final = """
import sys, pathlib, duetbench.measure.inprocess.suite_runs as micro
print(micro.configuration(pathlib.Path(sys.argv[1]), None)["env_dir"])
"""
CACHED: Final = "for f in cache/duetbench/tools/oha-*/made.json; do : >>$f; done"
LINGERING: Final = """
trap '' TERM HUP INT
setsid sh -c 'trap "" TERM; exec sleep 600' >/dev/null 2>&1 </dev/null &
mkdir -p "$HOME/a/b" && echo x >"$HOME/a/b/c" && chmod 000 "$HOME/a/b"
echo x >"/tmp/sb-left-$$"
echo $!
"""


def seen(folder: Path) -> dict[str, Any]:
    """What foreign code is, and what it can reach."""
    with a_room() as room:
        os.environ["ACTIONS_RUNTIME_TOKEN"] = "hidden"  # the runner has such variables
        answers = {
            "id": ["id", "-u"],
            "groups": ["id", "-G"],
            "privileges": ["grep", "NoNewPrivs", "/proc/self/status"],
            "environment": ["env"],
            "secret": ["cat", str(folder / "secret")],
            "parent": ["sh", "-c", "cat /proc/$PPID/environ"],
            "cache": ["sh", "-c", CACHED],
            "asv": [sys.executable, "-I", "-c", _ASV, str(paths.project_root())],
            "oha": ["sh", "-c", "cache/duetbench/tools/oha-*/bin/oha --version"],
        }
        return {name: said(room, argv) for name, argv in answers.items()}


def cleared(_: Path) -> dict[str, Any]:
    """What is left of foreign code that does not want to go."""
    bystander = subprocess.Popen(["sleep", "600"])
    with a_room() as room:
        pid = int(said(room, ["sh", "-c", LINGERING]).splitlines()[-1])
        until(lambda: "sleep" in command(pid))
        before = sorted(p.name for p in Path("/tmp").glob("sb-left-*"))
        room.empty()
        until(lambda: command(pid) == "")
        found = {
            "before": len(before),
            "after": len(list(Path("/tmp").glob("sb-left-*"))),
            "room": sorted(p.name for p in room.folder.iterdir()),
            "bystander": bystander.poll(),
        }
        room.empty()  # nobody is there to be ended: no error
    bystander.kill()
    return found


def collected(folder: Path) -> dict[str, Any]:
    """What a result can be that is none."""
    makers = {
        "file": "printf right > out/result",
        "link": f"ln -s {folder / 'secret'} out/result",
        "pipe": "mkfifo out/result",
        "large": "head -c 100 /dev/zero > out/result",
        "absent": "true",
    }

    def taken(room: Room, name: str) -> str:
        room_.PATIENCE_S = 1 if name == "pipe" else 30  # which nobody writes to
        return room.collect("out/result", 50).decode()

    return each(makers, taken)


def brought(folder: Path) -> dict[str, Any]:
    """What a folder of results can be that is none."""
    here = folder / "here"
    here.mkdir()
    os.chdir(here)
    makers = {
        "right": "mkdir runs && echo right > runs/a.json",
        "link": f"ln -s {folder / 'secret'} a.json",
        "whole link": f"cd .. && rmdir result && ln -s {folder} result",
        "hard link": "echo x > a.json && ln a.json b.json",
        "pipe": "mkfifo a.json",
        "large": "truncate -s 9000000 a.json",
        "larger": "head -c 40000000 /dev/zero > a.json",
        "many": "for i in $(seq 99); do : > $i.json; done",
        "hidden": "echo x > .bashrc",
        "absent": "cd .. && rmdir result",
    }

    def taken(room: Room, _: str) -> str:
        foreign.bring(room, "result")
        return "came"

    started = {name: f"mkdir out/result && cd out/result && {one}" for name, one in makers.items()}
    found = each(started, taken)
    there = [path for path in here.rglob("*") if path.is_file()]
    return {**found, "there": {str(path.relative_to(here)): path.read_text() for path in there}}


def each(makers: dict[str, str], taken: Callable[[Room, str], str]) -> dict[str, str]:
    """What becomes of what each of these programs leaves in a room."""
    found = {}
    for name, maker in makers.items():
        with a_room() as room:
            said(room, ["sh", "-c", maker])
            try:
                found[name] = taken(room, name)
            except ArtifactError as error:
                found[name] = f"refused: {error}"
    return found


def fleet(folder: Path) -> dict[str, Any]:
    """A verb below `duetbench ci fleet`, of hostile code, from beginning to end."""
    wanted = json.loads((folder / "wanted.json").read_text())
    os.chdir(folder)
    with a_room() as room:
        file = folder / "fleet.json"
        described = {"user": USER, "room": str(room.folder), "passes": ["UV_DEFAULT_INDEX"]}
        file.write_text(json.dumps(described))
        os.environ["DUETBENCH_FLEET"] = str(file)
        os.environ["GITHUB_ACTIONS"] = "true"
        sys.argv = ["duetbench", "ci", "fleet", *wanted]
        code: object = 0
        try:
            duetbench()
        except SystemExit as ended:
            code = ended.code
        alive = sorted(room.user.running())
        return {"code": code, "alive": alive, "room": [p.name for p in room.folder.iterdir()]}


@contextmanager
def a_room() -> Iterator[Room]:
    """An empty room of the other user, with the machine's cache."""
    user = OtherUser(USER)
    made = user.run(["mktemp", "-d", "/tmp/duetbench-room-XXXXXX"])
    folder = Path(made.stdout.decode().strip())
    room = Room(user, folder)
    room.empty()
    room.furnish(paths.cache_dir())
    try:
        yield room
    finally:
        user.run(["chmod", "-R", "u+rwx", "--", folder], check=False)
        user.run(["rm", "-rf", "--", folder], check=False)


def said(room: Room, argv: list[str]) -> str:
    process = room.user.start(argv, room.environment(), room.folder)
    told, _ = process.communicate(timeout=60)
    return f"{told.decode('utf-8', 'replace').strip()}"


def command(pid: int) -> str:
    """The command line of a process; empty when it has ended."""
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.NoSuchProcess:
        return ""


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("never came")
        time.sleep(0.01)


def open_up(needed: list[Path]) -> None:
    """Let other users reach these folders, in this mount namespace only."""
    closed: dict[Path, list[Path]] = {path: [] for path in OPEN_TO_ALL if path.is_dir()}
    for path in needed:
        above = [p for p in reversed(path.parents) if p in closed or p.stat().st_mode & 0o001 == 0]
        if above:
            closed.setdefault(above[0], []).append(path)
    mount("-t", "tmpfs", "-o", "mode=700", "tmpfs", str(KEPT))
    for number, (top, inner) in enumerate(closed.items()):
        kept = KEPT / str(number)
        kept.mkdir()
        mount("--bind", str(top), str(kept))
        mode = 1777 if top in OPEN_TO_ALL else 755
        mount("-t", "tmpfs", "-o", f"mode={mode}", "tmpfs", str(top))
        for path in inner:
            path.mkdir(parents=True, exist_ok=True)
            mount("--bind", str(kept / path.relative_to(top)), str(path))


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, env={"PATH": PATH})


SCENES: Final = {f.__name__: f for f in (seen, cleared, collected, brought, fleet)}


def main() -> None:
    scene, folder = SCENES[sys.argv[1]], Path(sys.argv[2])
    python = Path(sys.executable).resolve()
    # The harness's own checkout too, which need not be the one that is measured.
    checkouts = [Path(__file__).resolve().parents[2], paths.project_root()]
    needed = [python.parents[1], *checkouts, Path(sys.prefix), paths.cache_dir(), folder]
    open_up([path.resolve() for path in needed])
    secret = folder / "secret"
    secret.write_text("token")
    secret.chmod(0o600)
    try:
        found = scene(folder)
    except DuetbenchError as error:
        found = {"error": str(error)}
    (folder / "seen.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
