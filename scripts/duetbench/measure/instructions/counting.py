"""Instructions per unit of work, counted by Valgrind's Callgrind in one process per target.

The same program under the same interpreter executes the same instructions every time, however noisy
the machine. duetbench fixes the hash seed, random numbers, the layout of the address space and the
environment. A unit's figure is the difference between doing it 2n and n times, divided by n, so
what a phase does once is in no figure; nor is collecting garbage, which happens between phases.
Valgrind runs one thread at a time: the figures are the cost of work, and say nothing about
contention.
"""

import functools
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, Self

from duetbench.core.errors import CountError
from duetbench.core.text import ending
from duetbench.host import proc
from duetbench.measure.instructions import phases

TIMEOUT_S: Final = 1800.0
# Rounds of one process differ by up to 3 %, always by the same: a table grows, memory is fetched.
# A larger difference means that the unit does something else every time.
SPREAD_LIMIT: Final = 0.05
# A phase without work costs some hundred instructions, an unmarked one millions.
_NOTHING_LIMIT: Final = 50_000
_MARKED: Final = ("--dump-before=", "Client Request")

# Head and totals of a dump (Callgrind's manual, "Callgrind Format Specification").
_DUMP: Final = re.compile(
    r"^part: *(\d+)$.*?^desc: Trigger: *([^\n]*)$.*?^events: *Ir$.*^totals: *(\d+)\n", re.M | re.S
)

# The programs that counting needs, and their Debian packages.
NEEDED: Final = {"valgrind": "valgrind", "setpriv": "util-linux"}

# Variables that the counted program inherits from the caller. It inherits no others.
_INHERITED: Final = ("PATH", "LD_LIBRARY_PATH")
_PACKAGE: Final = Path(__file__).resolve().parents[2]
_SOURCE: Final = Path(__file__).with_name("fixed_random.c")
_MARKS: Final = Path(__file__).with_name("marks.c")

# Valgrind's options: for counting; for counting with `marks.c`, which counts from the first mark on
# and is quicker; and for profiles, which distinguish all callers (some six per Python function).
COUNTED: Final = (f"--zero-before={phases.ZERO}", f"--dump-before={phases.DUMP}")
SWITCHED: Final = ("--instr-atstart=no",)
PROFILED: Final = (*SWITCHED, "--separate-callers=500", "--demangle=no")

_PREFIX: Final = "duetbench-count"
_COMPILE_S: Final = 60.0  # 0.1 s measured
LAST_WORDS: Final = 500


class Dump(NamedTuple):
    """One dump: its number from 1, and what caused it, such as `--dump-before=getppid`."""

    number: int
    trigger: str
    instructions: int
    """Instructions of all threads since the previous dump, or since the last zero."""


@dataclass(frozen=True, slots=True)
class InstructionCount:
    """Instructions of a unit of work: the median over the rounds."""

    per_unit: float
    spread: float  # largest minus smallest round, as a share of `per_unit`
    n: int  # units in a single phase
    seeded: bool = False
    """Random numbers were those of every count (`fixed_random`); else it repeats to 0.1 %."""
    rounds: tuple[float, ...] = field(default=(), compare=False)  # instructions per unit in each


@dataclass(frozen=True, slots=True)
class NoCount:
    """Why a target has no figure; `unfit`: it cannot have one in principle."""

    reason: str
    unfit: bool = False


Outcomes = dict[str, InstructionCount | NoCount]
Collect = Callable[[float], Outcomes]
"""Waits for the figures; raises `CountError` if there are none."""


def missing() -> str | None:
    """Say what counting needs and this machine lacks; None if nothing."""
    absent = [tool for tool in NEEDED if shutil.which(tool) is None]
    if not absent:
        return None
    packages = dict.fromkeys(NEEDED[tool] for tool in absent)
    return (
        f"counting instructions needs {' and '.join(absent)} on PATH: on Debian, "
        f"`apt-get install {' '.join(packages)}`"
    )


def count(
    python: Path,
    payload: Sequence[str],
    targets: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT_S,
) -> Outcomes:
    """Count the instructions of units of work, called `targets`; CountError if none has a figure.

    `payload` are the interpreter's arguments: a program that calls `phases.run`. It gets PATH and
    `env`. Importing a web framework takes some 20 s.
    """
    with start(python, payload, targets, env=env) as collect:
        return collect(timeout)


@contextmanager
def start(
    python: Path,
    payload: Sequence[str],
    targets: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    switched: bool = False,
    ends: float | None = None,
) -> Iterator[Collect]:
    """Count as `count` does, beside other work; leaving ends it. CountError if it is impossible.

    `switched` is twice as fast, and needs what `can_switch` tests. When the time is over, targets
    that are done have their figures. A target that would take until after `ends`, by the monotonic
    clock, is given up at its third call.
    """
    options = SWITCHED if switched else COUNTED
    plan = {"targets": list(targets), "ends": ends}
    with (
        workspace(plan) as folder,
        Process(python, payload, folder, env or {}, options) as process,
    ):

        def collect(timeout: float) -> Outcomes:
            files = {target: folder / f"{index}.json" for index, target in enumerate(targets)}
            late = ""
            try:
                process.wait(timeout)
            except CountError as error:
                if not any(file.exists() for file in files.values()):
                    raise
                late = str(error)
            return {
                target: _outcome(report_of(file), folder)
                if file.exists() or not late
                else NoCount(late)
                for target, file in files.items()
            }

        yield collect


