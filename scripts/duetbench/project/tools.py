"""Programs that set-up installs: the load generator, and valgrind.

oha is the program of its release, or built from its registry; both are pinned. valgrind is not
required. It is installed where that is allowed (Debian, as root or in CI); otherwise the user gets
the command that installs it.
"""

import math
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

from duetbench.core.errors import SetupError
from duetbench.host import cache, command, paths
from duetbench.host.command import Tick
from duetbench.host.console import Narrator
from duetbench.project.schema import OhaSpec

RUST: Final = "1.88"
"""The oldest Rust that compiles oha, as its crate says (`rust-version`)."""
_RUSTUP: Final = "with rustup (a distribution's may be older, as Debian 12's is)"

RELEASES: Final = "DUETBENCH_OHA_RELEASES"
"""Variable with another address of oha's release files; an empty one: build it from source."""

_RELEASES: Final = "https://github.com/hatoo/oha/releases/download"
_FILES: Final = {"x86_64": "oha-linux-amd64", "aarch64": "oha-linux-arm64"}
"""Kind of machine → the file of a release, which needs no system library."""

_MOST: Final = 100e6  # largest size of that file, bytes; it has about 20 million

ROOM_GB: Final = 3.0
"""Free space to build in, 10⁹ bytes."""

VALGRIND: Final = "valgrind"
WHY_VALGRIND: Final = "duetbench counts instructions with it"
VALGRIND_REMEDY: Final = "apt-get install --no-install-recommends valgrind"

COMPILER_REMEDY: Final = "install it (on Debian and its relatives: apt-get install build-essential)"

_TIMEOUT_S: Final = 30
_CHUNK: Final = 1 << 18


def no_compiler() -> list[str]:
    """Report a missing C compiler, which CPython and the load generator need."""
    return command.missing("cc", "to compile what has to be built", COMPILER_REMEDY)


def no_room() -> list[str]:
    """Report a disk that is too full to build."""
    folder = paths.cache_dir()
    free = command.free_gb(folder)
    if free >= ROOM_GB:
        return []
    room = f"{folder} has {free:.1f} GB free, and building needs {ROOM_GB:g} GB"
    return [f"{room}: make room, or set XDG_CACHE_HOME to a folder on a larger disk"]


def download(address: str, partial: Path, tick: Tick, most: float = math.inf) -> None:
    """Download a file over HTTP; the caller checks its contents.

    Raises SetupError if it is not available, or has more than `most` bytes.
    """
    import httpx  # noqa: PLC0415 - slow to import, and rarely needed

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
    """Ask a program for its `--version`, without its name; None if it does not answer."""
    try:
        process = subprocess.run(
            [program, "--version"], capture_output=True, text=True, check=True, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError):
        return None
    first = (process.stdout or process.stderr).strip().splitlines()
    return first[0].removeprefix(Path(program).name).strip() if first else None


class _UnusableError(SetupError):
    """There is no prebuilt program for this machine, but it can be built."""


def ensure_oha(spec: OhaSpec, narrator: Narrator) -> bool:
    """Install oha, prebuilt or built, unless the right one is there; return whether it did.

    Raises SetupError if that is not possible here, with what is missing.
    """
    if oha_fault(spec, oha_place(spec)) is None:
        return False
    if not fetch_oha(spec, narrator):
        command.require(oha_faults(spec))
        build_oha(spec, narrator)
    return True


def fetch_oha(spec: OhaSpec, narrator: Narrator) -> bool:
    """Install the program of oha's release, if one with a pinned checksum is available.

    Returns whether it is. Raises SetupError for another checksum, and then keeps nothing.
    """
    try:
        _make(spec, narrator, lambda staging: _fetch(spec, staging, narrator))
    except _UnusableError as error:
        narrator.say(f"a prebuilt oha {spec.version} is not available ({error}): cargo builds it")
        return False
    return True


