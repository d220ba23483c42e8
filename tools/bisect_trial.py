"""Does a search name the right release? Slowdowns of known size are planted in releases of our own.

Packages of the stack as it is locked are built once more with a version of their own and nothing
changed in them, but for the planted ones, which pass an empty loop once per request. Stacks without
and with all of these releases are handed to a search, again and again, each time with others.

    .venv/bin/python tools/bisect_trial.py --plant starlette=0.03 [--plant fastapi=-0.03]
        [--case ID] [--packages 12] [--tries 20] [--seed 1] [--budget 30m]

A plant with a minus makes the stack before slower. Prints a line per try, and what came of all.
"""

import argparse
import ast
import base64
import hashlib
import importlib.metadata
import math
import os
import random
import statistics
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name

from duetbench.core.errors import UsageError
from duetbench.core.units import read_time
from duetbench.host import machine, paths
from duetbench.host.console import Console
from duetbench.host.machine_lock import measuring
from duetbench.host.signals import interruptible
from duetbench.judge import revisions
from duetbench.judge.duets import carrier
from duetbench.judge.instruments import Reporter
from duetbench.project import locks, stacks
from duetbench.project.project import Project
from duetbench.store.change import SeriesName
from duetbench.trend.bisect import searches
from duetbench.trend.bisect.mixtures import Mixtures, Sought

PLACES: Final = {
    "starlette": ("starlette/routing.py", "Route", "matches"),
    "fastapi": ("fastapi/routing.py", "APIRoute", "matches"),
    "flask": ("flask/app.py", "Flask", "full_dispatch_request"),
}
"""What a request passes once: file, class, method."""

CALIBRATION: Final = (200, 24)  # steps of a loop, and duets that say what it costs


class Releases:
    """Builds releases of installed packages in a folder, and resolves locks with them."""

    def __init__(self, root: Path, stack: str, python: str, folder: Path, told: Reporter) -> None:
        self.root, self.stack, self.folder, self.told = root, stack, folder, told
        locked = Project(root).lock(stack)
        self.text = locked.lock.read_text("utf-8")
        stacks.make_environment(locked, Project.here().interpreter(python), told)
        place = stacks.place(locked, Project.here().interpreter(python))
        (site,) = place.glob("lib/python*/site-packages")
        self.found = {
            canonicalize_name(one.metadata["Name"]): one
            for one in importlib.metadata.distributions(path=[str(site)])
            if "Tag: py3-none-any" in (one.read_text("WHEEL") or "")
        }
        self._built: dict[tuple[str, int], str] = {}

    def build(self, name: str, steps: int = 0) -> str:
        """Build a release that runs a loop of so many steps per request: its requirement."""
        if (name, steps) not in self._built:
            self._built[name, steps] = self._build(name, steps)
        return self._built[name, steps]

    def _build(self, name: str, steps: int) -> str:
        dist = self.found[name]
        version = f"{dist.version}.post{1000 + steps}"
        stem = f"{name.replace('-', '_')}-{version}"
        files: dict[str, bytes] = {}
        for file in dist.files or ():
            path, parts = dist.locate_file(file), file.parts
            if parts[0] == ".." or "__pycache__" in parts or parts[-1] in {"RECORD", "INSTALLER"}:
                continue
            content = Path(str(path)).read_bytes()
            if parts[0].endswith(".dist-info"):
                parts = (f"{stem}.dist-info", *parts[1:])
            if parts[-1] == "METADATA":
                old, new = f"\nVersion: {dist.version}\n", f"\nVersion: {version}\n"
                content = content.replace(old.encode(), new.encode(), 1)
            if steps and str(file) == PLACES[name][0]:
                content = slowed(content.decode(), *PLACES[name][1:], steps).encode()
            files["/".join(parts)] = content
        with zipfile.ZipFile(self.folder / f"{stem}-py3-none-any.whl", "w") as wheel:
            record = f"{stem}.dist-info/RECORD"
            lines = [f"{path},{_hash(content)},{len(content)}" for path, content in files.items()]
            for path, content in files.items():
                wheel.writestr(path, content)
            wheel.writestr(record, "\n".join((*lines, f"{record},,")) + "\n")
        return f"{name}=={version}"

    def lock(self, *pins: str) -> str:
        """The lock with these releases; everything else is as locked."""
        with self.told.step(f"stack {self.stack}", f"with {', '.join(pins)}") as tick:
            return locks.resolve(
                Project(self.root), self.stack, None, tick, keep=self.text, pins=pins
            )


