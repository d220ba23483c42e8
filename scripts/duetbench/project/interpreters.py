"""The interpreters to measure with: declared in `pyproject.toml`, made by set-up, found here.

All of them have the same origin, prebuilt (through uv) or built from the same source: a comparison
of two builds made in different ways would compare the compilers. A target's own is what the machine
has; see `target_python`.
"""

import json
import os
import shutil
import subprocess
import tarfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from duetbench.core.errors import SetupError, UsageError
from duetbench.core.model import InterpreterRecord
from duetbench.host import cache, command, paths
from duetbench.host.console import Narrator, Tick
from duetbench.project import tools
from duetbench.project.settings import InterpreterSpec, Settings, SourceBuild

Origin = Literal["prebuilt", "source", "found"]
ORIGINS: Final[tuple[Origin, ...]] = ("prebuilt", "source", "found")

ARCHIVE: Final = "DUETBENCH_CPYTHON_ARCHIVE"
"""Variable with the path or address of a source archive that is used instead of the mirror's; same
checksum."""

_MIRROR_LIST: Final = "mirror+file:"
_HEADERS: Final = {
    "openssl/ssl.h": ("ssl", "libssl-dev"),
    "zlib.h": ("zlib", "zlib1g-dev"),
    "ffi.h": ("ctypes", "libffi-dev"),
}
"""Header → the module that needs it, and the package it comes in. The servers need these
modules; others (sqlite3, bz2, lzma) may be missing."""
_REMEDY: Final = "install it (on Debian and its relatives: apt-get install build-essential)"

