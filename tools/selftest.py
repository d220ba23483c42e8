"""How often is a comparison wrong, and are its sizes true? By comparisons with known answers.

    .venv/bin/python tools/selftest.py --tries 24 --sizes 0 0.5 1

It clones the checkout and compares two commits of the clone as `duetbench compare` does, each side
with an installation of its own; in every second try base and head are exchanged. Where nothing
shall be found, the commits differ by a comment in the application. Elsewhere the handler of one
also runs so many assignments; a few comparisons with thousands of them tell what each costs. (A
short loop would not do: entering it costs as much as hundreds of its steps.) The table in
results/SELFTEST.md is rewritten after each comparison, with its day and machine.

    .venv/bin/python tools/selftest.py --tries 0 --sizes --alike 3

does so with the whole path instead: the same commit, lock or release is prepared as both sides, of
three applications, so that what happens to one side only shows. `--waits 4` compares commits of
which one waits longer, alone or in a row.
"""

import argparse
import ast
import math
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from statistics import fmean, stdev
from typing import Final

import numpy as np
from scipy.stats import binomtest

from duetbench.app.setting import Contrast
from duetbench.core import units
from duetbench.core.comparison import INSTRUCTIONS, Comparison, Finding
from duetbench.core.errors import BusyError
from duetbench.core.metrics import CPU, METRICS
from duetbench.core.model import Verdict
from duetbench.core.units import student
from duetbench.host import machine
from duetbench.host.console import Console
from duetbench.host.machine import measuring
from duetbench.judge.comparison import compare
from duetbench.judge.duet_loop import Reporter
from duetbench.judge.preparation import Extent
from duetbench.judge.statistics import Logs
from observatory.matrix.checkout import Checkout
from observatory.matrix.sides import prepare

ROOT: Final = Path(__file__).parents[1]
_SERVED: Final = ("--path", "/one", "--with", "python=3.14")
PROGRAM: Final = Path(sys.executable).with_name("duetbench")
RECORD: Final = ROOT / "results" / "SELFTEST.md"
CASE: Final = "asgi-wsgi/asgi-json/py3.14/w1/c128"
METHOD: Final = 7
"""Version of how a comparison decides, in titles of the record."""

ONE_LAUNCH: Final = 0.05
"""Whoever compares one launch of each side reports what is farther apart than this."""

LONG: Final = 4000
"""Assignments that calibrate the others: some twenty microseconds."""

CALIBRATING: Final = 4
"""Comparisons with it. They end early, since it is obvious: one alone says little of its size."""

BY: Final = {"`duetbench compare`": None, "instructions": INSTRUCTIONS, "CPU per request": CPU}
"""What finds a change: whatever a headline names, or one metric."""

MEDIAN: Final = "response_p50"

OTHERS: Final = frozenset({"memory", "start"})
"""What a metric is about that a slower handler does not move."""

_MUCH: Final = "\n\n".join(
    f"def f{n}(a, b=None):\n    b = b or [a, {n}]\n    return {{'k{n}': b, 'n': a + {n}}}"
    for n in range(4000)
)
_STARLETTE: Final = """\
import much
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

async def one(request):
    return JSONResponse(much.f7(1))

app = Starlette(routes=[Route("/one", one)])
"""
_FLASK: Final = """\
from flask import Flask
app = Flask(__name__)

@app.get("/one")
def one():
    return {"n": 1}
"""
_FASTAPI: Final = """\
from fastapi import FastAPI
from pydantic import BaseModel

class Item(BaseModel):
    name: str
    tags: list[str]

app = FastAPI()

@app.get("/one")
async def one() -> list[Item]:
    return [Item(name=f"item {n}", tags=["a", "b"]) for n in range(20)]
"""
_BUILD: Final = """\
[project]
name = "shop"
version = "1"
dependencies = ["flask==3.1.3"]
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
"""

APPLICATIONS: Final[dict[str, tuple[dict[str, str], str, str]]] = {
    "4,000 functions": (
        {"requirements.txt": "starlette==1.0.0\n", "much.py": _MUCH, "web.py": _STARLETTE},
        "web:app", "starlette==1.0.0",
    ),
    "a package": (
        {"pyproject.toml": _BUILD, "src/shop/__init__.py": "", "src/shop/web.py": _FLASK},
        "shop.web:app", "flask==3.1.3",
    ),
    "models": (
        {"requirements.txt": "fastapi==0.121.0\n", "web.py": _FASTAPI},
        "web:app", "fastapi==0.121.0",
    ),
}  # fmt: skip
"""Files, application, and a release that it has."""

