"""Reads a dump of Callgrind that tells all callers apart: what each chain of functions executes.

CPython runs each Python function through a stub of its own (`sys.activate_stack_trampoline`), and
names the stubs in a map. A chain is the Python functions that are active, from the outermost on;
what compiled code executes is the innermost's, by symbol. Code of the packages' own extension
modules stands in the chain as a function, one for each module: their symbols are mostly stripped.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from duetbench.core.errors import CountError

TRAMPOLINE: Final = "trampoline"
"""Stands for the symbols of the stubs: no work of the program's own."""

STUB: Final = "py::"
"""What the names of stubs begin with, before a function's qualified name and its file."""

_EVALUATOR: Final = "py_trampoline_evaluator"
_COST: Final = frozenset("0123456789+-*")
_TABLES: Final = frozenset({"fn", "cfn", "ob", "cob"})


class Code(NamedTuple):
    """A Python function by qualified name and file, or an extension module by its file alone."""

    name: str
    file: str


Chain = tuple[Code, ...]
"""From the outermost on."""

Chains = dict[Chain, Counter[str]]
"""Own instructions of each chain's innermost function, by the symbol that executes them."""


class _Context(NamedTuple):
    names: tuple[str, ...]  # from the outermost on
    module: str  # that the innermost is from
    instructions: int


def stubs(text: str) -> dict[int, Code]:
    """Read a map of CPython's: the function of each address."""
    found = {}
    for line in text.splitlines():
        address, _, name = line.split(" ", 2)
        if name.startswith(STUB):
            qualified, _, file = name.removeprefix(STUB).partition(":")
            found[int(address, 16)] = Code(qualified, file)
    return found


def chains(lines: Iterable[str], named: Mapping[int, Code], packages: str) -> Chains:
    """Read a dump, with the names of the stubs; `packages` is the folder of extension modules.

    CountError: it is none, or not all of it.
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

    found: Chains = {}
    for names, module, instructions in contexts:
        chain: list[Code] = []
        for name in names:
            one = code(name)
            # A module's functions call each other.
            if one is not None and not (chain and chain[-1] == one and one not in python):
                chain.append(one)
        own = found.setdefault(tuple(chain), Counter())
        last = names[-1]
        own[_symbol(last, module, stub=code(last) in python)] += instructions
    return found


def _symbol(name: str, module: str, *, stub: bool) -> str:
    if stub or name == _EVALUATOR:
        return TRAMPOLINE
    if name.startswith("0x"):
        return f"{module.rpartition('/')[2].partition('.')[0]} (no symbols)"
    return name.partition("@")[0]


def _contexts(lines: Iterable[str]) -> list[_Context]:
    """Read what each context executes itself (Callgrind's manual, "Format Specification")."""
    names: dict[str, str] = {}
    modules: dict[str, str] = {}
    place: dict[str, str] = {}  # context → its module
    own: Counter[str] = Counter()
    current, module, total, callee = "", "", None, False
    for line in lines:
        if line[:1] in _COST:
            if not callee:  # else it is what a callee executes
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
