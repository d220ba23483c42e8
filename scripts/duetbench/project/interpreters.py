"""The interpreters that set-up makes: prebuilt ones through uv, or built from source.

All have the same origin: a comparison of two builds made in different ways would compare the
compilers. A target's own is what the machine has; see `target_python`.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from duetbench.core.errors import SetupError, UsageError
from duetbench.core.model import InterpreterRecord
from duetbench.host import cache, command, paths
from duetbench.host.command import Tick
from duetbench.host.console import Narrator
from duetbench.project import tools
from duetbench.project.schema import InterpreterSpec
from duetbench.project.settings import (
    ORIGINS,
    Interpreter,
    Origin,
    Settings,
    SourceBuild,
)

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

_LLVM_TOOLS: Final = ("clang", "llvm-readobj", "llvm-objdump", "llvm-dwarfdump")

_PROOF: Final = """
import json, os, platform, re, sys, sysconfig
get = sysconfig.get_config_var
jit = getattr(sys, "_jit", None)
allocator = "pymalloc" if get("WITH_PYMALLOC") else "malloc"
if get("Py_GIL_DISABLED"):
    allocator = "mimalloc"
try:
    policy = open("/sys/kernel/mm/transparent_hugepage/enabled").read()
    given = re.search(r"\\[(.+)\\]", policy)[1]
    maps = open("/proc/self/smaps").read()
    asked = "asked for" if re.search("^VmFlags:.* hg( |$)", maps, re.M) else "not asked for"
except OSError:
    given = asked = "unknown"
