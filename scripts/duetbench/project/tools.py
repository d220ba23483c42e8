"""Programs that set-up brings or asks for: uv, and packages of the system.

None of the system's packages is required. They are installed where that is allowed (Debian, as root
or in CI); else the command that installs them is told.
"""

import math
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uv as uv_package

from duetbench.core.errors import SetupError
from duetbench.host import cache, command, paths
from duetbench.host.command import Tick
from duetbench.host.console import Narrator

_TIMEOUT_S: Final = 30
COMPILER_REMEDY: Final = "install it (on Debian and its relatives: apt-get install build-essential)"
_CHUNK: Final = 1 << 18


def uv() -> Path:
    """The locked uv of the harness's own environment.

    Raises:
        SetupError: The package is there and its program is not.
    """
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


def no_compiler() -> list[str]:
    """Say that there is no C compiler, which CPython and the load generator need."""
    return command.missing("cc", "to compile what has to be built", COMPILER_REMEDY)


def new_log(name: str) -> Path:
    """Where a tool's output goes, without what an earlier one has said there."""
    log = paths.cache_dir() / "logs" / f"{name}.log"
    log.unlink(missing_ok=True)
    return log


def download(address: str, partial: Path, tick: Tick, most: float = math.inf) -> None:
    """Fetch a file over HTTP; its contents are for the caller to check.

    Raises:
        SetupError: It cannot be had, or has more than `most` bytes.
    """
    import httpx  # noqa: PLC0415 - slow to import, and nearly always not needed

    received = 0
    try:
        with (
            httpx.stream("GET", address, timeout=_TIMEOUT_S, follow_redirects=True) as response,
            partial.open("wb") as file,
        ):
            response.raise_for_status()
            for chunk in response.iter_bytes(_CHUNK):
                received += file.write(chunk)
                if received > most:
                    raise SetupError(f"it has more than {most / 1e6:g} MB")
                tick(f"{received / 1e6:.0f} MB")
    except httpx.HTTPStatusError as error:
        raise SetupError(f"the server answered {error.response.status_code}") from error
    except httpx.HTTPError as error:
        raise SetupError(f"no connection ({error})") from error


def version(program: Path | str) -> str | None:
    """What a program answers to `--version`, without its name; None if it does not answer."""
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, check=True, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError):
        return None
    first = (done.stdout or done.stderr).strip().splitlines()
    return first[0].removeprefix(Path(program).name).strip() if first else None


@dataclass(frozen=True, slots=True)
class Package:
    """A package of the distribution."""

    name: str  # Debian's
    programs: tuple[str, ...]  # names that its program goes by; the first that is found is it
    why: str  # ends "… it"
    tests_only: bool = False

    def find(self) -> Path | None:
        program = next(filter(None, map(shutil.which, self.programs)), None)
        return Path(program) if program else None

    @property
    def remedy(self) -> str:
        return f"apt-get install --no-install-recommends {self.name}"

    def version(self) -> str:
        program = self.find()
        text = version(program) if program else None
        return (text or "version unknown").lstrip("-")


VALGRIND: Final = Package("valgrind", ("valgrind",), "instructions are counted with it")
CHROMIUM: Final = Package(
    "chromium", ("chromium", "chromium-browser"), "tests open published pages in it", True
)
POSTGRESQL: Final = Package(
    "postgresql", ("initdb", "pg_ctlcluster"), "tests keep an application's data in it", True
)
SYSTEMD: Final = Package(
    "systemd", ("systemd-analyze",), "tests verify the units of a runner with it", True
)
PACKAGES: Final = (VALGRIND, CHROMIUM, POSTGRESQL, SYSTEMD)


def ensure(package: Package, narrator: Narrator) -> bool | None:
    """Install a package if its program is not there and we may: whether; None: it is not there.

    What cannot be installed is told, and is no error.
    """
    if package.find():
        return False
    apt = shutil.which("apt-get")
    become = _as_root()
    trouble = ""
    if apt is not None and become is not None:
        try:
            with narrator.step(package.name, f"installing it: {package.why}") as tick:
                _install([*become, apt], package, tick)
        except SetupError as error:
            trouble = f" ({error})"
        else:
            return True if package.find() else None
    narrator.say(
        f"{package.name} is not here{trouble}; {package.why}. To have it: `{package.remedy}`"
    )
    return None


def _as_root() -> list[str] | None:
    # What makes a command root's: nothing for root, sudo on a CI's machine; None: we may not.
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    if sudo is None or not os.environ.get("CI"):
        return None
    # What sudo does not hand on by itself.
    return [sudo, "--non-interactive", "env", "DEBIAN_FRONTEND=noninteractive"]


def _install(apt: list[str], package: Package, tick: Tick) -> None:
    log = new_log(f"apt-{package.name}")
    install = [*apt, "-o", "DPkg::Lock::Timeout=300", "install", "--yes"]
    install += ["--no-install-recommends", package.name]
    what, env = f"installing {package.name}", {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        command.run(install, what=what, log=log, tick=tick, env=env)
    except SetupError:
        # Its lists of packages may be old, or not there at all.
        command.run([*apt, "update"], what="apt-get update", log=log, tick=tick, env=env)
        command.run(install, what=what, log=log, tick=tick, env=env)


def place(name: str, version: str, spec: str) -> Path:
    """Where set-up puts a program that it makes."""
    return paths.cache_dir() / "tools" / f"{name}-{version}-{cache.digest(spec)}"


def made(name: str, version: str, target: Path, remedy: str) -> Path:
    """Find a program that set-up made; SetupError: it was not made yet."""
    program = target / "bin" / name
    if cache.facts(target) is None or not program.is_file():
        raise SetupError(f"{name} {version} has not been made: run `{remedy}`")
    return program


def fault(name: str, target: Path) -> str | None:
    """Say what is wrong with a made program at a place; None if nothing is."""
    facts = cache.facts(target)
    program = target / "bin" / name
    if facts is None or not program.is_file():
        return "it is not there"
    if cache.sha256(program) != facts.get("sha256"):
        return "its program is not the one that was made"
    return None
