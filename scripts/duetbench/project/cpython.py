"""Making the interpreters: prebuilt ones through uv, or all of them from one source archive."""

import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from duetbench.core.errors import SetupError
from duetbench.host import cache, command, paths
from duetbench.host.command import Tick
from duetbench.host.console import Narrator
from duetbench.project import interpreters, tools
from duetbench.project.settings import InterpreterSpec, Settings, SourceBuild

ARCHIVE: Final = "DUETBENCH_CPYTHON_ARCHIVE"
"""Variable with the path or address of a source archive that is used instead of the mirror's; same
checksum."""

_HEADERS: Final = {
    "openssl/ssl.h": ("ssl", "libssl-dev"),
    "zlib.h": ("zlib", "zlib1g-dev"),
    "ffi.h": ("ctypes", "libffi-dev"),
}
"""Header → the module that needs it, and the package it comes in. The servers need these
modules; others (sqlite3, bz2, lzma) may be missing."""


def ensure(configured: Settings, narrator: Narrator) -> bool:
    """Make sure that all declared interpreters are there, of one origin: whether any was made.

    SetupError: they cannot be made; says what is missing.
    """
    if interpreters.whole(configured):
        return False
    if not fetch(configured, narrator):
        command.require(faults())
        build(configured, narrator)
    return True


def faults() -> list[str]:
    """Say what building them lacks: tools, headers, room."""
    troubles, check = tools.no_compiler(), ["cc", "-fsyntax-only", "-x", "c", "-"]
    lacking = {
        package: module
        for header, (module, package) in _HEADERS.items()
        if not troubles
        and subprocess.run(
            check, input=f"#include <{header}>\n".encode(), capture_output=True, check=False
        ).returncode
    }
    if lacking:
        troubles.append(
            f"the C headers for Python's {', '.join(lacking.values())} are missing: install "
            f"{' '.join(lacking)} (Debian's names)"
        )
    return [
        *troubles,
        *command.missing("make", "to build CPython", tools.COMPILER_REMEDY),
        *tools.no_room(),
    ]


def fetch(configured: Settings, narrator: Narrator) -> bool:
    """Install prebuilt interpreters, whose checksums uv knows: whether all could be had."""
    if os.environ.get(ARCHIVE):
        narrator.say(f"{ARCHIVE} is set: the interpreters are built from that source")
        return False
    try:
        for name in configured.interpreters:
            _install_prebuilt(name, configured, narrator)
    except SetupError as error:
        reason = str(error).split("t said: ")[-1]  # what to do about it is not needed here
        narrator.say(
            f"prebuilt interpreters cannot be had ({reason}): all are built from one source "
            "archive with the same flags, so that they differ in nothing but the GIL"
        )
        return False
    return True


def _install_prebuilt(name: str, configured: Settings, narrator: Narrator) -> None:
    spec = configured.interpreters[name]
    target = interpreters.place(name, "prebuilt", configured)
    kind = "+freethreaded" if spec.free_threaded else ""

    def install(_staging: Path) -> cache.Facts:
        # uv patches paths into what it installs, so it works in the final place; it renames whole
        # installations itself.
        installs = target.parent / "uv"
        with narrator.step(f"CPython {name}", f"asking for a prebuilt {spec.version}") as tick:
            request = f"cpython@{spec.version}{kind}"
            interpreters.install(request, f"prebuilt-{name}", tick, "--install-dir", installs)
        pattern = f"cpython-{spec.version}{kind}-*/{_program(spec)}"
        programs = sorted(installs.glob(pattern))
        if not programs:
            raise SetupError(f"uv installed no {pattern} in {installs}")
        return interpreters.described(programs[0], "prebuilt")

    _make(target, spec, install, narrator)


def _make(
    target: Path,
    spec: InterpreterSpec,
    build: Callable[[Path], cache.Facts],
    narrator: Narrator,
) -> None:
    cache.make(
        target, fault=lambda place: interpreters.fault(spec, place), build=build, say=narrator.say
    )


def build(configured: Settings, narrator: Narrator) -> None:
    """Build all declared interpreters from their source archive; errors as in `ensure`."""
    for name in configured.interpreters:
        _from_source(name, configured, narrator)


