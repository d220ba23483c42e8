"""How often is a comparison wrong? Measured on this machine, by comparisons with known answers.

    .venv/bin/python tools/selftest.py --tries 10 --sizes 1 3

It clones the checkout and compares two commits of the clone as `duetbench compare` does, each side
with an installation of its own. Where nothing shall be found, head differs by a comment in the
application. Elsewhere its handler also runs an empty loop, whose length one more comparison, with a
long one, has calibrated. The table is printed, and added to results/SELFTEST.md with its day and
machine.

    .venv/bin/python tools/selftest.py --tries 0 --sizes --alike 3

does so with the whole path instead: the same commit, lock or release is prepared as both sides, of
three applications, so that what happens to one side only shows. `duetbench why` counts their
instructions, too.
"""

import argparse
import ast
import json
import math
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from scipy.stats import binomtest

import duetbench
from duetbench.host import machine
from duetbench.store.comparison import METHOD_VERSION

ROOT: Final = Path(__file__).parents[1]
RECORD: Final = ROOT / "results" / "SELFTEST.md"
CPU: Final = "server_cpu_per_request"
ONE_LAUNCH: Final = 0.05
"""Whoever compares one launch of each side reports what is farther apart than this."""

LONG: Final = 2000
"""Steps of the loop that calibrates the others: some ten microseconds."""

EQUAL: Final = 0.0005
"""Counts of both sides that differ by a larger share are not those of the same code."""

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

HEAD: Final = ("what was done: what is counted", "case", "by", "times", "95 % interval", "duets",
               "take", "size, all tries", "size, reported")  # fmt: skip


@dataclass(frozen=True)
class Tries:
    """Comparisons with the same right answer: head's CPU per request is `size` above base's."""

    size: float
    comparisons: Sequence[duetbench.Comparison]
    same: str = "two installations of one stack"  # of no size: what is compared

    def ratios(self) -> Iterator[list[float]]:
        """CPU per request, head over base, of the usable duets of each comparison."""
        for comparison in self.comparisons:
            duets = (duet for case in comparison.cases for duet in case.duets if duet.usable)
            yield [duet.head[CPU] / duet.base[CPU] for duet in duets]

    def calls(self) -> Iterator[list[float]]:
        """What each comparison says has moved in the wrong way, or CPU in the right one: ratios."""
        for comparison in self.comparisons:
            judgements = (row for case in comparison.cases for row in case.judgements)
            moved = [row for row in judgements if row.verdict in {"faster", "slower"}]
            if self.size:
                moved = [row for row in moved if row.metric == CPU and row.verdict == "slower"]
            yield [row.ratio for row in moved if row.ratio is not None]

    def rows(self, case: str) -> Iterator[tuple[str, ...]]:
        """The rows of the table: ours, and that of one launch of each side."""
        what = (
            f"a handler slower by {100 * self.size:g} % of its CPU: found"
            if self.size
            else f"{self.same}: false verdicts"
        )
        calls, ratios = [*self.calls()], [*self.ratios()]
        flat = [ratio for duets in ratios for ratio in duets]
        seconds = fmean(comparison.wall_seconds for comparison in self.comparisons)
        hits = [fmean(call) for call in calls if call]
        yield (
            what, case, "`duetbench compare`", *rate(sum(map(bool, calls)), len(calls)),
            f"{len(flat) / len(ratios):.0f}", f"{seconds:.0f} s", percent(flat),
            percent(hits) if self.size else "",
        )  # fmt: skip
        first = [duets[0] for duets in ratios if duets]
        apart = [ratio - 1 if self.size else abs(ratio - 1) for ratio in first]
        alone = rate(sum(size > ONE_LAUNCH for size in apart), len(first))
        yield what, case, f"one launch each, {100 * ONE_LAUNCH:g} %", *alone, *[""] * 4


def rate(hits: int, of: int) -> tuple[str, str]:
    """How often, and the Clopper-Pearson interval of the rate."""
    if not of:
        return "0 of 0", ""
    interval = binomtest(hits, of).proportion_ci(0.95, "exact")
    return f"{hits} of {of}", f"{100 * interval.low:.1f}…{100 * interval.high:.1f} %"


def percent(ratios: Sequence[float]) -> str:
    """The geometric mean of ratios as a change; empty of none."""
    return f"{100 * math.expm1(fmean(map(math.log, ratios))):+.2f} %" if ratios else ""


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
    """Let a function of a module begin with an empty loop of so many steps."""
    defined = ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, defined) and node.name == function:
            first = node.body[0]
            indent = " " * first.col_offset
            lines = source.splitlines(keepends=True)
            # Not `range`, which makes an object a step from 257 on.
            lines.insert(first.lineno - 1, f"{indent}for _ in bytes({steps}):\n{indent}    pass\n")
            return "".join(lines)
    raise SystemExit(f"--function {function}: the module of --module has none of that name")