HEAD: Final = (
    "what was done: what is counted", "case", "by", "times", "95 % interval", "wrong way",
    "true size", "size, all tries", "size, reported", "head beyond base", "detects",
    "a duet's sd", "duets", "take",
)  # fmt: skip

RULE: Final = ["---"] * 3 + ["--:"] * (len(HEAD) - 3)

WAITS: Final = {
    "waits 22 instead of 20 ms": ("await asyncio.sleep(0.020)", "await asyncio.sleep(0.022)"),
    "waits 2.2 instead of 2 ms": ("await asyncio.sleep(0.002)", "await asyncio.sleep(0.0022)"),
    "waits 2 ms in a lock": (
        "await asyncio.sleep(0.002)",
        "async with lock:\n        await asyncio.sleep(0.002)",
    ),
    "blocks the loop for 0.5 ms": ("pass", "time.sleep(0.0005)"),
}
"""What a handler does on either side. How much longer an answer takes, no calculation tells."""

_WAITING: Final = """\
import asyncio
import time
from fastapi import FastAPI

app = FastAPI()
lock = asyncio.Lock()

@app.get("/one")
async def one() -> dict[str, int]:
    {}
    return {{"n": 1}}
"""

Made = tuple[int, Comparison]
"""A comparison, and 1; or -1 where the side that shall be slower is base."""


@dataclass
class Tries:
    """Comparisons with the same right answer: one side does `size` more work per request."""

    size: float
    case: str
    instructions: float = 0.0  # by how much more that side executes
    same: str = "two installations of one stack"  # of no size: what is compared
    slow: str = ""  # what makes a side slower, if it is not its CPU
    made: list[Made] = field(default_factory=list)

    def rows(self) -> Iterator[tuple[str, ...]]:
        """The rows of the table: by what is named, and what one launch of each side would say."""
        slow = self.slow or f"slower by {100 * self.size:.3g} % of its CPU"
        what = f"a handler {slow}: found" if self.size else f"{self.same}: false verdicts"
        for by, metric in ({**BY, "median response time": MEDIAN} if self.slow else BY).items():
            yield what, self.case, by, *self._cells(metric)
        duets = [(sign, next(logs(item, CPU))) for sign, item in self.made if item.cases]
        first = [sign * many[0] for sign, many in duets if len(many)]
        far = [(log if self.size else abs(log)) > math.log1p(ONE_LAUNCH) for log in first]
        alone = rate(sum(far), len(far))
        by = f"one launch each, {100 * ONE_LAUNCH:g} %"
        yield what, self.case, by, *alone, *[""] * (len(HEAD) - 5)

    def _cells(self, metric: str | None) -> tuple[str, ...]:
        """How often it is called and how large it is, from the side with more: head or base."""
        comparisons = [comparison for _, comparison in self.made]
        signs = np.array([sign for sign, _ in self.made])
        moved = [self._moved(*item, metric) for item in self.made]
        called = np.array([("right" if self.size else "wrong") in item for item in moved])
        wrong = f"{sum('wrong' in item for item in moved)}" if self.size else ""
        every = np.array([size_of(item, metric) for item in comparisons])
        mean, printed, detects = every.T
        sizes = {CPU: 0.0 if self.slow else self.size, INSTRUCTIONS: self.instructions}
        true = [math.log1p(sizes.get(metric, self.size))] if metric else []
        # With the sides exchanged, what is left of two tries is not of the change.
        even = len(signs) // 2 * 2
        turns = signs[:even].sum() == 0
        beyond = mean[:even].reshape(-1, 2).mean(axis=1) if turns else []
        # What was not judged is not found; that it is not called is no merit.
        judged = [metric is None or verdict_of(item, metric) != "" for item in comparisons]
        tried = len(called) if self.size else sum(judged)
        duets = [log for item in comparisons for log in logs(item, metric) if len(log) > 1]
        freedom = sum(len(many) - 1 for many in duets)
        scatter = math.sqrt(sum(many.var() * len(many) for many in duets) / max(1, freedom))
        usable = [sum(d.usable for case in item.cases for d in case.duets) for item in comparisons]
        seconds = fmean(item.wall_seconds for item in comparisons)
        return (
            *rate(int(called.sum()), tried), wrong, percent(true), percent(signs * mean),
            percent((signs * printed)[called]) if self.size else "", percent(beyond),
            f"{100 * np.nanmedian(detects):.2f} %" if np.isfinite(detects).any() else "",
            f"{100 * scatter:.2f} %" if duets else "",
            *(("", "") if metric is not None else (f"{fmean(usable):.0f}", f"{seconds:.0f} s")),
        )  # fmt: skip

    def _moved(self, sign: int, comparison: Comparison, metric: str | None) -> list[str]:
        """What it says moved: `right`, `wrong` or both; of no size all is wrong."""
        rows = [item for item in said(comparison) if item.moved and metric in {None, item.subject}]
        if not self.size:
            return ["wrong"] if rows else []
        return sorted({"right" if is_right(item, sign) else "wrong" for item in rows})