_PROOF: Final = """
import json, os, platform, sys, sysconfig
get = sysconfig.get_config_var
print(json.dumps({
    "executable": os.path.realpath(sys.executable),
    "version": platform.python_version(),
    "free_threaded": bool(get("Py_GIL_DISABLED")),
    "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
    "compiler": platform.python_compiler(),
    "configure": get("CONFIG_ARGS") or "",
    "cflags": get("PY_CFLAGS") or "",
}))
"""
_PROOF_TIMEOUT_S: Final = 30


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter that is there; the name is that in `pyproject.toml`: 3.14 or 3.14t.

    In a free-threaded prefix `bin/python3.14` runs without the GIL too, so the executable's
    absolute path, never a name on PATH, is what is started.
    """

    name: str
    version: str
    free_threaded: bool
    executable: Path
    origin: Origin
    build: str  # compiler and build flags that matter

    @property
    def identity(self) -> str:
        return cache.digest(
            self.version, str(self.free_threaded), self.origin, self.build, str(self.executable)
        )

    def record(self) -> InterpreterRecord:
        return InterpreterRecord.model_validate(
            {key: value for key, value in asdict(self).items() if key != "executable"}
        )


def locate(name: str, configured: Settings) -> Interpreter:
    """Find an interpreter that set-up made. Starts no process.

    Raises:
        UsageError: No interpreter of this name is declared.
        SetupError: It is declared and was not made yet.
    """
    if name not in configured.interpreters:
        raise UsageError(
            f"no interpreter {name!r}; pyproject.toml declares "
            f"{', '.join(sorted(configured.interpreters))}"
        )
    for origin in ORIGINS:
        found = {n: read(n, place(n, origin, configured)) for n in configured.interpreters}
        # One origin for all: an incomplete set of the better origin does not count.
        if all(found.values()) and (interpreter := found[name]) is not None:
            cache.touch(place(name, origin, configured))
            return interpreter
    raise SetupError(
        f"interpreter {name} ({configured.interpreters[name].version}) has not been made: "
        "run `duetbench setup`"
    )


def place(name: str, origin: Origin, configured: Settings) -> Path:
    """Where set-up puts an interpreter: another place for every way of building it."""
    spec = configured.interpreters[name]
    kind = f"{origin}-{spec.version}"
    if origin == "source":
        build = configured.source_build.get(spec.version)
        declared = build.model_dump_json() if build else ""
        kind = f"source-{spec.version}-{cache.digest(declared)}"
    return paths.cache_dir() / "interpreters" / kind / name


def read(name: str, target: Path) -> Interpreter | None:
    """Read what set-up remembered of an interpreter; None when it is not there."""
    made = cache.facts(target)
    if made is None or not Path(made["executable"]).is_file():
        return None
    facts = {key: made[key] for key in ("version", "free_threaded", "origin", "build")}
    return Interpreter(name=name, executable=Path(made["executable"]), **facts)


def prove(executable: Path) -> dict[str, Any]:
    """Start an interpreter and let it say what it is.

    Returns:
        executable (itself, where a script or link led to it), version, free_threaded (how it was
        built), gil (whether the GIL is on now), compiler, configure, cflags.

    Raises:
        SetupError: It cannot be started or says something else.
    """
    try:
        done = subprocess.run(
            [executable, "-I", "-S", "-c", _PROOF],
            capture_output=True,
            check=True,
            timeout=_PROOF_TIMEOUT_S,
            env={},  # PYTHON_GIL=1 and its like are no property of the build
        )
        proof = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise SetupError(f"{executable} does not run: {error}; run `duetbench setup`") from error
    if not isinstance(proof, dict):
        raise SetupError(f"{executable} does not describe itself; run `duetbench setup`")
    return proof


def mismatch(spec: InterpreterSpec, proof: dict[str, Any]) -> str | None:
    """Say in what an interpreter differs from its declaration; None if in nothing."""
    free = spec.free_threaded
    expected = {"version": spec.version, "free_threaded": free, "gil": not free}
    return (
        "; ".join(
            f"{key} is {proof.get(key)!r} instead of {value!r}"
            for key, value in expected.items()
            if proof.get(key) != value
        )
        or None
    )


def ensure(configured: Settings, narrator: Narrator) -> bool:
    """Make sure that all declared interpreters are there, of one origin: whether any was made.

    Raises:
        SetupError: They cannot be made; says what is missing.
    """
    if whole(configured):
        return False
    if not fetch(configured, narrator):
        command.require(faults(configured))
        build(configured, narrator)
    return True


def whole(configured: Settings) -> bool:
    """Whether all declared interpreters are there and right, of one origin."""
    return any(
        all(
            fault(spec, place(name, origin, configured)) is None
            for name, spec in configured.interpreters.items()
        )
        for origin in ORIGINS
    )


def faults(configured: Settings) -> list[str]:
    """Say what building them lacks: tools, headers, room."""
    found, check = no_compiler(), ["cc", "-fsyntax-only", "-x", "c", "-"]
    lacking = {
        package: module
        for header, (module, package) in _HEADERS.items()
        if not found
        and subprocess.run(
            check, input=f"#include <{header}>\n".encode(), capture_output=True, check=False
        ).returncode
    }
    if lacking:
        found.append(
            f"the C headers for Python's {', '.join(lacking.values())} are missing: install "
            f"{' '.join(lacking)} (Debian's names)"
        )
    found += command.missing("make", "to build CPython", _REMEDY)
    return found + command.space_faults(paths.cache_dir(), configured.setup.disk_gb)


def no_compiler() -> list[str]:
    """Say that there is no C compiler, which CPython and the load generator need."""
    return command.missing("cc", "to compile what has to be built", _REMEDY)


def fetch(configured: Settings, narrator: Narrator) -> bool:
    """Install prebuilt interpreters, whose checksums uv knows: whether all could be had."""
    if os.environ.get(ARCHIVE):
        narrator.say(f"{ARCHIVE} is set: the interpreters are built from that source")
        return False
    try:
        for name in configured.interpreters:
            _install_prebuilt(name, configured, narrator)
    except SetupError as error:
        said = str(error).split("t said: ")[-1]  # what to do about it is not needed here
        narrator.say(
            f"prebuilt interpreters cannot be had ({said}): all are built from one source archive "
            "with the same flags, so that they differ in nothing but the GIL"
        )
        return False
    return True


def _install_prebuilt(name: str, configured: Settings, narrator: Narrator) -> None:
    spec = configured.interpreters[name]
    target = place(name, "prebuilt", configured)
    request = f"cpython@{spec.version}" + ("+freethreaded" if spec.free_threaded else "")

    def install(_staging: Path) -> cache.Facts:
        # uv patches paths into what it installs, so it works in the final place; it renames whole
        # installations itself.
        installs = target.parent / "uv"
        with narrator.step(f"CPython {name}", f"asking for a prebuilt {spec.version}") as tick:
            command.run(
                [tools.uv(), "python", "install", "--no-bin", "--install-dir", installs, request],
                what=f"installing a prebuilt CPython {name}",
                log=tools.new_log(f"prebuilt-{name}"),
                tick=tick,
                env={"UV_HTTP_RETRIES": "0"},  # unreachable is not slow: ask once
            )
        kind = "+freethreaded" if spec.free_threaded else ""
        pattern = f"cpython-{spec.version}{kind}-*/{_program(spec)}"
        found = sorted(installs.glob(pattern))
        if not found:
            raise SetupError(f"uv installed no {pattern} in {installs}")
        return described(found[0], "prebuilt")

    cache.make(target, fault=lambda place: fault(spec, place), build=install, narrator=narrator)


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
    target = place(name, "source", configured)

    def make(staging: Path) -> cache.Facts:
        packed = source_archive(recipe, paths.cache_dir() / "downloads", narrator)
        why = f"building {spec.version} from source, about 90 s on 2 cores"
        with narrator.step(f"CPython {name}", why) as tick:
            _compile(spec, recipe, packed, staging, target, tick)
        remembered = described(staging / _program(spec), "source")
        return {**remembered, "executable": str(target / _program(spec))}

    cache.make(target, fault=lambda place: fault(spec, place), build=make, narrator=narrator)


def _compile(
    spec: InterpreterSpec, recipe: SourceBuild, packed: Path, staging: Path, home: Path, tick: Tick
) -> None:
    """Build an interpreter into `staging`, made for being renamed to `home`."""
    log = tools.new_log(f"source-{home.name}")
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
    for module, package in _HEADERS.values():
        done = subprocess.run(
            [staging / _program(spec), "-I", "-c", f"import {module}"],
            capture_output=True,
            check=False,
        )
        if done.returncode != 0:
            raise SetupError(
                f"the built interpreter has no module {module}: install {package} (Debian's name) "
                "and run `duetbench setup` again"
            )


def _program(spec: InterpreterSpec) -> Path:
    # Its own name, never an alias.
    minor = ".".join(spec.version.split(".")[:2])
    return Path("bin") / f"python{minor}{'t' if spec.free_threaded else ''}"


def fault(spec: InterpreterSpec, target: Path) -> str | None:
    """Say what is wrong with an interpreter in its place; None if nothing is."""
    found = read(target.name, target)
    if found is None:
        return "it is not there"
    try:
        return mismatch(spec, prove(found.executable))
    except SetupError as error:
        return str(error)


def described(executable: Path, origin: Origin) -> cache.Facts:
    """What is remembered of an interpreter; SetupError: it does not run."""
    proof = prove(executable)
    options = " ".join(
        option for option in proof["configure"].split() if not option.startswith("'--prefix=")
    )
    return {
        "origin": origin,
        "executable": str(executable),
        "version": proof["version"],
        "free_threaded": proof["free_threaded"],
        "build": f"{proof['compiler']}; {options}; {proof['cflags']}",
    }


def source_archive(build: SourceBuild, folder: Path, narrator: Narrator) -> Path:
    """Return the archive, fetched when `folder` does not have it yet.

    Raises:
        SetupError: It cannot be had, or nowhere with the pinned checksum.
    """
    kept = folder / Path(build.archive).name
    with cache.exclusive(kept, narrator):
        if kept.is_file() and cache.sha256(kept) == build.sha256:
            return kept
        troubles, partial = [], kept.with_name(f"{kept.name}.part")  # the lock is ours
        sources = [f"{base.rstrip('/')}/{build.archive}" for base in mirrors()]
        if given := os.environ.get(ARCHIVE):
            sources = [given]
        for source in sources:
            try:
                with narrator.step(
                    f"CPython source {kept.name}", f"fetching it from {source}"
                ) as tick:
                    if urlsplit(source).scheme in {"http", "https"}:
                        tools.download(source, partial, tick)
                    else:
                        shutil.copyfile(Path(source.removeprefix("file://")).expanduser(), partial)
                if (found := cache.sha256(partial)) == build.sha256:
                    return partial.replace(kept)
                troubles.append(f"{source}: expected SHA-256 {build.sha256}, found {found}")
            except (OSError, SetupError) as error:
                troubles.append(f"{source}: {error}")
            finally:
                partial.unlink(missing_ok=True)
    tried = "; ".join(troubles) or "this machine's apt names no mirror"
    raise SetupError(
        f"CPython's source archive {kept.name} cannot be had ({tried}): connect to the network, or "
        f"set {ARCHIVE} to a copy of it (path or address; SHA-256 {build.sha256})"
    )


def mirrors() -> tuple[str, ...]:
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
    bases = dict.fromkeys(
        base for line in done.stdout.splitlines() for base in _listed(line.strip())
    )
    usable = [base for base in bases if urlsplit(base).scheme in {"http", "https", "file"}]
    # Security archives hold few packages; asking them last saves a refusal.
    return tuple(sorted(usable, key=lambda base: "security" in base))


def _listed(base: str) -> list[str]:
    if not base.startswith(_MIRROR_LIST):
        return [base]
    # A file that lists them, as on GitHub's machines.
    try:
        lines = Path(base.removeprefix(_MIRROR_LIST).rstrip("/")).read_text("utf-8").splitlines()
    except OSError:
        return []
    return [line.split()[0] for line in lines if line.strip()]
