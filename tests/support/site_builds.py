"""Small sites for tests: years of a synthetic history, one night, no night, hostile texts."""

import itertools
import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import ValidationError

import attributing
import comparing
import made_up
import sites
import synthetic as runs
from anchored_files import a_file, ratio
from duetbench.core.change import Release
from duetbench.core.comparison import (
    Comparison,
    PackageChange,
)
from duetbench.core.model import (
    Artefact,
    CaseResult,
    Run,
    StackRecord,
)
from duetbench.host import files, paths
from made_up import History
from observatory.show.site.pages import trends
from observatory.show.site.pages.site import Site
from observatory.store.change import Change
from observatory.store.points import CasePoints, Points
from observatory.trend.releases import ReleaseAxis, axes

Record = TypeVar("Record", bound=Artefact)

YEARS: Final = 5
SERIES: Final = 160
"""Eight cases of twenty metrics: four on 3.14, four on 3.14t."""
SEED: Final = 6

OTHER_MACHINE: Final = "other-4c-11111111"
DECLARED: Final = tuple(
    f"asgi-wsgi/asgi-json/py{python}/w{workers}/c{128 * workers}"
    for python in ("3.14", "3.14t")
    for workers in (1, 2)
)
"""Cases of an experiment of this checkout, which its page can show."""

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


COMPARED: Final = ("server_cpu_per_request", "pss_steady", "throughput")
JSON: Final = "asgi-wsgi/asgi-json/py3.14/w1/c128"
FREE: Final = "asgi-wsgi/asgi-json/py3.14t/w1/c128"


def a_run(day: int, *results: CaseResult, **changes: Any) -> Run:
    """A nightly run of a day of November 2026, by default of one steady case."""
    started = changes.pop("started", f"2026-11-{day:02d}T03:00:00+00:00")
    commit = f"{day:02d}" * 20
    id_ = files.result_id(started, changes.get("profile", "nightly"), commit)
    changes |= {"id": id_, "started": started, "commit": commit}
    steady = runs.steady_result(runs.make_case(JSON), {"throughput": 5000.0})
    return runs.make_run(results or [steady], **changes)


def imagine() -> History:
    """Five years of nights, always the same."""
    return made_up.imagine(YEARS, SERIES, SEED)


def history(folder: Path) -> None:
    """Build a site of these nights, and of one run with a file on another machine."""
    results, imagined = folder / "results", imagine()
    made_up.write(imagined, results)
    source = random.Random(SEED)
    run = runs.make_run(
        CaseResult(
            case=case,
            launches=tuple(runs.ok(case.id, n, runs.figures(source)) for n in range(3)),
        )
        for case in map(runs.make_case, DECLARED)
    )
    started = "2026-11-19T09:00:00+00:00"
    id_ = files.result_id(started, "nightly", run.commit)
    machine = run.machine.model_copy(update={"id": OTHER_MACHINE})
    files.save(results, run.model_copy(update={"id": id_, "started": started, "machine": machine}))
    save_releases(results)
    files.save(results, make_comparison(*DECLARED, duets=5))
    (open_,) = (record for record in made_up.records(imagined) if record.status == "open")
    files.save(results, open_.model_copy(update={"why": attributing.attribution()}))
    build(folder)


def make_comparison(*names: str, duets: int = 12, **more: Any) -> Comparison:
    """A comparison in which every case costs 2 % more, with a disturbed and a failed duet."""
    source = random.Random(SEED)
    cases = []
    for name in names:
        duets_ = [
            comparing.duet(
                name,
                {metric: source.lognormvariate(0.02, 0.01) for metric in COMPARED},
                base_flags=[comparing.NOISY] if place == 1 else [],
                head_flags=[comparing.WRONG] if place == 2 else [],
            ).model_copy(update={"order": place})
            for place in range(duets)
        ]
        cases.append(
            comparing.judged_case(
                name,
                comparing.WORSE,
                *(comparing.LARGER,) * (duets > 1),
                comparing.OPEN_RATE,
                duets=tuple(duets_),
            )
        )
    fields: dict[str, Any] = {
        "id": "20261119T120000Z-compare-bbbbbbbb",
        "started": "2026-11-19T12:00:00+00:00",
        "reproduce": comparing.AGAIN,
        "packages": (PackageChange(stack="current", package="fastapi", base="1.0", head="1.1"),),
    }
    return comparing.comparison_of(*cases, **{**fields, **more})


def one_night(folder: Path) -> Path:
    files.save(folder / "results", runs.nightly_run(1, launches=1))
    return build(folder)


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
            points=(ratio(of, se), ratio(of, 1e-5, 1, "instructions", 3e5)),
        )
        for case, python, (of, se) in ((JSON, "3.14", cpu["gil"]), (FREE, "3.14t", cpu["free"]))
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


def axis_of(*points: Points) -> ReleaseAxis:
    """The axis of one package's points, of one machine and anchor."""
    (result,) = axes(points)
    return result


def save_releases(results: Path) -> None:
    """Save the points of three releases."""
    for entry in RELEASES:
        files.save(results, entry)


def build(folder: Path) -> Path:
    sites.build_site(folder)
    return folder / "site"


def gather_site(folder: Path) -> Site:
    """Gather the site of the folder's `results`, without building it."""
    results = folder / "results"
    return Site(paths.project_root(), results, made_up.read(results))


def data_of(site: Site, name: str) -> list[dict[str, Any]]:
    """The tables in the data file of a case."""
    series = {table: table.planned_nights(name) for table in site.cases[name]}
    tables: list[dict[str, Any]] = trends.document(site, name, series)["tables"]
    return tables