def is_right(finding: Finding, sign: int) -> bool:
    """Whether it says what slows one side down: head if `sign` is 1, base if it is -1."""
    # Counts alone need not mean more CPU for the whole request: they have no direction then.
    if finding.verdict is Verdict.DIFFERENT:
        return finding.subject == INSTRUCTIONS and sign * math.log(finding.ratio or 1.0) > 0
    slower = Verdict.WORSE if sign > 0 else Verdict.BETTER
    metric = METRICS.get(finding.subject, METRICS[CPU])
    spoken = finding.subject in {*METRICS, INSTRUCTIONS} and metric.concern not in OTHERS
    return finding.verdict is slower and spoken


def said(comparison: Comparison) -> Iterator[Finding]:
    """All findings of a comparison on single cases."""
    return (finding for finding in comparison.findings if finding.case)


def verdict_of(comparison: Comparison, metric: str | None) -> str:
    """The verdict on a metric; empty: none."""
    return next((item.verdict for item in said(comparison) if item.subject == metric), "")


def size_of(comparison: Comparison, metric: str | None) -> tuple[float, ...]:
    """A metric's log ratio: its mean, and as printed; the change that would be detected."""
    for item in said(comparison):
        if item.subject == metric and item.ratio and item.low and item.high:
            low, high = math.log(item.low), math.log(item.high)
            detects = item.detectable or math.nan
            return (low + high) / 2, math.log(item.ratio), detects
    return (math.nan,) * 3


def logs(comparison: Comparison, metric: str | None) -> Iterator[Logs]:
    """Log ratios of a metric, head over base, of the usable duets of each case."""
    for case in comparison.cases:
        duets = [duet for duet in case.duets if duet.usable]
        both = [(d.base.get(metric or ""), d.head.get(metric or "")) for d in duets]
        yield np.array([math.log(head / base) for base, head in both if base and head])


def rate(hits: int, of: int) -> tuple[str, str]:
    """How often, and the Clopper-Pearson interval of the rate."""
    if not of:
        return "0 of 0", ""
    interval = binomtest(hits, of).proportion_ci(0.95, "exact")
    return f"{hits} of {of}", f"{100 * interval.low:.1f}…{100 * interval.high:.1f} %"


def percent(changes: Sequence[float] | Logs) -> str:
    """The mean of those that are known, logs, with half its 95 % interval; empty of none."""
    known = [float(log) for log in changes if math.isfinite(log)]
    if not known:
        return ""
    text = f"{round(100 * math.expm1(fmean(known)), 2) + 0.0:+.2f}"  # no negative zero
    if len(known) > 1:
        half = student(len(known) - 1) * stdev(known) / math.sqrt(len(known))
        text += f" ±{100 * half:.2f}"
    return f"{text} %"


def git(root: Path, *words: str) -> None:
    """Run git as somebody whose settings do not matter; CalledProcessError if it fails."""
    identity = ("-c", "user.name=selftest", "-c", "user.email=selftest@localhost")
    subprocess.run(["git", "-C", root, *identity, *words], check=True, stdout=subprocess.DEVNULL)