def figure(parts: Sequence[Dump], n: int) -> InstructionCount | NoCount:
    """Compute a target's figure from its dumps: warm-up, nothing, n and 2n in turn.

    Raises CountError if the dumps are not those of such a process.
    """
    marked = [part for part in parts if part.trigger.startswith(_MARKED)]
    expected = 2 + 2 * phases.ROUNDS
    if len(marked) > expected and len(marked) == len(parts):
        return NoCount(f"the application calls {phases.DUMP} itself, which marks what is counted")
    if len(marked) != expected or len(marked) != len(parts):
        raise CountError(
            f"expected Callgrind to write its counters {expected} times, found "
            f"{len(marked)} times because of {phases.DUMP} and {len(parts) - len(marked)} times "
            f"because of something else; does Valgrind know the symbols of this libc?"
        )
    _warmup, nothing, *readings = (part.instructions for part in marked)
    if nothing > _NOTHING_LIMIT:
        raise CountError(
            f"expected at most {_NOTHING_LIMIT} instructions in a phase without work, found "
            f"{nothing}: {phases.ZERO} sets no counters to zero; does Valgrind know the symbols of "
            "this libc?"
        )
    costs = [
        (double - single) / n for single, double in zip(readings[::2], readings[1::2], strict=True)
    ]
    per_unit = statistics.median(costs)
    if per_unit <= 0:
        return NoCount(f"{2 * n} units took no more instructions than {n}: {readings}")
    spread = (max(costs) - min(costs)) / per_unit
    if spread > SPREAD_LIMIT:
        return NoCount(
            f"rounds of {n} units differ by {spread:.2%}: "
            f"{', '.join(f'{cost:.0f}' for cost in costs)} instructions per unit"
        )
    return InstructionCount(per_unit, spread, n, rounds=tuple(costs))


def parse_dump(text: str, name: str) -> Dump:
    """Read one dump, called `name` in errors; CountError if it does not count instructions."""
    # The totals are its last line: a file without them, or without their line end, was cut short.
    match = _DUMP.search(text)
    if match is None:
        raise CountError(
            f"{name}: expected a dump of Callgrind that counts instructions, with part, trigger, "
            f"events and totals, found {len(text)} characters without; is the disk full?"
        )
    return Dump(int(match[1]), match[2], int(match[3]))


def read_dumps(folder: Path, process: int) -> tuple[Dump, ...]:
    """Read the dumps `<process>.<number>` of a folder, in order; CountError if one is missing."""
    files = folder.glob(f"{process}.*")
    parts = [parse_dump(file.read_text("utf-8", "replace"), file.name) for file in files]
    parts.sort(key=lambda part: part.number)
    numbers = [part.number for part in parts]
    if numbers != list(range(1, len(parts) + 1)):
        raise CountError(
            f"expected the dumps of process {process} to be numbered from 1 on, found {numbers}; "
            "is the disk full?"
        )
    return tuple(parts)


def report_of(file: Path) -> dict[str, Any]:
    """Read the report of a target by `phases.run`; CountError if it is no report."""
    try:
        report = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise CountError(
            f"{file.name}: expected the report of a target: {error}; does the payload call "
            "phases.run?"
        ) from error
    return dict(report)


def _outcome(report: dict[str, Any], folder: Path) -> InstructionCount | NoCount:
    if "reason" in report:
        return NoCount(report["reason"], report["unfit"])
    count = figure(read_dumps(folder, report["process"]), report["n"])
    return count if isinstance(count, NoCount) else replace(count, seeded=report["seeded"])


@contextmanager
def workspace(plan: Mapping[str, Any], padding: int = 0) -> Iterator[Path]:
    """Make the folder of a counted process, with its `plan.json` (`phases.run`), and remove it.

    `padding` makes its path longer, which moves memory.
    """
    with proc.scratch(_PREFIX) as outer:
        folder = outer / ("p" * padding)
        folder.mkdir(exist_ok=True)
        (folder / "plan.json").write_text(json.dumps({**plan, "reports": "."}), "utf-8")
        yield folder


