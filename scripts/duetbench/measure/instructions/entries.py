"""How often each function is entered per unit of work, and what it does itself: exact.

Of the same units as instructions are counted of, in the same surroundings, by the interpreter's
`sys.monitoring` instead of Valgrind. Two countings of the same code are equal to the digit. They
are blind to what compiled code costs: they confirm where a change is, and do not rank.
"""

import json
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from duetbench.core.errors import CountError
from duetbench.host import scratch
from duetbench.measure.instructions import counting, valgrind

TIMEOUT_S: Final = 120.0  # 3 s measured, most of them for imports

_PREFIX: Final = "duetbench-entries"

Place = tuple[str, str, int]
"""Qualified name, file as its code object has it, first line."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What a function does per unit of work; `calls`: those of compiled functions, by name.

    `code` is equal where functions are written in the same way; empty: it is that of several.
    """

    entries: float
    bytecodes: float
    calls: Mapping[str, float]
    code: str = field(default="", compare=False)


def count(
    python: Path,
    payload: Sequence[str],
    targets: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT_S,
) -> dict[str, dict[Place, Observed] | str]:
    """Observe some units of work, or say of each why not; arguments as of `counting.count`.

    Raises:
        CountError: Nothing could be observed.
    """
    base = Path(tempfile.gettempdir())
    scratch.sweep(_PREFIX, base)
    folder = scratch.make(_PREFIX, base)
    try:
        plan = {"targets": list(targets), "reports": ".", "observe": True}
        (folder / "plan.json").write_text(json.dumps(plan), "utf-8")
        # Tables of objects are in the order of their addresses.
        fixed = ["setarch", "-R"] if shutil.which("setarch") else []
        try:
            subprocess.run(
                [*fixed, str(python), *payload],
                cwd=folder, env=valgrind.environment(env or {}, folder), timeout=timeout,
                check=True, capture_output=True, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            said = (getattr(error, "stderr", None) or b"").decode("utf-8", "replace").strip()
            raise CountError(
                f"{python} … {payload[-1]}: expected to observe what is entered: {error} "
                f"{said[-valgrind.LAST_WORDS :]}"
            ) from error
        return {
            target: _read(counting.report_of(folder / f"{index}.json"))
            for index, target in enumerate(targets)
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _read(report: Mapping[str, Any]) -> dict[Place, Observed] | str:
    if "reason" in report:
        return str(report["reason"])
    n = report["n"]
    sums: dict[Place, tuple[int, int, Counter[str], str]] = {}
    for name, file, line, entries, bytecodes, calls, code in report["functions"]:
        # Code that was compiled twice, or two lambdas of a line.
        before = sums.get((name, file, line), (0, 0, Counter(), code))
        same = code if code == before[3] else ""
        both = before[0] + entries, before[1] + bytecodes, before[2] + Counter(calls), same
        sums[name, file, line] = both
    return {
        place: Observed(
            entries / n, bytecodes / n, {name: k / n for name, k in calls.items()}, code
        )
        for place, (entries, bytecodes, calls, code) in sums.items()
    }
