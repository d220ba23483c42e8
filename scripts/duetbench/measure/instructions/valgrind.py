"""One process under Valgrind's Callgrind, with all held still that would change its instructions.

Held still are the seed of hashes, random numbers, the layout of the address space, and the
environment. Whatever ends us ends the process, too.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self

from duetbench.core.errors import CountError
from duetbench.host import proc
from duetbench.measure.instructions import phases

NEEDED: Final = {"valgrind": "valgrind", "setarch": "util-linux", "setpriv": "util-linux"}
"""Programs that it takes, and Debian's packages of them."""

# Everything else that the caller's environment says must not reach the counted program.
_KEPT: Final = ("PATH", "LD_LIBRARY_PATH")
_PACKAGE: Final = Path(__file__).resolve().parents[2]
_SOURCE: Final = Path(__file__).with_name("fixed_random.c")
_MARKS: Final = Path(__file__).with_name("marks.c")

COUNTED: Final = (f"--zero-before={phases.ZERO}", f"--dump-before={phases.DUMP}")
"""Options of a process whose instructions are counted."""

SWITCHED: Final = ("--instr-atstart=no",)
"""Options of one whose instructions are counted from the first mark on, by `marks.c`: quicker."""

PROFILED: Final = (*SWITCHED, "--separate-callers=500", "--demangle=no")
"""Options of one whose instructions are told apart by all callers: six or so a Python function."""

_PREFIX: Final = "duetbench-count"
_COMPILE_S: Final = 60.0  # 0.1 s measured
LAST_WORDS: Final = 500
_NEEDED_FOR_MARKS: Final = (
    "to find functions a C compiler and Valgrind's header callgrind.h are needed (on Debian, "
    "`apt-get install gcc libc6-dev valgrind`), found: {}"
)


@contextmanager
def workspace(plan: Mapping[str, Any], padding: int = 0) -> Iterator[Path]:
    """Make the folder of a counted process, with its `plan.json` (`phases.run`), and remove it.

    `padding` makes its path longer: memory then lies elsewhere.
    """
    base = Path(tempfile.gettempdir())
    proc.sweep_scratch(_PREFIX, base)
    outer = proc.make_scratch(_PREFIX, base)
    try:
        folder = outer / ("p" * padding)
        folder.mkdir(exist_ok=True)
        (folder / "plan.json").write_text(json.dumps({**plan, "reports": "."}), "utf-8")
        yield folder
    finally:
        shutil.rmtree(outer, ignore_errors=True)


class Process:
    """A payload under Valgrind; use it as a context manager, which ends it whatever happened."""

    def __init__(
        self,
        python: Path,
        payload: Sequence[str],
        folder: Path,
        env: Mapping[str, str],
        options: Sequence[str] = COUNTED,
    ) -> None:
        """Start it in `folder`, which holds `plan.json` and gets the dumps `<process>.<number>`.

        CountError: what `SWITCHED` and `PROFILED` processes need cannot be compiled.
        """
        self._argv, self._log = _argv(python, payload, folder, options), folder / "log"
        with self._log.open("wb") as output:
            self._popen = subprocess.Popen(
                self._argv,
                cwd=folder,
                env=environment(env, folder, marks=options is not COUNTED),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait(self, timeout: float) -> None:
        """Wait for its end, for so many seconds; CountError if it failed or took too long."""
        try:
            code = self._popen.wait(max(timeout, 0))
        except subprocess.TimeoutExpired as error:
            raise CountError(
                f"expected Valgrind to finish in {timeout:g} s, and it has not; "
                f"{_last_words(self._log)}"
            ) from error
        if code != 0:
            how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise CountError(
                f"{self._argv[0]} … {self._argv[-1]} {how}, no instructions counted; "
                f"{_last_words(self._log)}"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()


def fixed_random(folder: Path, *, marks: bool = False) -> Path | None:
    """Compile a library for LD_PRELOAD that gives the same random numbers every time.

    With `marks` it switches Callgrind's instrumentation, too; CountError if that cannot be made.

    Python's own hashes get their seed from PYTHONHASHSEED; compiled packages ask the kernel. With
    another seed the keys of a hash table collide elsewhere: 0.1 % of Pydantic's JSON parser. None:
    there is no C compiler that could make it.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        if marks:
            raise CountError(_NEEDED_FOR_MARKS.format("no program `cc`"))
        return None
    library = folder / phases.LIBRARY
    # Some libcs have dlsym in a library of its own.
    sources = [str(_SOURCE), *[str(_MARKS)] * marks]
    argv = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), *sources, "-ldl"]
    try:
        subprocess.run(argv, capture_output=True, check=True, timeout=_COMPILE_S)
    except (OSError, subprocess.SubprocessError) as error:
        if marks:
            words = (getattr(error, "stderr", None) or b"").decode("utf-8", "replace").strip()
            raise CountError(_NEEDED_FOR_MARKS.format(words[-LAST_WORDS:] or str(error))) from error
        return None
    return library


def _argv(python: Path, payload: Sequence[str], folder: Path, options: Sequence[str]) -> list[str]:
    return [
        # However we end, the kernel ends Valgrind. What ends its caller, such as asv when its time
        # is over, reaches the caller's process group only. Targets see to it themselves.
        *("setpriv", "--pdeathsig", "KILL"),
        *("setarch", "-R"),  # no randomised addresses: the hashes of objects depend on them
        *("valgrind", "--quiet", "--vgdb=no", "--tool=callgrind"),
        f"--callgrind-out-file={folder}/%p",
        *options,
        str(python),
        *payload,
    ]


def environment(env: Mapping[str, str], folder: Path, *, marks: bool = False) -> dict[str, str]:
    """The environment of a counted program whose plan is `plan.json` in `folder`."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {
        **kept,
        **env,
        "HOME": str(folder),  # where Valgrind would look for options of the user's
        "LC_ALL": "C.UTF-8",
        # setpriv and setarch load it as well, and draw nothing.
        "LD_PRELOAD": _joined(fixed_random(folder, marks=marks), env.get("LD_PRELOAD")),
        # The allocator of 3.14t asks for memory at random addresses, but not for so much at once.
        "MIMALLOC_ARENA_RESERVE": "2GiB",
        # … and gives it back when the clock says so.
        "MIMALLOC_PURGE_DELAY": "-1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": _joined(_packages(), env.get("PYTHONPATH")),
        # Seen from the working directory: letters that change from count to count would be
        # interned, and collide in tables now and then.
        phases.PLAN: "plan.json",
    }


def _packages() -> Path:
    """Where the counted program finds duetbench, and nothing else that is not the stack's."""
    beside = _PACKAGE.parent
    if beside.name == "scripts":  # of a checkout
        return beside
    # Only where it is installed: the stacks' environments have not what this needs.
    from duetbench.host import cache, paths  # noqa: PLC0415

    return cache.alone(_PACKAGE, paths.cache_dir() / "tools")


def _joined(*folders: Path | str | None) -> str:
    return os.pathsep.join(str(folder) for folder in folders if folder)


def _last_words(log: Path) -> str:
    words = log.read_text("utf-8", "replace").strip()
    return f"it said: {words[-LAST_WORDS:]}" if words else "it said nothing"