class Process:
    """A payload under Valgrind; use it as a context manager, which always ends it."""

    _running: ClassVar[set["Process"]] = set()

    def __init__(
        self,
        python: Path,
        payload: Sequence[str],
        folder: Path,
        env: Mapping[str, str],
        options: Sequence[str] = COUNTED,
    ) -> None:
        """Start it in `folder`, which holds `plan.json` and gets the dumps `<process>.<number>`.

        CountError: a program is missing, or what `SWITCHED` and `PROFILED` processes need cannot
        be compiled.
        """
        if (problem := missing()) is not None:
            raise CountError(problem)
        self._argv, self._log = _argv(python, payload, folder, options), folder / "log"
        variables = environment(env, folder, marks=options is not COUNTED)
        with ExitStack() as stack, self._log.open("wb") as output:
            spawn = stack.enter_context(_recorded(self._argv))
            self._popen = spawn(self._argv, env=variables, cwd=folder, stdout=output)
            self._end_strays = stack.pop_all().close
        self._started = time.monotonic()
        self._running.add(self)

    @classmethod
    def end_all(cls) -> None:
        """End all processes that other threads wait for; each thread gets a CountError."""
        for process in tuple(cls._running):
            process.end()

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)

    def wait(self, timeout: float) -> None:
        """Wait up to `timeout` s for its end; CountError if it failed or took too long."""
        try:
            code = self._popen.wait(max(timeout, 0))
        except subprocess.TimeoutExpired as error:
            spent = f"{time.monotonic() - self._started:.0f} s"
            log = self._words()
            raise CountError(f"Valgrind did not finish in the {spent} there were{log}") from error
        if code != 0:
            how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise CountError(
                f"{self._argv[0]} … {self._argv[-1]} {how}, no instructions counted"
                f"{self._words() or '; it said nothing'}"
            )

    def _words(self) -> str:
        words = self._log.read_text("utf-8", "replace").strip()
        return f"; it said: {ending(words, LAST_WORDS)}" if words else ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.discard(self)
        self.end()
        self._popen.wait()
        self._end_strays()


def _start(argv: Sequence[str], **how: Any) -> subprocess.Popen[bytes]:
    how |= {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
    return subprocess.Popen(argv, start_new_session=True, **how)


@contextmanager
def _recorded(argv: Sequence[str]) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Provide what starts a program; leaving ends processes that it left, or that outlive us."""
    try:
        from duetbench.host.process_session import SessionRecord  # noqa: PLC0415 - below
    except ImportError:  # a stack's environment, in which asv has a session itself
        yield _start
        return
    record = SessionRecord.new("command", argv)
    record.save()
    try:
        yield record.spawn
    finally:
        record.close()


def fixed_random(folder: Path, *, marks: bool = False) -> Path | None:
    """Compile a library for LD_PRELOAD that gives the same random numbers every time.

    Compiled packages ask the kernel for the seeds of their hashes; colliding keys cost 0.1 % of
    Pydantic's JSON parser. None if there is no C compiler. With `marks` the library also switches
    Callgrind's instrumentation; CountError if that cannot be compiled.
    """
    sources, library = (_SOURCE, _MARKS) if marks else (_SOURCE,), folder / phases.LIBRARY
    # Some libcs have dlsym in a library of its own.
    argv = ["cc", "-O2", "-shared", "-fPIC", "-o", str(library), *map(str, sources), "-ldl"]
    try:
        subprocess.run(argv, capture_output=True, check=True, timeout=_COMPILE_S)
    except (OSError, subprocess.SubprocessError) as error:
        if not marks:
            return None
        raise CountError(
            "to find functions a C compiler and Valgrind's header callgrind.h are needed (on "
            f"Debian, `apt-get install gcc libc6-dev valgrind`), found: {last_words(error)}"
        ) from error
    return library


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


def can_switch() -> bool:
    """Whether a library with `marks` can be compiled here."""
    with proc.scratch() as folder:
        try:
            fixed_random(folder, marks=True)
        except CountError:
            return False
    return True


def last_words(error: Exception) -> str:
    """The last output of a program that failed, or why it could not be started."""
    output = (getattr(error, "stderr", None) or b"").decode("utf-8", "replace").strip()
    return ending(output, LAST_WORDS) or str(error)


def _argv(python: Path, payload: Sequence[str], folder: Path, options: Sequence[str]) -> list[str]:
    return [
        # The kernel ends Valgrind with us: whatever ends us may reach only our process group.
        *("setpriv", "--pdeathsig", "KILL"),
        *fixed_addresses(),
        *("valgrind", "--quiet", "--vgdb=no", "--tool=callgrind"),
        f"--callgrind-out-file={folder}/%p",
        *options,
        str(python),
        *payload,
    ]


def environment(env: Mapping[str, str], folder: Path, *, marks: bool = False) -> dict[str, str]:
    """The environment of a counted program whose plan is `plan.json` in `folder`."""
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {
        **inherited,
        # Names of temporary files are random, so the same in every count, and kept if it is killed.
        "TMPDIR": str(folder),
        **env,
        "HOME": str(folder),  # Valgrind would read the user's options there
        "LC_ALL": "C.UTF-8",
        # setpriv and setarch load it as well, but use no random numbers.
        "LD_PRELOAD": _join(fixed_random(folder, marks=marks), env.get("LD_PRELOAD")),
        # 3.14t's allocator asks for memory at random addresses, but not for so much at once.
        "MIMALLOC_ARENA_RESERVE": "2GiB",
        # It returns memory after some time, not after some work.
        "MIMALLOC_PURGE_DELAY": "-1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": _join(_packages(), env.get("PYTHONPATH")),
        # A relative path: characters that change from count to count would be interned, and
        # sometimes collide in tables.
        phases.PLAN: "plan.json",
    }


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