def _hash(content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
    return f"sha256={digest.decode()}"


def slowed(text: str, klass: str, method: str, steps: int) -> str:
    """A module in which a method begins with an empty loop."""
    tree = ast.parse(text)
    (place,) = (
        node
        for owner in tree.body
        if isinstance(owner, ast.ClassDef) and owner.name == klass
        for node in owner.body
        if isinstance(node, ast.FunctionDef) and node.name == method
    )
    place.body.insert(0, ast.parse(f"for _ in bytes({steps}):\n    pass").body[0])
    return ast.unparse(tree)


def main() -> None:
    """Read the command line, and make the tries in a folder of their own."""
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asked.add_argument("--plant", action="append", default=[], metavar="PACKAGE=SIZE")
    asked.add_argument("--case", default="asgi-wsgi/asgi-json/py3.14/w1/c128")
    for name, value in (("packages", 12), ("tries", 20), ("seed", 1)):
        asked.add_argument(f"--{name}", type=int, default=value)
    asked.add_argument("--budget", default="30m")
    given = asked.parse_args()
    plants = {name: float(size) for name, size in (one.split("=") for one in given.plant)}
    if not plants.keys() <= PLACES.keys():
        raise SystemExit(f"--plant: expected some of {', '.join(PLACES)}")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bisect-trial-")))
        stack.enter_context(interruptible())
        os.environ["UV_FIND_LINKS"] = str(folder)
        # Their duets are not to be mixed with those of searches in earnest.
        os.environ["XDG_STATE_HOME"] = str(folder)
        trial(given, plants, folder)


def trial(given: argparse.Namespace, plants: Mapping[str, float], folder: Path) -> None:
    """Calibrate the plants, search for them, and say what came of it."""
    out = Console()
    root, told = paths.project_root(), Reporter(Console(stderr=True))
    case, _ = carrier(root, given.case)
    series = SeriesName(machine=machine.fingerprint().id, case=case.id, metric=searches.METRIC)
    releases = Releases(root, case.stack, case.python, folder, told)
    steps = {name: calibrated(releases, series, name, size) for name, size in plants.items()}
    out.say(f"steps: {steps}")
    said: Counter[str] = Counter()
    minutes, sizes = [], {name: list[float]() for name in plants}
    for number in range(given.tries):
        source = random.Random(given.seed + number)  # noqa: S311 - an order that can be repeated
        others = sorted(releases.found.keys() - plants.keys())
        drawn = source.sample(others, min(len(others), given.packages - len(plants)))
        # Where head is to be quicker, base has the slow release.
        slow = {name: releases.build(name, steps[name]) for name in plants}
        before = [slow[name] for name, size in plants.items() if size < 0]
        after = [slow[name] for name, size in plants.items() if size > 0]
        after += [releases.build(name) for name in drawn]
        after += [releases.build(name, 1) for name, size in plants.items() if size < 0]
        base = releases.lock(*before) if before else releases.text
        sought = Sought(series, case.stack, base, releases.lock(*after))
        began = time.monotonic()
        cause = searches.find(root, sought, told, read_time(given.budget) or 0, given.seed + number)
        minutes.append((time.monotonic() - began) / 60)
        named = {share.releases[0].package: share for share in cause.shares}
        right = "all" if named.keys() == plants.keys() else "some"
        wrong = named.keys() - plants.keys()
        outcome = "wrong" if wrong else right if named or not plants else "none"
        said[outcome] += 1
        for name in named.keys() & plants.keys():
            sizes[name].append(named[name].ratio)
        shares = ", ".join(f"{name} {share.ratio - 1:+.1%}" for name, share in named.items())
        took = f"{cause.reason}; {minutes[-1]:.1f} min"
        out.say(f"{number + 1}: {outcome}: {shares or 'nobody'}; {took}")
    out.say(f"named: {dict(said)}, median {statistics.median(minutes):.1f} min")
    for name, ratios in sizes.items():
        if ratios:
            mean = statistics.fmean(ratios) - 1
            out.say(f"{name}: planted {plants[name]:+.1%}, found {mean:+.1%}")


def calibrated(releases: Releases, series: SeriesName, name: str, size: float) -> int:
    """Steps of a loop that let the CPU per request grow by the size."""
    long, duets = CALIBRATION
    sought = Sought(
        series, releases.stack, releases.text, releases.lock(releases.build(name, long))
    )
    with measuring(), revisions.copies(releases.told) as copies:
        mixtures = Mixtures(releases.root, sought, releases.told, copies, math.inf)
        logs = [
            mixtures.duet("calibration", frozenset(), frozenset(mixtures.row)) for _ in range(duets)
        ]
    grown = math.expm1(statistics.median(log for log in logs if log is not None))
    if grown <= 0:
        raise UsageError(f"{name}: a loop of {long} steps costs nothing in {series.case}")
    return max(1, round(long * abs(size) / grown))


if __name__ == "__main__":
    main()
