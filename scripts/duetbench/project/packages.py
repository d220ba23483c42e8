"""Programs that are wanted, never required: of the system's packages, and those that Go builds.

valgrind counts instructions, and suites that need it skip themselves without it; the others are for
tests. Packages are installed where that is allowed (Debian, as root or in CI); else the command
that installs them is told. Go checks every module against its checksum database; the module of the
program itself is checked against our own pin as well, by what the linker wrote into it.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from duetbench.core.errors import SetupError
from duetbench.host import cache, command, paths
from duetbench.host.progress import Narrator, Tick
from duetbench.project import tools
from duetbench.project.settings import GoToolSpec

_GO_ROOM_GB: Final = 2.0
"""What sources and objects of a Go program take while they are built (10⁹ bytes)."""


@dataclass(frozen=True, slots=True)
class Package:
    """A package of the distribution."""

    name: str  # Debian's
    programs: tuple[str, ...]  # names that its program goes by; the first that is found is it
    why: str  # ends "… it"
    tests_only: bool = False

    def find(self) -> Path | None:
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
POSTGRESQL: Final = Package(
    "postgresql", ("initdb", "pg_ctlcluster"), "tests keep an application's data in it", True
)
PACKAGES: Final = (VALGRIND, CHROMIUM, POSTGRESQL)


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
    log = tools.new_log(f"apt-{package.name}")
    install = [*apt, "-o", "DPkg::Lock::Timeout=300", "install", "--yes"]
    install += ["--no-install-recommends", package.name]
    what, env = f"installing {package.name}", {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        command.run(install, what=what, log=log, tick=tick, env=env)
    except SetupError:
        # Its lists of packages may be old, or not there at all.
        command.run([*apt, "update"], what="apt-get update", log=log, tick=tick, env=env)
        command.run(install, what=what, log=log, tick=tick, env=env)


def ensure_go_tool(name: str, spec: GoToolSpec, narrator: Narrator) -> bool | None:
    """Build a program if it is not there, as `ensure` installs packages."""

    def build(staging: Path) -> cache.Facts:
        command.require(command.space_faults(paths.cache_dir(), _GO_ROOM_GB))
        return _build_go_tool(name, spec, staging, narrator)

    try:
        return cache.make(
            tools.go_place(name, spec),
            fault=lambda place: tools.fault(name, place),
            build=build,
            narrator=narrator,
        )
    except SetupError as error:
        narrator.say(f"{name} is not here ({error}); tests of the workflows use it")
        return None


def _build_go_tool(name: str, spec: GoToolSpec, staging: Path, narrator: Narrator) -> cache.Facts:
    go = command.need(
        "go", f"to build {name}", "install Go (Debian: apt-get install golang-go, or its own site)"
    )
    objects = paths.cache_dir() / "building" / f"go-{name}-{spec.version}"
    with narrator.step(f"{name} {spec.version}", "building it, about a minute") as tick:
        command.run(
            [go, "install", "-trimpath", f"{spec.package}@v{spec.version}"],
            what=f"building {name}",
            log=tools.new_log(name),
            tick=tick,
            # Another folder for programs, or another system to build for, would lose it.
            env={"GOBIN": str(staging / "bin"), "GOCACHE": str(objects), "GOOS": "", "GOARCH": ""},
        )
    program = staging / "bin" / name
    _require_module(go, program, spec)
    shutil.rmtree(objects, ignore_errors=True)
    return {"version": spec.version, "sha256": cache.sha256(program)}


def _require_module(go: str, program: Path, spec: GoToolSpec) -> None:
    done = subprocess.run(
        [go, "version", "-m", program], capture_output=True, text=True, check=False
    )
    words = next(
        (line.split() for line in done.stdout.splitlines() if line.split()[:1] == ["mod"]), []
    )
    expected = [spec.module, f"v{spec.version}", spec.sum]
    if words[1:4] != expected:
        raise SetupError(
            f"{program.name}: expected module {' '.join(expected)}, found "
            f"{' '.join(words[1:4]) or 'none'}: do not use it; compare the pin in pyproject.toml"
        )
