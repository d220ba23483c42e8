"""Counts both sides of a case, plainly and function by function, and says where they differ."""

import hashlib
import os
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final, Literal

from packaging.utils import canonicalize_name

from duetbench.core import __version__
from duetbench.core.errors import CountError
from duetbench.host import paths
from duetbench.host.progress import Narrator
from duetbench.judge import affected, counted
from duetbench.judge.why import live as live_
from duetbench.judge.why import naming, ranking
from duetbench.judge.why.naming import Name, Naming
from duetbench.judge.why.ranking import Fact, Seen
from duetbench.measure.duet import SideCase
from duetbench.measure.instructions import dumps, entries, profiling
from duetbench.measure.instructions.profiling import Profile
from duetbench.project import names
from duetbench.store.attribution import Attribution, Sampled, Totals
from duetbench.store.change import StackState
from duetbench.store.comparison import Instructions

RUNS: Final = 5
"""Profiles of each side, each with a path of another length: memory lies elsewhere."""

THRESHOLD: Final = 0.003
"""Share of the total from which on a function is named.

Functions of equal sides differed by up to 0.27 %, and not in the same direction in all runs.
"""

Live = Literal["no", "unmoved", "yes"]

COUNTS_SECONDS: Final = 180.0
"""For the plain counts of both sides."""

CANNOT_SEE: Final = (
    "It counts instructions of one request at a time, without a server: it sees no "
    "contention, no waiting, nothing that the kernel does, no misses of caches, and nothing of "
    "Granian's own threads."
)
"""What every attribution says of itself."""


def attribute(
    base: SideCase,
    head: SideCase,
    narrator: Narrator | None = None,
    *,
    runs: int = RUNS,
    job: str | None = None,
    live: Live = "no",
) -> Attribution:
    """Say which functions the instructions of a case differ in; up to a minute on two cores.

    `job` is a unit of work in the case's environment that is looked at instead of a request.
    `live` says whether loaded servers are sampled, too, four minutes more: "unmoved", where time is
    known to have moved, does that if instructions did not.

    Raises:
        CountError: They cannot be counted, or not by function.
    """
    started, when = time.monotonic(), datetime.now(UTC)
    (plain,) = counted.instructions([(base, head)], COUNTS_SECONDS, switched=True, job=job)
    if isinstance(plain, str):
        raise CountError(plain)
    if narrator:
        narrator.say(f"{plain.base:.0f} → {plain.head:.0f} instructions; function by function …")
    sides = base, head
    with ThreadPoolExecutor(2) as pool:  # each waits for a process of its own
        turns = [pool.submit(_profile, side, job, run) for run in range(runs) for side in sides]
        looks = [pool.submit(_facts, side, job) for side in sides]
        profiles = [turn.result() for turn in turns]
        facts = [look.result() for look in looks]
    middle = [profiling.median(profiles[place::2]) for place in (0, 1)]
    named = [_naming(*one) for one in zip(sides, middle, strict=True)]
    seeing = [_seen(*one) for one in zip(named, facts, strict=True)]
    seen = [see(one) for see, one in zip(seeing, middle, strict=True)]
    pairs = [
        (seeing[0](one), seeing[1](other))
        for one, other in zip(profiles[::2], profiles[1::2], strict=True)
    ]
    ranked = ranking.rank(seen[0], seen[1], THRESHOLD, pairs)
    case, rigs = head.case, (base.rig, head.rig)
    stacks = [{side.case.stack: side.rig.stacks[side.case.stack]} for side in sides]
    found = [rig.interpreters[side.case.python] for rig, side in zip(rigs, sides, strict=True)]
    digest = hashlib.sha256(f"{base.case.id} {case.id}".encode()).hexdigest()[:8]
    return Attribution(
        id=f"{when:%Y%m%dT%H%M%SZ}-why-{digest}",
        when=when,
        duetbench=__version__,
        case=case.id,
        asked=names.of(case).what if head.rig.target else None,
        python=" → ".join(
            dict.fromkeys(f"{one.version}{'t' * one.free_threaded}" for one in found)
        ),
        base=StackState(stack=base.case.stack, digest=stacks[0][base.case.stack].digest),
        head=StackState(stack=case.stack, digest=stacks[1][case.stack].digest),
        packages=affected.package_changes(*stacks),
        totals=Totals(base=plain.base, head=plain.head, spread=plain.spread),
        counted=Totals(
            base=ranked.base,
            head=ranked.head,
            spread=max(_spread(profiles[place::2]) for place in (0, 1)),
        ),
        runs=runs,
        threshold=THRESHOLD,
        seconds=time.monotonic() - started,
        rows=ranked.rows,
        own=ranked.own,
        tree=ranked.tree,
        sampled=_sampled(sides, (named[0], named[1]), plain, "no" if job else live, narrator),
        notes=(*([f"Not of a request, but of the job {job}."] if job else []), CANNOT_SEE),
    )


