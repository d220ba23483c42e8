"""Finds what runs beside the requests of cases: in their servers, at their start, by other paths.

Nothing here is judged. Each server runs once, under its load, while every Python process of it
records the functions that it enters.
"""

import os
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import accumulate, permutations
from pathlib import Path
from typing import Final
from uuid import uuid4

from duetbench.core import units
from duetbench.core.errors import CountError, FlagName, LaunchError
from duetbench.core.text import AT_START, short, some
from duetbench.host import proc
from duetbench.host.command import reason, scrub
from duetbench.judge import counted
from duetbench.judge.pairs import Pair
from duetbench.measure import warmup
from duetbench.measure.effects import reach
from duetbench.measure.effects.observation import Name
from duetbench.measure.entered import sitecustomize
from duetbench.measure.instructions import profiling
from duetbench.measure.server import Serving
from duetbench.measure.testbed import SideCase, server_of

SECONDS: Final = 2.0
"""Load of each server, s."""

PATHS: Final = 5
"""Most paths that the record names."""

_MODULES: Final = 3  # most that a sentence names
_SERVERS: Final = 3  # more would take too long
_STARTING: Final = 30.0  # s within which both servers have usually started and been loaded
_REACHING: Final = 30.0  # s for the requests to all paths, mostly for imports
_OLDER: Final = ("3.10.", "3.11.")  # versions whose processes record nothing


def entered(pairs: Sequence[Pair]) -> frozenset[Name] | str:
    """Load each server of both sides once; the functions that its processes enter from its start.

    Returns instead why they are not known.
    """
    groups: dict[Hashable, list[Pair]] = defaultdict(list)
    for pair in pairs:
        groups[tuple(server_of(part.case) for part in pair.sides)].append(pair)
        for part in pair.sides:
            if part.testbed.interpreters[part.case.python].version.startswith(_OLDER):
                return "servers are observed from Python 3.12 on"
    if len(groups) > _SERVERS:
        return f"{len(groups)} servers are too many to observe"
    names: set[Name] = set()
    for group in groups.values():
        sides = [*zip(*(pair.sides for pair in group), strict=True)]
        for outcome in counted.try_sides(partial(_attempt, sides), _STARTING):
            if isinstance(outcome, str):
                return outcome
            names |= outcome
    return frozenset(names)


def _attempt(
    sides: Sequence[Sequence[SideCase]], at_once: bool
) -> tuple[AbstractSet[Name] | str, ...]:
    with ThreadPoolExecutor(1 + at_once) as pool:  # each thread waits for its own server
        try:
            return tuple(pool.map(_serve, sides))
        except LaunchError as error:
            return (short(scrub(reason(error.detail))),)


def _serve(side: Sequence[SideCase]) -> set[Name]:
    """Start and load the server of one side's cases; LaunchError also if a process is not seen."""
    case, testbed = side[0].case, side[0].testbed
    log = testbed.logs / f"live-{uuid4().hex}.log"
    with proc.scratch() as folder:
        search = str(Path(sitecustomize.__file__).parent), case.env.get("PYTHONPATH")
        env = {
            sitecustomize.FOLDER: str(folder),
            "PYTHONPATH": os.pathsep.join(filter(None, search)),
        }
        watched = case.model_copy(update={"env": {**case.env, **env}})
        serving = Serving(watched, testbed, log)
        try:
            serving.start()
            serving.meet()
            for part in side:
                serving.take(part.case)
                serving.verify(repeats=1)
                wave = warmup.wave_size(part.case) if serving.slow else 0
                with warmup.Burst(
                    serving.client, seconds=SECONDS / len(side), requests=wave
                ) as burst:
                    burst.collect()
            known = {int(file.name) for file in folder.iterdir()}
            if unseen := [m.pid for m in serving.session.members() if m.pid not in known]:
                detail = f"{len(unseen)} processes of the server do not say what they run"
                raise LaunchError(FlagName.NOT_READY, detail)
            serving.stop()
        finally:
            serving.abandon()
        log.unlink(missing_ok=True)
        root = serving.workspace.folder if testbed.target else testbed.apps.parent
        texts = (file.read_text("utf-8", "surrogateescape") for file in folder.iterdir())
        lines = (line.split("\t") for text in texts for line in text.splitlines())
        return {(os.path.relpath(file, root), name) for name, file in lines}


def reaching(pair: Pair, functions: AbstractSet[Name]) -> tuple[str, ...]:
    """List paths of head whose requests enter one of some functions, each tried once in process.

    They are known of targets whose framework lists its routes; see `measure.effects.reach`.
    """
    side = pair.head
    if not side.testbed.target:
        return ()
    plan = {"targets": [counted.unit(side)], "report": True}
    try:
        with counted.program(side, reach.__name__) as client:
            program = client.python, client.payload
            (report,), _ = profiling.perform(*program, plan, client.env, _REACHING)
    except CountError:
        return ()
    return tuple(
        f"GET {path}"
        for path, found in report.get("entered", {}).items()
        if not functions.isdisjoint((file, name) for file, name in found)
    )[:PATHS]


def imports(pairs: Sequence[Pair]) -> tuple[str, ...]:
    """Say which modules only one side of each application imports at its start, if any.

    The slowest come first. The name of a package that is new stands for all of its modules.
    """
    once: dict[Hashable, Pair] = {}
    for pair in pairs:
        case = pair.case
        once.setdefault((case.python, case.stack, case.experiment, case.endpoint.app), pair)
    return tuple(dict.fromkeys(sentence for pair in once.values() for sentence in _imports(pair)))


def _imports(pair: Pair) -> Iterator[str]:
    sides = [replace(part, job=counted.IMPORT) for part in pair.sides]
    try:
        with ThreadPoolExecutor(2) as pool:  # each thread waits for its own process
            base, head = pool.map(counted.time_imports, sides)
    except CountError:
        return
    for (name, own), (other, known) in permutations((("base", base), ("head", head))):
        seconds: dict[str, float] = defaultdict(float)
        for module in own.keys() - known.keys():
            outer = accumulate(module.split("."), "{}.{}".format)
            seconds[next(part for part in outer if part not in known)] += own[module]
        slowest = sorted(seconds, key=lambda part: -seconds[part])
        if named := [f"{part} ({units.seconds(seconds[part])})" for part in slowest]:
            yield f"{AT_START}{name} imports {some(named, _MODULES)}, unlike {other}"