def build_oha(spec: OhaSpec, narrator: Narrator) -> None:
    """Build oha from its registry; raises SetupError with what is missing."""
    _make(spec, narrator, lambda staging: _build(spec, staging, narrator))


def _make(spec: OhaSpec, narrator: Narrator, fill: Callable[[Path], cache.Facts]) -> None:
    cache.make(
        oha_place(spec),
        fault=lambda target: oha_fault(spec, target),
        build=fill,
        say=narrator.say,
    )


def find_oha(spec: OhaSpec) -> Path:
    """Find the load generator that set-up installed. Starts no process.

    Raises SetupError if it is not installed yet.
    """
    program = oha_place(spec) / "bin" / "oha"
    if cache.facts(oha_place(spec)) is None or not program.is_file():
        raise SetupError(f"oha {spec.version} is not installed: run `duetbench setup`")
    cache.touch(oha_place(spec))
    return program


def oha_place(spec: OhaSpec) -> Path:
    """Return oha's folder, prebuilt or not, which differs for every version."""
    pin = cache.digest(spec.model_dump_json(exclude={"prebuilt"}))
    return paths.cache_dir() / "tools" / f"oha-{spec.version}-{pin}"


def oha_version(program: Path) -> str:
    """Return the version of a load generator, as checked at its installation."""
    return str((cache.facts(program.parent.parent) or {}).get("version", ""))


def oha_origin(program: Path) -> Literal["prebuilt", "source"]:
    """Return how a load generator was installed."""
    facts = cache.facts(program.parent.parent) or {}
    return "prebuilt" if facts.get("origin") == "prebuilt" else "source"


def oha_fault(spec: OhaSpec, target: Path) -> str | None:
    """Say what is wrong with the load generator in a folder; None if nothing is."""
    facts, program = cache.facts(target), target / "bin" / "oha"
    if facts is None or not program.is_file():
        return "it is not there"
    if cache.sha256(program) != facts.get("sha256"):
        return "its program is not the one that was installed"
    if facts.get("origin") == "prebuilt" and facts.get("sha256") not in spec.prebuilt.values():
        return "its program is not one of the pinned ones"
    actual = version(program)
    return None if actual == spec.version else f"expected version {spec.version}, found {actual}"


def _fetch(spec: OhaSpec, staging: Path, narrator: Narrator) -> cache.Facts:
    base = os.environ.get(RELEASES, _RELEASES)
    file = _FILES.get(platform.machine(), "")
    if not base:
        raise _UnusableError(f"{RELEASES} is empty")
    if file not in spec.prebuilt:
        raise _UnusableError(f"none is pinned for {platform.machine()}")
    address = f"{base.rstrip('/')}/v{spec.version}/{file}"
    program = staging / "bin" / "oha"
    program.parent.mkdir()
    with narrator.step(f"oha {spec.version}", f"fetching it from {address}") as tick:
        try:
            download(address, program, tick, _MOST)
        except (OSError, SetupError) as error:
            raise _UnusableError(str(error)) from error
    digest = cache.sha256(program)
    if digest != spec.prebuilt[file]:
        raise SetupError(
            f"{address}: expected SHA-256 {spec.prebuilt[file]}, found {digest}: it is not used. "
            f"A proxy may have replaced it; set {RELEASES} to nothing to build oha from source "
            "instead"
        )
    program.chmod(0o755)
    actual = version(program)
    if actual != spec.version:
        raise _UnusableError(f"{file} does not run here: expected {spec.version}, found {actual}")
    return {"version": spec.version, "sha256": digest, "origin": "prebuilt"}


def oha_faults(spec: OhaSpec) -> list[str]:
    """List what is missing to build oha, before any download: a cargo that works, cc, room.

    cargo would report it too. But a much older one first downloads the whole index, for minutes, or
    cannot read it afterwards; and a shim of rustup may have no cargo at all.
    """
    why = "to build the load generator oha"
    lacking = command.missing("cargo", why, f"install Rust {RUST} or newer, {_RUSTUP}")
    if cargo := shutil.which("cargo"):
        text = version(cargo) or ""
        release = re.match(r"(\d+)\.(\d+)", text)
        if not release or tuple(map(int, release.groups())) < tuple(map(int, RUST.split("."))):
            lacking.append(
                f"oha {spec.version} needs Rust {RUST} or newer, found {cargo}: "
                f"{text or 'it does not say its version'}. With rustup: rustup update stable && "
                f"rustup default stable; otherwise install Rust {_RUSTUP}"
            )
    return lacking + no_compiler() + no_room()


