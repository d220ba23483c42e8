"""Where a loaded server's CPU time is, sampled by perf: all that counts of instructions do not see.

That is the server's own threads, the kernel, and whatever takes longer without executing more.
Samples follow the CPU clock, which needs no hardware counters. CPython writes its stubs below
Python functions down for perf (`-X perf_jit`, from 3.13 on), so that stacks name them; that costs
the server some time. A sample belongs to the innermost Python function of its stack, and without
one to the module whose code was executed.
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from duetbench.core.errors import CountError
from duetbench.core.text import one_line
from duetbench.host import scratch
from duetbench.measure import launch
from duetbench.measure.duet import SideCase
from duetbench.measure.instructions.dumps import STUB, Code
from duetbench.measure.server import Serving
from duetbench.project.packages import PERF

HERTZ: Final = 997
_STACK_BYTES: Final = 8192  # enough to reach the innermost Python function
_ATTACH_SECONDS: Final = 10.0
_WRITE_SECONDS: Final = 30.0
_READ_SECONDS: Final = 180.0
_PREFIX: Final = "duetbench-samples"
_LEFT: Final = ("jit-{}.dump", "jitted-{}-*.so")
"""What CPython and perf leave in the folder for temporary files, by process."""

_FRAME: Final = re.compile(r"\s+[0-9a-f]+ (?P<symbol>.*) \((?P<module>.*)\)$")


def missing() -> str | None:
    """Say why nothing can be sampled here; None: perf is there."""
    if PERF.find() is None:
        return f"perf is not on PATH: `{PERF.remedy}`, or what your distribution calls it"
    return None


def sample(side: SideCase, log: Path) -> dict[Code, float]:
    """Launch a case, and give the CPU time per request (s) of each place while it was loaded.

    Raises:
        CountError: The launch failed, or nothing could be sampled.
    """
    if lacking := missing():
        raise CountError(lacking)
    case = side.case
    version = side.rig.interpreters[case.python].version
    if tuple(map(int, version.split(".")[:2])) < (3, 13):
        raise CountError(
            f"Python {version}: expected 3.13 or newer, which names functions for perf"
        )
    base = Path(tempfile.gettempdir())
    scratch.sweep(_PREFIX, base)
    folder = scratch.make(_PREFIX, base)
    pids: list[int] = []
    try:

        @contextmanager
        def watching(serving: Serving) -> Iterator[None]:
            pids.extend(member.pid for member in serving.session.members())
            with _recording(pids, folder):
                yield

        told = case.model_copy(update={"env": {**case.env, "PYTHON_PERF_JIT_SUPPORT": "1"}})
        options = launch.Options(watching=watching)
        done = launch.perform(told, side.rig, options, log)
        if not done.metrics:
            failed = (flag.detail for flag in done.flags if flag.severity == "fail")
            raise CountError(f"the launch to be sampled failed: {next(failed, 'without a reason')}")
        found = Counter(places(_stacks(folder)))
    finally:
        for pattern in (pattern.format(pid) for pid in pids for pattern in _LEFT):
            for path in base.glob(pattern):
                path.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
    if not found:
        raise CountError("perf took no samples")
    cost = done.metrics["server_cpu_per_request"] / found.total()
    return {place: n * cost for place, n in found.items()}


@contextmanager
def _recording(pids: Iterable[int], folder: Path) -> Iterator[None]:
    """Sample processes and what they start; perf begins when its file does."""
    data, said = folder / "data", folder / "said"
    argv = [
        "perf", "record", "--quiet", "--no-buildid-cache", "--clockid", "mono",
        "--event", "cpu-clock", "--freq", str(HERTZ), "--call-graph", f"dwarf,{_STACK_BYTES}",
        "--output", str(data), "--pid", ",".join(map(str, pids)),
    ]  # fmt: skip
    with said.open("wb") as output:
        process = subprocess.Popen(argv, stdout=output, stderr=subprocess.STDOUT)
        try:
            ends = time.monotonic() + _ATTACH_SECONDS
            while not (data.exists() and data.stat().st_size):
                if process.poll() is not None or time.monotonic() > ends:
                    words = one_line(said.read_text("utf-8", "replace"), 200)
                    raise CountError(f"perf cannot sample here: {words or 'it did not begin'}")
                time.sleep(0.01)
            yield
            process.send_signal(signal.SIGINT)
            process.wait(_WRITE_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise CountError(f"perf did not end within {_WRITE_SECONDS:g} s") from error
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def _stacks(folder: Path) -> Iterator[str]:
    """Lines of all samples, with the names that the interpreter has written down."""
    named = folder / "named"
    inject = ["perf", "inject", "--jit", "--input", str(folder / "data"), "--output", str(named)]
    script = ["perf", "script", "--input", str(named), "--no-inline", "--fields", "comm,ip,sym,dso"]
    told = folder / "stacks"
    try:
        subprocess.run(inject, capture_output=True, timeout=_READ_SECONDS, check=True)
        with told.open("wb") as output:
            subprocess.run(
                script, stdout=output, stderr=subprocess.PIPE, timeout=_READ_SECONDS, check=True,
                env={**os.environ, "PAGER": "cat"},
            )  # fmt: skip
    except subprocess.CalledProcessError as error:
        said = one_line(error.stderr.decode("utf-8", "replace"), 200)
        raise CountError(f"perf {error.cmd[1]} failed: {said}") from error
    except subprocess.TimeoutExpired as error:
        raise CountError(f"perf did not read its samples within {_READ_SECONDS:g} s") from error
    with told.open(encoding="utf-8", errors="replace") as lines:
        yield from lines


def places(lines: Iterable[str]) -> Iterator[Code]:
    """Read what perf script wrote: each sample's innermost Python function.

    Without one it is the module whose code was executed, by its file alone.
    """
    frames: list[Mapping[str, str]] = []
    for line in (*lines, ""):
        frame = _FRAME.match(line)
        if frame is not None:
            frames.append(frame.groupdict())
        elif not line.strip() and frames:
            yield _place(frames)
            frames = []


def _place(frames: list[Mapping[str, str]]) -> Code:
    for frame in frames:
        if frame["symbol"].startswith(STUB):
            name = frame["symbol"].rpartition("+0x")[0] or frame["symbol"]
            qualified, _, file = name.removeprefix(STUB).partition(":")
            return Code(qualified, file)
    return Code("", frames[0]["module"])
