"""Counts both sides of a case, plainly and function by function, and says where they differ."""

import hashlib
import time
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name

from servebench import __version__
from servebench.compare import affected, instruments
from servebench.compare.attribution import naming, ranking
from servebench.compare.attribution.naming import Name, Naming
from servebench.compare.attribution.ranking import Fact, Seen
from servebench.core.errors import CountError
from servebench.host import paths
from servebench.host.progress import Narrator
from servebench.measure.duet import SideCase
from servebench.measure.instructions import dumps, entries, profiling
from servebench.measure.instructions.profiling import Profile
from servebench.record.attribution import Attribution, Totals
from servebench.record.change import StackState

RUNS: Final = 3
"""Profiles of each side, each with a path of another length: memory lies elsewhere."""

THRESHOLD: Final = 0.005
"""Share of the total from which on a function is named; equal sides differed by 0.1 %."""

COUNTS_SECONDS: Final = 180.0
"""For the plain counts of both sides."""

CANNOT_SEE: Final = (
    "It counts instructions of one request at a time in one thread, without a server: it sees no "
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
) -> Attribution:
    """Say which functions the instructions of a case differ in; up to a minute on two cores.

    `job` is a unit of work in the case's environment that is looked at instead of a request.

    Raises:
        CountError: They cannot be counted, or not by function.
    """
    started, when = time.monotonic(), datetime.now(UTC)
    (plain,) = instruments.instructions([(base, head)], COUNTS_SECONDS, switched=True, job=job)
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
    seen = [_seen(*one) for one in zip(sides, middle, facts, strict=True)]
    ranked = ranking.rank(seen[0], seen[1], THRESHOLD)
    case, rigs = head.case, (base.rig, head.rig)
    stacks = [{side.case.stack: side.rig.stacks[side.case.stack]} for side in sides]
    found = [rig.interpreters[side.case.python] for rig, side in zip(rigs, sides, strict=True)]
    digest = hashlib.sha256(f"{base.case.id} {case.id}".encode()).hexdigest()[:8]
    return Attribution(
        id=f"{when:%Y%m%dT%H%M%SZ}-why-{digest}",
        when=when,
        servebench=__version__,
        case=case.id,
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
        notes=(*([f"Not of a request, but of the job {job}."] if job else []), CANNOT_SEE),
    )


def _profile(side: SideCase, job: str | None, run: int) -> Profile:
    one = instruments.program(side)
    target = job or instruments.unit(side)
    # No multiple of what memory is aligned to.
    return profiling.profile(one.python, one.payload, target, env=one.env, padding=23 * run)


def _facts(side: SideCase, job: str | None) -> Mapping[entries.Place, entries.Observed]:
    """What functions are entered, exactly; nothing where it cannot be told."""
    one, target = instruments.program(side), job or instruments.unit(side)
    try:
        found = entries.count(one.python, one.payload, [target], env=one.env)[target]
    except CountError:
        return {}
    return {} if isinstance(found, str) else found


def _seen(
    side: SideCase, profile: Profile, facts: Mapping[entries.Place, entries.Observed]
) -> Seen:
    own = side.rig.folder(side.case).resolve()
    driver = (paths.OWN / "benchmarks", Path(instruments.__file__).resolve().parents[1])
    distributions = naming.owners(profile.packages)
    named = Naming(
        profile.packages, profile.standard, own, driver,
        {file: canonicalize_name(name) for file, name in distributions.items()},
    )  # fmt: skip
    known: dict[dumps.Code, Name] = {}

    def name(code: dumps.Code) -> Name:
        if code not in known:
            known[code] = named.of(code)
        return known[code]

    places: defaultdict[Name, list[Fact]] = defaultdict(list)
    for (qualified, file, line), one in facts.items():
        fact = Fact(line, one.entries, one.bytecodes, one.code)
        places[name(dumps.Code(qualified, file))].append(fact)
    return Seen(
        {tuple(map(name, chain)): own for chain, own in profile.chains.items()},
        {one: _sum(found) for one, found in places.items()},
    )


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