def compare_with(root: Path, options: argparse.Namespace, steps: int, tries: int) -> Tries:
    """Compare the clone's commit with one whose handler runs so many steps more."""
    module = root / options.module
    changed = f"{module.read_text('utf-8')}\n# The other side.\n"
    module.write_text(slow_down(changed, options.function, steps) if steps else changed, "utf-8")
    git(root, "commit", "--quiet", "--all", "-m", f"{steps} steps")
    seeds = range(options.seed, options.seed + tries)
    same = {"select": [options.case], "budget": options.budget, "all": True}
    comparisons = [duetbench.compare("HEAD~1", "HEAD", seed=seed, **same) for seed in seeds]
    git(root, "reset", "--quiet", "--hard", "HEAD~1")
    return Tries(0.0, comparisons)


def calibrate(root: Path, options: argparse.Namespace) -> float:
    """The share of a request's CPU that one step of a long loop takes."""
    ratios = [*chain.from_iterable(compare_with(root, options, LONG, 1).ratios())]
    grown = fmean(map(math.log, ratios)) if ratios else 0.0
    if grown <= 0:
        raise SystemExit(f"{LONG} steps: expected more CPU per request, found {grown:+.1%}")
    return math.expm1(grown) / LONG


def alike(tries: int, budget: str) -> Iterator[tuple[str, ...]]:
    """Give both sides the same, in each way and of each application: the rows of the table."""
    program = Path(sys.executable).with_name("duetbench")
    for name, (files, app, release) in APPLICATIONS.items():
        lock = next(iter(files))
        ways = {
            "revision": ["HEAD", "HEAD"],
            "lock": ["--lock", f"{lock}@HEAD", lock],
            "release": ["--base-with", release, "--with", release],
        }
        for way, sides in ways.items():
            same, words = f"one {way} as both sides", [*sides, "--app", app, "--path", "/one"]
            with tempfile.TemporaryDirectory(prefix="duetbench-selftest-") as folder:
                for path, text in files.items():
                    file = Path(folder, "made", path)
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text(text, "utf-8")
                git(root := Path(folder, "made"), "init", "--quiet")
                git(root, "add", "--all")
                git(root, "commit", "--quiet", "-m", "Made")
                comparisons = []
                for seed in range(tries):
                    out = Path(folder, f"{seed}.json")
                    options = ("--all", "--budget", budget, "--seed", f"{seed}", "--output", out)
                    subprocess.run([program, "compare", *words, *options], cwd=root, check=False)
                    comparisons.append(duetbench.Comparison.model_validate_json(out.read_bytes()))
                why = [str(program), "why", *words, "--results", folder, "--json"]
                counts = subprocess.run(why, cwd=root, check=True, stdout=subprocess.PIPE).stdout
            yield next(Tries(0.0, comparisons, same).rows(name))
            yield count(same, name, json.loads(counts)[0])


def count(same: str, name: str, attribution: dict[str, Any]) -> tuple[str, ...]:
    """The row of one count of both sides."""
    base, head = (attribution["totals"][side] for side in ("base", "head"))
    apart = abs(head / base - 1) > EQUAL
    what = f"{same}: counts more than {100 * EQUAL:g} % apart"
    size = f"{100 * (head / base - 1):+.3f} %"
    return what, name, "`duetbench why`", *rate(int(apart), 1), "", "", size, ""


def main() -> None:
    """Make the tries, print their table, and add it to the record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tries", type=int, default=10, help="comparisons of each size")
    parser.add_argument("--sizes", type=float, nargs="*", default=[1.0, 3.0], help="%% of the CPU")
    parser.add_argument("--budget", default="60s", help="time of each comparison")
    parser.add_argument("--case", default="asgi-wsgi/asgi-json/py3.14/w1/c128")
    parser.add_argument("--module", default="apps/asgi-wsgi/asgi_app.py", help="the case's module")
    parser.add_argument("--function", default="greet", help="its handler")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--alike", type=int, default=0, help="comparisons of the same, each way")
    parser.add_argument("--record", type=Path, default=RECORD, help="what the table is added to")
    options = parser.parse_args()
    known: list[Tries] = []
    with clone() as root:
        if options.tries:
            known.append(compare_with(root, options, 0, options.tries))
        if options.sizes:
            step = calibrate(root, options)
        for size in options.sizes:
            made = compare_with(root, options, round(size / 100 / step), options.tries)
            known.append(replace(made, size=size / 100))
    rows = [row for tries in known for row in tries.rows(f"`{options.case}`")]
    rows += alike(options.alike, options.budget) if options.alike else ()
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    lines = [
        f"## Method {METHOD_VERSION} on {machine.fingerprint().id}, {day}",
        "",
        f"`{shlex.join(['tools/selftest.py', *sys.argv[1:]])}`",
        "",
        *(f"| {' | '.join(row)} |" for row in (HEAD, ["---"] * 3 + ["--:"] * 6, *rows)),
    ]
    print("\n".join(lines))
    with options.record.open("a", encoding="utf-8") as file:
        file.write("\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
