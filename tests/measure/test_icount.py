"""Counting instructions: Callgrind's dumps, real counts, where they go, what may go wrong."""

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from bare import Programs
from bench import eventually, processes_with
from duetbench.app.in_process import Program, fixed_addresses
from duetbench.core.errors import CountError
from duetbench.counts import counted, profiling
from duetbench.counts.profiling import ROOT, Name
from goldens import DATA, assert_said
from observatory.matrix.checkout import Checkout

DUMPS: Final = DATA / "callgrind"

needs_valgrind = pytest.mark.skipif(
    counted.missing() is not None and "CI" not in os.environ, reason=f"{counted.missing()}"
)


def test_a_dump_that_was_cut_short_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is missing at its end, there is no count: a cut number would be a wrong one."""
    monkeypatch.setattr(counted, "ROUNDS", 2)
    monkeypatch.setattr(counted, "SPREAD_LIMIT", 1)
    assert counted.read_rounds(DUMPS, {"process": 4242, "n": 2}) == (10_017, 18_962)
    text, file = (DUMPS / "4242.2").read_text(), tmp_path / "4242.2"
    for end in range(len(text)):
        file.write_text(text[:end])
        with pytest.raises(CountError, match=r"4242\.2: expected .* is the disk full\?"):
            counted.read_dump(file)


def test_the_figure_of_a_round_is_that_of_one_call(tmp_path: Path) -> None:
    """Of ten; Valgrind did not see the marks, or others set them."""

    def read(totals: str) -> str:
        for number in range(1, 5):
            (tmp_path / f"7.{number}").unlink(missing_ok=True)
        for number, total in enumerate(totals.replace("none", "").split(), 1):
            (tmp_path / f"7.{number}").write_text(f"events: Ir\n\ntotals: {total}\n")
        return str(counted.read_rounds(tmp_path, {"process": 7, "n": 10}))

    assert_said("rounds", read)


PAYLOAD = """
import itertools, json, os, signal, sys, time
from duetbench.app.inside.phases import Unit, measure, run

DOCUMENT = {str(number): {"id": number, "tags": ["a", "b"]} for number in range(5)}

def loop(steps):
    for _ in itertools.repeat(None, steps):  # range() would make objects beyond 256
        pass

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
    if target == "raises":
        raise ValueError("no such thing")
    if target == "dies":
        import tempfile
        tempfile.mkstemp(".left-by-a-count")
        os.kill(os.getpid(), signal.SIGKILL)
    if target == "cycles":
        def cycle():
            one, other = [], []
            one.append(other), other.append(one)
        return Unit(cycle, n=1000)
    if target == "work":
        return Unit(work)
    steps = 100 + os.urandom(1)[0]
    does = {
        "draws": lambda: loop(steps),
        "wanders": lambda: loop(os.urandom(1)[0] * 8),
        "waits": lambda: time.sleep(0.05),
        "json": lambda: json.loads(json.dumps(DOCUMENT)),
    }
    return Unit(does.get(target) or (lambda: loop(int(target))))

if __name__ == "__main__":
    run(lambda plan: measure(lambda: prepare(sys.argv[1]), plan))
"""


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], Program]:
    file = tmp_path / "payload.py"
    file.write_text(PAYLOAD)
    python = Checkout.here().interpreter("3.14").executable
    return lambda target: Program(python, ["-P", "-S", str(file), target])


def count(*programs: Program, seconds: float = 600) -> list[float]:
    """Count programs beside each other; the median of each."""
    ends = time.monotonic() + seconds
    with ExitStack() as stack:
        under_way = [stack.enter_context(counted.count_rounds(each, ends)) for each in programs]
        return [statistics.median(collect()) for collect in under_way]


def pretend(
    folder: Path, monkeypatch: pytest.MonkeyPatch, script: str, name: str = "valgrind"
) -> None:
    folder.mkdir()
    Programs(folder).write(name, script)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


TARGETS = ["1000", "cycles", "json", "2000", "draws"]


@pytest.mark.thorough
@pytest.mark.long
@needs_valgrind
@pytest.mark.real
def test_counts_repeat(
    program: Callable[[str], Program], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes have the same figures; also in containers, where addresses are not fixed."""
    pretend(tmp_path / "bin", monkeypatch, "exit 1", "later")  # variables take instructions, too
    first, again = (
        dict(zip(TARGETS, count(*map(program, TARGETS)), strict=True)) for _ in range(2)
    )
    # Names of folders are random: now and then keys collide in one process of many.
    assert sum(again[n] != pytest.approx(first[n], rel=1e-5) for n in TARGETS) <= 1, (first, again)
    assert again == pytest.approx(first, rel=counted.LAYOUT)
    # A step of a loop takes 5 to 200 instructions.
    assert first["2000"] / first["1000"] == pytest.approx(2, rel=0.02)
    assert 5 * 1000 < first["1000"] < 200 * 1000
    (tmp_path / "bin" / "later").rename(tmp_path / "bin" / "setarch")
    fixed_addresses.cache_clear()
    try:
        assert count(program("json")) == pytest.approx([first["json"]], rel=counted.LAYOUT)
    finally:
        fixed_addresses.cache_clear()


