"""Instructions of a unit of work, counted by Valgrind's Callgrind in a process of its own.

The same program under the same interpreter executes the same instructions every time, however noisy
the machine. duetbench fixes the hash seed, random numbers, the layout of the address space and the
environment. A unit is repeated in rounds between marks, so what happens before, such as imports, is
in no figure; nor is collecting garbage. The rounds show how far the figure repeats.
Valgrind runs one thread at a time: the figures are the cost of work, and say nothing about
contention.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from duetbench.core.errors import CountError, LaunchError
from duetbench.core.text import ending
from duetbench.host import proc
from duetbench.measure.inside.request import DUMP, PLAN, REPORT, ROUNDS

if TYPE_CHECKING:
    from duetbench.host.process_session import Session

# Rounds of one process differ by up to 3 %, always by the same: a table grows, memory is fetched.
# A larger difference means that the unit does something else every time.
SPREAD_LIMIT: Final = 0.05

# Head and totals of a dump (Callgrind's manual, "Callgrind Format Specification").
_DUMP: Final = re.compile(r"^events: *Ir$.*^totals: *(\d+)\n", re.M | re.S)

# The programs that counting needs, and their Debian packages.
NEEDED: Final = {"valgrind": "valgrind", "cc": "gcc libc6-dev"}

# Variables that the counted program inherits from the caller. It inherits no others.
_INHERITED: Final = ("PATH", "LD_LIBRARY_PATH")
_PACKAGE: Final = Path(__file__).resolve().parents[2]
_SOURCE: Final = Path(__file__).with_name("preloaded.c")

_PREFIX: Final = "duetbench-count"
_COMPILE_S: Final = 60.0  # 0.1 s measured
_LAST_WORDS: Final = 500

Rounds = tuple[float, ...]
"""Instructions of a unit of work, in each round of a process."""


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


def missing() -> str | None:
    """Say what counting needs and this machine lacks; None if nothing."""
    absent = [tool for tool in NEEDED if shutil.which(tool) is None]
    if not absent:
        return None
    return (
        f"counting instructions needs {' and '.join(absent)} on PATH: on Debian, "
        f"`apt-get install {' '.join(NEEDED[tool] for tool in absent)}`"
    )


@contextmanager
def count(program: Program, ends: float) -> Iterator[Callable[[], Rounds]]:
    """Count a unit of work beside other work, until `ends` by the monotonic clock.

    The callable waits for its rounds. Leaving ends it. CountError: there is no figure.
    """
    plan = {"functions": False, "ends": ends}
    with start(program, plan, valgrind=()) as process:
        yield lambda: read_rounds(process.folder, process.report(ends - time.monotonic()))


@contextmanager
def start(
    program: Program,
    plan: Mapping[str, Any],
    *,
    valgrind: Sequence[str] | None = None,
) -> Iterator[Process]:
    """Start a program that does what `plan` says; leaving ends it.

    It runs under Valgrind if that has options here, perhaps none. CountError: it cannot be started.
    """
    # A stack's environment, in which asv counts, lacks what this needs.
    from duetbench.host.process_session import Session  # noqa: PLC0415

    with workspace(plan) as folder:
        try:
            argv = command(program, folder, valgrind)
            variables = environment(program.env, folder)
            with Session.start(
                argv, role="command", cores=None, env=variables, cwd=folder, log=folder / "log"
            ) as session:
                try:
                    yield Process(session, folder)
                finally:
                    session.stop(0)
        except LaunchError as error:
            raise CountError(error.detail) from error


@dataclass(frozen=True, slots=True)
class Process:
    """A program under way, in the folder with its plan, its report and its dumps."""

    session: Session
    folder: Path

    def report(self, timeout: float) -> dict[str, Any]:
        """Wait up to `timeout` s for its report; CountError, with the reason: there is none."""
        code = self.session.wait(timeout)
        if code != 0:
            how = f"did not end within {max(timeout, 0):.3g} s"
            if code is not None:
                how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            said = (self.folder / "log").read_text("utf-8", "replace").strip()
            words = ending(said, _LAST_WORDS) or "none"
            raise CountError(f"the application's process {how}; its last words: {words}")
        report = report_of(self.folder / REPORT)
        if "reason" in report:
            raise CountError(str(report["reason"]), login=report.get("login", False))
        return report


def read_rounds(folder: Path, report: Mapping[str, Any]) -> Rounds:
    """Read the instructions of a unit in each round of a process, from its dumps `<process>.<n>`.

    Raises CountError if they are not those of such a process, or the rounds differ too much.
    """
    n, dumps = report["n"], sorted(folder.glob(f"{report['process']}.*"))
    if len(dumps) != ROUNDS:
        raise CountError(
            f"expected Callgrind to write its counters {ROUNDS} times, found {len(dumps)} "
            "times; are libc's headers and Valgrind's callgrind.h installed, or does the "
            f"application itself call {DUMP}, which marks what is counted?"
        )
    costs = tuple(read_dump(file) / n for file in dumps)
    middle, range_ = statistics.median(costs), max(costs) - min(costs)
    if middle <= 0 or range_ > SPREAD_LIMIT * middle:
        raise CountError(
            f"rounds of {n} requests differ by more than {SPREAD_LIMIT:.0%}: "
            f"{', '.join(f'{cost:.0f}' for cost in costs)} instructions per request"
        )
    return costs


def read_dump(file: Path) -> int:
    """Read the instructions of all threads; CountError if the dump is incomplete, or is none."""
    # The totals are its last line: a file without them, or without their line end, was cut short.
    text = file.read_text("utf-8", "replace")
    match = _DUMP.search(text)
    if match is None:
        raise CountError(
            f"{file.name}: expected a dump of Callgrind that counts instructions, with events and "
            f"totals, found {len(text)} characters without; is the disk full?"
        )
    return int(match[1])


def report_of(file: Path) -> dict[str, Any]:
    """Read a report of `phases.run`; CountError if it is no report."""
    try:
        return dict(json.loads(file.read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise CountError(
            f"{file.name}: expected a report: {error}; does the payload call phases.run?"
        ) from error


@contextmanager
def workspace(plan: Mapping[str, Any]) -> Iterator[Path]:
    """Make the folder of a program with its plan, and remove it."""
    with proc.scratch(_PREFIX) as folder:
        (folder / "plan.json").write_text(json.dumps(plan), "utf-8")
        yield folder


def command(program: Program, folder: Path, valgrind: Sequence[str] | None) -> list[str]:
    """What runs a program in its folder; CountError: it needs Valgrind, and that is missing."""
    counter: list[str] = []
    if valgrind is not None:
        if lacking := missing():
            raise CountError(lacking)
        counter = ["valgrind", "--quiet", "--vgdb=no", "--tool=callgrind"]
        # Nothing is counted before the first mark.
        counter += ["--instr-atstart=no", f"--callgrind-out-file={folder}/%p", *valgrind]
    return [*fixed_addresses(), *counter, str(program.python), *program.payload]


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
        "LD_PRELOAD": _join(_preloaded(folder), env.get("LD_PRELOAD")),
        # 3.14t's allocator asks for memory at random addresses, but not for so much at once.
        "MIMALLOC_ARENA_RESERVE": "2GiB",
        # It returns memory after some time, not after some work.
        "MIMALLOC_PURGE_DELAY": "-1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": _join(_packages(), env.get("PYTHONPATH")),
        # A relative path: characters that change from count to count would be interned, and
        # sometimes collide in tables.
        PLAN: "plan.json",
    }


def _preloaded(folder: Path) -> Path | None:
    """Compile the library that marks what is counted, and gives the same random numbers each time.

    Compiled packages ask the kernel for the seeds of their hashes; colliding keys cost 0.1 % of
    Pydantic's JSON parser. None: there is no compiler, or its libraries are missing.
    """
    library = folder / "preloaded.so"
    # Some libcs have dlsym in a library of its own.
    argv = ["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
    try:
        subprocess.run(argv, capture_output=True, check=True, timeout=_COMPILE_S)
    except (OSError, subprocess.SubprocessError):
        return None
    return library


def _packages() -> Path:
    """The folder from which the counted program imports duetbench, and only duetbench."""
    parent = _PACKAGE.parent
    if parent.name == "scripts":  # a checkout
        return parent
    # Imported only by an installation: the stacks' environments lack what this needs.
    from duetbench.host import cache, paths  # noqa: PLC0415

    return cache.isolate(_PACKAGE, paths.cache_dir() / "tools")


def _join(*folders: Path | str | None) -> str:
    return os.pathsep.join(str(folder) for folder in folders if folder)