def _sampled(
    sides: tuple[SideCase, SideCase],
    named: tuple[Callable[[dumps.Code], Name], Callable[[dumps.Code], Name]],
    plain: Instructions,
    wanted: Live,
    narrator: Narrator | None,
) -> Sampled | None:
    moved = abs(plain.head / plain.base - 1) > plain.spread
    if wanted == "no" or (wanted == "unmoved" and moved):
        return None
    try:
        return live_.sampled(sides, named, sides[1].rig.logs / "sampled", narrator)
    except CountError as problem:
        if wanted == "yes":
            raise
        if narrator:
            narrator.say(f"loaded servers were not sampled: {problem}")
        return None


def _profile(side: SideCase, job: str | None, run: int) -> Profile:
    with counted.program(side) as one:
        # No multiple of what memory is aligned to.
        found = profiling.profile(
            one.python, one.payload, job or counted.unit(side), env=one.env, padding=23 * run
        )
    home = _home(side, one)
    chains = {
        tuple(dumps.Code(name, home(file)) for name, file in chain): own
        for chain, own in found.chains.items()
    }
    return replace(found, chains=chains)


def _facts(side: SideCase, job: str | None) -> Mapping[entries.Place, entries.Observed]:
    """What functions are entered, exactly; nothing where it cannot be told."""
    target = job or counted.unit(side)
    try:
        with counted.program(side) as one:
            found = entries.count(one.python, one.payload, [target], env=one.env)[target]
    except CountError:
        return {}
    if isinstance(found, str):
        return {}
    home = _home(side, one)
    return {(name, home(file), line): seen for (name, file, line), seen in found.items()}


def _home(side: SideCase, one: counted.Program) -> Callable[[str], str]:
    """Says where a file lies of which a program has had a copy of its own."""
    copy, own = f"{one.folder}{os.sep}", f"{side.rig.folder(side.case).resolve()}{os.sep}"
    return lambda file: own + file.removeprefix(copy) if file.startswith(copy) else file


def _naming(side: SideCase, profile: Profile) -> Callable[[dumps.Code], Name]:
    """Name the code of a side's profiles, all of which lie in the same folders."""
    own = side.rig.folder(side.case).resolve()
    driver = (paths.OWN / "benchmarks", Path(counted.__file__).resolve().parents[1])
    distributions = naming.owners(profile.packages)
    return cache(Naming(
        profile.packages, profile.standard, own, driver,
        {file: canonicalize_name(name) for file, name in distributions.items()},
    ).of)  # fmt: skip


def _seen(
    name: Callable[[dumps.Code], Name], facts: Mapping[entries.Place, entries.Observed]
) -> Callable[[Profile], Seen]:
    """What a side's profiles say, with its facts."""
    places: defaultdict[Name, list[Fact]] = defaultdict(list)
    for (qualified, file, line), one in facts.items():
        fact = Fact(line, one.entries, one.bytecodes, one.code)
        places[name(dumps.Code(qualified, file))].append(fact)
    known_facts = {one: _sum(found) for one, found in places.items()}

    def seen(profile: Profile) -> Seen:
        chains = profile.chains.items()
        return Seen({tuple(map(name, chain)): own for chain, own in chains}, known_facts)

    return seen


def _sum(facts: list[Fact]) -> Fact:
    """One fact of functions that have the same name in the same file."""
    first = min(facts, key=lambda fact: fact.line)
    return Fact(
        max(first.line, 1), sum(one.entries for one in facts), sum(one.bytecodes for one in facts),
        first.code if len(facts) == 1 else "",
    )  # fmt: skip


def _spread(profiles: list[Profile]) -> float:
    """Largest minus smallest total, as a share."""
    totals = [one.total for one in profiles]
    return (max(totals) - min(totals)) / min(totals)
