"""Builders of runs for tests: figures from a seed, with the scatter of a real machine."""

import random
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from duetbench.app.testbed import Testbed
from duetbench.core.change import Release, Share
from duetbench.core.comparison import Finding, PackageChange
from duetbench.core.errors import FlagName
from duetbench.core.model import (
    Case,
    CaseResult,
    Endpoint,
    Expectation,
    Flag,
    InterpreterRecord,
    Launch,
    Load,
    Machine,
    Profile,
    Run,
    StackRecord,
    Status,
    Verdict,
)
from observatory.matrix.checkout import Checkout
from observatory.store.change import Change, SeriesName, StackState

PACKAGES = ["fastapi", "granian", "pydantic", "starlette", "uvicorn", "uvloop"]

MACHINE = Machine(
    id="synthetic-2c-0a1b2c3d",
    cpu="Synthetic CPU @ 2.80GHz",
    cores=2,
    server_cores=(0,),
    client_cores=(1,),
    memory=8_241_336_320,
    kernel="6.1.0",
    os="Test OS 1",
    virtual="kvm",
    governor=None,
    pinned=True,
)


def make_case(case_id: str, **changes: Any) -> Case:
    experiment, name = [*case_id.split("/"), "endpoint"][:2]
    endpoint = Endpoint(
        name=name,
        app="module:app",
        interface="asgi",
        path=f"/{name}",
        expect=Expectation(content_type="application/json", json_value={"message": "hi"}),
        floor=0.01,
    )
    fields: dict[str, Any] = {
        "id": case_id, "experiment": experiment, "endpoint": endpoint,
        "python": "3.14t" if "py3.14t" in case_id else "3.14", "stack": "current",
        "server": "uvicorn", "loop": "asyncio", "workers": 1, "threads": None, "slots": 40,
        "load": Load(connections=128, duration=8, timeout=10),
        "cores": "split",
    }  # fmt: skip
    return Case(**{**fields, **changes})


def make_testbed(apps: Path = Path("/")) -> Testbed:
    """A testbed with what calculations on a case need, and nothing that can be started."""
    nowhere = Path("/")
    return Testbed(
        subject=Checkout(apps),
        oha=nowhere,
        machine=MACHINE,
        pythons={},
        interpreters={},
        stacks={},
        logs=nowhere,
        inherited={},
    )


def figures(source: random.Random, throughput: float = 5000.0) -> dict[str, float]:
    """One launch's metrics, with about as many digits and as much scatter as a real launch."""

    def near(value: float, spread: float = 0.03) -> float:
        return value * source.lognormvariate(0, spread)

    rate = near(throughput)
    points = {"min": 0.3, "mean": 1, "p50": 0.95, "p90": 1.4, "p95": 1.7, "p99": 3, "p999": 6}
    latencies = {
        f"{kind}_{point}": near(128 / throughput * factor, 0.05)
        for kind in ("response", "service")
        for point, factor in {**points, "max": 12}.items()
    }
    return {
        "throughput": rate,
        **latencies,
        "requests": float(round(rate * 8)),
        "errors": 0.0,
        "server_cpu_per_request": near(0.97 / throughput),
        "server_cores": near(0.97, 0.01),
        "client_cores": near(0.4),
        "pss_idle": float(round(near(9e7, 0.01))),
        "pss_steady": float(round(near(9e7, 0.01))),
        "threads_peak": 66.0,
        "ready_time": near(0.9, 0.1),
        "unit_service": near(1e-3),
        "ceiling": 12800.0,
        "efficiency": min(rate / 12800, 1.0),
        "warm_up": near(5.0, 0.01),
        "host_steal": near(0.004, 0.5),
        "host_other": near(0.05, 0.5),
    }


def ok(case: str, number: int, metrics: Mapping[str, float], *flags: Flag) -> Launch:
    return Launch(
        case=case,
        round=number,
        order=number,
        started=f"2026-11-20T09:{number % 60:02d}:07.123456+00:00",
        seconds=17.8312345,
        status=Status.OK,
        flags=flags,
        metrics=dict(metrics),
    )


