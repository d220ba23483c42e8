"""The interpreters that set-up installs: prebuilt ones from uv, or built from source.

All have the same origin, since a comparison of two builds made in different ways would compare the
compilers.
"""

import functools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import Field

from duetbench.app import interpreters
from duetbench.app.declarations import Digest, OhaSpec, PatchVersion, read_toml, validate
from duetbench.app.interpreters import Interpreter
from duetbench.core.errors import DeclarationError, SetupError, UsageError
from duetbench.core.model import Frozen, InterpreterKind
from duetbench.host import cache, command, paths
from duetbench.host.command import Tick
from duetbench.host.console import Narrator


class InterpreterSpec(InterpreterKind):
    """One interpreter to measure with."""

    version: PatchVersion
    optional: bool = Field(
        default=False,
        description="Installed only for cases that use it, or by `observatory setup --optional`.",
    )


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


KEYS: Final = ("interpreters", "source-build")
"""Of `[tool.observatory]`."""


class Declared(Frozen):
    """The interpreters of a repository's experiments."""

    interpreters: dict[str, InterpreterSpec] = Field(min_length=1, title="A table for each.")
    source_build: dict[str, SourceBuild] = Field(
        default_factory=dict, alias="source-build", title="A table for each version."
    )

    @property
    def usual(self) -> dict[str, InterpreterSpec]:
        """The interpreters that set-up installs: all but the optional ones."""
        return {name: spec for name, spec in self.interpreters.items() if not spec.optional}

    def adding(self, names: Collection[str]) -> "Declared":
        """Return a copy in which these optional interpreters are installed like the others."""
        specs = {
            name: spec.model_copy(update={"optional": spec.optional and name not in names})
            for name, spec in self.interpreters.items()
        }
        return self.model_copy(update={"interpreters": specs})


@functools.cache
def load(root: Path) -> Declared:
    """Read those of a repository; raises DeclarationError if one is invalid."""
    file = root / "pyproject.toml"
    own = read_toml(file).get("tool", {}).get("observatory", {}) if file.exists() else {}
    usual = read_toml(Path(__file__).with_name("interpreters.toml"))
    table = {key: own.get(key, usual[key]) for key in KEYS}
    declared = validate(Declared, table, str(file), table="tool.observatory")
    for name, spec in declared.interpreters.items():
        key, base = f"tool.observatory.interpreters.{name}", re.sub("(-jit|t)$", "", name)
        for field, end in (("free_threaded", "t"), ("jit", "-jit")):
            if (name == base + end) != (value := getattr(spec, field)):
                allowed = f"true where the interpreter's name ends in {end}, and false elsewhere"
                raise DeclarationError(str(file), f"{key}.{field}", value, allowed)
        if not f"{spec.version}.".startswith(f"{base}."):
            allowed = f"a version of {base}, as its name says"
            raise DeclarationError(str(file), f"{key}.version", spec.version, allowed)
    return declared


