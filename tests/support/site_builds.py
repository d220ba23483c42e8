"""Small sites for tests: years of a synthetic history, one night, no night, hostile texts."""

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import attributing
import comparing
import made_up
import sites
import synthetic as runs
from duetbench.core.change import Release
from duetbench.core.comparison import (
    Attribution,
    CaseComparison,
    Comparison,
    PackageChange,
)
from duetbench.core.errors import FlagName
from duetbench.core.model import CaseResult, Flag, InterpreterRecord, Missing, Run, StackRecord
from duetbench.host import files, paths, result_files
from made_up import History
from observatory.show.site.pages import trends
from observatory.show.site.pages.site import Site
from observatory.store.change import Change, SeriesName, StackState
from observatory.store.points import AnchoredPoint, CasePoints, Points
from observatory.trend.releases import ReleaseAxis, axes

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
    id_ = result_files.result_id(started, changes.get("profile", "nightly"), commit)
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
    id_ = result_files.result_id(started, "nightly", run.commit)
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
    """A site of two nights in which every text is an attack, and of a change between them."""
    results = folder / "results"
    for day in (18, 19):
        files.save(results, _hostile_run(day))
    files.save(results, _hostile_change())
    files.save(results, _hostile_comparison())
    return build(folder)


def release_points(
    version: str, previous: str | None, day: int, **cpu: tuple[float, float]
) -> Points:
    """FastAPI's release of a day of October, compared with an anchor by CPU per request.

    `cpu`: ratio and standard error of a case on each interpreter, `gil` and `free`, of 11 duets.
    """
    moment = datetime(2026, 10, day, tzinfo=UTC)
    cases = tuple(
        CasePoints(
            case=case,
            stack="current",
            python=python,
            points=(
                AnchoredPoint(
                    metric="server_cpu_per_request",
                    ratio=ratio,
                    se=se,
                    anchor=1e-4,
                    duets=11,
                    excluded=0,
                ),
                AnchoredPoint(
                    metric="instructions", ratio=ratio, se=1e-5, anchor=3e5, duets=1, excluded=0
                ),
            ),
        )
        for case, python, (ratio, se) in ((JSON, "3.14", cpu["gil"]), (FREE, "3.14t", cpu["free"]))
    )
    base = runs.make_run([])
    locked = {"fastapi": version, "starlette": f"1.{day}.0", "uvloop": "0.23.0"}
    return Points(
        id=f"{moment:%Y%m%d}T000000Z-backfill-{day:06d}",
        anchor="2026-09",
        origin="backfill",
        label=f"fastapi {version}",
        when=moment,
        started=moment,
        seconds=60.0,
        duetbench="0.1.0",
        release=Release(package="fastapi", version=version, previous=previous),
        commit=None,
        machine=base.machine,
        interpreters=base.interpreters,
        cases=cases,
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
    ((result,),) = axes(points).values()
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
    series = {table: trends.nights(table, name) for table in site.cases[name]}
    tables: list[dict[str, Any]] = trends.document(site, name, series)["tables"]
    return tables


def _hostile_run(day: int) -> Run:
    bad = HOSTILE[0]
    results = []
    for number, text in enumerate(HOSTILE):
        case = runs.make_case(f"asgi-wsgi/{text}/py3.14/w1/c{number}", stack=bad)
        launches = tuple(
            runs.ok(
                case.id,
                launch,
                {**runs.figures(random.Random(day)), "throughput": 5000.0 + 50 * day + launch},
                Flag(name=FlagName.HOST_NOISE, detail=text),
            )
            for launch in range(3)
        )
        if number == 1:
            launches = (runs.failed(case.id, 0, FlagName.NOT_READY, text),)
        results.append(CaseResult(case=case, launches=launches))
    started = f"2026-11-{day:02d}T03:00:00+00:00"
    commit = f"{day:02d}" * 20
    packages = dict.fromkeys(HOSTILE, HOSTILE[1]) | {"fastapi": f"0.{day}.0{bad}"}
    return runs.make_run(
        results,
        id=result_files.result_id(started, "nightly", commit),
        started=started,
        commit=commit,
        machine=runs.MACHINE.model_copy(
            update={"id": f"machine{bad}", "cpu": HOSTILE[2], "kernel": HOSTILE[5], "os": bad}
        ),
        interpreters=(
            InterpreterRecord(
                name="3.14", version=bad, build=HOSTILE[3], origin="source", free_threaded=False
            ),
        ),
        stacks=(StackRecord(name=bad, digest=f"{day:02d}" * 32, packages=packages),),
        notes=HOSTILE,
    )


def _hostile_change() -> Change:
    bad = HOSTILE[0]
    case, cpu = f"asgi-wsgi/{bad}/py3.14/w1/c0", "server_cpu_per_request"
    return runs.change_record(
        id="20261119-hostile-0",
        series=SeriesName(machine=f"machine{bad}", case=case, metric=cpu),
        others=tuple(
            SeriesName(machine=text, case=f"asgi-wsgi/{text}", metric=text) for text in HOSTILE
        ),
        when=datetime(2026, 11, 19, 3, tzinfo=UTC),
        before_run=HOSTILE[1],
        after_run=HOSTILE[4],
        base=StackState(stack=bad, digest=HOSTILE[1], as_of=HOSTILE[2]),
        head=StackState(stack=bad, digest=HOSTILE[4], as_of=HOSTILE[3]),
        packages=tuple(
            PackageChange(stack=text, package=text, base=text, head=text) for text in HOSTILE
        ),
        culprit=Release(package=HOSTILE[0], version=HOSTILE[1], previous=HOSTILE[3]),
        evidence=HOSTILE[2],
        why=_hostile_attribution(),
        method=HOSTILE[4],
        note=HOSTILE[5],
    )


def _hostile_attribution() -> Attribution:
    every = [
        attributing.function(text, text, 1, other)
        for text, other in zip(HOSTILE, HOSTILE[::-1], strict=True)
    ]
    return attributing.attribution(
        case=HOSTILE[1],
        python=HOSTILE[0],
        rows=tuple(
            attributing.row(
                entry,
                1_000,
                2_000,
                caller=entry.name,
            )
            for entry in every
        ),
        packages=(PackageChange(stack=HOSTILE[0], package=HOSTILE[1], base="1", head=HOSTILE[2]),),
    )


def _hostile_comparison() -> Comparison:
    result = make_comparison(*(f"asgi-wsgi/{t}/py3.14/w1/c{n}" for n, t in enumerate(HOSTILE)))
    side = result.base.model_copy(
        update={
            "label": HOSTILE[1],
            "commit": None,
            "stacks": (
                StackRecord(name=HOSTILE[0], digest=HOSTILE[2], packages={HOSTILE[3]: "1"}),
            ),
        }
    )
    bad = comparing.BROKEN.model_copy(update={"why": HOSTILE[4]})
    odd = comparing.judged_case(
        "<b>odd</b>", bad, comparing.OPEN.model_copy(update={"why": HOSTILE[2]})
    )
    told = comparing.WORSE.model_copy(
        update={"exact": True, "subject": "sql", "base": 1, "head": 2, "place": HOSTILE[1]}
    )
    strange = [
        told.model_copy(update={"case": text, "text": text, "why": text}) for text in HOSTILE
    ]
    cases: list[CaseComparison] = [
        case.model_copy(
            update={
                "because": text,
                "duets": tuple(
                    duet.model_copy(
                        update={"flags_base": (Flag(name=FlagName.HOST_NOISE, detail=text),)}
                    )
                    for duet in case.duets
                    if not duet.failed
                ),
            }
        )
        for case, text in zip(result.cases, HOSTILE, strict=True)
    ]
    return result.model_copy(
        update={
            "id": "20261119T120000Z-compare-hostile",
            "base": side,
            "head": side,
            "cases": (*cases, odd.case),
            "findings": (*result.findings, *odd.findings, *strange),
            "notes": HOSTILE,
            "reproduce": HOSTILE[0],
            "duetbench": HOSTILE[0],
            "missing": tuple(Missing(case=text, reason=text) for text in HOSTILE),
            "packages": tuple(
                PackageChange(stack=text, package=text, base=text, head=None) for text in HOSTILE
            ),
        }
    )
