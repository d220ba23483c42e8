"""Small sites for tests: a world of every kind, and what is odd."""

import itertools
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import ValidationError

import attributing
import comparing
import sites
import synthetic as runs
from anchored_files import a_file, of, ratio
from duetbench.core.change import Release
from duetbench.core.comparison import Comparison, Missing, PackageChange, SideRecord
from duetbench.core.effects import Effects, RequestEffect
from duetbench.core.errors import FlagName
from duetbench.core.model import Artefact, CaseResult, Run, StackRecord, Verdict
from duetbench.host import files, paths
from duetbench.judge.findings import of_effects
from observatory.show import addresses
from observatory.show.site.pages import KINDS
from observatory.show.site.site import Site
from observatory.store.change import Change, SeriesName, StackState
from observatory.store.points import CasePoints, Points
from observatory.trend.table import Table, tables

Record = TypeVar("Record", bound=Artefact)

HOSTILE: Final = (
    "<img src=x onerror=alert(1)>",
    '"><script>alert(2)</script>',
    "</script></title></style><svg onload=alert(3)>",
    "[click](javascript:alert(4)) **bold** `code`",
    "{{ 7*7 }} ${alert(5)} %3Cscript%3E",
    "\x1b]8;;http://example.org\x07\x00\x08\x7f\u202egnp.exe",
    "x" * 10_000,
)
"""Attacks that pages must show as plain text."""

CPU: Final = "server_cpu_per_request"
JSON: Final = "asgi-wsgi/asgi-json/py3.14/w1/c128"
FREE: Final = "asgi-wsgi/asgi-json/py3.14t/w1/c128"
ALONE: Final = "asgi-wsgi/asgi-sleep/py3.14/w1/c128"
FAILING: Final = "demo/failing"
SIDE: Final = partial(SideRecord, kind="stack", commit=None, stacks=(), interpreters=())


def a_run(day: int, *results: CaseResult, **changes: Any) -> Run:
    """A nightly run of a day of November 2026, by default of one steady case."""
    started, commit = f"2026-11-{day:02d}T03:00:00+00:00", f"{day:02d}" * 20
    id_ = files.result_id(started, changes.get("profile", "nightly"), commit)
    changes |= {"id": id_, "started": started, "commit": commit}
    steady = runs.steady_result(runs.make_case(JSON), {"throughput": 5000.0})
    return runs.make_run(results or [steady], **changes)


def make_comparison(*names: str, **more: Any) -> Comparison:
    """A comparison in which every case costs 2 % more, with a disturbed and a failed duet."""
    cases = []
    for name in names:
        flags: list[dict[str, Any]] = [{} for _ in range(5)]
        flags[1], flags[2] = {"base_flags": [comparing.NOISY]}, {"head_flags": [comparing.WRONG]}
        samples = (
            comparing.duet(name, dict.fromkeys((CPU, "pss_steady", "throughput"), 1.02), **own)
            for own in flags
        )
        duets = tuple(d.model_copy(update={"order": place}) for place, d in enumerate(samples))
        actual = (comparing.WORSE, comparing.LARGER, comparing.OPEN_RATE)
        cases.append(comparing.judged_case(name, *actual, duets=duets))
    fields: dict[str, Any] = {
        "id": "20261119T120000Z-compare-bbbbbbbb",
        "started": "2026-11-19T12:00:00+00:00",
        "reproduce": comparing.AGAIN,
        "packages": (PackageChange(stack="current", package="fastapi", base="1.0", head="1.1"),),
    }
    return comparing.comparison_of(*cases, **{**fields, **more})


def observed(name: str, base: str, head: str, effects: Effects) -> Comparison:
    """A comparison that saw what one request does."""
    actual = of_effects(runs.make_case(JSON), effects)
    judged = comparing.judged_case(JSON, *actual, effects=effects)
    return comparing.comparison_of(
        judged, id=name, counts_only=True, budget_seconds=None, reproduce="",
        base=SIDE(label=base), head=SIDE(label=head),
    )  # fmt: skip


