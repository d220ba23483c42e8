"""A small history with every kind of stored file, and mutations of its files.

A mutated file meets all that a night and its publishing do with files: no file may end that.
"""

import copy
import json
import random
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import asv_files
import attributing
import foreign
import repos
import site_builds
from bench import PROJECT
from duetbench.core.errors import DuetbenchError
from duetbench.core.model import Run
from duetbench.host.console import Console, Narrator
from duetbench.store import files, run_files
from observatory.github import issues
from observatory.show.site import build
from observatory.store import kinds, packages
from observatory.store.night import NightRecord
from observatory.trend import candidates, confirm, nights, reading
from observatory.trend.releases import axes, narrow
from observatory.trend.table import tables

NUMBERS: Final = (0, -0.0, -1, 1, 1e-320, 1e-9, 0.5, 1e9, 1e18, 1e308, 2**63, 10**400, True)
NOT_FINITE: Final = (float("inf"), float("-inf"), float("nan"))
TEXTS: Final = (
    *site_builds.HOSTILE,
    *("", "/", "..", "a/b", "inprocess/", "inprocess/a.b.c/(x", "anchor/x", "0", "é", "\ud800"),
    *(
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "server_cpu_per_request",
        "seconds",
    ),
)
FIGURES: Final = ("server_cpu_per_request", "pss_steady", "throughput", "response_p50")
DEEP: Final = 3_000
_MARK: Final = "something deep"

Tree = dict[str, bytes]
"""Files by their path below a folder."""


def _light(run: Run) -> Run:
    """Return the run with few packages and figures, so a site builds quickly."""
    packages = {"fastapi": "1.0", "granian": "2.8.7"}
    document = run.model_dump(mode="json")
    for stack in document["stacks"]:
        stack["packages"] = packages
    for result in document["results"]:
        for launch in result["launches"]:
            launch["metrics"] = {name: launch["metrics"][name] for name in FIGURES}
    return Run.model_validate_json(json.dumps(document))


def small_history(results: Path, commit: str = foreign.COMMIT) -> list[Path]:
    """Save one or two related files of every kind; return their paths.

    asv measured `commit`.
    """
    shard_runs = [_light(foreign.shard_run(number)) for number in (1, 2)]
    earlier: dict[str, Any] = {
        "id": "20261119T090000Z-nightly-3f2a9c17",
        "started": "2026-11-19T09:00:00+00:00",
    }
    yesterday = foreign.shard_run(1, night=None, shard=None, **earlier)
    for run in (*shard_runs, _light(yesterday)):
        run_files.finalise(results, run)
    _, evidence, record = foreign.judge_candidate()
    files.save(results, evidence)
    files.save(results, site_builds.make_comparison(site_builds.JSON, duets=3))
    files.save(results, record)
    files.save(results, foreign.points())
    for release in site_builds.RELEASES[:2]:
        files.save(results, release)
    why = attributing.attribution(id=record.id, change=record.id, comparison=evidence.id)
    files.save(results, why)
    packages.remember(
        results, {("fastapi", "1.0"): packages.VersionLinks(links={"home": "https://a.example/"})}
    )
    night: NightRecord = nights.outcome(foreign.night(), shard_runs)
    files.save(results, night)
    place = results / "asv" / foreign.MACHINES[0].id
    place.mkdir(parents=True)
    (place / "machine.json").write_text(
        json.dumps({"machine": foreign.MACHINES[0].id, "version": 1})
    )
    asv_files.list_benchmarks(
        results / "asv",
        [asv_files.Bench("gil.Cpu.time_tasks", {"mode": ("serial",), "tasks": (1, 2, 4)})],
    )
    inside = place / f"{commit[:8]}-duetbench-py3.14-stackcurrent.json"
    inside.write_text(json.dumps(foreign.inside(commit_hash=commit)))
    return sorted(path for path in results.rglob("*.json") if path.name != "benchmarks.json")