def _from_source(name: str, configured: Settings, narrator: Narrator) -> None:
    spec = configured.interpreters[name]
    recipe = configured.source_build.get(spec.version)
    if recipe is None:
        raise SetupError(
            f"interpreter {name}: uv could not install a prebuilt CPython {spec.version} "
            f"(log: {paths.cache_dir() / 'logs' / f'prebuilt-{name}.log'}), and pyproject.toml "
            f'has no [tool.duetbench.source-build."{spec.version}"] to build it by: reach the '
            "prebuilt one, or declare its source archive as for the other versions"
        )
    target = interpreters.place(name, "source", configured)

    def make(staging: Path) -> cache.Facts:
        packed = source_archive(recipe, paths.cache_dir() / "downloads", narrator)
        why = f"building {spec.version} from source, about 90 s on 2 cores"
        with narrator.step(f"CPython {name}", why) as tick:
            _compile(spec, recipe, packed, staging, target, tick)
        remembered = interpreters.described(staging / _program(spec), "source")
        return {**remembered, "executable": str(target / _program(spec))}

    _make(target, spec, make, narrator)


def _compile(
    spec: InterpreterSpec, recipe: SourceBuild, packed: Path, staging: Path, home: Path, tick: Tick
) -> None:
    """Build an interpreter into `staging`, made for being renamed to `home`."""
    log = command.new_log(f"source-{home.name}")
    tree, built, root = staging / "source", staging / "build", staging / "root"
    tick("unpacking")
    with tarfile.open(packed) as tar:
        tar.extractall(tree, filter="data")
    (configure,) = tree.glob("*/configure")
    built.mkdir()
    options = [*recipe.configure, *(["--disable-gil"] if spec.free_threaded else [])]
    steps: list[list[str | Path]] = [
        [configure, "-q", f"--prefix={home}", *options],
        ["make", f"-j{len(os.sched_getaffinity(0))}"],
        ["make", "install", f"DESTDIR={root}"],
    ]
    # An outer make's job server is not for us.
    env = {"CFLAGS": recipe.cflags, "MAKEFLAGS": "", "MFLAGS": ""}
    for argv in steps:
        command.run(
            argv, what=f"building CPython {home.name}", log=log, tick=tick, cwd=built, env=env
        )
    for folder in (tree, built):
        shutil.rmtree(folder)
    # Configured for its home and installed below a root: renamed there, every path in it is true.
    for entry in (root / home.relative_to("/")).iterdir():
        entry.rename(staging / entry.name)
    shutil.rmtree(root)


def _program(spec: InterpreterSpec) -> Path:
    # Its own name, never an alias.
    minor = ".".join(spec.version.split(".")[:2])
    return Path("bin") / f"python{minor}{'t' if spec.free_threaded else ''}"


def source_archive(build: SourceBuild, folder: Path, narrator: Narrator) -> Path:
    """Return the archive, fetched when `folder` does not have it yet.

    SetupError: it cannot be had, or nowhere with the pinned checksum.
    """
    archive = folder / Path(build.archive).name
    with cache.exclusive(archive, narrator.say):
        if archive.is_file() and cache.sha256(archive) == build.sha256:
            return archive
        troubles, partial = [], archive.with_name(f"{archive.name}.part")  # the lock is ours
        sources = [f"{base.rstrip('/')}/{build.archive}" for base in _mirrors()]
        if copy := os.environ.get(ARCHIVE):
            sources = [copy]
        for source in sources:
            try:
                why = f"fetching it from {source}"
                with narrator.step(f"CPython source {archive.name}", why) as tick:
                    if urlsplit(source).scheme in {"http", "https"}:
                        tools.download(source, partial, tick)
                    else:
                        shutil.copyfile(Path(source.removeprefix("file://")).expanduser(), partial)
                if (digest := cache.sha256(partial)) == build.sha256:
                    return partial.replace(archive)
                troubles.append(f"{source}: expected SHA-256 {build.sha256}, found {digest}")
            except (OSError, SetupError) as error:
                troubles.append(f"{source}: {error}")
            finally:
                partial.unlink(missing_ok=True)
    tried = "; ".join(troubles) or "this machine's apt names no mirror"
    raise SetupError(
        f"CPython's source archive {archive.name} cannot be had ({tried}): connect to the network, "
        f"or set {ARCHIVE} to a copy of it (path or address; SHA-256 {build.sha256})"
    )


def _mirrors() -> tuple[str, ...]:
    """Base addresses of the mirrors that this machine's apt is configured with; maybe none."""
    apt = shutil.which("apt-get")
    if apt is None:
        return ()
    done = subprocess.run(
        [apt, "indextargets", "--format", "$(REPO_URI)"],
        capture_output=True,
        text=True,
        check=False,
    )
    bases = dict.fromkeys(line.strip() for line in done.stdout.splitlines())
    usable = [base for base in bases if urlsplit(base).scheme in {"http", "https", "file"}]
    # Security archives hold few packages; asking them last saves a refusal.
    return tuple(sorted(usable, key=lambda base: "security" in base))