def release_points(
    version: str, previous: str | None, day: int, **cpu: tuple[float, float]
) -> Points:
    """FastAPI's release of a day of October, compared with an anchor by CPU per request.

    `cpu`: ratio and standard error of a case on each interpreter, `gil` and `free`, of 11 duets.
    """
    moment = datetime(2026, 10, day, tzinfo=UTC)
    cases = (
        CasePoints(
            case=case,
            stack="current",
            python=python,
            points=(ratio(value, se), ratio(value, 1e-5, 1, "instructions", 3e5)),
        )
        for case, python, (value, se) in ((JSON, "3.14", cpu["gil"]), (FREE, "3.14t", cpu["free"]))
    )
    locked = {"fastapi": version, "starlette": f"1.{day}.0", "uvloop": "0.23.0"}
    return a_file(
        day,
        *cases,
        id=f"{moment:%Y%m%d}T000000Z-backfill-{day:06d}",
        anchor="2026-09",
        label=f"fastapi {version}",
        when=moment,
        started=moment,
        release=Release(package="fastapi", version=version, previous=previous),
        machine=runs.MACHINE.id,
        stacks=(StackRecord(name="current", digest=f"{day:02d}" * 32, packages=locked),),
    )


RELEASES = (
    release_points("0.9.0", None, 1, gil=(1.0, 0.003), free=(1.0, 0.003)),
    release_points("0.10.0", "0.9.0", 8, gil=(1.0, 0.001), free=(1.01, 0.01)),
    release_points("0.11.0", "0.10.1", 15, gil=(1.2, 0.004), free=(1.1, 0.02)),
)
"""The second moved nothing; the third moved the case on both interpreters."""


def table_of(*points: Points) -> Table:
    """The table of one package's points, of one machine and anchor."""
    (result,) = tables(points)
    return result


def save_releases(results: Path) -> None:
    for entry in RELEASES:
        files.save(results, entry)


def change(name: str, /, **fields: Any) -> Change:
    """The record of a change of CPU per request, by default that of Granian on `JSON`."""
    series = SeriesName(machine="m", case=fields.pop("case", JSON), metric=CPU)
    ratio = fields.pop("ratio", 1.031)
    sizes = {"ratio": ratio, "low": ratio - 0.01, "high": ratio + 0.01}
    verdict = Verdict.WORSE if ratio > 1 else Verdict.BETTER
    return runs.change_record(
        **{"id": name, "series": series, "verdict": verdict, **sizes, **fields}
    )


EFFECTS: Final = Effects(
    differ=(
        *(RequestEffect(kind="sql", text=f"SELECT {n}", base=0, head=3 - n) for n in range(3)),
        *(RequestEffect(kind="exception", text=f"E{n}", base=0, head=1) for n in range(3)),
    ),
    totals={"sql": (2.0, 8.0), "exception": (0.0, 3.0)},
)
"""What one request does before and after a release: two kinds of effects, of three rows each."""


