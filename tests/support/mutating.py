"""A small history with every kind of stored file, and mutations of its files.

A file is mutated by content; by name: it calls something otherwise, and stands where it then
belongs, often beside the one that it is made of; or by place. It then meets all that a night and
its publishing do with files: no file may end that.
"""

import copy
import json
import random
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

import asv_files
import attributing
import foreign
import repos
import site_builds
from bench import PROJECT
from duetbench.core.errors import DuetbenchError, RecordError
from duetbench.core.model import Run
from duetbench.host.console import Console, Narrator
from duetbench.store import files, run_files
from observatory.github import incoming, issues
from observatory.show.site import build
from observatory.store import kinds, packages
from observatory.store.night import NightRecord
from observatory.trend import candidates, confirm, nights, reading
from observatory.trend.releases import axes, narrow
from observatory.trend.table import tables

WAYS: Final = ("content", "name", "place")
READER, PAGE, HARMLESS = "named, and not read", "a page is missing, and named", "nothing"
"""What a file does behind the door."""
LOST: Final = (
    *(": cannot be shown (", ": some pages are missing", ": left out (", ": cannot be written ("),
    *("inside the site", "asv's site could not be built"),
)
"""Words of notes on what is missing in a site."""

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
_ENDS = (".json", ".JSON", ".html", ".png", ".atom", ".txt", ".partial", ".json.partial", "/x")
SUFFIXES: Final = (
    *(f"{file}{end}" for file in ("/data", "/index", "/x", "") for end in _ENDS),
    *("/", "//", "/.", "/..", ".", "..", " ", "\n", "\0", "~", "%2e", "?", "#", "9" * 5000),
)
NAMES: Final = (
    *("", ".", "..", "...", "../../x", "/x", "~0123456789abcdef", "con", "NUL", "aux.json", "%"),
    *("inprocess/a", "inprocess/a/data.json", "anchor/a", "side-by-side", "inside-the-process"),
    *("é", "e\u0301", "\uff21", "\u202egnp", "\ud800", "\U0001f600", "\u0130", "\u200b", "\ufeff"),
    *("x" * length for length in (99, 101, 120, 199, 201, 250, 256, 4001, 10_000)),
)
NAMING: Final = re.compile(
    "id|case|machine|name|packages?|stacks?|version|experiment|endpoint|label|anchor|env_name|night"
    "|commit_hash|evidence|change|comparison|python|server|previous|unit|results|digest|params"
    "|requirements|culprit|profile|origin|benchmark|metric|started"
)
"""Keys whose texts, or own keys, are names."""
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


def _names(value: Any, key: str = "") -> Iterator[str]:
    """Yield the names in a document."""
    if isinstance(value, dict):
        if NAMING.fullmatch(key):
            yield from value
        for name, below in value.items():
            yield from _names(below, name)
    elif isinstance(value, list):
        for below in value:
            yield from _names(below, key)
    elif isinstance(value, str) and NAMING.fullmatch(key):
        yield value


def _renamed(value: Any, old: str, new: str) -> Any:
    if isinstance(value, dict):
        pairs = value.items()
        return {new if key == old else key: _renamed(below, old, new) for key, below in pairs}
    if isinstance(value, list):
        return [_renamed(below, old, new) for below in value]
    return new if value == old else value


def rename(data: bytes, others: Iterable[bytes], source: random.Random) -> bytes:
    """Call something in a file otherwise, wherever the file names it."""
    document = json.loads(data)
    old = source.choice(sorted(set(_names(document))))
    known = sorted({name for other in others for name in _names(json.loads(other))})
    parts = old.split("/")
    parts[source.randrange(len(parts))] = source.choice(NAMES)
    new = source.choice(
        (
            old + source.choice(SUFFIXES),
            old + source.choice(SUFFIXES),
            source.choice(known) + source.choice(SUFFIXES),
            source.choice(known),
            source.choice(NAMES),
            "/".join(parts),
            source.choice(
                (old.upper(), old.swapcase(), old.title(), old * 40, old[:-1], f".{old}")
            ),
        )
    )
    return json.dumps(_renamed(document, old, new)).encode()


def _belongs(data: bytes, path: str) -> str:
    """Return the place that a file's content names; `path` if it names none."""
    kind = kinds.kind_of(path)
    assert kind is not None
    try:
        value = kind.read(data, path, "it")
    except RecordError as problem:
        place = str(problem).partition(": expected it at ")[2].partition(" below the results")[0]
        return place or path
    return str(value.place).format(value)


@dataclass(frozen=True)
class Survival:
    """What became of a mutated file; `behind`: what it does where no door refused it."""

    kind: str
    way: str
    refused: bool
    behind: str
    notes: tuple[str, ...]


