"""Which functions execute the instructions of a unit of work, and how often each is entered.

A profile counts instructions by chain of calls: CPython runs each Python function through a stub
(`sys.activate_stack_trampoline`) and lists the stubs in a map; Callgrind distinguishes all callers.
A stub costs some hundred instructions per entry: frequently entered functions seem too expensive.

The interpreter's `sys.monitoring` counts entries, exactly and without Valgrind. They do not include
the cost of compiled code: they confirm where a change is, but do not rank.
"""

import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from duetbench.core.errors import CountError, LaunchError
from duetbench.core.text import ending
from duetbench.host.command import read_log
from duetbench.host.process_session import Session
from duetbench.measure.instructions import counting

PROFILE_S: Final = 180.0
ENTRIES_S: Final = 120.0  # 3 s measured, most of them for imports
_WATCH: Final = 0.1  # seconds between two looks at what a program has reported
TRAMPOLINE: Final = "trampoline"  # for the symbols of the stubs, which are no work of the program
_STUB: Final = "py::"  # start of a stub's name, before a function's qualified name and its file
_EVALUATOR: Final = "py_trampoline_evaluator"
_MAP: Final = "/tmp/perf-{}.map"  # noqa: S108 - where CPython writes it
_COST: Final = frozenset("0123456789+-*")
_TABLES: Final = frozenset({"fn", "cfn", "ob", "cob"})


class Code(NamedTuple):
    """A Python function by qualified name and file, or an extension module by its file alone."""

    name: str
    file: str


Chain = tuple[Code, ...]
"""The active Python functions, the outermost first. Instructions of compiled code count for the
innermost, by symbol. An extension module of the packages counts as one function of the chain, as
most are stripped of symbols."""

Chains = dict[Chain, Counter[str]]
"""Own instructions of each chain's innermost function, by the symbol that executes them."""

Place = tuple[str, str, int]  # qualified name, file as its code object has it, first line


@dataclass(frozen=True, slots=True)
class Observed:
    """What a function does per unit of work."""

    entries: float
    code: str = field(default="", compare=False)
    """A digest, equal for functions with equal code; empty: several functions share the place."""


class _Context(NamedTuple):
    names: tuple[str, ...]  # of functions, the outermost first
    module: str  # of the innermost function
    instructions: int


@dataclass(frozen=True, slots=True)
class Profile:
    """Own instructions per unit of work of each chain, by symbol."""

    chains: Mapping[Chain, Mapping[str, float]]
    packages: Path  # the folder of the environment's packages
    standard: Path  # the folder of the standard library

    @property
    def total(self) -> float:
        return sum(sum(own.values()) for own in self.chains.values())


def profile(
    python: Path,
    payload: Sequence[str],
    target: str,
    *,
    env: Mapping[str, str] | None = None,
    padding: int = 0,
) -> Profile:
    """Profile a unit of work; arguments, environment and errors as of `counting.count`.

    `padding` makes the path of its folder longer, which moves memory.
    """
    with counting.workspace({"targets": [target], "profile": True}, 1 + padding) as folder:
        with counting.Process(python, payload, folder, env or {}, counting.PROFILED) as process:
            process.wait(PROFILE_S)
        return _read_profile(folder)


def _read_profile(folder: Path) -> Profile:
    report = counting.report_of(folder / "0.json")
    if "reason" in report:
        raise CountError(str(report["reason"]))
    names = Path(_MAP.format(report["process"]))
    try:
        stubs = read_stubs(names.read_text("utf-8"))
        with (folder / f"{report['process']}.1").open(encoding="utf-8", errors="replace") as dump:
            chains = read_chains(dump, stubs, report["packages"])
    except OSError as error:
        raise CountError(f"expected a dump and a map of CPython's stubs: {error}") from error
    finally:
        names.unlink(missing_ok=True)
    n = report["n"]
    return Profile(
        {chain: {name: k / n for name, k in own.items()} for chain, own in chains.items()},
        Path(report["packages"]),
        Path(report["standard"]),
    )


def median(profiles: Sequence[Profile]) -> Profile:
    """The median of each symbol of each chain over some profiles of the same code."""
    middle: defaultdict[Chain, dict[str, float]] = defaultdict(dict)
    for chain, symbol in dict.fromkeys(
        (chain, symbol) for p in profiles for chain, own in p.chains.items() for symbol in own
    ):
        values = [p.chains.get(chain, {}).get(symbol, 0.0) for p in profiles]
        middle[chain][symbol] = statistics.median(values)
    return replace(profiles[0], chains=dict(middle))


def read_stubs(text: str) -> dict[int, Code]:
    """Read CPython's map of stubs: the function of each address."""
    functions = {}
    for line in text.splitlines():
        address, _, name = line.split(" ", 2)
        if name.startswith(_STUB):
            qualified, _, file = name.removeprefix(_STUB).partition(":")
            functions[int(address, 16)] = Code(qualified, file)
    return functions


