"""The interpreters that set-up installs: prebuilt ones from uv, or built from source.

All have the same origin, since a comparison of two builds made in different ways would compare the
compilers.
"""

import functools
from pathlib import Path
from typing import Final

from pydantic import Field

from duetbench.app import interpreters
from duetbench.app.declarations import PatchVersion, read_toml, validate
from duetbench.app.interpreters import Interpreter
from duetbench.core.errors import SetupError
from duetbench.core.model import Frozen, InterpreterKind
from duetbench.host import cache, command, paths
from duetbench.host.command import Tick
from duetbench.host.console import Narrator
from observatory.matrix.source_builds import SourceBuild, require_compiler

ORIGINS: Final = ("prebuilt", "source")
"""Of the interpreters that set-up installs."""

DECLARATION: Final = Path(__file__).with_name("interpreters.toml")


class InterpreterSpec(InterpreterKind):
    """One interpreter to measure with."""

    version: PatchVersion
    free_threaded: bool = Field(default=False, description="As its name says, which ends in t.")
    optional: bool = Field(default=False, description="Installed only for cases that use it.")

    @property
    def program(self) -> Path:
        """The interpreter's own file in its folder, never an alias."""
        minor = ".".join(self.version.split(".")[:2])
        return Path("bin") / f"python{minor}{'t' if self.free_threaded else ''}"


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
    """Find an installed interpreter; SetupError if it is not there. Starts no process."""
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


def ensure(configured: Declared, narrator: Narrator, *more: str) -> bool:
    """Install all usual interpreters, and `more`, of one origin; return whether any is new.

    Raises SetupError if that is not possible, with what is missing.
    """
    specs = {name: configured.interpreters[name] for name in (*configured.usual, *more)}
    for origin in ORIGINS:
        if not any(fault(spec, place(name, origin, configured)) for name, spec in specs.items()):
            return False
    try:
        for name in specs:
            _make(name, "prebuilt", configured, narrator)
    except SetupError as error:
        reason = str(error).split("t said: ")[-1]  # without the advice
        narrator.say(
            f"prebuilt interpreters are not available ({reason}): all are built from source, with "
            "the same flags, so that those of one version differ only in the GIL, or the JIT"
        )
        if jits := [name for name, spec in specs.items() if spec.jit]:
            raise SetupError(f"{jits[0]} cannot be built from source, for its JIT") from error
        require_compiler()
        for name in specs:
            _make(name, "source", configured, narrator)
    return True


def _make(name: str, origin: str, configured: Declared, narrator: Narrator) -> None:
    """Install an interpreter of an origin; raises SetupError."""
    spec, target = configured.interpreters[name], place(name, origin, configured)

    def fill(draft: Path) -> cache.Facts:
        log = command.new_log(f"{origin}-{name}")
        with narrator.step(f"CPython {name}", f"installing {spec.version}") as tick:
            if origin == "prebuilt":
                program = final = _download(spec, target, log, tick)
            elif recipe := configured.source_build.get(spec.version):
                recipe.build(draft, target, log, tick, free_threaded=spec.free_threaded)
                program, final = draft / spec.program, target / spec.program
            else:
                where = f'[source-build."{spec.version}"]'
                raise SetupError(f"{DECLARATION.name} has no {where} for {name}")
        python = interpreters.identify(program, name, origin, jit=spec.jit)
        python = python.model_copy(update={"executable": final})
        return python.model_dump(mode="json", exclude_defaults=True)

    cache.make(target, fault=lambda folder: fault(spec, folder), build=fill, say=narrator.say)


def fault(spec: InterpreterSpec, target: Path) -> str | None:
    """Say how an interpreter in its folder is not as declared; None if it is."""
    interpreter = interpreters.read(target.name, target)
    if interpreter is None:
        return "it is not there"
    try:
        proof = interpreters.prove(interpreter.executable)
    except SetupError as error:
        return str(error)
    free = spec.free_threaded
    expected = {"version": spec.version, "free_threaded": free, "gil": not free}
    expected |= {"jit": True} if spec.jit else {}  # others may have one that is off
    wrong = (
        f"{key} is {proof[key]!r} instead of {value!r}"
        for key, value in expected.items()
        if proof[key] != value
    )
    return "; ".join(wrong) or None


def _download(spec: InterpreterSpec, target: Path, log: Path, tick: Tick) -> Path:
    """Install a prebuilt interpreter, whose checksum uv knows; return its program."""
    # uv writes absolute paths into what it installs, so it works in the final place; it renames
    # complete installations itself.
    folder, kind = target.parent / "uv", f"{spec.version}{'+freethreaded' * spec.free_threaded}"
    argv: list[str | Path] = [command.uv(), "python", "install", "--no-bin"]
    argv += ["--install-dir", folder, f"cpython@{kind}"]
    # An unreachable server is not slow: it is asked once.
    once = {"UV_HTTP_RETRIES": "0"}
    command.run(argv, what=f"installing CPython {kind}", tick=tick, log=log, env=once)
    pattern = f"cpython-{kind}-*/{spec.program}"
    if not (programs := sorted(folder.glob(pattern))):
        raise SetupError(f"uv installed no {pattern} in {folder}")
    return programs[0]