@contextmanager
def clone() -> Iterator[Path]:
    """A clone of the checkout's commit without benchmarks inside the process; removed after."""
    with tempfile.TemporaryDirectory(prefix="duetbench-selftest-") as name:
        root = Path(name, "checkout")
        git(ROOT, "clone", "--quiet", "--shared", str(ROOT), str(root))
        git(root, "rm", "-r", "--quiet", "benchmarks")
        git(root, "commit", "--quiet", "-m", "Base")
        here = Path.cwd()
        os.chdir(root)  # what duetbench compares
        try:
            yield root
        finally:
            os.chdir(here)


def slow_down(source: str, function: str, steps: int) -> str:
    """Let a function of a module begin with so many assignments."""
    defined = ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, defined) and node.name == function:
            first = node.body[0]
            indent = " " * first.col_offset
            lines = source.splitlines(keepends=True)
            lines.insert(first.lineno - 1, f"{indent}_ = 0\n" * steps)
            return "".join(lines)
    raise SystemExit(f"--function {function}: the module of --module has none of that name")


def compare_once_free(contrast: Contrast, extent: Extent) -> Comparison:
    """Compare, after whoever measures on this machine."""
    reporter = Reporter(Console())
    while True:
        with suppress(BusyError), measuring():
            return compare(Checkout.here(), contrast, extent, reporter, prepare=prepare)
        time.sleep(30)


def compare_with(
    root: Path, options: argparse.Namespace, steps: int, cases: Sequence[str], tries: int
) -> Iterator[tuple[str, Made]]:
    """Compare the clone's commit with one whose handler runs so many steps more, case by case."""
    module = root / options.module
    changed = f"{module.read_text('utf-8')}\n# The other side.\n"
    module.write_text(slow_down(changed, options.function, steps) if steps else changed, "utf-8")
    git(root, "commit", "--quiet", "--all", "-m", f"{steps} assignments")
    for number in range(tries):
        sign = -1 if number % 2 else 1
        base, head = ("HEAD~1", "HEAD")[::sign]
        seconds, seed = units.read_time(options.budget), options.seed + number
        for case in cases:
            extent = Extent((case,), seconds=seconds, everything=True, seed=seed)
            comparison = compare_once_free(Contrast((base, head)), extent)
            keep(options.keep, comparison)
            yield case, (sign, comparison)
    git(root, "reset", "--quiet", "--hard", "HEAD~1")


def calibrate(root: Path, options: argparse.Namespace) -> Tries:
    """What many assignments add to a request's CPU, and to its instructions."""
    case = options.case[0]
    made = [item for _, item in compare_with(root, options, LONG, [case], CALIBRATING)]
    sizes = [[sign * size_of(item, by)[0] for sign, item in made] for by in (CPU, INSTRUCTIONS)]
    cpu, counted = ([log for log in many if math.isfinite(log)] for many in sizes)
    grown = math.expm1(fmean(cpu or [0.0]))
    if grown <= 0:
        raise SystemExit(f"{LONG} assignments: expected more CPU per request, found {grown:+.1%}")
    return Tries(grown, f"`{case}`", math.expm1(fmean(counted or [math.nan])), made=made)


def commit(root: Path, files: Mapping[str, str]) -> None:
    """Commit files to a repository, a new one if there is none."""
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "-m", "Made")


def keep(folder: Path | None, comparison: Comparison) -> None:
    """Write a comparison to a folder, if one was named."""
    if folder:
        (folder / f"{comparison.id}.json").write_text(
            f"{comparison.model_dump_json(indent=1)}\n", "utf-8"
        )


def compared(root: Path, *words: str) -> Comparison:
    """Compare by the command line, in a repository."""
    out = root.with_name("comparison.json")
    subprocess.run([PROGRAM, "compare", *words, "-o", out], cwd=root, check=False)
    return Comparison.model_validate_json(out.read_bytes())


def waits(tries: int, budget: str, folder_kept: Path | None) -> Iterator[tuple[str, ...]]:
    """Compare handlers that wait with such as wait longer, in both directions: the table's rows."""
    for slow, (short, long) in WAITS.items():
        result = Tries(math.inf, "`/one`", math.nan, slow=slow)
        with tempfile.TemporaryDirectory(prefix="duetbench-selftest-") as folder:
            root = Path(folder, "made")
            lock = {"requirements.txt": "fastapi==0.121.0\nuvicorn==0.38.0\n"}
            commit(root, {**lock, "web.py": _WAITING.format(short)})
            commit(root, {"web.py": _WAITING.format(long)})
            for number in range(tries):
                sign = -1 if number % 2 else 1
                sides = ("HEAD~1", "HEAD")[::sign]
                comparison = compared(
                    root, *sides, "--app", "web:app", *_SERVED, "--budget", budget
                )
                result.made.append((sign, comparison))
                keep(folder_kept, comparison)
        yield from result.rows()


