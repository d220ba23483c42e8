"""Make the harness's own environment, `.venv`, with nothing but Python's standard library.

`make setup` runs it. It gets the pinned uv, which installs `requirements.txt` and the project. A
second run checks in a fraction of a second, without network. Every error says what to do. With
arguments, it only passes them to the pinned uv.
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

import fcntl  # noqa: E402
import hashlib  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402
import subprocess  # noqa: E402
from pathlib import Path  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
LOCK = ROOT / "requirements.txt"
STAMP = VENV / "duetbench-made"
# Not an active environment's Python, since that may be the environment to create. The real path,
# since `python3` and an environment's `python3.13` may be the same program.
PYTHON: str = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
OBSERVATORY = """#!{python}
from observatory.cli import main

main()
"""
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "duetbench"


def main() -> None:
    """Create or check the environment, or run uv; wait for another bootstrap first."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "bootstrap.lock").open("w") as lock:
        # Child processes inherit the lock: if this script is killed, the next one waits for them.
        os.set_inheritable(lock.fileno(), True)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another set-up is at work: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        uv = locked_uv()
        if not sys.argv[1:]:
            make_environment(uv)
    if sys.argv[1:]:
        os.execv(uv, [uv, *sys.argv[1:]])  # noqa: S606 - there is nothing left to do


def locked_uv() -> Path:
    """Return the locked uv of the cache; if it is missing, pip installs it from its hashes."""
    locked = re.search(r"^uv==(\S+)(?: \\\n\s+--hash=\S+)+", LOCK.read_text(), re.MULTILINE)
    if locked is None:
        sys.exit("requirements.txt has no hashed line for uv: restore it from git")
    home = CACHE / f"uv-{locked[1]}"
    uv, requirements = home / "bin" / "uv", home / "uv.txt"
    if not uv.exists() or run(uv, "--version", fatal=False):
        say("fetching uv, which installs everything else")
        if problem := run(PYTHON, "-m", "venv", "--clear", home, fatal=False):
            sys.exit(
                f"{PYTHON} cannot make environments ({problem}): install its venv module "
                "(Debian: apt-get install python3-venv)"
            )
        requirements.write_text(locked[0] + "\n")
        pip = [home / "bin" / "python", "-m", "pip", "install", "--quiet", "--require-hashes"]
        run(*pip, "--only-binary", ":all:", "--no-deps", "-r", requirements)
    return uv


def make_environment(uv: Path) -> None:
    """Install the locked packages, then the project itself; write the stamp last."""
    inputs = (LOCK.read_bytes(), (ROOT / "pyproject.toml").read_bytes(), PYTHON, str(ROOT))
    digest = hashlib.sha256(repr(inputs).encode()).hexdigest()
    pip = [uv, "pip", "install", "--quiet", "--no-deps", "--python", VENV / "bin" / "python"]
    commands = (VENV / "bin" / "duetbench", VENV / "bin" / "observatory")
    whole = STAMP.exists() and STAMP.read_text() == digest and all(c.exists() for c in commands)
    # Offline, this fails if any locked package has been removed.
    if whole and not run(
        *pip, "--offline", "--no-cache", "--require-hashes", "-r", LOCK, fatal=False
    ):
        return
    # Start afresh: packages of another Python, or of an interrupted run, can look complete to uv.
    say("making .venv, the harness's own environment")
    run(uv, "venv", "--quiet", "--clear", "--no-project", "--python", PYTHON, VENV)
    say("installing the harness's locked packages into .venv")
    # Locked build tools build packages without a wheel.
    run(*pip, "--require-hashes", "--build-constraints", LOCK, "-r", LOCK)
    # Its build backend is among the locked packages, so this needs no network.
    run(*pip, "--offline", "--no-build-isolation", "--editable", ROOT)
    # Beside the project's own command, and no part of its wheel: what only this repository needs.
    commands[1].write_text(OBSERVATORY.format(python=VENV / "bin" / "python"))
    commands[1].chmod(0o755)
    os.sync()  # after a power cut, an environment with a stamp has all its contents
    STAMP.write_text(digest)


def run(*argv: "str | Path", fatal: bool = True) -> str:
    """Run a program in the checkout; return its error (empty: none), or exit with that."""
    result = subprocess.run(
        argv, cwd=ROOT, capture_output=True, text=True, check=False, close_fds=False
    )
    lines = [line.strip() for line in (result.stdout + result.stderr).splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith(("error", "cause"))]
    reason = ([*lines, *errors] or ["no output"])[-1][:300] if result.returncode else ""
    if reason and fatal:
        sys.exit(
            f"`{Path(argv[0]).name}` failed: {reason}: fix that (the network, or the proxy "
            "settings?), then run `make setup` again"
        )
    return reason


def say(sentence: str) -> None:
    """Print a sentence without buffering, also into a pipe."""
    sys.stdout.write(sentence + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as problem:
        sys.exit(f"{problem.strerror or problem}: {problem.filename or ''}: fix that and repeat")