def world(folder: Path) -> None:
    """Results with something of every kind, whose pages a reader can check by hand.

    - FastAPI's three releases on a fast and, later and less sure, on a slow machine; what a request
      does since the last; the search that named 0.10.2.
    - Granian's slowdown, still there; orjson's, undone; Uvicorn's gain; one of a release that is
      not known.
    - Three nights of `JSON` (1, 1, then 1.25 ± 1 %), two of `FREE` with one between that lost it,
      one of `ALONE`; runs, one with failures.
    - Two servers, twice, and two interpreters, side by side.
    """
    results = folder / "results"
    save_releases(results)
    slow = runs.MACHINE.model_copy(update={"id": "slow-1c"})
    for entry in RELEASES:
        value = entry.cases[0].points[0].ratio
        later = {"id": f"{entry.id}-slow", "started": entry.started + timedelta(days=60)}
        own = {"machine": slow, "cases": (of(JSON, ratio(value, 0.01, anchor=9e-4)),)}
        files.save(results, entry.model_copy(update={**later, **own}))
    for day, value in ((1, 1.0), (2, 1.0), (3, 1.25)):
        count = ratio(value, se=1e-5, duets=1, metric="instructions")
        cases = [of(JSON, ratio(value, se=0.01), count)]
        cases += [of(ALONE, ratio(1.0))] if day == 3 else []
        lost = (Missing(case=FREE, reason="no wheel"),) if day == 2 else ()
        cases += [] if lost else [of(FREE, ratio(1.0))]
        files.save(results, a_file(day, *cases, missing=lost))
    case = runs.make_case(FAILING)
    wrong = (FlagName.WRONG_ANSWER, "expected a, found b")
    failing = CaseResult(case=case, launches=(runs.failed(case.id, 0, *wrong),))
    steady = runs.steady_result(runs.make_case(JSON), {"throughput": 5000.0, CPU: 2e-4})
    for run in (a_run(18), a_run(19, steady, failing)):
        files.save(results, run)
    locks = {
        side: StackState(stack="current", digest=digest * 64, as_of=f"2026-11-{day}")
        for side, digest, day in (("base", "0", 19), ("head", "1", 20))
    }
    compared = make_comparison(JSON)
    anyio = PackageChange(stack="current", package="anyio", base="4.1", head="4.2")
    moved = (anyio, *runs.change_record().packages)
    fixed = {"status": "closed", "note": "fixed in 0.51", "confirmed_on": "beta-4c-000002"}
    uvicorn = Release(package="uvicorn", version="0.50.0", previous="0.49.0")
    fastapi = Release(package="fastapi", version="0.10.2", previous="0.10.1")
    against = attributing.row(attributing.SEND, 30_000, 10_000)
    why = attributing.attribution(rows=(against, *attributing.attribution().rows))
    orjson = Release(package="orjson", version="3.12.0", previous="3.11.0")
    for record in (
        change("20261120-granian-0", packages=moved, **locks),
        change("20261118-uvicorn-0", ratio=0.9, culprit=uvicorn, packages=(), **fixed),
        change("20261116-orjson-0", ratio=1.04, culprit=orjson, packages=(), status="closed"),
        change("20261117-current-0", ratio=1.05, culprit=None, packages=moved, case=ALONE, **locks),
        change("20261012-fastapi-0", ratio=1.02, culprit=fastapi, packages=why.packages, why=why,
               evidence=compared.id, when=datetime(2026, 10, 12, tzinfo=UTC)),
        compared,
        observed("20261128T000000Z-compare-a", "fastapi==0.10.0", "fastapi==0.11.0", EFFECTS),
        *(make_comparison(JSON, id=name, started=f"2026-11-{name[6:8]}T00:00:00Z",
                          base=SIDE(label="uvicorn", kind="setting"),
                          head=SIDE(label="granian", kind="setting"))
          for name in ("20261110T000000Z-compare-c", "20261121T000000Z-compare-c")),
        make_comparison(ALONE, id="20261122T000000Z-compare-d", base=SIDE(label="3.14",
                        kind="interpreter"), head=SIDE(label="3.14t", kind="interpreter")),
    ):  # fmt: skip
        files.save(results, record)


def build_world(folder: Path) -> None:
    world(folder)
    assert sites.build_site(folder) == ()


def nothing(folder: Path) -> Path:
    (folder / "results").mkdir(parents=True)
    return build(folder)


def hostile(folder: Path) -> Path:
    """A site of a run, two nights, a change and a comparison in which every text is an attack."""
    results, stored = folder / "results", paths.project_root() / "results"
    for kind, mark, number in (
        (Run, "", 1), (Points, '"release":null', 2), (Change, '"rows"', 1), (Comparison, "", 1)
    ):  # fmt: skip
        some = (path for path in files.paths(kind, stored) if mark in path.read_text("utf-8"))
        for path in itertools.islice(some, number):
            files.save(results, attacked(kind, json.loads(path.read_bytes())))
    return build(folder)


def attacked(kind: type[Record], document: Any) -> Record:
    """A file of this kind, with an attack in place of every text that it may hold."""
    attacks = itertools.cycle(HOSTILE)

    def replaced(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: replaced(part) for key, part in value.items()}
        if isinstance(value, list):
            return [replaced(part) for part in value[: len(HOSTILE)]]
        return next(attacks) if isinstance(value, str) else value

    bad = {**replaced(document), "id": document["id"]}
    if "machine" in bad:  # the name of a folder
        bad["machine"]["id"] = f"machine{HOSTILE[0]}"
    while True:
        try:
            return kind.model_validate_json(json.dumps(bad))
        except ValidationError as problem:
            for error in problem.errors():
                *way, last = error["loc"]
                right, wrong = document, bad
                for step in way:
                    right, wrong = right[step], wrong[step]
                wrong[last] = right[last]


def build(folder: Path) -> Path:
    sites.build_site(folder)
    return folder / "site"


def gather_site(folder: Path) -> Site:
    """Gather the site of the folder's `results`, without building it."""
    results = folder / "results"
    return Site(paths.project_root(), results)


def texts(site: Site) -> Mapping[str, str]:
    """Make every page and data file of a site, by address."""
    return {page.address: page.make() for kind in KINDS for page in kind(site)}


def page(site: Site, address: str = addresses.FRONT) -> sites.Document:
    """Make one page of a site."""
    listed = (page for kind in reversed(KINDS) for page in kind(site))
    return sites.document(next(page.make() for page in listed if page.address == address))
