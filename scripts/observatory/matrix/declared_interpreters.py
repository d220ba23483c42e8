"""The interpreters that set-up installs: prebuilt ones from uv, or built from source.

All have the same origin, since a comparison of two builds made in different ways would compare the
compilers.
"""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from pydantic import Field

from duetbench.app import interpreters
from duetbench.app.declarations import Digest, OhaSpec, PatchVersion, read_toml, validate
from duetbench.app.interpreters import Interpreter
from duetbench.core.errors import SetupError, UsageError
from duetbench.core.model import Frozen, InterpreterKind
from duetbench.host import cache, command, paths
from duetbench.host.command import Tick
from duetbench.host.console import Narrator


class InterpreterSpec(InterpreterKind):
    """One interpreter to measure with."""

    version: PatchVersion
    free_threaded: bool = Field(default=False, description="As its name says, which ends in t.")
    optional: bool = Field(default=False, description="Installed only for cases that use it.")


ARCHIVE: Final = "DUETBENCH_CPYTHON_ARCHIVE"
"""Variable with the path or address of a source archive to use instead of the mirror's."""

Request = dict[str, Any]
"""What to build from source."""

_BUILDER: Final = Path(__file__).parents[2] / "build_from_source.py"
_TIMEOUT_S: Final = 60

ORIGINS: Final = ("prebuilt", "source")
"""Of the interpreters that set-up installs."""


class SourceBuild(Frozen):
    """How to build an interpreter if no prebuilt one is available."""

    archive: str = Field(description="Path of the source archive below a Debian mirror's base.")
    sha256: Digest
    cflags: str
    configure: tuple[str, ...] = Field(description="Options of configure, the same for all builds.")
    llvm: tuple[str, ...] = Field(
        default=(), description="Versions of LLVM that can build its JIT, the best one first."
    )


DECLARATION: Final = Path(__file__).with_name("interpreters.toml")


class Declared(Frozen):
    """The interpreters of experiments, as `interpreters.toml` declares them."""

    interpreters: dict[str, InterpreterSpec] = Field(min_length=1, title="A table for each.")
    source_build: dict[str, SourceBuild] = Field(
        default_factory=dict, alias="source-build", title="A table for each version."
    )

    @property
    def usual(self) -> dict[str, InterpreterSpec]:
        """The interpreters that set-up installs: all but the optional ones."""
        return {name: spec for name, spec in self.interpreters.items() if not spec.optional}


@functools.cache
def load() -> Declared:
    """Read the declared interpreters; raises DeclarationError if one is invalid.

    A name says the kind: `3.14t` is free-threaded, and the JIT of `3.15-jit` is on.
    """
    declared = read_toml(DECLARATION)
    for name, table in declared["interpreters"].items():
        jit, base = name.endswith("-jit"), name.removesuffix("-jit")
        table.update(free_threaded=base.endswith("t"), jit=jit)
    return validate(Declared, declared, DECLARATION.name)


def locate(name: str, configured: Declared) -> Interpreter:
    """Find an installed interpreter. Starts no process.

    Raises UsageError if no interpreter of this name is declared, and SetupError if it is not
    installed yet.
    """
    if name not in configured.interpreters:
        raise UsageError(
            f"no interpreter {name!r}; declared are {', '.join(sorted(configured.interpreters))}"
        )
    for origin in ORIGINS:
        names = {*configured.usual, name}
        candidates = {n: interpreters.read(n, place(n, origin, configured)) for n in names}
        # All must have one origin, so an incomplete set of the better origin does not count.
        if all(candidates.values()) and (interpreter := candidates[name]) is not None:
            cache.touch(place(name, origin, configured))
            return interpreter
    raise SetupError(
        f"interpreter {name} ({configured.interpreters[name].version}) is not installed: "
        f"run `observatory setup`"
    )


def place(name: str, origin: str, configured: Declared) -> Path:
    """Return the folder of an interpreter, which differs for every way to build it."""
    spec = configured.interpreters[name]
    kind = f"{origin}-{spec.version}"
    if origin == "source":
        build = configured.source_build.get(spec.version)
        recipe = build.model_dump_json(exclude_defaults=True) if build else ""
        kind = f"source-{spec.version}-{cache.digest(recipe)}"
    return paths.cache_dir() / "interpreters" / kind / name


def obtain(name: str, configured: Declared, narrator: Narrator) -> Interpreter:
    """Find an interpreter, even an optional one, and install it first; raises as `ensure`."""
    try:
        return locate(name, configured)
    except SetupError:
        ensure(configured, narrator, name)
        return locate(name, configured)


def ensure(configured: Declared, narrator: Narrator, *more: str) -> bool:
    """Install all usual interpreters, and `more`, of one origin; return whether any is new.

    Raises SetupError if that is not possible, with what is missing.
    """
    specs = {name: configured.interpreters[name] for name in (*configured.usual, *more)}
    for origin in ORIGINS:
        if not any(fault(spec, place(name, origin, configured)) for name, spec in specs.items()):
            return False
    reason = f"{ARCHIVE} is set" if os.environ.get(ARCHIVE) else ""
    if not reason:
        try:
            for name, spec in specs.items():
                _make(place(name, "prebuilt", configured), spec, _download, narrator)
        except SetupError as error:
            reason = str(error).split("t said: ")[-1]  # without the advice
    if reason:
        narrator.say(
            f"prebuilt interpreters are not available ({reason}): all are built from source, with "
            "the same flags, so that those of one version differ only in the GIL, or the JIT"
        )
        requests = {name: _request(name, configured) for name in specs}
        _require([f for request in requests.values() for f in faults(request)])
        for name, request in requests.items():
            _make(Path(request["home"]), specs[name], partial(_compile, request), narrator)
    return True


