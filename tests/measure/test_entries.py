"""Exact entries: what a program does is known from reading it, and both interpreters agree."""

import sys
import textwrap
from pathlib import Path

import pytest

from duetbench.core.errors import CountError
from duetbench.measure.instructions import profiling
from duetbench.project.project import Project

PAYLOAD = """
    import itertools, threading, time
    from duetbench.measure.instructions.phases import Unit, run

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

    def prepare(target):
        if target == "threads":
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        return Unit(work)

    if __name__ == "__main__":
        run(prepare)
"""


@pytest.mark.real
@pytest.mark.parametrize("python", ["3.14", "3.14t"])
def test_entries_bytecodes_and_calls_are_those_of_the_source(python: str, tmp_path: Path) -> None:
    """A generator of two is started and resumed twice; every fifth call is a fifth of an entry.

    `length` executes LOAD_GLOBAL, LOAD_CONST, CALL and RETURN_VALUE, after RESUME: the entry.
    """
    file = tmp_path / "payload.py"
    file.write_text(textwrap.dedent(PAYLOAD))
    executable = Project.here().interpreter(python).executable
    found = profiling.count_entries(executable, ["-P", str(file)], ["work", "threads"])
    assert str(found.pop("threads")).startswith("it starts threads")
    (functions,) = found.values()
    assert not isinstance(functions, str)
    assert {place[1] for place in functions} == {str(file)}
    named = {place[0]: one for place, one in functions.items()}
    assert {name: one.entries for name, one in named.items()} == {
        "work": 1, "numbers": 3, "Thing.length": 1, "work.<locals>.<lambda>": 2, "seldom": 0.2,
        "Thing.also": 1,
    }  # fmt: skip
    length = named["Thing.length"]
    assert (length.bytecodes, length.calls) == (4, {"len": 1})
    assert named["seldom"].code == named["Thing.also"].code != length.code
    assert named["work"].calls == {"Thing": 1, "sorted": 1, "next": 1}
    lines = {name: line for name, _, line in functions}
    assert (lines["numbers"], lines["seldom"]) == (7, 19)


def test_a_program_that_cannot_start_is_told_with_its_words(tmp_path: Path) -> None:
    (tmp_path / "payload.py").write_text("raise SystemExit('no such stack')")
    with pytest.raises(CountError, match=r"expected to observe what is entered.*no such stack"):
        profiling.count_entries(
            Path(sys.executable), ["-P", str(tmp_path / "payload.py")], ["work"]
        )