def read_chains(lines: Iterable[str], named: Mapping[int, Code], packages: str) -> Chains:
    """Read a dump, with the names of the stubs; `packages` is the folder of extension modules.

    Raises CountError if it is no dump, or is incomplete.
    """
    contexts = _contexts(lines)
    modules: defaultdict[str, set[str]] = defaultdict(set)
    for context in contexts:
        modules[context.names[-1]].add(context.module)

    known: dict[str, Code | None] = {}
    python = set(named.values())

    def code(name: str) -> Code | None:
        if name not in known:
            stub = named.get(int(name, 16)) if name.startswith("0x") else None
            files = modules[name]
            if stub is None and files and all(file.startswith(f"{packages}/") for file in files):
                file = min(files)
                stub = Code(file.rpartition("/")[2].partition(".")[0], file)
            known[name] = stub
        return known[name]

    chains: Chains = {}
    for names, module, instructions in contexts:
        chain: list[Code] = []
        for name in names:
            function = code(name)
            # A module's functions call each other.
            repeated = chain and chain[-1] == function and function not in python
            if function is not None and not repeated:
                chain.append(function)
        own = chains.setdefault(tuple(chain), Counter())
        last = names[-1]
        own[_symbol(last, module, stub=code(last) in python)] += instructions
    return chains


def _symbol(name: str, module: str, *, stub: bool) -> str:
    if stub or name == _EVALUATOR:
        return TRAMPOLINE
    if name.startswith("0x"):
        return f"{module.rpartition('/')[2].partition('.')[0]} (no symbols)"
    return name.partition("@")[0]


def _contexts(lines: Iterable[str]) -> list[_Context]:
    """Read the own instructions of each context (Callgrind's manual, "Format Specification")."""
    names: dict[str, str] = {}
    modules: dict[str, str] = {}
    place: dict[str, str] = {}  # context → its module
    own: Counter[str] = Counter()
    current, module, total, callee = "", "", None, False
    for line in lines:
        if line[:1] in _COST:
            if not callee:  # else the line is the cost of a callee
                own[current] += int(line.split()[1])
            callee = False
            continue
        key, _, value = line.rstrip("\n").partition("=")
        number, _, name = value.partition(" ")
        if name and key in _TABLES:
            (names if key.endswith("fn") else modules)[number] = name
        if key == "fn":
            current, place[number] = number, module
        elif key == "ob":
            module = number
        elif key == "calls":
            callee = True
        elif line.startswith("totals:"):
            total = int(line.split()[1])
    if total is None or total != own.total():
        raise CountError(
            f"expected a dump of Callgrind whose contexts add up to its total, found {total} and "
            f"{own.total()} instructions; is the disk full?"
        )
    return [
        _Context(
            tuple(part for part in reversed(names[number].split("'")) if not part.isdigit()),
            modules.get(place[number], ""),
            instructions,
        )
        for number, instructions in own.items()
    ]


def count_entries(
    python: Path,
    payload: Sequence[str],
    targets: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    timeout: float = ENTRIES_S,
) -> dict[str, dict[Place, Observed] | str]:
    """Observe units of work, or give each one's reason why not; arguments as of `counting.count`.

    Raises CountError if nothing could be observed.
    """
    plan = {"targets": list(targets), "observe": True}
    reports = perform(python, payload, plan, env, timeout)
    return dict(zip(targets, map(_read_entries, reports), strict=True))


def perform(
    python: Path,
    payload: Sequence[str],
    plan: Mapping[str, Any],
    env: Mapping[str, str] | None,
    timeout: float = ENTRIES_S,
    watch: Callable[[Path], object] | None = None,
) -> list[dict[str, Any]]:
    """Do units of work without Valgrind; their reports.

    `watch` is called now and then with the folder of the reports, while the program runs.
    """
    with counting.workspace(plan) as folder:
        try:
            with Session.start(
                (*counting.fixed_addresses(), str(python), *payload),
                role="command",
                cores=None,
                env=counting.environment(env or {}, folder),
                cwd=folder,
                log=folder / "log",
            ) as session:
                ends, code = time.monotonic() + timeout, None
                while code is None and (left := ends - time.monotonic()) > 0:
                    code = session.wait(min(left, _WATCH) if watch else left)
                    if watch:
                        watch(folder)
                session.stop(0)
        except LaunchError as error:
            raise CountError(error.detail) from error
        if code != 0:
            late = f"did not end within {timeout:.3g} s"
            how = late if code is None else f"ended with exit code {code}"
            said = read_log(folder / "log").strip()
            words = ending(said, counting.LAST_WORDS) or "none"
            raise CountError(f"the application's process {how}; its last words: {words}")
        reports = (folder / f"{index}.json" for index in range(len(plan["targets"])))
        return [*map(counting.report_of, reports)]


def _read_entries(report: Mapping[str, Any]) -> dict[Place, Observed] | str:
    if "reason" in report:
        return str(report["reason"])
    n = report["n"]
    sums: dict[Place, tuple[int, str]] = {}
    for name, file, line, entries, code in report["functions"]:
        # The same code compiled twice, or two lambdas on one line.
        before = sums.get((name, file, line), (0, code))
        sums[name, file, line] = before[0] + entries, code if code == before[1] else ""
    return {place: Observed(entries / n, code) for place, (entries, code) in sums.items()}
