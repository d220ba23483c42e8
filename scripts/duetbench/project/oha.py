"""Making the load generator: its release's own program, or built from its registry; both pinned."""

import os
import platform
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Literal

from duetbench.core.errors import SetupError
from duetbench.host import cache, command, paths
from duetbench.host.console import Narrator
from duetbench.project import tools
from duetbench.project.types import OhaSpec, Settings

RUST: Final = "1.88"
"""The oldest Rust that compiles it, as its crate says (`rust-version`)."""

RELEASES: Final = "DUETBENCH_OHA_RELEASES"
"""Variable with another address of its releases' files; set to nothing: build it from source."""

REPOSITORY: Final = "hatoo/oha"  # on GitHub

_RELEASES: Final = f"https://github.com/{REPOSITORY}/releases/download"
_FILES: Final = {"x86_64": "oha-linux-amd64", "aarch64": "oha-linux-arm64"}
"""Kind of machine → the file of a release, which needs no library of the system's."""

_MOST: Final = 100e6  # bytes of that file; it has about 20 million
_WHY_CARGO: Final = "to build the load generator oha"
_REMEDY: Final = "install Rust's toolchain (rustup, or apt)"


class _UnusableError(SetupError):
    """There is no prebuilt program for this machine; it can be built."""


def find(spec: OhaSpec) -> Path:
    """Find the load generator that set-up made. Starts no process.

    SetupError: it was not made yet.
    """
    return tools.made("oha", spec.version, place(spec), "duetbench setup")


def place(spec: OhaSpec) -> Path:
    """Where set-up puts it, prebuilt or not: another place for every version."""
    return tools.place("oha", spec.version, spec.model_dump_json(exclude={"prebuilt"}))


def version(program: Path) -> str:
    """The version of a load generator, as proven when it was made."""
    return str(_facts(program).get("version", ""))


def origin(program: Path) -> Literal["prebuilt", "source"]:
    """How a load generator was made."""
    return "prebuilt" if _facts(program).get("origin") == "prebuilt" else "source"


def _facts(program: Path) -> cache.Facts:
    return cache.facts(program.parent.parent) or {}


def ensure(configured: Settings, narrator: Narrator) -> bool:
    """Make it, prebuilt or built, unless it is there and right; whether it was made now.

    Raises:
        SetupError: It cannot be made here, and what is missing for that.
    """
    spec = configured.oha
    if fault(spec, place(spec)) is None:
        return False
    if not fetch(spec, narrator):
        command.require(faults(configured))
        build(spec, narrator)
    return True


def fetch(spec: OhaSpec, narrator: Narrator) -> bool:
    """Take the program of its release, if one with a pinned checksum can be had: whether it was.

    Raises:
        SetupError: What came instead has another checksum; nothing of it is kept.
    """
    try:
        _make(spec, narrator, lambda staging: _fetched(spec, staging, narrator))
    except _UnusableError as error:
        narrator.say(f"a prebuilt oha {spec.version} cannot be had ({error}): it is built by cargo")
        return False
    return True


def build(spec: OhaSpec, narrator: Narrator) -> None:
    """Build it from its registry; the SetupError says what is missing."""
    _make(spec, narrator, lambda staging: _build(spec, staging, narrator))


def _make(spec: OhaSpec, narrator: Narrator, fill: Callable[[Path], cache.Facts]) -> None:
    cache.make(place(spec), fault=lambda target: fault(spec, target), build=fill, say=narrator.say)


def fault(spec: OhaSpec, target: Path) -> str | None:
    """Say what is wrong with the load generator at a place; None if nothing is."""
    if wrong := tools.fault("oha", target):
        return wrong
    facts = cache.facts(target) or {}
    if facts.get("origin") == "prebuilt" and facts.get("sha256") not in spec.prebuilt.values():
        return "its program is not one of those that are pinned"
    actual = tools.version(target / "bin" / "oha")
    return None if actual == spec.version else f"expected version {spec.version}, found {actual}"


