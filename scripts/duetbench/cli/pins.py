"""`duetbench dev pins`: renew oha and CPython in pyproject.toml, with their checksums."""

import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import httpx
from packaging.version import Version

from duetbench.core.errors import SetupError
from duetbench.github.actions import API
from duetbench.host import cache, paths
from duetbench.host.console import Console
from duetbench.host.signals import interruptible
from duetbench.project import cpython, oha, settings
from duetbench.project.types import Settings

_TIMEOUT_S: Final = 600.0
_SUITES: Final = ("sid main", "devel main universe")  # Debian's and Ubuntu's newest sources
_KEYRINGS: Final = Path("/usr/share/keyrings")
_ARCHIVE: Final = re.compile(r"'\S+?/(pool/\S+_(\d+\.\d+\.\d+)\.orig\.tar\.xz)' ")


def pins_command() -> None:
    """Renew oha and CPython in pyproject.toml to their newest releases, with their checksums.

    Releases of oha's major version are taken, and of CPython's minor one. cargo is asked for oha's
    crate, GitHub for the checksums of its programs, and apt, by its signed index, for CPython's
    source archive; so it needs cargo, and Debian or Ubuntu. Actions, the harness's packages and
    TypeScript are Dependabot's. What cannot be asked here stays as it is, and is named.
    """
    root, console = paths.project_root(), Console()
    file, declared = root / "pyproject.toml", settings.load(root)
    renewals: dict[str, Callable[[Settings, Path], Mapping[str, str]]]
    renewals = {"oha": _oha, "CPython": _cpython}
    for name, renew in renewals.items():
        with interruptible(), tempfile.TemporaryDirectory() as folder:
            try:
                changes = renew(declared, Path(folder))
            except (SetupError, httpx.HTTPError) as error:
                console.say(f"{name} stays as it is: {error}")
                continue
        text = file.read_text("utf-8")
        for old, new in changes.items():
            text = text.replace(f'"{old}"', f'"{new}"')
        file.write_text(text, "utf-8")
        moved = "; ".join(f"{old} → {new}" for old, new in changes.items())
        console.say(f"{name}: {moved or 'nothing newer'}")


def _oha(declared: Settings, folder: Path) -> dict[str, str]:
    """What in the file becomes what: version, checksum of the crate, and of each program."""
    spec = declared.oha
    info = _output(folder, "cargo", "info", "--color", "never", "oha")
    match = re.search(r"^version: (\S+)", info, re.MULTILINE)
    if match is None:
        raise SetupError(f"cargo info names no version of oha: {info[:200]!r}")
    newest = match[1]
    if not _is_newer(newest, spec.version, same=1):
        return {}
    crates = {cache.sha256(crate) for crate in oha.crates(newest)}
    if len(crates) != 1:
        raise SetupError(f"expected one crate of {newest} in cargo's cache, found {len(crates)}")
    address = f"{API}/repos/{oha.REPOSITORY}/releases/tags/v{newest}"
    release = httpx.get(address, timeout=20, follow_redirects=True).raise_for_status().json()
    digests = {asset["name"]: str(asset["digest"]).partition(":")[2] for asset in release["assets"]}
    if lacking := [name for name in spec.prebuilt if len(digests.get(name, "")) != 64]:
        raise SetupError(f"release {newest} has no SHA-256 of {', '.join(lacking)}")
    programs = {old: digests[name] for name, old in spec.prebuilt.items()}
    return {spec.version: newest, spec.sha256: crates.pop(), **programs}


def _cpython(declared: Settings, folder: Path) -> dict[str, str]:
    """What in the file becomes what: version, path of the archive, and its checksum."""
    changes: dict[str, str] = {}
    for version, build in declared.source_build.items():
        newest, archive, fetch = _source(Path(build.archive).parent.name, folder)
        if _is_newer(newest, version, same=2):
            # apt compares what it fetches with its index, which may have no SHA-256 itself.
            _output(folder, *fetch)
            digest = cache.sha256(folder / Path(archive).name)
            changes |= {version: newest, build.archive: archive, build.sha256: digest}
    return changes


def _source(package: str, folder: Path) -> tuple[str, str, list[str]]:
    """A package's newest source archive by apt: its version and path, and what fetches it."""
    for place in ("lists/partial", "cache/archives/partial", "parts"):
        (folder / place).mkdir(parents=True, exist_ok=True)
    options = (
        f"Dir::Etc::sourcelist={folder}/list",
        f"Dir::Etc::sourceparts={folder}/parts",
        f"Dir::State::lists={folder}/lists",
        f"Dir::Cache={folder}/cache",
        "APT::Sandbox::User=",
    )
    apt = ["apt-get", *(word for option in options for word in ("-o", option))]
    fetch = [*apt, "source", "--only-source", "--download-only", package]
    keys = ",".join(str(file) for file in sorted(_KEYRINGS.glob("*-archive-keyring.gpg")))
    problem = "apt names no mirror"
    for mirror in cpython.mirrors():
        for suite in _SUITES:
            (folder / "list").write_text(f"deb-src [signed-by={keys}] {mirror} {suite}\n")
            try:
                _output(folder, *apt, "--error-on=any", "update")
                match = _ARCHIVE.search(_output(folder, *fetch, "--print-uris"))
            except SetupError as error:
                problem = str(error)
                continue
            if match is not None:
                return match[2], match[1], fetch
            problem = f"{suite.split()[0]} has no finished release of {package}"
    raise SetupError(problem)


def _is_newer(version: str, pinned: str, *, same: int) -> bool:
    """Whether a release is newer, and its first numbers are the same."""
    new, old = Version(version), Version(pinned)
    return new > old and new.release[:same] == old.release[:same]


def _output(folder: Path, *argv: str) -> str:
    try:
        done = subprocess.run(
            argv, cwd=folder, capture_output=True, text=True, check=True, timeout=_TIMEOUT_S
        )
    except subprocess.CalledProcessError as error:
        lines = (error.stdout + error.stderr).strip().splitlines() or ["nothing"]
        raise SetupError(f"{argv[0]} failed; it said: {lines[-1][:200]}") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise SetupError(f"{argv[0]} does not answer: {error}") from error
    return done.stdout
