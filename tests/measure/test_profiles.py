"""Where instructions go: dumps by hand, and entries of a program, known from reading it."""

import textwrap
from pathlib import Path
from typing import Final

import pytest

from duetbench.app.in_process import Program
from duetbench.core.errors import CountError
from duetbench.counts import counted, profiling
from duetbench.counts.profiling import ROOT, Name
from goldens import DATA
from observatory.matrix.checkout import Checkout

_DATA: Final = DATA / "callgrind"
MAP: Final = (_DATA / "by-hand.map").read_text("utf-8")
DUMP: Final = (_DATA / "by-hand.dump").read_text("utf-8").splitlines()
HANDLE = Name("handle", "/env/site-packages/web/app.py")
DUMPED = Name("Model.dump", "/env/site-packages/web/models.py")
CORE = Name("core", "/env/site-packages/core/core.cpython-314.so")


def test_instructions_belong_to_the_innermost_function_and_to_the_extension_that_it_is_in() -> None:
    stubs = profiling.read_stubs(MAP, Path("/copy"))
    assert stubs[0x7878040] == Name("main", "src/shop.py")
    chains = profiling.read_chains(DUMP, stubs, "/env/site-packages")
    assert chains == {
        (ROOT,): 5,
        (ROOT, HANDLE): 120,
        (ROOT, HANDLE, HANDLE): 8,
        (ROOT, HANDLE, DUMPED): 36,
        (ROOT, HANDLE, DUMPED, CORE): 110,
    }


def test_a_dump_that_was_cut_short_is_none() -> None:
    for short in (DUMP[:-1], [*DUMP[:9], DUMP[-1]]):
        with pytest.raises(CountError, match="add up to its total"):
            profiling.read_chains(short, {}, "/env")


PAYLOAD = """
    import itertools
    from duetbench.app.inside.phases import Unit, measure, run

    NUMBERS = itertools.count()

    def numbers():
        yield 1
        yield 2

    class Thing:
        def length(self):
            return len("ab")

        @staticmethod
        def also():
            pass

    def seldom():
        pass

    def work():
        for _ in numbers():
            pass
        Thing().length()
        sorted([2, 1], key=lambda number: number)
        if next(NUMBERS) % 5 == 0:
            seldom()
        Thing.also()

    if __name__ == "__main__":
        run(lambda plan: measure(lambda: Unit(work), plan))
"""


@pytest.mark.real
@pytest.mark.skipif(counted.missing() is not None, reason=f"{counted.missing()}")
@pytest.mark.parametrize("python", ["3.14", pytest.param("3.14t", marks=pytest.mark.thorough)])
def test_entries_are_those_of_the_source(python: str, tmp_path: Path) -> None:
    """A generator of two is started and resumed twice; every fifth call is a fifth of an entry."""
    file = tmp_path / "payload.py"
    file.write_text(textwrap.dedent(PAYLOAD))
    executable = Checkout.here().interpreter(python).executable
    with profiling.profile(Program(executable, ["-P", "-S", str(file)])) as collect:
        profile = collect()
    assert {name.file for name in profile.facts} == {str(file)}
    facts = {name.name: fact for name, fact in profile.facts.items()}
    assert {name: fact.entries for name, fact in facts.items()} == {
        "work": 1, "numbers": 3, "Thing.length": 1, "work.<locals>.<lambda>": 2, "seldom": 0.2,
        "Thing.also": 1,
    }  # fmt: skip
    assert (facts["numbers"].line, facts["seldom"].line) == (7, 19)
    assert facts.keys() <= {name.name for name in profile.names}
