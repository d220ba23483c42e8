"""Building the load generator from its registry: pinned, locked, checked."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Final

from servebench import paths, tools
from servebench.errors import SetupError
from servebench.settings import OhaSpec, Settings
from servebench.toolchain import artefact, command, space
from servebench.toolchain.narrator import Narrator

_PROFILE: Final = ("profile.release.lto=false", "profile.release.codegen-units=16")
"""Half the build time of the release profile; the generator is not what is measured."""

RUST: Final = "1.88"
"""The oldest Rust that compiles it, as its crate says (`rust-version`)."""


def ensure(configured: Settings, narrator: Narrator) -> bool:
    """Make sure that the load generator is there and is the one that was built.

    Returns:
        Whether it was made now.

    Raises:
        SetupError: It cannot be made; says what is missing.
    """
    spec = configured.oha
    target = tools.oha_place(spec)

    def build(staging: Path) -> artefact.Facts:
        space.require(paths.cache_dir(), configured.setup.disk_gb)
        return _build(spec, staging, narrator)

    return artefact.make(
        target, fault=lambda place: fault(spec, place), build=build, narrator=narrator
    )


def fault(spec: OhaSpec, target: Path) -> str | None:
    """Say what is wrong with the load generator at a place; None if nothing is."""
    made = artefact.facts(target)
    program = target / "bin" / "oha"
    if made is None or not program.is_file():
        return "it is not there"
    if artefact.sha256(program) != made.get("sha256"):
        return "its program is not the one that was built"
    found = tools.version(program)
    return None if found == spec.version else f"expected version {spec.version}, found {found}"


def _build(spec: OhaSpec, staging: Path, narrator: Narrator) -> artefact.Facts:
    cargo = command.need(
        "cargo", "to build the load generator oha", "install Rust's toolchain (rustup, or apt)"
    )
    require_rust(spec, cargo)
    command.need(
        "cc",
        "to build oha's SQLite",
        "install a C compiler (Debian: apt-get install build-essential)",
    )
    log = paths.cache_dir() / "logs" / "oha.log"
    log.unlink(missing_ok=True)
    # Not in the staging folder: cargo goes on where a killed build ended. It has its own lock.
    compiled = paths.cache_dir() / "building" / f"oha-{spec.version}"
    argv: list[str | Path] = [cargo, "install", "oha", "--version", spec.version, "--locked"]
    # With its default features: without any TLS it does not compile, and the system's OpenSSL would
    # make it another program on every machine.
    argv += ["--root", staging, "--no-track"]
    for setting in _PROFILE:
        argv += ["--config", setting]
    with narrator.step(
        f"oha {spec.version}", "building the load generator, about 3 min on 2 cores"
    ) as tick:
        command.run(
            argv,
            what="building oha",
            log=log,
            tick=tick,
            # An outer make's job server is not for us.
            env={"CARGO_TARGET_DIR": str(compiled), "CARGO_TERM_COLOR": "never", "MAKEFLAGS": ""},
        )
    require_crate(spec)
    shutil.rmtree(compiled, ignore_errors=True)
    return {"version": spec.version, "sha256": artefact.sha256(staging / "bin" / "oha")}


def require_rust(spec: OhaSpec, cargo: str) -> None:
    """Refuse a Rust that is too old before anything is fetched.

    cargo would say so itself, but one that is much older first fetches the whole index, for
    minutes, or cannot read what it has fetched.

    Raises:
        SetupError: It is too old, or does not work.
    """
    if fault := rust_fault(spec, cargo, tools.version(cargo)):
        raise SetupError(fault)


def rust_fault(spec: OhaSpec, cargo: str, found: str | None) -> str | None:
    """Say why a cargo cannot build it, from the version that it says; None if it can."""
    release = re.match(r"(\d+)\.(\d+)", found or "")
    if release and (int(release[1]), int(release[2])) >= tuple(map(int, RUST.split("."))):
        return None
    return (
        f"oha {spec.version} needs Rust {RUST} or newer, found {cargo}: "
        f"{found or 'it does not say its version'}. With rustup: rustup update stable; otherwise "
        "install Rust with rustup, since a distribution's may be older"
    )


def require_crate(spec: OhaSpec) -> None:
    """Compare the crate that cargo took with the pinned checksum (cargo compares the index's)."""
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    for crate in home.glob(f"registry/cache/*/oha-{spec.version}.crate"):
        found = artefact.sha256(crate)
        if found != spec.sha256:
            raise SetupError(f"{crate}: expected SHA-256 {spec.sha256}, found {found}: remove it")
