"""Programs in a process of their own, such as one that requests an application without a server.

The same program under the same interpreter executes the same instructions every time, however noisy
the machine: the hash seed, random numbers, the layout of the address space and the environment are
fixed. What runs inside the process is in `inside`.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from duetbench.app import programs
from duetbench.app.testbed import SideCase
from duetbench.app.workspace import Workspace
from duetbench.core.errors import CountError, LaunchError
from duetbench.core.model import Endpoint
from duetbench.host import cache, paths, ports
from duetbench.host.command import last_words
from duetbench.host.process_session import Session

MOST_PATHS: Final = 30
"""Most paths of one request that are counted: of more, evenly spaced ones are chosen."""

# Variables that the counted program inherits from the caller. It inherits no others.
_INHERITED: Final = ("PATH", "LD_LIBRARY_PATH")
_PACKAGE: Final = Path(__file__).resolve().parents[1]
_SOURCE: Final = Path(__file__).with_name("inside") / "preloaded.c"

_COMPILE_S: Final = 60.0  # 0.1 s measured
_LAST_WORDS: Final = 500


@dataclass(frozen=True, slots=True)
class Program:
    """A program that calls `phases.run`, usually one that makes requests in its own process.

    `payload` are the interpreter's arguments, and `env` its variables, besides PATH. `folder`
    contains the application: a copy for this program alone. `hide` removes private values from its
    output.
    """

    python: Path
    payload: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    folder: Path = Path()
    hide: Callable[[str], str] = str

    def padded(self, size: int) -> Program:
        """Return it with so many bytes more in its environment, which moves what it allocates."""
        return replace(self, env={**self.env, "DUETBENCH_PADDING": "p" * size})


@contextmanager
def start(
    program: Program,
    plan: Mapping[str, Any],
    counter: Callable[[Path], Sequence[str]] = lambda _folder: (),
) -> Iterator[Process]:
    """Start a program that does what `plan` says; leaving ends it.

    `counter` gives what runs it in its folder, such as Valgrind. CountError: it cannot be started.
    """
    with paths.scratch() as folder:
        (folder / "plan.json").write_text(json.dumps(plan), "utf-8")
        argv = [*fixed_addresses(), *counter(folder), str(program.python), *program.payload]
        variables = environment(program.env, folder)
        try:
            with Session.start(
                argv, role="command", cores=None, env=variables, cwd=folder, log=folder / "log"
            ) as session:
                yield Process(session, folder)
        except LaunchError as error:
            raise CountError(error.detail) from error


@dataclass(frozen=True, slots=True)
class Process:
    """A program under way, in the folder with its plan, its report and its dumps."""

    session: Session
    folder: Path

    def report(self, timeout: float) -> dict[str, Any]:
        """Wait up to `timeout` s for its end and return its report, whatever ended it.

        CountError, with the reason: there is none.
        """
        code = self.session.wait(timeout)
        if not (file := self.folder / programs.REPORT).exists():
            how = f"did not end within {max(timeout, 0):.3g} s"
            if code is not None:
                how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            said = (self.folder / "log").read_text("utf-8", "replace").strip()
            words = ending(said, _LAST_WORDS) or "none"
            problem = f"the application's process {how}; its last words: {words}"
            raise CountError(problem, "" if code is not None else "endless")
        try:
            report = dict(json.loads(file.read_text("utf-8")))
        except (OSError, ValueError) as error:
            problem = f"{file.name}: expected a report: {error}; does the payload call phases.run?"
            raise CountError(problem) from error
        if "reason" in report:
            raise CountError(_without_traceback(str(report["reason"])), report.get("kind", ""))
        return report


def _without_traceback(reason: str) -> str:
    """Leave the exception of a traceback, which frameworks report as a whole."""
    before, traceback, _ = reason.partition("Traceback (most recent call last):")
    return f"{before}{last_words(reason)}" if traceback else reason


@functools.cache
def fixed_addresses() -> tuple[str, ...]:
    """What starts a program without randomised addresses, on which hashes of objects depend.

    Nothing if that is not allowed, as in most containers: Valgrind's own layout is nearly fixed.
    """
    fixed = ("setarch", "-R")
    try:
        subprocess.run([*fixed, "true"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ()
    return fixed


def environment(env: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The environment of a program in its folder."""
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {
        **inherited,
        # Names of temporary files are random, so the same in every count, and kept if it is killed.
        "TMPDIR": str(folder),
        **env,
        "HOME": str(folder),  # Valgrind would read the user's options there
        "LC_ALL": "C.UTF-8",
        # setarch loads it as well, but uses no random numbers.
        "LD_PRELOAD": _join(_preloaded(), env.get("LD_PRELOAD")),
        # 3.14t's allocator asks for memory at random addresses, but not for so much at once.
        "MIMALLOC_ARENA_RESERVE": "2GiB",
        # It returns memory after some time, not after some work.
        "MIMALLOC_PURGE_DELAY": "-1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": _join(packages_folder(), env.get("PYTHONPATH")),
        # A relative path: characters that change from count to count would be interned, and
        # sometimes collide in tables.
        programs.PLAN: "plan.json",
    }