def _places(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield here
    if isinstance(value, dict | list):
        for key, below in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _places(below, (*here, key))


def _at(document: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        document = document[key]
    return document


def _other(value: Any, document: Any, source: random.Random) -> Any:
    """Return another value for a place, mostly of the same type."""
    if source.random() < 0.05:
        return source.choice((None, [], {}, "text", 0, True))
    values = [_at(document, place) for place in _places(document)]
    alike = [other for other in values if type(other) is type(value)]
    if source.random() < 0.4:
        return copy.deepcopy(source.choice(alike))
    instead: tuple[Any, ...] = (True, False, None, 1.0, "x")
    if isinstance(value, str):
        instead = (*TEXTS, value[:-1], value + "0", value * 2)
    elif isinstance(value, list):
        instead = (value[1:], value[::-1], value * 2, [], value[:1] * 300, [value])
    elif isinstance(value, dict):
        gone = source.choice([*value, ""])
        less = {key: below for key, below in value.items() if key != gone}
        instead = (less, less, {**value, "other": 1}, {}, {**value, gone: gone})
    elif isinstance(value, int | float) and not isinstance(value, bool):
        smaller = value / 1000 if isinstance(value, float) else value // 1000  # 10**400 is no float
        instead = (*NUMBERS, *NOT_FINITE, -value, value * 1000, smaller)
    return copy.deepcopy(source.choice(instead))


def mutate(data: bytes, source: random.Random) -> bytes:
    """Change one to three values of a file, or damage its bytes."""
    if source.random() < 0.05:
        cut = source.randrange(len(data))
        return source.choice((data[:cut], data[:cut] + b"\xff" + data[cut + 1 :], data * 2))
    document = json.loads(data)
    for _ in range(source.choice((1, 1, 2, 3))):
        place = source.choice([place for place in _places(document) if place])
        value = _at(document, place)
        value = _MARK if source.random() < 0.02 else _other(value, document, source)
        _at(document, place[:-1])[place[-1]] = value
    text = json.dumps(document).replace(f'"{_MARK}"', "[" * DEEP + "]" * DEEP)
    return text.encode("utf-8", "surrogatepass")


class Scene:
    """A checkout with a history."""

    def __init__(self, folder: Path) -> None:
        self.root, self.output = folder / "root", folder / "site"
        self.results = self.root / "results"
        for name in ("apps", "benchmarks"):
            (self.root / name).mkdir(parents=True)
        for name in ("pyproject.toml", "asv.conf.json"):
            shutil.copy(PROJECT / name, self.root)
        repos.git(self.root, "init", "--quiet")
        repos.git(self.root, "add", "--all")
        repos.git(self.root, "commit", "--quiet", "--message=It")
        self.commit = repos.git(self.root, "rev-parse", "HEAD")
        saved = small_history(self.results, self.commit)
        self.whole: Tree = {
            path.relative_to(self.results).as_posix(): path.read_bytes() for path in saved
        }
        self.machines = {path.split("/")[1] for path in self.whole if path.startswith("runs/")}
        _, _, self.record = foreign.judge_candidate()

    def survive(
        self, source: random.Random, *, folder: str, with_site: bool, with_asv: bool
    ) -> tuple[str, ...]:
        """Mutate a file, and use the history; return what is said of it."""
        path = source.choice([path for path in sorted(self.whole) if path.startswith(folder)])
        data = mutate(self.whole[path], source)
        (self.results / path).write_bytes(data)
        problems, notes = use(
            self.root, self.results, self.output, with_site=with_site, with_asv=with_asv
        )
        (self.results / path).write_bytes(self.whole[path])
        return (*problems, *notes)


def use(
    root: Path, results: Path, output: Path, *, with_site: bool = True, with_asv: bool = False
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Do all that a night and its publishing do with a history; no file may make that fail.

    Return sentences on files that were not read, and the site's notes. `with_site`: build the site
    even if a file cannot be part of it.
    """
    with suppress(DuetbenchError):  # the file does not enter the history, but is read below
        kinds.collect(results)
    sources = reading.read(results)
    if sources.problems and not with_site:
        return sources.problems, ()
    anchored = [table for table in tables(sources.nights) if table.ratio]
    candidates.detect(anchored, (*sources.changes, *sources.dismissed), {})
    closer = narrow(sources.changes, axes(sources.points))
    evidence = {comparison.id: comparison for comparison in sources.comparisons}
    confirm.close((*sources.changes, *closer), evidence)
    issues.of_changes(sources.changes, "https://site.example/", sources.attributions)
    with Path("/dev/null").open("w", encoding="utf-8") as nowhere:
        narrator = Narrator(Console(file=nowhere))
        report = build.build(
            *(root, results, output, narrator),
            base="https://site.example/",
            with_asv=with_asv,
            sources=sources,
        )
        for note in report.notes:
            narrator.say(note)
    assert (output / "index.html").is_file()
    return sources.problems, report.notes