class Scene:
    """A checkout with a history, and the artifacts in which a part of that arrived."""

    def __init__(self, folder: Path) -> None:
        self.root, self.output, self.doors = (folder / name for name in ("root", "site", "doors"))
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
        self.list = {"asv/benchmarks.json": (self.results / "asv/benchmarks.json").read_bytes()}
        self.machines = {path.split("/")[1] for path in self.whole if path.startswith("runs/")}
        self.candidate, evidence, self.record = foreign.judge_candidate()
        concluded = (evidence.path, self.record.path, f"attributions/{self.record.id}.json")
        self.artifacts = dict.fromkeys(concluded, f"confirmed-{foreign.MACHINES[0].id}") | {
            path: f"shard-{number}"
            for number in (1, 2)
            for path in self.whole
            if path.startswith(("runs/", "points/", "asv/"))
            if path.endswith(f"-s{number}.json") or (path.startswith("asv/") and number == 1)
        }

    def mutate(self, way: str, source: random.Random, folder: str) -> tuple[str, Tree]:
        """Return the path of a file, in a folder, and the history with what became of it."""
        path = source.choice([path for path in sorted(self.whole) if path.startswith(folder)])
        data, tree = self.whole[path], dict(self.whole)
        if way == "content":
            return path, tree | {path: mutate(data, source)}
        if way == "name":
            data = rename(data, self.whole.values(), source)
            place = _belongs(data, path)
        else:
            pure, other = PurePosixPath(path), PurePosixPath(source.choice(sorted(self.whole)))
            parent = source.choice(
                (
                    pure.parent,
                    other.parent,
                    pure.parent.with_name(source.choice(("2025", "x.json", other.parent.name))),
                    pure.parent / "deeper",
                    pure.parent.parent,
                    PurePosixPath("asv", foreign.MACHINES[1].id),
                )
            )
            suffix = source.choice(("", "", *SUFFIXES))
            place = f"{parent}/{source.choice((pure.stem + suffix, other.stem))}.json"
        if source.random() < 0.6:
            del tree[path]
        return path, tree | {place: data}

    def refused(self, path: str, tree: Tree) -> bool:
        """Whether the door refuses a file: that of its artifact, or that of the history."""
        with suppress(DuetbenchError):
            kinds.collect(self.results)
            if (artifact := self.artifacts.get(path)) is None:
                return False
            sent = {path for path, name in self.artifacts.items() if name == artifact}
            sent |= tree.keys() - self.whole.keys()
            # Of the plan's commit, which is none of this repository.
            ours, theirs = self.commit, foreign.COMMIT
            arrived = {
                f"{artifact}/{name.replace(ours[:8], theirs[:8])}": tree[name].replace(
                    ours.encode(), theirs.encode()
                )
                for name in sent & tree.keys()
            }
            source, target = self.doors / "in", self.doors / "out"
            _lay_out(source, arrived)
            if artifact.startswith("shard-"):
                done = incoming.night(
                    foreign.night(),
                    source,
                    target,
                    foreign.CHECKOUT,
                    foreign.NOW,
                    int(artifact[-1]),
                )
            else:
                done = incoming.verdicts(
                    source, target, foreign.NOW, (self.candidate,), foreign.CHECKOUT
                )
            return bool(done.refused)
        return True

    def survive(
        self,
        way: str,
        source: random.Random,
        *,
        folder: str = "",
        with_site: bool = True,
        with_asv: bool = False,
    ) -> Survival:
        """Mutate a file, and do all that a night and its publishing do; no file may end that."""
        while True:
            path, tree = self.mutate(way, source, folder)
            try:
                _lay_out(self.results, tree | self.list)
            except (OSError, ValueError):
                continue  # no file system has it
            break
        refused = self.refused(path, tree)
        problems, notes = use(
            self.root, self.results, self.output, with_site=with_site, with_asv=with_asv
        )
        lost = [note for note in notes if any(words in note for words in LOST)]
        told = [
            note for note in notes if note not in lost and not note.startswith("No trend shows")
        ]
        told = told or [*problems]
        behind = PAGE if lost else READER if told else HARMLESS
        if lost:
            shutil.rmtree(self.output, ignore_errors=True)
        kind = kinds.kind_of(path)
        assert kind is not None
        return Survival(kind.model.__name__, way, refused, behind, (*told, *lost))


def _lay_out(folder: Path, tree: Tree) -> None:
    """Let a folder have these files and no others; what is the same stays."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            with suppress(OSError):
                path.rmdir()
        elif path.relative_to(folder).as_posix() not in tree:
            path.unlink()
    for name, data in tree.items():
        path = folder / name
        if not path.is_file() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


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


def table(survivals: Iterable[Survival]) -> str:
    """Count what became of files, by kind and way."""
    rows: dict[tuple[str, str], Counter[str]] = {}
    for one in survivals:
        for key in ((one.kind, one.way), ("all", "")):
            counts = rows.setdefault(key, Counter())
            counts.update(("mutations", "refused at a door" if one.refused else "", one.behind))
    columns = ("mutations", "refused at a door", READER, PAGE, HARMLESS)
    lines: list[tuple[str, ...]] = [("kind", "way", *columns)]
    lines += [(*key, *(str(rows[key][name]) for name in columns)) for key in sorted(rows)]
    return "\n".join(" | ".join(line) for line in lines)
