"""Which functions a unit of work's instructions are in, by Callgrind and CPython's trampolines.

The same units and surroundings as those of `counting`, with a stub below each Python function,
which costs some hundred instructions each time that it is entered: figures are good for finding a
function, and too large for what is entered often.
"""

import json
import shutil
import statistics
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from duetbench.core.errors import CountError
from duetbench.host import scratch
from duetbench.measure.instructions import counting, dumps, valgrind
from duetbench.measure.instructions.dumps import Chains

TIMEOUT_S: Final = 180.0
_PREFIX: Final = "duetbench-profile"
_MAP: Final = "/tmp/perf-{}.map"  # noqa: S108 - where CPython writes it


@dataclass(frozen=True, slots=True)
class Profile:
    """Own instructions per unit of work of each chain, by symbol.

    Attributes:
        packages: The folder of the environment's packages.
        standard: That of the standard library.
    """

    chains: Mapping[dumps.Chain, Mapping[str, float]]
    packages: Path
    standard: Path

    @property
    def total(self) -> float:
        return sum(sum(own.values()) for own in self.chains.values())


def profile(
    python: Path,
    payload: Sequence[str],
    target: str,
    *,
    env: Mapping[str, str] | None = None,
    padding: int = 0,
    timeout: float = TIMEOUT_S,
) -> Profile:
    """Profile a unit of work; arguments as of `counting.count`, whose surroundings it has.

    `padding` makes the path of its folder longer: memory then lies elsewhere.

    Raises:
        CountError: It cannot be profiled.
    """
    lacking = counting.missing()
    if lacking is not None:
        raise CountError(lacking)
    base = Path(tempfile.gettempdir())
    scratch.sweep(_PREFIX, base)
    outer = scratch.make(_PREFIX, base)
    try:
        folder = outer / ("p" * (1 + padding))
        folder.mkdir()
        plan = {"targets": [target], "profile": True, "reports": "."}
        (folder / "plan.json").write_text(json.dumps(plan), "utf-8")
        with valgrind.Process(python, payload, folder, env or {}, valgrind.PROFILED) as process:
            process.wait(timeout)
        return _read(folder)
    finally:
        shutil.rmtree(outer, ignore_errors=True)


def _read(folder: Path) -> Profile:
    report = counting.report_of(folder / "0.json")
    if "reason" in report:
        raise CountError(str(report["reason"]))
    names = Path(_MAP.format(report["process"]))
    try:
        stubs = dumps.stubs(names.read_text("utf-8"))
        with (folder / f"{report['process']}.1").open(encoding="utf-8", errors="replace") as dump:
            found: Chains = dumps.chains(dump, stubs, report["packages"])
    except OSError as error:
        raise CountError(f"expected a dump and a map of CPython's stubs: {error}") from error
    finally:
        names.unlink(missing_ok=True)
    n = report["n"]
    return Profile(
        {chain: {name: k / n for name, k in own.items()} for chain, own in found.items()},
        Path(report["packages"]),
        Path(report["standard"]),
    )


def median(profiles: Sequence[Profile]) -> Profile:
    """The median of what each symbol of each chain has in some profiles of the same code."""
    every: dict[dumps.Chain, Counter[str]] = {}
    for one in profiles:
        for chain, own in one.chains.items():
            every.setdefault(chain, Counter()).update(dict.fromkeys(own, 1))
    middle = {
        chain: {
            symbol: statistics.median(
                one.chains.get(chain, {}).get(symbol, 0.0) for one in profiles
            )
            for symbol in symbols
        }
        for chain, symbols in every.items()
    }
    return Profile(middle, profiles[0].packages, profiles[0].standard)
