"""Programs from the system's own packages: wanted, never required.

valgrind counts instructions, and suites that need it skip themselves without it. Chromium opens
published pages in tests. Set-up installs them where it may (Debian, as root or in CI) and else says
which command would.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from servebench.core.errors import SetupError
from servebench.host import command, paths
from servebench.host.progress import Narrator, Tick
from servebench.toolchain import tools


@dataclass(frozen=True, slots=True)
class Package:
    """A package of the distribution."""

    name: str  # Debian's
    programs: tuple[str, ...]  # names that its program goes by; the first that is found is it
    why: str  # ends "… it"
    tests_only: bool = False

    def find(self) -> Path | None:
        """Where its program is; None if it is not on PATH."""
        found = next(filter(None, map(shutil.which, self.programs)), None)
        return Path(found) if found else None

    @property
    def remedy(self) -> str:
        return f"apt-get install --no-install-recommends {self.name}"

    def version(self) -> str:
        found = self.find()
        said = tools.version(found) if found else None
        return (said or "version unknown").lstrip("-")


VALGRIND: Final = Package("valgrind", ("valgrind",), "instructions are counted with it")
CHROMIUM: Final = Package(
    "chromium", ("chromium", "chromium-browser"), "tests open published pages in it", True
)
PACKAGES: Final = (VALGRIND, CHROMIUM)


def ensure(package: Package, narrator: Narrator) -> bool | None:
    """Install a package if its program is not there and we may.

    Reaches for the network only then. What cannot be installed is told, and is no error.

    Returns:
        Whether it was installed now; None: it is not there.
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
    """What makes a command root's: nothing for root, sudo on a CI's machine; None: we may not."""
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    if sudo is None or not os.environ.get("CI"):
        return None
    # What sudo does not hand on by itself.
    return [sudo, "--non-interactive", "env", "DEBIAN_FRONTEND=noninteractive"]


def _install(apt: list[str], package: Package, tick: Tick) -> None:
    log = paths.cache_dir() / "logs" / f"apt-{package.name}.log"
    log.unlink(missing_ok=True)
    install = [*apt, "-o", "DPkg::Lock::Timeout=300", "install", "--yes"]
    install += ["--no-install-recommends", package.name]
    what, env = f"installing {package.name}", {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        command.run(install, what=what, log=log, tick=tick, env=env)
    except SetupError:
        # Its lists of packages may be old, or not there at all.
        command.run([*apt, "update"], what="apt-get update", log=log, tick=tick, env=env)
        command.run(install, what=what, log=log, tick=tick, env=env)
