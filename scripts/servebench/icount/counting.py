"""Instructions per unit of work, counted by Valgrind's Callgrind in one process per target.

The same program under the same interpreter executes the same instructions every time, however
noisy the machine. What would make a difference is held still: the seed of hashes, the layout of the
address space, the environment, and garbage collection, which happens between the counted phases
(its cost is not in the figure). A unit's figure is the difference between doing it 2n and n times,
divided by n, so that what is done once per phase is in no figure either.

Valgrind runs one thread at a time: the figures tell what work costs, and nothing about contention.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from servebench.errors import CountError
from servebench.icount import callgrind, phases
from servebench.icount.callgrind import Part

ROUNDS: Final = 3
TIMEOUT_S: Final = 1800.0
# Rounds of one process differ by up to 3 %, always by the same: a table grows, memory is fetched.
# What differs by more does something else every time.
SPREAD_LIMIT: Final = 0.05
# A phase without work costs some hundred instructions, an unmarked one millions.
_NOTHING_LIMIT: Final = 50_000
# Everything else that the caller's environment says must not reach the counted program.
_KEPT: Final = ("PATH", "LD_LIBRARY_PATH")
_PACKAGES: Final = Path(__file__).resolve().parents[2]
_LAST_WORDS: Final = 500


@dataclass(frozen=True, slots=True)
class Instructions:
    """How many instructions a unit of work takes.

    Attributes:
        per_unit: Instructions per unit: median over the rounds.
        spread: Largest minus smallest round of the process, as a share of `per_unit`. Not how
            well a repetition agrees, which has the same rounds.
        n: Units in a single phase.
    """

    per_unit: float
    spread: float
    n: int


@dataclass(frozen=True, slots=True)
class Uncounted:
    """Why a target has no figure.

    Attributes:
        reason: In words.
        unfit: Whether there cannot be one, as a matter of principle; otherwise something failed.
    """

    reason: str
    unfit: bool = False


def missing() -> str | None:
    """Say what counting needs and this machine has not; None if nothing."""
    needs = {"valgrind": "valgrind", "setarch": "util-linux"}
    absent = [tool for tool in needs if shutil.which(tool) is None]
    if not absent:
        return None
    return (
        f"counting instructions needs {' and '.join(absent)} on PATH: on Debian, "
        f"`apt-get install {' '.join(needs[tool] for tool in absent)}`"
    )


def count(
    python: Path,
    payload: Sequence[str],
    targets: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    rounds: int = ROUNDS,
    timeout: float = TIMEOUT_S,
) -> dict[str, Instructions | Uncounted]:
    """Count the instructions of some units of work.

    Args:
        python: The interpreter, of the environment with the payload's packages.
        payload: Arguments of the interpreter: a program that calls `phases.run`. This package can
            be imported by it.
        targets: The units, by the names that the payload knows.
        env: The payload's environment variables; it gets PATH and these.
        rounds: Pairs of phases per target, at least 1.
        timeout: Seconds for all of it. Importing a web framework takes about 20 s under Valgrind.

    Returns:
        Target → figure, or the reason why there is none.

    Raises:
        CountError: Nothing could be counted.
    """
    lacking = missing()
    if lacking is not None:
        raise CountError(lacking)
    with tempfile.TemporaryDirectory(prefix="servebench-count-") as name:
        folder = Path(name)
        plan = {"targets": list(targets), "rounds": rounds, "reports": name}
        (folder / "plan.json").write_text(json.dumps(plan), "utf-8")
        _run(_argv(python, payload, folder), _environment(env or {}, folder), folder, timeout)
        return {
            target: _outcome(_report(folder / f"{index}.json"), folder, rounds)
            for index, target in enumerate(targets)
        }


def figure(parts: Sequence[Part], n: int, rounds: int) -> Instructions | Uncounted:
    """Compute the figure of a target from the parts of its process.

    Args:
        parts: What each mark wrote down, in order: warm-up, nothing, then n and 2n units in turn.
        n: Units in a single phase.
        rounds: How many pairs of phases there were.

    Raises:
        CountError: The parts are not those of such a process.
    """
    marked = [part for part in parts if part.trigger.startswith("--dump-before=")]
    if len(marked) != 2 + 2 * rounds or len(marked) != len(parts):
        raise CountError(
            f"expected Callgrind to write its counters down {2 + 2 * rounds} times, found "
            f"{len(marked)} times because of {phases.DUMP} and {len(parts) - len(marked)} times "
            f"because of something else; does Valgrind know the symbols of this libc?"
        )
    _warmup, nothing, *counted = (part.instructions for part in marked)
    if nothing > _NOTHING_LIMIT:
        raise CountError(
            f"expected at most {_NOTHING_LIMIT} instructions in a phase without work, found "
            f"{nothing}: {phases.ZERO} sets no counters to zero; does Valgrind know the symbols of "
            "this libc?"
        )
    costs = [
        (double - single) / n for single, double in zip(counted[::2], counted[1::2], strict=True)
    ]
    per_unit = statistics.median(costs)
    if per_unit <= 0:
        return Uncounted(f"{2 * n} units took no more instructions than {n}: {counted}")
    spread = (max(costs) - min(costs)) / per_unit
    if spread > SPREAD_LIMIT:
        return Uncounted(
            f"rounds of {n} units differ by {spread:.2%}: "
            f"{', '.join(f'{cost:.0f}' for cost in costs)} instructions per unit"
        )
    return Instructions(per_unit, spread, n)


def _argv(python: Path, payload: Sequence[str], folder: Path) -> list[str]:
    # However we end, the kernel ends Valgrind; its other processes then see that they are orphans.
    tied = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
    return [
        *tied,
        *("setarch", "-R"),  # no randomised addresses: the hashes of objects depend on them
        *("valgrind", "--quiet", "--vgdb=no", "--tool=callgrind"),
        f"--callgrind-out-file={folder}/%p",
        f"--zero-before={phases.ZERO}",
        f"--dump-before={phases.DUMP}",
        str(python),
        *payload,
    ]


def _environment(env: Mapping[str, str], folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    path = [str(_PACKAGES), *filter(None, [env.get("PYTHONPATH")])]
    return {
        **kept,
        **env,
        "HOME": str(folder),  # where Valgrind would look for options of the user's
        "LC_ALL": "C.UTF-8",
        # The allocator of 3.14t asks for memory at random addresses, but not for so much at once.
        "MIMALLOC_ARENA_RESERVE": "2GiB",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": os.pathsep.join(path),
        phases.PLAN: str(folder / "plan.json"),
    }


def _run(argv: list[str], env: dict[str, str], folder: Path, timeout: float) -> None:
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise CountError(
                f"expected Valgrind to finish in {timeout:g} s, and it has not; {_said(log)}"
            ) from error
        finally:
            # The payload's processes too, whatever ended the wait.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if code != 0:
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        raise CountError(f"{argv[0]} … {argv[-1]} {how}, no instructions counted; {_said(log)}")


def _said(log: Path) -> str:
    words = log.read_text("utf-8", "replace").strip()
    return f"it said: {words[-_LAST_WORDS:]}" if words else "it said nothing"


def _report(file: Path) -> dict[str, Any]:
    try:
        report = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise CountError(
            f"{file.name}: expected the report of a target: {error}; does the payload call "
            "phases.run?"
        ) from error
    return dict(report)


def _outcome(report: dict[str, Any], folder: Path, rounds: int) -> Instructions | Uncounted:
    if "reason" in report:
        return Uncounted(report["reason"], report["unfit"])
    return figure(callgrind.read(folder, report["process"]), report["n"], rounds)