def _fetched(spec: OhaSpec, staging: Path, narrator: Narrator) -> cache.Facts:
    base = os.environ.get(RELEASES, _RELEASES)
    file = _FILES.get(platform.machine(), "")
    if not base:
        raise _UnusableError(f"{RELEASES} is set to nothing")
    if file not in spec.prebuilt:
        raise _UnusableError(f"none is pinned for {platform.machine()}")
    address = f"{base.rstrip('/')}/v{spec.version}/{file}"
    program = staging / "bin" / "oha"
    program.parent.mkdir()
    with narrator.step(f"oha {spec.version}", f"fetching it from {address}") as tick:
        try:
            tools.download(address, program, tick, _MOST)
        except (OSError, SetupError) as error:
            raise _UnusableError(str(error)) from error
    digest = cache.sha256(program)
    if digest != spec.prebuilt[file]:
        raise SetupError(
            f"{address}: expected SHA-256 {spec.prebuilt[file]}, found {digest}: it is not used. "
            f"Something on the way may answer in its place; with {RELEASES} set to nothing, oha is "
            "built from source instead"
        )
    program.chmod(0o755)
    says = tools.version(program)
    if says != spec.version:
        raise _UnusableError(f"{file} does not run here: expected {spec.version}, found {says}")
    return {"version": spec.version, "sha256": digest, "origin": "prebuilt"}


def faults(configured: Settings) -> list[str]:
    """Say what building it lacks, before anything is fetched: a cargo that works, cc, room."""
    lacking = command.missing("cargo", _WHY_CARGO, _REMEDY)
    if cargo := shutil.which("cargo"):
        lacking = list(filter(None, [rust_fault(configured.oha, cargo, tools.version(cargo))]))
    lacking += tools.no_compiler()
    return lacking + command.space_faults(paths.cache_dir(), configured.setup.disk_gb)


def _build(spec: OhaSpec, staging: Path, narrator: Narrator) -> cache.Facts:
    cargo = command.need("cargo", _WHY_CARGO, _REMEDY)
    # Not in the staging folder: cargo goes on where a killed build ended. It has its own lock.
    compiled = paths.cache_dir() / "building" / f"oha-{spec.version}"
    argv: list[str | Path] = [cargo, "install", "oha", "--version", spec.version, "--locked"]
    # With its default features: without any TLS it does not compile, and the system's OpenSSL would
    # make it another program on every machine.
    argv += ["--root", staging, "--no-track"]
    # Half the build time of the release profile; the generator is not what is measured.
    argv += ["--config", "profile.release.lto=false"]
    argv += ["--config", "profile.release.codegen-units=16"]
    why = "building the load generator, about 3 min on 2 cores"
    with narrator.step(f"oha {spec.version}", why) as tick:
        command.run(
            argv,
            what="building oha",
            log=tools.new_log("oha"),
            tick=tick,
            # An outer make's job server is not for us.
            env={"CARGO_TARGET_DIR": str(compiled), "CARGO_TERM_COLOR": "never", "MAKEFLAGS": ""},
        )
    require_crate(spec)
    shutil.rmtree(compiled, ignore_errors=True)
    digest = cache.sha256(staging / "bin" / "oha")
    return {"version": spec.version, "sha256": digest, "origin": "source"}


def rust_fault(spec: OhaSpec, cargo: str, version: str | None) -> str | None:
    """Say why a cargo cannot build it, from the version that it says; None if it can.

    cargo would say so itself, but one that is much older first fetches the whole index, for
    minutes, or cannot read what it has fetched; and a shim of rustup's may have no cargo at all.
    """
    release = re.match(r"(\d+)\.(\d+)", version or "")
    if release and (int(release[1]), int(release[2])) >= tuple(map(int, RUST.split("."))):
        return None
    return (
        f"oha {spec.version} needs Rust {RUST} or newer, found {cargo}: "
        f"{version or 'it does not say its version'}. With rustup: rustup update stable && "
        "rustup default stable; otherwise install Rust with rustup, since a distribution's may be "
        "older"
    )


def crates(version: str) -> Iterator[Path]:
    """The crates of a version that cargo has fetched, one for each index."""
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    return home.glob(f"registry/cache/*/oha-{version}.crate")


def require_crate(spec: OhaSpec) -> None:
    """Compare the crate that cargo took with the pinned checksum (cargo compares the index's)."""
    for crate in crates(spec.version):
        digest = cache.sha256(crate)
        if digest != spec.sha256:
            raise SetupError(f"{crate}: expected SHA-256 {spec.sha256}, found {digest}: remove it")