print(json.dumps({
    "executable": os.path.realpath(sys.executable),
    "version": platform.python_version(),
    "free_threaded": bool(get("Py_GIL_DISABLED")),
    "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
    "compiler": platform.python_compiler(),
    "configure": get("CONFIG_ARGS") or "",
    "cflags": get("PY_CFLAGS") or "",
    "jit": bool(jit and jit.is_available()),
    "memory": f"{allocator}; huge pages {asked} (transparent_hugepage: {given})",
}))
"""
_PROOF_TIMEOUT_S: Final = 30


def locate(name: str, configured: Settings) -> Interpreter:
    """Find an interpreter that was made. Starts no process.

    UsageError: no interpreter of this name is declared. SetupError: it is declared and was not made
    yet.
    """
    if name not in configured.interpreters:
        raise UsageError(
            f"no interpreter {name!r}; pyproject.toml declares "
            f"{', '.join(sorted(configured.interpreters))}"
        )
    wanted = configured.asking({name})
    for origin in ORIGINS:
        candidates = {n: read(n, place(n, origin, configured)) for n in wanted.usual}
        # One origin for all: an incomplete set of the better origin does not count.
        if all(candidates.values()) and (interpreter := candidates[name]) is not None:
            cache.touch(place(name, origin, configured))
            return interpreter
    optional = "" if name in configured.usual else " --optional"
    raise SetupError(
        f"interpreter {name} ({configured.interpreters[name].version}) has not been made: "
        f"run `duetbench setup{optional}`"
    )


def place(name: str, origin: Origin, configured: Settings) -> Path:
    """Where set-up puts an interpreter: another place for every way of building it."""
    spec = configured.interpreters[name]
    kind = f"{origin}-{spec.version}"
    if origin == "source":
        build = configured.source_build.get(spec.version)
        declared = build.model_dump_json(exclude_defaults=True) if build else ""
        kind = f"source-{spec.version}-{cache.digest(declared)}"
    return paths.cache_dir() / "interpreters" / kind / name


def read(name: str, target: Path) -> Interpreter | None:
    """Read what set-up remembered of an interpreter; None when it is not there."""
    facts = cache.facts(target)
    if facts is None or not Path(facts["executable"]).is_file():
        return None
    fields = {key: facts[key] for key in ("version", "free_threaded", "origin", "build")}
    jit = facts.get("jit", False)
    return Interpreter(name=name, executable=Path(facts["executable"]), jit=jit, **fields)


def prove(executable: Path) -> dict[str, Any]:
    """Start an interpreter and let it say what it is.

    Returns:
        executable (itself, where a script or link led to it), version, free_threaded (how it was
        built), gil (whether the GIL is on now), compiler, configure, cflags, jit (whether it was
        built with one), memory.

    SetupError: it cannot be started or says something else.
    """
    try:
        done = subprocess.run(
            [executable, "-I", "-S", "-c", _PROOF],
            capture_output=True,
            check=True,
            timeout=_PROOF_TIMEOUT_S,
            env={},  # PYTHON_GIL=1 and its like are no property of the build
        )
        return dict(json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, TypeError, ValueError) as error:
        raise SetupError(f"{executable} does not run: {error}; run `duetbench setup`") from error


def mismatch(spec: InterpreterSpec, proof: dict[str, Any]) -> str | None:
    """Say in what an interpreter differs from its declaration; None if in nothing."""
    free = spec.free_threaded
    expected = {"version": spec.version, "free_threaded": free, "gil": not free}
    expected |= {"jit": True} if spec.jit else {}  # it may have one that is off
    different = (
        f"{key} is {proof.get(key)!r} instead of {value!r}"
        for key, value in expected.items()
        if proof.get(key) != value
    )
    return "; ".join(different) or None


def whole(configured: Settings) -> bool:
    """Whether all usual interpreters are there and right, of one origin."""
    return any(
        all(
            fault(spec, place(name, origin, configured)) is None
            for name, spec in configured.usual.items()
        )
        for origin in ORIGINS
    )


def fault(spec: InterpreterSpec, target: Path) -> str | None:
    """Say what is wrong with an interpreter in its place; None if nothing is."""
    interpreter = read(target.name, target)
    if interpreter is None:
        return "it is not there"
    try:
        return mismatch(spec, prove(interpreter.executable))
    except SetupError as error:
        return str(error)


def record(interpreter: Interpreter) -> InterpreterRecord:
    """An interpreter as it describes itself now; SetupError: it does not run."""
    # What it gets of memory is the machine's doing, too.
    memory = prove(interpreter.executable)["memory"]
    return interpreter.record().model_copy(update={"memory": memory})


def described(executable: Path, origin: Origin, *, jit: bool) -> cache.Facts:
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
        "jit": jit,
        "build": f"{proof['compiler']}; {options}; {proof['cflags']}",
    }


def install(request: str, log_name: str, tick: Tick, *options: str | Path) -> None:
    """Have uv install a prebuilt interpreter, whose checksum it knows; SetupError: it cannot."""
    command.run(
        [command.uv(), "python", "install", "--no-bin", *options, request],
        what=f"installing CPython {request}",
        log=command.new_log(log_name),
        tick=tick,
        env={"UV_HTTP_RETRIES": "0"},  # unreachable is not slow: ask once
    )


def ensure(configured: Settings, narrator: Narrator) -> bool:
    """Make sure that all usual interpreters are there, of one origin: whether any was made.

    SetupError: they cannot be made; says what is missing.
    """
    if whole(configured):
        return False
    if not fetch(configured, narrator):
        command.require(faults(configured))
        build(configured, narrator)
    return True


def faults(configured: Settings) -> list[str]:
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
    for name, spec in configured.usual.items():
        recipe = configured.source_build.get(spec.version)
        if spec.jit and recipe and _llvm(recipe) is None:
            best = recipe.llvm[0]
            troubles.append(
                f"the JIT of {name} is built by {' and '.join(_LLVM_TOOLS)} of LLVM "
                f"{' or '.join(recipe.llvm)}, which are missing: install clang-{best} llvm-{best}, "
                "or those of another of these versions (Debian's names)"
            )
    return [
        *troubles,
        *command.missing("make", "to build CPython", tools.COMPILER_REMEDY),
        *tools.no_room(),
    ]


def _llvm(recipe: SourceBuild) -> str | None:
    """The version of LLVM that builds the JIT: the first of those declared that is here."""
    complete = (v for v in recipe.llvm if all(shutil.which(f"{one}-{v}") for one in _LLVM_TOOLS))
    return next(complete, None)


def fetch(configured: Settings, narrator: Narrator) -> bool:
    """Install prebuilt interpreters, whose checksums uv knows: whether all could be had."""
    if os.environ.get(ARCHIVE):
        narrator.say(f"{ARCHIVE} is set: the interpreters are built from that source")
        return False
    try:
        for name in configured.usual:
            _install_prebuilt(name, configured, narrator)
    except SetupError as error:
        reason = str(error).split("t said: ")[-1]  # what to do about it is not needed here
        narrator.say(
            f"prebuilt interpreters cannot be had ({reason}): all are built from source, with the "
            "same flags, so that those of one version differ in nothing but the GIL, or the JIT"
        )
        return False
    return True


def _install_prebuilt(name: str, configured: Settings, narrator: Narrator) -> None:
    spec = configured.interpreters[name]
    target = place(name, "prebuilt", configured)
    kind = "+freethreaded" if spec.free_threaded else ""

    def fill(_staging: Path) -> cache.Facts:
        # uv patches paths into what it installs, so it works in the final place; it renames whole
        # installations itself.
        installs = target.parent / "uv"
        with narrator.step(f"CPython {name}", f"asking for a prebuilt {spec.version}") as tick:
            request = f"cpython@{spec.version}{kind}"
            install(request, f"prebuilt-{name}", tick, "--install-dir", installs)
        pattern = f"cpython-{spec.version}{kind}-*/{_program(spec)}"
        programs = sorted(installs.glob(pattern))
        if not programs:
            raise SetupError(f"uv installed no {pattern} in {installs}")
        return described(programs[0], "prebuilt", jit=spec.jit)

    make(target, spec, fill, narrator)


def make(
    target: Path, spec: InterpreterSpec, fill: Callable[[Path], cache.Facts], narrator: Narrator
) -> None:
    """Make an interpreter in its place, if the right one is not there; errors as `cache.make`."""
    cache.make(target, fault=lambda there: fault(spec, there), build=fill, say=narrator.say)


def build(configured: Settings, narrator: Narrator) -> None:
    """Build all usual interpreters from their source archives; errors as in `ensure`."""
    for name in configured.usual:
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

    def fill(staging: Path) -> cache.Facts:
        packed = source_archive(recipe, paths.cache_dir() / "downloads", narrator)
        why = f"building {spec.version} from source, about 90 s on 2 cores"
        with narrator.step(f"CPython {name}", why) as tick:
            _compile(spec, recipe, packed, staging, target, tick)
        remembered = described(staging / _program(spec), "source", jit=spec.jit)
        return {**remembered, "executable": str(target / _program(spec))}

    make(target, spec, fill, narrator)


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
    options += ["--enable-experimental-jit=yes-off"] if spec.jit else []  # as prebuilt ones are
    steps: list[list[str | Path]] = [
        [configure, "-q", f"--prefix={home}", *options],
        ["make", f"-j{len(os.sched_getaffinity(0))}"],
        ["make", "install", f"DESTDIR={root}"],
    ]
    # An outer make's job server is not for us.
    env = {"CFLAGS": recipe.cflags, "MAKEFLAGS": "", "MFLAGS": ""}
    if spec.jit:  # which a Python builds: ours, and no script on PATH that may start none
        env |= {"LLVM_VERSION": _llvm(recipe) or "", "PYTHON_FOR_REGEN": sys.executable}
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