@needs_valgrind
@pytest.mark.real
@pytest.mark.parametrize(
    ("target", "seconds", "reason"),
    [
        ("wanders", 600,
         r"^rounds of 30 requests differ by more than 5%: \d+, \d+, \d+ instructions"),
        ("raises", 600, "^ValueError: no such thing$"),
        ("dies", 600, "process was ended by signal 9; its last words: none"),
        ("waits", 2, r"did not end within [12]\S* s"),
    ],
)  # fmt: skip
def test_what_raises_dies_varies_or_does_not_end_has_no_figure(
    target: str, seconds: float, reason: str, program: Callable[[str], Program], tmp_path: Path
) -> None:
    """Valgrind and all processes of the payload are gone, and so are its files."""
    marked = replace(program(target), env={"TOKEN": str(tmp_path)})
    with pytest.raises(CountError, match=reason):
        count(marked, seconds=seconds)
    eventually("nothing lives", lambda: not processes_with(str(tmp_path)))
    # The next count would draw the same names, of which Python tries twenty.
    assert not [*Path(tempfile.gettempdir()).glob("*.left-by-a-count")]


_COUNT = """
import math, sys
from pathlib import Path
from duetbench.app.in_process import Program
from duetbench.counts.counted import count_rounds
python, token, *payload = sys.argv[1:]
with count_rounds(Program(Path(python), payload, {"TOKEN": token}), math.inf) as collect:
    collect()
"""


@pytest.mark.thorough
@needs_valgrind
@pytest.mark.real
@pytest.mark.usefixtures("state_home")
def test_nothing_survives_the_process_that_counts(
    tmp_path: Path, program: Callable[[str], Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal ends its group, with a target at work."""
    token, waits = str(tmp_path / "token"), program("waits")
    counter = subprocess.Popen(
        [sys.executable, "-c", _COUNT, str(waits.python), token, *waits.payload],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        start_new_session=True,
    )
    eventually("a target works", lambda: any(tmp_path.glob("duetbench-tmp-*/*/*.1")))
    assert processes_with(token)
    os.killpg(counter.pid, signal.SIGKILL)
    counter.wait()
    eventually("nothing lives", lambda: not processes_with(token))
    (left,) = tmp_path.glob("duetbench-tmp-*")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pretend(tmp_path / "bin", monkeypatch, "exit 1")
    with pytest.raises(CountError, match="exit code 1"):
        count(program("1000"))
    assert not left.exists()


MAP: Final = (DUMPS / "by-hand.map").read_text("utf-8")
DUMP: Final = (DUMPS / "by-hand.dump").read_text("utf-8").splitlines()
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
    # A dump that was cut short is none.
    for short in (DUMP[:-1], [*DUMP[:9], DUMP[-1]]):
        with pytest.raises(CountError, match="add up to its total"):
            profiling.read_chains(short, {}, "/env")


@pytest.mark.real
@needs_valgrind
@pytest.mark.parametrize("python", ["3.14", pytest.param("3.14t", marks=pytest.mark.thorough)])
def test_entries_are_those_of_the_source(python: str, program: Callable[[str], Program]) -> None:
    """A generator of two is started and resumed twice; every fifth call is a fifth of an entry."""
    work = program("work")
    executable = Checkout.here().interpreter(python).executable
    with profiling.profile(replace(work, python=executable)) as collect:
        profile = collect()
    assert {name.file for name in profile.facts} == {work.payload[2]}
    facts = {name.name: fact for name, fact in profile.facts.items()}
    assert {name: fact.entries for name, fact in facts.items()} == {
        "work": 1, "numbers": 3, "Thing.length": 1, "work.<locals>.<lambda>": 2, "seldom": 0.2,
        "Thing.also": 1,
    }  # fmt: skip
    for name in ("numbers", "seldom"):
        assert PAYLOAD.splitlines()[facts[name].line - 1] == f"def {name}():"
    assert facts.keys() <= {name.name for name in profile.names}