def alike(tries: int, budget: str) -> Iterator[tuple[str, ...]]:
    """Give both sides the same, in each way and of each application: the rows of the table."""
    for name, (files, app, release) in APPLICATIONS.items():
        lock = next(iter(files))
        ways = {
            "revision": ["HEAD", "HEAD"],
            "lock": ["--base", f"lock={lock}@HEAD", "--head", f"lock={lock}"],
            "release": ["--base", release, "--head", release],
        }
        for way, sides in ways.items():
            same, words = f"one {way} as both sides", [*sides, "--app", app, *_SERVED]
            with tempfile.TemporaryDirectory(prefix="duetbench-selftest-") as folder:
                root = Path(folder, "made")
                commit(root, files)
                result = Tries(0.0, name, same=same)
                for _ in range(tries):
                    result.made.append((1, compared(root, *words, "--control", "--budget", budget)))
            yield from result.rows()


def write(record: Path, before: str, rows: Iterable[Sequence[str]]) -> str:
    """Put this run's section in place of the one `before` of the record; return it."""
    lines = [
        f"## Method {METHOD} on {machine.fingerprint().id}, {datetime.now(UTC):%Y-%m-%d}",
        "",
        f"`{shlex.join(['tools/selftest.py', *sys.argv[1:]])}`",
        "",
        *(f"| {' | '.join(cells)} |" for cells in (HEAD, RULE, *rows)),
    ]
    section = "\n" + "\n".join(lines) + "\n"
    others = record.read_text("utf-8").replace(before, "") if record.exists() else ""
    record.write_text(others + section, "utf-8")
    return section


def main() -> None:
    """Make the tries, and add their table to the record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tries", type=int, default=10, help="comparisons of each size")
    parser.add_argument(
        "--sizes", type=float, nargs="*", default=[0.0, 1.0, 3.0], help="%% of the CPU; 0: the same"
    )
    parser.add_argument("--budget", default="60s", help="time of each comparison")
    parser.add_argument("--case", action="append", help="sizes are of the first one alone")
    parser.add_argument("--module", default="apps/asgi-wsgi/asgi_app.py", help="the case's module")
    parser.add_argument("--function", default="greet", help="its handler")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--alike", type=int, default=0, help="comparisons of the same, each way")
    parser.add_argument("--waits", type=int, default=0, help="comparisons of each longer wait")
    parser.add_argument("--record", type=Path, default=RECORD, help="what the table is added to")
    parser.add_argument("--keep", type=Path, help="a folder that is there, for the comparisons")
    options = parser.parse_args()
    options.case = options.case or [CASE]
    options.keep = options.keep and options.keep.resolve(strict=True)
    record, section = options.record.resolve(), ""
    rows: list[tuple[str, ...]] = []
    known: list[Tries] = []
    with clone() as root:
        long: Tries | None = None
        for size in options.sizes if options.tries else ():
            if size and long is None:
                known.append(long := calibrate(root, options))
            part = size / 100 / long.size if long else 0.0  # of the many assignments
            more = long.instructions if long else 0.0
            cases = options.case[:1] if size else options.case
            tries = {case: Tries(size / 100, f"`{case}`", part * more) for case in cases}
            known += tries.values()
            for case, made in compare_with(root, options, round(part * LONG), cases, options.tries):
                tries[case].made.append(made)
                number = f"{len(tries[case].made)} of {options.tries}"
                verdicts = [f"{by} {verdict_of(made[1], BY[by]) or '-'}" for by in [*BY][1:]]
                print(f"{size:g} %, {case}, {number}: {', '.join(verdicts)}", flush=True)
                rows = [cells for item in known if item.made for cells in item.rows()]
                section = write(record, section, rows)
    others = chain(
        alike(options.alike, options.budget) if options.alike else (),
        waits(options.waits, options.budget, options.keep) if options.waits else (),
    )
    for cells in others:
        rows.append(cells)
        section = write(record, section, rows)
    print(section)


if __name__ == "__main__":
    main()