def _build(spec: OhaSpec, staging: Path, narrator: Narrator) -> cache.Facts:
    # Not in the staging folder: cargo continues where a killed build ended. It has its own lock.
    target = paths.cache_dir() / "building" / f"oha-{spec.version}"
    argv: list[str | Path] = ["cargo", "install", "oha", "--version", spec.version, "--locked"]
    # Default features: without any TLS it does not compile, and the system's OpenSSL would make it
    # another program on every machine.
    argv += ["--root", staging, "--no-track"]
    # Half the build time of the release profile, as the generator itself is not measured.
    argv += ["--config", "profile.release.lto=false"]
    argv += ["--config", "profile.release.codegen-units=16"]
    # The job server of an outer make does not apply here.
    env = {"CARGO_TARGET_DIR": str(target), "CARGO_TERM_COLOR": "never", "MAKEFLAGS": ""}
    why = "building the load generator, about 3 min on 2 cores"
    with narrator.step(f"oha {spec.version}", why) as tick:
        log = command.new_log("oha")
        command.run(argv, what="building oha", log=log, tick=tick, env=env)
    require_crate(spec)
    shutil.rmtree(target, ignore_errors=True)
    digest = cache.sha256(staging / "bin" / "oha")
    return {"version": spec.version, "sha256": digest, "origin": "source"}


def require_crate(spec: OhaSpec) -> None:
    """Check the crate that cargo used against the pinned checksum (cargo checks the index's)."""
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    for crate in home.glob(f"registry/cache/*/oha-{spec.version}.crate"):
        digest = cache.sha256(crate)
        if digest != spec.sha256:
            raise SetupError(f"{crate}: expected SHA-256 {spec.sha256}, found {digest}: remove it")


def ensure_valgrind(narrator: Narrator) -> bool | None:
    """Install valgrind if it is missing and may be installed; return whether it was.

    Returns None if it is still missing, which is reported but no error.
    """
    if shutil.which(VALGRIND):
        return False
    apt, become, trouble = shutil.which("apt-get"), _as_root(), ""
    if apt is not None and become is not None:
        with narrator.step(VALGRIND, f"installing it: {WHY_VALGRIND}") as tick:
            try:
                _install([*become, apt], tick)
            except SetupError as error:
                trouble = f" ({error})"
        if shutil.which(VALGRIND):
            return True
    narrator.say(f"{VALGRIND} is not installed{trouble}; {WHY_VALGRIND}: `{VALGRIND_REMEDY}`")
    return None


def _as_root() -> list[str] | None:
    # Prefix that runs a command as root: none for root, sudo in CI; None: not allowed.
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    # sudo does not pass the environment on.
    keep = ["--non-interactive", "env", "DEBIAN_FRONTEND=noninteractive"]
    return [sudo, *keep] if sudo and os.environ.get("CI") else None


def _install(apt: list[str], tick: Tick) -> None:
    log, env = command.new_log("apt-valgrind"), {"DEBIAN_FRONTEND": "noninteractive"}
    install = [*apt, "-o", "DPkg::Lock::Timeout=300", "install", "--yes"]
    install += ["--no-install-recommends", VALGRIND]
    what = f"installing {VALGRIND}"
    try:
        command.run(install, what=what, log=log, tick=tick, env=env)
    except SetupError:
        # The package lists may be old, or missing.
        command.run([*apt, "update"], what="apt-get update", log=log, tick=tick, env=env)
        command.run(install, what=what, log=log, tick=tick, env=env)