def locate(name: str, configured: Declared) -> Interpreter:
    """Find an installed interpreter. Starts no process.

    Raises UsageError if no interpreter of this name is declared, and SetupError if it is not
    installed yet.
    """
    if name not in configured.interpreters:
        raise UsageError(
            f"no interpreter {name!r}; declared are {', '.join(sorted(configured.interpreters))}"
        )
    usual = configured.adding({name}).usual
    for origin in ORIGINS:
        candidates = {n: interpreters.read(n, place(n, origin, configured)) for n in usual}
        # All must have one origin, so an incomplete set of the better origin does not count.
        if all(candidates.values()) and (interpreter := candidates[name]) is not None:
            cache.touch(place(name, origin, configured))
            return interpreter
    optional = "" if name in configured.usual else " --optional"
    raise SetupError(
        f"interpreter {name} ({configured.interpreters[name].version}) is not installed: "
        f"run `observatory setup{optional}`"
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


def ensure(configured: Declared, narrator: Narrator) -> bool:
    """Install all usual interpreters, of one origin; return whether anything was installed.

    Raises SetupError if that is not possible, with what is missing.
    """
    if _complete(configured):
        return False
    if not _fetch(configured, narrator):
        requests = [_request(name, configured) for name in configured.usual]
        _require([f for asked in requests if asked for f in faults(asked)])
        for name in configured.usual:
            _from_source(name, configured, narrator)
    return True


def _complete(configured: Declared) -> bool:
    """Whether all usual interpreters are there, right, and of one origin."""
    return any(
        all(
            fault(spec, place(name, origin, configured)) is None
            for name, spec in configured.usual.items()
        )
        for origin in ORIGINS
    )


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


def _fetch(configured: Declared, narrator: Narrator) -> bool:
    """Install prebuilt interpreters, whose checksums uv knows; return whether all are there."""
    if os.environ.get(ARCHIVE):
        sentence = "is set, so the interpreters are built from that source"
        narrator.say(f"{ARCHIVE} {sentence}")
        return False
    try:
        for name in configured.usual:
            _install_prebuilt(name, configured, narrator)
    except SetupError as error:
        reason = str(error).split("t said: ")[-1]  # without the advice
        narrator.say(
            f"prebuilt interpreters are not available ({reason}): all are built from source, with "
            "the same flags, so that those of one version differ only in the GIL, or the JIT"
        )
        return False
    return True


def _install_prebuilt(name: str, configured: Declared, narrator: Narrator) -> None:
    spec = configured.interpreters[name]
    target = place(name, "prebuilt", configured)
    kind = "+freethreaded" if spec.free_threaded else ""

    def fill(_staging: Path) -> cache.Facts:
        # uv writes absolute paths into what it installs, so it works in the final place; it
        # renames complete installations itself.
        installs = target.parent / "uv"
        with narrator.step(f"CPython {name}", f"asking for a prebuilt {spec.version}") as tick:
            request = f"cpython@{spec.version}{kind}"
            argv: list[str | Path] = [command.uv(), "python", "install", "--no-bin"]
            argv += ["--install-dir", installs]
            # An unreachable server is not slow: it is asked once.
            command.run(
                [*argv, request], what=f"installing CPython {request}", tick=tick,
                log=command.new_log(f"prebuilt-{name}"), env={"UV_HTTP_RETRIES": "0"},
            )  # fmt: skip
        pattern = f"cpython-{spec.version}{kind}-*/{_program(spec)}"
        programs = sorted(installs.glob(pattern))
        if not programs:
            raise SetupError(f"uv installed no {pattern} in {installs}")
        return interpreters.describe(programs[0], "prebuilt", jit=spec.jit)

    _make(target, spec, fill, narrator)


def _make(
    target: Path, spec: InterpreterSpec, fill: Callable[[Path], cache.Facts], narrator: Narrator
) -> None:
    cache.make(target, fault=lambda there: fault(spec, there), build=fill, say=narrator.say)


def _from_source(name: str, configured: Declared, narrator: Narrator) -> None:
    spec = configured.interpreters[name]
    request = _request(name, configured)
    if request is None:
        raise SetupError(
            f"interpreter {name}: uv could not install a prebuilt CPython {spec.version} "
            f"(log: {paths.cache_dir() / 'logs' / f'prebuilt-{name}.log'}), and pyproject.toml "
            f'has no [tool.observatory.source-build."{spec.version}"] to build it: connect to the '
            "network, or declare its source archive as for the other versions"
        )
    target = place(name, "source", configured)

    def fill(staging: Path) -> cache.Facts:
        why = f"building {spec.version} from source, about 90 s on 2 cores"
        with narrator.step(f"CPython {name}", why) as tick:
            log = command.new_log(f"source-{name}")
            build(request, staging, log=log, tick=tick)
        facts = interpreters.describe(staging / _program(spec), "source", jit=spec.jit)
        return {**facts, "executable": str(target / _program(spec))}

    _make(target, spec, fill, narrator)


def _request(name: str, configured: Declared) -> Request | None:
    """Return what the builder has to know of an interpreter; None without a recipe."""
    spec = configured.interpreters[name]
    recipe = configured.source_build.get(spec.version)
    home = str(place(name, "source", configured))
    facts = {"program": "cpython", "name": name, "home": home, **spec.model_dump()}
    return facts | recipe.model_dump() if recipe else None


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
