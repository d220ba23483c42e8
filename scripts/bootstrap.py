"""Make the harness's own environment, `.venv`, with nothing but Python's standard library.

Run by `make setup`. Gets the pinned uv, then lets it install `requirements.txt` and the project.
A second run checks in a fraction of a second, without network. Every sentence that ends this
script says what to do. With words behind its name it hands them to the pinned uv, and does no more.
"""

import sys

NEEDED = (3, 11)
if sys.version_info < NEEDED:  # before any import that an older Python does not have
    sys.exit(
        "duetbench needs Python {}.{} or newer, and this is {}.{} ({}): name a newer one, for "
        "example `make setup PYTHON=python3.13`".format(
            *NEEDED, *sys.version_info[:2], sys.executable
        )
    )

import contextlib  # noqa: E402
import fcntl  # noqa: E402
import hashlib  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402
import shutil  # noqa: E402
import subprocess  # noqa: E402
from collections.abc import Iterator, Sequence  # noqa: E402
from pathlib import Path  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
LOCK = ROOT / "requirements.txt"
STAMP = VENV / "duetbench-made.json"
# Not that of an active environment, which may be the very one to be made; and by one name, since
# `python3` and, seen from an environment of it, `python3.13` are the same.
PYTHON: str = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "duetbench"


def main() -> None:
    """Make or check the environment; another bootstrap of this checkout is waited for."""
    if sys.argv[1:]:
        uv = ensure_uv()
        os.execv(uv, [uv, *sys.argv[1:]])  # noqa: S606 - there is nothing left to do
    with exclusive(CACHE / "locks" / f"venv-{digest(str(VENV))}.lock"):
        wanted = {
            "python": PYTHON,
            "root": str(ROOT),
            "requirements": digest(LOCK.read_text()),
            "project": digest((ROOT / "pyproject.toml").read_text()),
        }
        found = stamp()
        uv = ensure_uv()
        if found == wanted and whole(uv):
            return
        make(uv, wanted, found)


def make(uv: Path, wanted: dict[str, str], found: dict[str, str]) -> None:
    """Install what is locked, then the project itself; stamp last."""
    STAMP.unlink(missing_ok=True)
    python = str(VENV / "bin" / "python")
    if any(found.get(key) != wanted[key] for key in ("python", "root")):
        # Of another Python, moved with its checkout, or cut off while it was made, which can look
        # complete to uv: begin again.
        say("making .venv, the harness's own environment")
        run([uv, "venv", "--quiet", "--clear", "--no-project", "--python", PYTHON, VENV])
    say("installing the harness's locked packages into .venv")
    run([uv, "pip", "sync", "--quiet", "--require-hashes", "--python", python, "requirements.txt"])
    # Its build backend is among the locked packages, so this reaches for no network.
    editable = ["pip", "install", "--quiet", "--offline", "--no-deps", "--no-build-isolation"]
    run([uv, *editable, "--python", python, "--editable", "."])
    partial = STAMP.with_suffix(".part")
    partial.write_text(json.dumps(wanted))
    partial.replace(STAMP)


def stamp() -> dict[str, str]:
    """What the environment was made from; empty if it was never finished."""
    try:
        found = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def whole(uv: Path) -> bool:
    """Whether the stamped environment still has every locked package and its command."""
    options = ["--offline", "--dry-run", "--no-deps", "--require-hashes"]
    done = said([uv, "pip", "install", *options, "--python", VENV / "bin" / "python", "-r", LOCK])
    nothing_to_do = "Would make no changes" in done.stderr
    return done.returncode == 0 and nothing_to_do and (VENV / "bin" / "duetbench").exists()


def ensure_uv() -> Path:
    """Find the locked uv on PATH or in the cache, or install it there from its locked hashes."""
    lines = re.search(r"^uv==(\S+)(?: \\\n\s+--hash=\S+)+", LOCK.read_text(), re.MULTILINE)
    if lines is None:
        sys.exit("requirements.txt has no hashed line for uv: restore it from git")
    version = lines[1]
    # Never that of the environment itself, which goes with it.
    outside = [
        folder
        for folder in os.get_exec_path()
        if not Path(os.path.realpath(folder)).is_relative_to(VENV.resolve())
    ]
    on_path = shutil.which("uv", path=os.pathsep.join(outside))
    if on_path and answers(Path(on_path), version):
        return Path(on_path)
    home = CACHE / f"uv-{version}"
    if answers(home / "bin" / "uv", version):
        return home / "bin" / "uv"
    with exclusive(CACHE / "locks" / f"uv-{version}.lock"):
        if not answers(home / "bin" / "uv", version):
            install_uv(home, lines[0])
    return home / "bin" / "uv"


def install_uv(home: Path, locked: str) -> None:
    """Install uv with pip into an environment of its own; one that was cut off is made again."""
    say("fetching uv, which installs everything else")
    done = said([PYTHON, "-m", "venv", "--clear", home])
    if done.returncode != 0:
        sys.exit(
            f"{PYTHON} cannot make environments ({(done.stdout + done.stderr).strip()}): "
            "install its venv module (Debian: apt-get install python3-venv)"
        )
    requirements = home / "uv.txt"
    requirements.write_text(locked + "\n")
    pip = [home / "bin" / "python", "-m", "pip", "install", "--quiet", "--require-hashes"]
    run([*pip, "--only-binary", ":all:", "--no-deps", "-r", requirements])


def answers(uv: Path, version: str) -> bool:
    """Whether this uv runs and is of the locked version."""
    try:
        return said([uv, "--version"]).stdout.split()[1:2] == [version]
    except OSError:
        return False


def run(argv: Sequence[str | Path]) -> None:
    """Run a step; if it fails, end with one sentence."""
    done = said(argv)
    if done.returncode != 0:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
        telling = [line for line in lines if line.lower().startswith(("error", "cause"))]
        reason = ([*filter(None, lines), *telling] or ["no output"])[-1][:300]
        sys.exit(
            f"`{Path(argv[0]).name}` failed: {reason}: mend that (the network, or the proxy "
            "settings?), then run `make setup` again"
        )


def said(argv: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    """Run a program in the checkout to its end."""
    # It inherits the lock: if we are killed, whoever comes next waits until it has ended, too.
    return subprocess.run(
        argv, cwd=ROOT, capture_output=True, text=True, check=False, close_fds=False
    )


@contextlib.contextmanager
def exclusive(lock: Path) -> Iterator[None]:
    """Hold a lock file; say so if somebody else does. The kernel frees it when its holders end."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        os.set_inheritable(file.fileno(), True)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another set-up is at work on the same: waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def digest(text: str) -> str:
    """Sixteen hex digits that change when the text does."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def say(sentence: str) -> None:
    """Print at once, also into a pipe."""
    sys.stdout.write(sentence + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as problem:
        sys.exit(f"{problem.strerror or problem}: {problem.filename or ''}: mend that and repeat")