def _make(
    target: Path,
    spec: InterpreterSpec,
    build: Callable[[InterpreterSpec, Path, Path, Tick], Path],
    narrator: Narrator,
) -> None:
    """Make an interpreter in a folder; `build` fills it, or a draft, and returns its program."""

    def fill(draft: Path) -> cache.Facts:
        with narrator.step(f"CPython {target.name}", f"installing {spec.version}") as tick:
            program = build(spec, target, draft, tick)
        origin = target.parent.name.split("-")[0]
        python = interpreters.identify(program, target.name, origin, jit=spec.jit)
        if program.is_relative_to(draft):
            place = target / program.relative_to(draft)
            python = python.model_copy(update={"executable": place})
        return python.model_dump(mode="json", exclude_defaults=True)

    cache.make(target, fault=partial(fault, spec), build=fill, say=narrator.say)


def fault(spec: InterpreterSpec, target: Path) -> str | None:
    """Say what is wrong with an interpreter in its folder; None if nothing is."""
    interpreter = interpreters.read(target.name, target)
    if interpreter is None:
        return "it is not there"
    try:
        return mismatch(spec, interpreters.prove(interpreter.executable))
    except SetupError as error:
        return str(error)


def mismatch(spec: InterpreterSpec, proof: dict[str, Any]) -> str | None:
    """Say how an interpreter differs from its declaration; None if it does not."""
    free = spec.free_threaded
    expected = {"version": spec.version, "free_threaded": free, "gil": not free}
    expected |= {"jit": True} if spec.jit else {}  # others may have one that is off
    differences = (
        f"{key} is {proof.get(key)!r} instead of {value!r}"
        for key, value in expected.items()
        if proof.get(key) != value
    )
    return "; ".join(differences) or None


def _download(spec: InterpreterSpec, target: Path, _draft: Path, tick: Tick) -> Path:
    """Install a prebuilt interpreter, whose checksum uv knows."""
    # uv writes absolute paths into what it installs, so it works in the final place; it renames
    # complete installations itself.
    folder, kind = target.parent / "uv", f"{spec.version}{'+freethreaded' * spec.free_threaded}"
    argv: list[str | Path] = [command.uv(), "python", "install", "--no-bin"]
    argv += ["--install-dir", folder, f"cpython@{kind}"]
    log = command.new_log(f"prebuilt-{target.name}")
    # An unreachable server is not slow: it is asked once.
    once = {"UV_HTTP_RETRIES": "0"}
    command.run(argv, what=f"installing CPython {kind}", tick=tick, log=log, env=once)
    pattern = f"cpython-{kind}-*/{_program(spec)}"
    if not (programs := sorted(folder.glob(pattern))):
        raise SetupError(f"uv installed no {pattern} in {folder}")
    return programs[0]


def _compile(
    request: Request, spec: InterpreterSpec, target: Path, draft: Path, tick: Tick
) -> Path:
    build(request, draft, log=command.new_log(f"source-{target.name}"), tick=tick)
    return draft / _program(spec)


def _request(name: str, configured: Declared) -> Request:
    """Return what the builder has to know of an interpreter; SetupError: it has no recipe."""
    spec = configured.interpreters[name]
    recipe = configured.source_build.get(spec.version)
    if recipe is None:
        raise SetupError(
            f"interpreter {name}: uv could not install a prebuilt CPython {spec.version} "
            f"(log: {paths.cache_dir() / 'logs' / f'prebuilt-{name}.log'}), and {DECLARATION.name} "
            f'has no [source-build."{spec.version}"] to build it: connect to the network, or '
            "declare its source archive as for the other versions"
        )
    home = str(place(name, "source", configured))
    facts = {"program": "cpython", "name": name, "home": home}
    return facts | spec.model_dump() | recipe.model_dump()


def _program(spec: InterpreterSpec) -> Path:
    # The interpreter's own file, never an alias.
    minor = ".".join(spec.version.split(".")[:2])
    return Path("bin") / f"python{minor}{'t' if spec.free_threaded else ''}"


def _argv(verb: str, request: Request) -> list[str | Path]:
    words = json.dumps({**request, "cache": str(paths.cache_dir())})
    return [sys.executable, _BUILDER, verb, words]


def _require(faults: Sequence[str]) -> None:
    """Refuse to begin while anything is missing; the SetupError lists all of it."""
    distinct = list(dict.fromkeys(faults))
    if len(distinct) > 1:
        lines = "".join(f"\n  - {fault}" for fault in distinct)
        raise SetupError(f"{len(distinct)} things are missing, so nothing was built:{lines}")
    if distinct:
        raise SetupError(distinct[0])


def faults(request: Request) -> list[str]:
    """List what is missing here to build a program."""
    argv = _argv("check", request)
    answer = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=_TIMEOUT_S)
    return answer.stdout.splitlines()


def build(request: Request, folder: Path, *, log: Path, tick: Tick) -> None:
    """Build a program into a folder; raises SetupError if it fails."""
    what = f"building {request['program']} {request['version']}"
    command.run([*_argv("build", request), folder], what=what, log=log, tick=tick)


def build_oha(spec: OhaSpec, folder: Path, narrator: Narrator) -> None:
    """Build the load generator into a folder; raises SetupError."""
    request = {"program": "oha", **spec.model_dump(exclude={"prebuilt"})}
    _require(faults(request))
    why = "building the load generator, about 3 min on 2 cores"
    with narrator.step(f"oha {spec.version}", why) as tick:
        build(request, folder, log=command.new_log("oha"), tick=tick)
