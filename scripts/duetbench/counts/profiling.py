"""Which functions execute the instructions of a unit of work, and how often each is entered.

A profile counts instructions by chain of calls: CPython runs each Python function through a stub
(`sys.activate_stack_trampoline`) and lists the stubs in a map; Callgrind distinguishes all callers.
A stub costs some hundred instructions per entry: frequently entered functions seem too expensive.

The interpreter's `sys.monitoring` counts entries, exactly, before the stubs are there. They do not
include the cost of compiled code: they confirm where a change is, but do not rank.
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from duetbench.app.in_process import Process, Program, start
from duetbench.core.errors import CountError
from duetbench.counts import counted

PROFILE_S: Final = 180.0
_STUB: Final = "py::"  # start of a stub's name, before a function's qualified name and its file
_OPTIONS: Final = ("--separate-callers=500", "--demangle=no")
"""Valgrind distinguishes all callers, some six per Python function."""

_MAP: Final = "/tmp/perf-{}.map"  # noqa: S108 - where CPython writes it
_COST: Final = frozenset("0123456789+-*")
_TABLES: Final = frozenset({"fn", "cfn", "ob", "cob"})


DRIVER: Final = "duetbench"
"""Stands for a package where code is that which sends requests inside the process."""


class Name(NamedTuple):
    """A Python function by qualified name and file, or an extension module by its file alone.

    A file of the program's own copy of the application is a path from its folder. Without a package
    it is named as the process had it, else as on all machines.
    """

    name: str
    file: str
    package: str = ""


ROOT: Final = Name("all", "", DRIVER)
"""The caller of the outermost functions, with which each chain of calls begins."""

Chain = tuple[Name, ...]
"""The active Python functions, the outermost first. Instructions of compiled code count for the
innermost. An extension module of the packages counts as one function of the chain, as most are
stripped of symbols."""


class Fact(NamedTuple):
    """What is known of a Python function: its first line, and its entries per unit of work."""

    line: int
    entries: float

    def with_(self, other: "Fact") -> "Fact":
        """Join functions of one name: the same code made twice, or two lambdas."""
        return Fact(min(self.line, other.line), self.entries + other.entries)


@dataclass(frozen=True, slots=True)
class Profile:
    """Own instructions per unit of work of each chain's innermost function, and all functions.

    Attributes:
        packages: The folder of the environment's packages.
        standard: The folder of the standard library.
    """

    chains: Mapping[Chain, float]
    facts: Mapping[Name, Fact] = field(default_factory=dict)
    packages: Path = Path()
    standard: Path = Path()

    @property
    def total(self) -> float:
        return sum(self.chains.values())

    @property
    def names(self) -> set[Name]:
        return {name for chain in self.chains for name in chain}

    def rename(self, name: Callable[[Name], Name]) -> "Profile":
        """Name each function otherwise; those that get one name become one."""
        chains = defaultdict[Chain, float](float)
        for chain, own in self.chains.items():
            chains[tuple(map(name, chain))] += own
        facts: dict[Name, Fact] = {}
        for old, fact in self.facts.items():
            new = name(old)
            facts[new] = facts[new].with_(fact) if new in facts else fact
        return replace(self, chains=chains, facts=facts)


@contextmanager
def profile(program: Program, padding: int = 0) -> Iterator[Callable[[], Profile]]:
    """Profile a unit of work beside other work; the rest is as in `counted.count_rounds`.

    `padding` makes its environment longer, which moves memory.
    """
    with start(
        program.padded(padding),
        {"functions": True},
        lambda folder: counted.counter(folder, _OPTIONS),
    ) as process:
        yield lambda: _read_profile(process, program.folder)


def _read_profile(process: Process, folder: Path) -> Profile:
    report = process.report(PROFILE_S)
    names = Path(_MAP.format(report["process"]))
    dump = process.folder / f"{report['process']}.1"
    try:
        stubs = read_stubs(names.read_text("utf-8"), folder)
        with dump.open(encoding="utf-8", errors="replace") as lines:
            chains = read_chains(lines, stubs, report["packages"])
    except OSError as error:
        raise CountError(f"expected a dump and a map of CPython's stubs: {error}") from error
    finally:
        names.unlink(missing_ok=True)
    n, facts = report["n"], dict[Name, Fact]()
    for name, file, line, entered in report["functions"]:
        function, fact = _name(name, file, folder), Fact(max(line, 1), entered / n)
        facts[function] = facts[function].with_(fact) if function in facts else fact
    return Profile(
        {chain: own / n for chain, own in chains.items()},
        facts,
        Path(report["packages"]),
        Path(report["standard"]),
    )


def _name(name: str, file: str, folder: Path) -> Name:
    return Name(name, file.removeprefix(f"{folder}/"))


def median(profiles: Sequence[Profile]) -> Profile:
    """The median of each chain over some profiles of the same code."""
    every = dict.fromkeys(chain for profile in profiles for chain in profile.chains)
    middle = {
        chain: statistics.median(profile.chains.get(chain, 0.0) for profile in profiles)
        for chain in every
    }
    return replace(profiles[0], chains=middle)


def read_stubs(text: str, folder: Path) -> dict[int, Name]:
    """Read CPython's map of stubs: the function of each address; `folder` has the application."""
    functions = {}
    for line in text.splitlines():
        address, _, name = line.split(" ", 2)
        if name.startswith(_STUB):
            qualified, _, file = name.removeprefix(_STUB).partition(":")
            functions[int(address, 16)] = _name(qualified, file, folder)
    return functions


def read_chains(lines: Iterable[str], named: Mapping[int, Name], packages: str) -> Counter[Chain]:
    """Read a dump, with the names of the stubs; `packages` is the folder of extension modules.

    Raises CountError if it is no dump, or is incomplete.
    """
    contexts = _contexts(lines)
    modules: defaultdict[str, set[str]] = defaultdict(set)
    for symbols, module, _ in contexts:
        modules[symbols[-1]].add(module)

    known: dict[str, Name | None] = {}
    python = set(named.values())

    def function_of(symbol: str) -> Name | None:
        if symbol not in known:
            stub = named.get(int(symbol, 16)) if symbol.startswith("0x") else None
            files = modules[symbol]
            if stub is None and files and all(file.startswith(f"{packages}/") for file in files):
                file = min(files)
                stub = Name(file.rpartition("/")[2].partition(".")[0], file)
            known[symbol] = stub
        return known[symbol]

    chains = Counter[Chain]()
    for symbols, _, instructions in contexts:
        chain = [ROOT]
        for symbol in symbols:
            function = function_of(symbol)
            # A module's functions call each other.
            repeated = chain[-1] == function and function not in python
            if function is not None and not repeated:
                chain.append(function)
        chains[tuple(chain)] += instructions
    return chains


def _contexts(lines: Iterable[str]) -> list[tuple[tuple[str, ...], str, int]]:
    """Read the own instructions of each context (Callgrind's manual, "Format Specification").

    A context is the names of its functions, the outermost first, and the innermost one's module.
    """
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
        (
            tuple(part for part in reversed(names[number].split("'")) if not part.isdigit()),
            modules.get(place[number], ""),
            instructions,
        )
        for number, instructions in own.items()
    ]