def failed(case: str, number: int, flag: FlagName, detail: str) -> Launch:
    return Launch(
        case=case,
        round=number,
        order=number,
        started="2026-11-20T09:30:00+00:00",
        seconds=3.25,
        status=Status.FAILED,
        flags=(Flag(name=flag, detail=detail),),
    )


def make_run(results: Iterable[CaseResult], **changes: Any) -> Run:
    profile: Profile = changes.pop("profile", "nightly")
    fields: dict[str, Any] = {
        "id": f"20261120T090000Z-{profile}-3f2a9c17",
        "status": "complete",
        "started": "2026-11-20T09:00:00+00:00",
        "wall_seconds": 3310.123456,
        "duetbench": "0.1.0",
        "commit": "3f2a9c17" * 5,
        "dirty": False,
        "profile": profile,
        "launches": 3,
        "seed": 1,
        "machine": MACHINE,
        "oha": "1.16.0",
        "interpreters": tuple(
            InterpreterRecord(
                name=name,
                version="3.14.7",
                build="gcc 12.2.0 -O3",
                origin="source",
                free_threaded=name.endswith("t"),
            )
            for name in ("3.14", "3.14t")
        ),
        "stacks": tuple(
            StackRecord(
                name=name,
                digest=random.Random(name).randbytes(32).hex(),
                packages=dict.fromkeys(PACKAGES, "1.2.3"),
            )
            for name in ("current", "pydantic1", "pydantic2")
        ),
        "results": tuple(results),
    }
    return Run(**{**fields, **changes})


def change_record(**changed: Any) -> Change:
    """A change of one case by a release of Granian."""
    fields: dict[str, Any] = {
        "id": "20261120-granian-0",
        "status": "open",
        "series": SeriesName(machine="m", case="a/b", metric="server_cpu_per_request"),
        "when": datetime(2026, 11, 20, 3, tzinfo=UTC),
        "base": StackState(stack="current", digest="0" * 64),
        "head": StackState(stack="current", digest="1" * 64),
        "packages": (
            PackageChange(stack="current", package="granian", base="2.8.6", head="2.8.7"),
        ),
        "ratio": 1.031,
        "low": 1.025,
        "high": 1.037,
        "verdict": Verdict.WORSE,
        "culprit": Release(package="granian", version="2.8.7", previous="2.8.6"),
        "method": "Ten duets.",
    }
    return Change(**{**fields, **changed})


def share(*releases: Release, low: float, ratio: float, high: float, n: int = 8) -> Share:
    """Releases that a search named by the CPU of a case."""
    verdict = Verdict.WORSE if ratio > 1 else Verdict.BETTER
    figures = {"ratio": ratio, "low": low, "high": high, "n": n}
    finding = Finding(case="a/b", subject="server_cpu_per_request", verdict=verdict, **figures)
    return Share(releases=releases, findings=(finding,))


def steady_result(case: Case, metrics: Mapping[str, float]) -> CaseResult:
    """A case whose three launches all have exactly these metrics."""
    return CaseResult(
        case=case, launches=tuple(ok(case.id, number, metrics) for number in range(3))
    )


def nightly_run(cases: int = 80, launches: int = 3, seed: int = 7) -> Run:
    """A run as large as a nightly one: figures with scatter, flags with details, commands."""
    source = random.Random(seed)
    results = []
    for number in range(cases):
        experiment = ("gil-endpoints", "asgi-wsgi", "pydantic-v1-v2", "await-patterns")[number % 4]
        python = "3.14t" if number % 2 else "3.14"
        case = make_case(
            f"{experiment}/endpoint{number % 7}/py{python}/w{number % 3 + 1}/c{128 + number}"
        )
        flags = (
            Flag(
                name=FlagName.HOST_NOISE,
                detail=f"other processes used {source.uniform(0.05, 0.3):.2f} cores; 0.05 allowed",
            ),
        )
        rows = [
            ok(case.id, i, figures(source, source.uniform(5, 20000)), *flags * (i % 2))
            for i in range(launches)
        ]
        results.append(CaseResult(case=case, launches=tuple(rows)))
    return make_run(results)