@functools.cache
def _preloaded() -> Path | None:
    """Compile once the library that marks what is counted, and gives the same random numbers.

    Compiled packages ask the kernel for the seeds of their hashes; colliding keys cost 0.1 % of
    Pydantic's JSON parser. None: there is no compiler, or its libraries are missing.
    """
    library = paths.make_scratch() / "preloaded.so"
    # Some libcs have dlsym in a library of its own.
    argv = ["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
    try:
        subprocess.run(argv, capture_output=True, check=True, timeout=_COMPILE_S)
    except (OSError, subprocess.SubprocessError):
        return None
    return library


def packages_folder() -> Path:
    """The folder from which the counted program imports duetbench, and only duetbench."""
    parent = _PACKAGE.parent
    if parent.name == "scripts":  # a checkout
        return parent
    return isolate(_PACKAGE, paths.cache_dir() / "tools")


def isolate(package: Path, place: Path) -> Path:
    """Make (once) a folder for search paths that contains only a link to a package."""
    folder = place / f"{package.name}-{cache.digest(str(package))}"
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / package.name
    if not link.is_symlink():
        # Another process may be faster, with the same link.
        with suppress(FileExistsError):
            link.symlink_to(package, target_is_directory=True)
    return folder


def _join(*folders: Path | str | None) -> str:
    return os.pathsep.join(str(folder) for folder in folders if folder)


def ending(text: str, most: int) -> str:
    """Return the last characters of an output, from a line or word on: no part of a value is left.

    What hides values does not know a part of one.
    """
    cut = text[-most:]
    return text if len(text) <= most else cut.partition("\n" if "\n" in cut else " ")[2]


# Requests of an application.


@contextmanager
def program(side: SideCase, name: str = programs.PROGRAM) -> Iterator[Program]:
    """Provide the program that makes requests to a side's applications without a server.

    `name` is its module. It has the workspace of a launch: a fresh copy of the files, after its own
    preparations. Raises CountError, also in place of one from inside the block, without private
    values.
    """
    testbed = side.testbed
    log = testbed.logs / f"counted-{uuid4().hex}.log"
    workspace = Workspace(side, ports.free_port(), log)
    try:
        with workspace:
            workspace.open()
            served, file = workspace.environment(), workspace.request
            fields = {
                **_fields(workspace.fill_in(side.case.endpoint)),
                "secrets": workspace.secrets,
            }
            if workspace.login:
                token = testbed.subject.target.token
                fields["login"] = {**_fields(workspace.login), "token": token}
            file.write_text(json.dumps(fields), "utf-8")
            env = {programs.REQUEST: str(file), programs.WORKSPACE: str(workspace.folder)}
            env[programs.CHECKOUT] = str(workspace.root)
            variables, payload = {**served, **env}, ["-P", "-m", name]
            yield Program(side.python, payload, variables, workspace.folder, workspace.hide)
    except (CountError, LaunchError) as problem:
        raise CountError(workspace.hide(str(problem)), getattr(problem, "kind", "")) from None
    finally:
        for file in testbed.logs.glob(f"{log.stem}.*"):
            file.unlink()


def _fields(endpoint: Endpoint) -> dict[str, Any]:
    """Describe a request for the counted program, with evenly chosen paths if it has many."""
    all_paths = (endpoint.path, *endpoint.paths)
    n = min(len(all_paths), MOST_PATHS)
    first, *others = (all_paths[i * len(all_paths) // n] for i in range(n))
    fields = endpoint.model_dump(include={"method", "headers", "body"})
    return {**fields, "path": first, "paths": others, "status": endpoint.expect.status}


def code_of(side: SideCase) -> tuple[Hashable, ...]:
    """Return a key that is equal for cases whose requests run the same code on any server."""
    case = side.case
    return (
        *(case.python, case.stack, case.experiment, case.endpoint.name),
        *sorted(case.env.items()),
    )
