"""The tools that set-up made or brought: the load generator, uv, and what Go builds for tests."""

import json
import math
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import uv as uv_package

from duetbench.core.errors import RecordError, SetupError
from duetbench.host import cache, paths
from duetbench.host.progress import Tick
from duetbench.project import settings
from duetbench.project.settings import GoToolSpec, OhaSpec
from duetbench.store import files

_TIMEOUT_S: Final = 30
_CHUNK: Final = 1 << 18
_ASV_FORMAT: Final = 1  # of its file of machines, as asv 0.6 writes it


def oha() -> Path:
    """Find the load generator that set-up made. Starts no process.

    Raises:
        SetupError: It was not made yet.
    """
    spec = settings.load(paths.project_root()).oha
    return _made("oha", spec.version, oha_place(spec), "duetbench setup")


def oha_version() -> str:
    """Version of the load generator, as proven when it was made."""
    oha()
    return settings.load(paths.project_root()).oha.version


def oha_origin() -> Literal["prebuilt", "source"]:
    """How the load generator that is there was made."""
    made = cache.facts(oha_place(settings.load(paths.project_root()).oha)) or {}
    return "prebuilt" if made.get("origin") == "prebuilt" else "source"


def oha_place(spec: OhaSpec) -> Path:
    """Where set-up puts the load generator, prebuilt or not: another place for every version."""
    return _place("oha", spec.version, spec.model_dump_json(exclude={"prebuilt"}))


def go_tool(name: str) -> Path:
    """Find a program that set-up built with Go, for tests; errors as in `oha`."""
    spec = settings.load(paths.project_root()).go_tools[name]
    return _made(name, spec.version, go_place(name, spec), "duetbench setup --tests")


def go_place(name: str, spec: GoToolSpec) -> Path:
    """Where set-up puts a program that Go builds: another place for every pin."""
    return _place(name, spec.version, spec.model_dump_json())


def fault(name: str, target: Path) -> str | None:
    """Say what is wrong with a made program at a place; None if nothing is."""
    made = cache.facts(target)
    program = target / "bin" / name
    if made is None or not program.is_file():
        return "it is not there"
    if cache.sha256(program) != made.get("sha256"):
        return "its program is not the one that was made"
    return None


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
    asked = os.environ.get("UV_NO_BUILD", "").lower() in {"1", "true", "yes"}
    return ("--no-build",) if asked else ()


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


def asv_machines() -> Path:
    """Where asv looks for the machines it knows: `~/.asv-machine.json`."""
    return Path("~/.asv-machine.json").expanduser()


def pin_asv(described: Mapping[str, str]) -> bool:
    """Make sure that asv knows a machine's profile, leaving others; whether its file was changed.

    SetupError: the file is none of asv's, or cannot be written.
    """
    target, found = asv_machines(), "something else"
    known: Any = {"version": _ASV_FORMAT}
    try:
        known = json.loads(target.read_text("utf-8"))
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        known, found = None, str(error)
    if not isinstance(known, dict) or known.get("version", _ASV_FORMAT) != _ASV_FORMAT:
        raise SetupError(
            f"{target}: expected asv's list of machines (JSON, version {_ASV_FORMAT}), found "
            f"{found}: mend or remove it"
        )
    if known.get(described["machine"]) == described:
        return False
    known |= {described["machine"]: dict(described), "version": _ASV_FORMAT}
    try:
        # In one go: asv, which may be running, never reads half of it.
        files.replace(target, json.dumps(known, indent=4, sort_keys=True).encode())
    except RecordError as error:
        raise SetupError(
            f"{error}: asv keeps the machine's description there; set HOME to another"
        ) from error
    return True


def _place(name: str, version: str, spec: str) -> Path:
    return paths.cache_dir() / "tools" / f"{name}-{version}-{cache.digest(spec)}"


def _made(name: str, version: str, place: Path, remedy: str) -> Path:
    program = place / "bin" / name
    if cache.facts(place) is None or not program.is_file():
        raise SetupError(f"{name} {version} has not been made: run `{remedy}`")
    return program
