"""Does the harness change what it measures? The same case by hand, in turns with duetbench.

By hand means the bare server and the bare generator, as anybody would type them, on the same
cores: no verification, no sampling, no rows. If duetbench adds nothing, the median ratio of the
two throughputs is 1.

    .venv/bin/python tools/overhead.py [--case ID] [--seconds S] [--width SHARE] [--limit MINUTES]

Exit code 0: the interval is narrow enough and contains 1. 1: it is narrow enough and does not. 3:
the limit came first.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
import numpy as np
from scipy import stats

from duetbench.core.errors import LaunchError, UsageError
from duetbench.core.flags import FlagName
from duetbench.core.model import Case, LoadModel
from duetbench.host import paths, ports
from duetbench.host.machine_lock import measuring
from duetbench.host.session import Session
from duetbench.host.signals import interruptible
from duetbench.measure import launch
from duetbench.measure.entry.duetbench_entry import PATH
from duetbench.measure.testbed import Rig, assemble
from duetbench.project import run_plan as planning
from duetbench.project.project import Project

LEAST_PAIRS: Final = 8
"""A bootstrap interval of the median of fewer pairs is narrower than it should be."""

_WINDOW: Final = 0.4  # s of a warm-up window; by hand the same five of them in one piece
_START_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.02


def main() -> int:
    """Measure pairs in turns (ABBA) until the interval is narrow enough."""
    asked = _arguments()
    plan = planning.lasting(
        planning.make_plan(Project.here(), "quick", [asked.case], 1, 1), asked.seconds
    )
    case = plan.cases[0]
    if len(plan.cases) > 1 or case.load.model is not LoadModel.CLOSED:
        raise UsageError(f"{asked.case}: expected one closed-loop case of the quick profile")
    rig = assemble(Project.here(), [case], paths.state_dir() / "logs")
    folder = rig.logs / "overhead"
    folder.mkdir(parents=True, exist_ok=True)
    logs = (folder / f"{number:04d}.log" for number in itertools.count())
    began, ratios = time.monotonic(), list[float]()
    with interruptible(), measuring():
        while True:
            sides: list[Callable[[Case, Rig, Path], float]] = [by_hand, by_duetbench]
            order = sides if len(ratios) % 2 == 0 else sides[::-1]
            found = {side: side(case, rig, next(logs)) for side in order}
            bare, ours = found[by_hand], found[by_duetbench]
            ratios.append(ours / bare)
            median, low, high = median_ratio(ratios)
            print(  # noqa: T201
                f"pair {len(ratios)}: by hand {bare:,.0f}/s, duetbench {ours:,.0f}/s; "
                f"median {median:.4f}, 95 % [{low:.4f}, {high:.4f}]"
            )
            narrow = max(high - median, median - low) / median < asked.width
            late = time.monotonic() - began > 60 * asked.limit
            if len(ratios) >= LEAST_PAIRS and (narrow or late):
                return 3 if not narrow else int(not low <= 1 <= high)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--case", default="asgi-wsgi/asgi-json/py3.14/w1/c128")
    parser.add_argument("--seconds", type=float, default=2.0, help="load per launch")
    parser.add_argument("--width", type=float, default=0.01, help="half-width to reach, a share")
    parser.add_argument("--limit", type=float, default=40.0, help="minutes after which to end")
    return parser.parse_args()


def median_ratio(ratios: Sequence[float]) -> tuple[float, float, float]:
    """Median of the ratios, with a 95 % interval by percentile bootstrap over the pairs.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), by scipy.
    """
    values = np.asarray(ratios, dtype=np.float64)
    if values.size < 2:
        return ratios[0], 0.0, float("inf")
    found = stats.bootstrap(
        (values,), np.median, confidence_level=0.95, method="percentile", rng=1, vectorized=True
    ).confidence_interval
    return float(np.median(values)), float(found.low), float(found.high)


def by_duetbench(case: Case, rig: Rig, log: Path) -> float:
    """Good responses per second by a launch."""
    outcome = launch.perform(case, rig, launch.Options(window=_WINDOW), log)
    for flag in outcome.flags:
        if flag.severity == "fail":
            raise LaunchError(flag.name, flag.detail)
    return outcome.metrics["throughput"]


def by_hand(case: Case, rig: Rig, log: Path) -> float:
    """Good responses per second with bare server and bare oha."""
    port = ports.free_port()
    base = f"http://127.0.0.1:{port}"
    url = base + case.endpoint.path
    with _bare_server(case, rig, port, log):
        _await(base + PATH)
        _bare_oha(case, rig, url, 5 * _WINDOW)
        summary = _bare_oha(case, rig, url, case.load.duration)
    codes, expected = summary["statusCodeDistribution"], str(case.endpoint.expect.status)
    if list(codes) != [expected]:
        raise LaunchError(FlagName.WRONG_STATUS, f"by hand: found {codes}")
    return float(codes[expected]) / float(summary["summary"]["total"])


@contextmanager
def _bare_server(case: Case, rig: Rig, port: int, log: Path) -> Iterator[None]:
    ports.require_free(port)
    session = Session.start(
        rig.server_argv(case, port),
        role="server",
        cores=rig.server_cores(case),
        env=rig.environment(case),
        cwd=rig.folder(case),
        log=log,
    )
    try:
        yield
    finally:
        session.stop(_STOP_SECONDS)
    ports.wait_free(port, _STOP_SECONDS)


def _await(url: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            httpx.get(url, trust_env=False).raise_for_status()
        except httpx.HTTPError as error:
            if time.monotonic() > deadline:
                raise LaunchError(FlagName.NOT_READY, f"by hand: {error}") from error
            time.sleep(_POLL_SECONDS)
        else:
            return


def _bare_oha(case: Case, rig: Rig, url: str, seconds: float) -> dict[str, dict[str, float]]:
    done = subprocess.run(
        ["taskset", "-c", ",".join(map(str, rig.client_cores(case))), str(rig.oha),
         "--no-tui", "--output-format", "json", "-w", "-z", f"{round(seconds * 1000)}ms",
         "-c", str(case.load.connections), "--worker-threads", str(len(rig.client_cores(case))),
         url],
        capture_output=True, check=False, text=True, timeout=seconds + 2 * _START_SECONDS,
    )  # fmt: skip
    if done.returncode != 0:
        raise LaunchError(FlagName.CLIENT_FAILED, f"by hand: {done.stderr[-300:]}")
    found: dict[str, dict[str, float]] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    sys.exit(main())
