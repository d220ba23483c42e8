"""The load generator, which set-up installs.

oha is the program of its release, which is pinned; the observatory can build it.
"""

import os
import platform
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from duetbench.app.declarations import OhaSpec
from duetbench.core.errors import SetupError
from duetbench.host import cache, paths
from duetbench.host.console import Narrator

RELEASES: Final = "DUETBENCH_OHA_RELEASES"
"""Variable with another address of oha's release files; an empty one: do not download it."""

_RELEASES: Final = "https://github.com/hatoo/oha/releases/download"
_FILES: Final = {"x86_64": "oha-linux-amd64", "aarch64": "oha-linux-arm64"}
"""Kind of machine → the file of a release, which needs no system library."""

_TIMEOUT_S: Final = 30

_ABSENT: Final = "it is not there"  # a fault of the load generator

Build = Callable[[OhaSpec, Path, Narrator], None]
"""Builds the load generator into a folder."""


def ensure_oha(spec: OhaSpec, narrator: Narrator, build: Build | None = None) -> bool:
    """Install oha unless the right one is there; return whether it did.

    It is the program of its release, which is pinned, or else what `build` makes.

    Raises SetupError if that is not possible here, with what is missing, and for another checksum.
    """

    def fill(staging: Path) -> cache.Facts:
        program = staging / "bin" / "oha"
        program.parent.mkdir()
        if reason := _fetch(spec, program, narrator):
            lost = f"a prebuilt oha {spec.version} is not available ({reason})"
            if build is None:
                raise SetupError(f"{lost}: connect to the network, or name a mirror in {RELEASES}")
            narrator.say(f"{lost}: it is built from source")
            shutil.rmtree(program.parent)
            build(spec, staging, narrator)
        digest = cache.sha256(program)
        origin = "prebuilt" if digest in spec.prebuilt.values() else "source"
        return {"version": spec.version, "sha256": digest, "origin": origin}

    return cache.make(
        oha_place(spec), fault=lambda _: oha_fault(spec), build=fill, say=narrator.say
    )


def find_oha(spec: OhaSpec) -> Path:
    """Find the load generator that set-up installed and checked; SetupError: there is none."""
    place = oha_place(spec)
    program = place / "bin" / "oha"
    if cache.facts(place) is None or not program.is_file():
        raise SetupError(f"oha {spec.version}: {_ABSENT}: run `duetbench setup`")
    cache.touch(place)
    return program


def oha_place(spec: OhaSpec) -> Path:
    """Return oha's folder, prebuilt or not, which differs for every version."""
    pin = cache.digest(spec.model_dump_json(exclude={"prebuilt"}))
    return paths.cache_dir() / "tools" / f"oha-{spec.version}-{pin}"


def oha_fault(spec: OhaSpec) -> str | None:
    """Say what is wrong with the load generator that set-up installed; None if nothing is."""
    facts, program = cache.facts(oha_place(spec)), oha_place(spec) / "bin" / "oha"
    if facts is None or not program.is_file():
        return _ABSENT
    if cache.sha256(program) != facts.get("sha256"):
        return "its program is not the one that was installed"
    if facts.get("origin") == "prebuilt" and facts.get("sha256") not in spec.prebuilt.values():
        return "its program is not one of the pinned ones"
    return None


def _fetch(spec: OhaSpec, program: Path, narrator: Narrator) -> str:
    """Download the program of oha's release, or say why there is none for this machine."""
    import httpx  # noqa: PLC0415 - slow to import, and rarely needed

    base = os.environ.get(RELEASES, _RELEASES)
    file = _FILES.get(platform.machine(), "")
    if not base:
        return f"{RELEASES} is empty"
    if file not in spec.prebuilt:
        return f"none is pinned for {platform.machine()}"
    address = f"{base.rstrip('/')}/v{spec.version}/{file}"
    try:
        with narrator.step(f"oha {spec.version}", f"fetching it from {address}"):
            answer = httpx.get(address, timeout=_TIMEOUT_S, follow_redirects=True)
            program.write_bytes(answer.raise_for_status().content)
    except httpx.HTTPStatusError as error:
        return f"the server answered {error.response.status_code}"
    except httpx.HTTPError as error:
        return f"no connection ({error})"
    digest = cache.sha256(program)
    if digest != spec.prebuilt[file]:
        raise SetupError(
            f"{address}: expected SHA-256 {spec.prebuilt[file]}, found {digest}: it is not used. "
            f"A proxy may have replaced it; set {RELEASES} to nothing to do without it"
        )
    program.chmod(0o755)
    return ""
