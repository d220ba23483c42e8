"""Counting instructions: reading Callgrind's dumps, real counts, and what may go wrong."""

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from bench import eventually, processes_with
from duetbench.app.inside import phases
from duetbench.app.inside.process import Program, fixed_addresses
from duetbench.core.errors import CountError
from duetbench.counts import counting
from observatory.matrix.checkout import Checkout

DATA = Path(__file__).parents[1] / "data" / "callgrind"

needs_valgrind = pytest.mark.skipif(
    counting.missing() is not None and "CI" not in os.environ, reason=f"{counting.missing()}"
)


# Reading.


def test_recorded_dumps_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "ROUNDS", 2)
    monkeypatch.setattr(counting, "SPREAD_LIMIT", 1)
    assert counting.read_rounds(DATA, {"process": 4242, "n": 2}) == (10_017, 18_962)


def test_a_dump_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    """Whatever is missing at its end, there is no count: a cut number would be a wrong one."""
    text, file = (DATA / "4242.2").read_text(), tmp_path / "4242.2"
    for end in range(len(text)):
        file.write_text(text[:end])
        with pytest.raises(CountError, match=r"4242\.2: expected .* is the disk full\?"):
            counting.read_dump(file)


# Arithmetic.


def write_dumps(folder: Path, *totals: int) -> None:
    for number, total in enumerate(totals, 1):
        (folder / f"7.{number}").write_text(f"events: Ir\n\ntotals: {total}\n")


def test_the_figure_of_a_round_is_that_of_one_call(tmp_path: Path) -> None:
    write_dumps(tmp_path, 2000, 2030, 2001)
    assert counting.read_rounds(tmp_path, {"process": 7, "n": 10}) == (200, 203, 200.1)


@pytest.mark.parametrize(
    ("counted", "rounds"), [((1000, 1100, 1000), "100, 110, 100"), ((0,) * 3, "0, 0, 0")]
)
def test_what_gives_no_figure_says_why(
    counted: tuple[int, ...], rounds: str, tmp_path: Path
) -> None:
    write_dumps(tmp_path, *counted)
    words = f"rounds of 10 requests differ by more than 5%: {rounds} instructions per request"
    with pytest.raises(CountError, match=f"^{words}$"):
        counting.read_rounds(tmp_path, {"process": 7, "n": 10})


@pytest.mark.parametrize("dumps", [0, 4])
def test_marks_that_valgrind_did_not_see_or_that_others_set_are_noticed(
    dumps: int, tmp_path: Path
) -> None:
    write_dumps(tmp_path, *[9] * dumps)
    words = f"3 times, found {dumps} times; .* or does the application itself call getppid"
    with pytest.raises(CountError, match=words):
        counting.read_rounds(tmp_path, {"process": 7, "n": 10})


# Counting.

PAYLOAD = """
    import itertools, json, os, signal, sys, time
    from duetbench.app.inside.phases import Unit, measure, run

    DOCUMENT = {str(number): {"id": number, "tags": ["a", "b"]} for number in range(5)}

    def loop(steps):
        for _ in itertools.repeat(None, steps):  # range() would make objects beyond 256
            pass

    def prepare(target):
        if target == "raises":
            raise ValueError("no such thing")
        if target == "dies":
            import tempfile
            tempfile.mkstemp(".left-by-a-count")
            os.kill(os.getpid(), signal.SIGKILL)
        if target == "hangs":
            return Unit(lambda: time.sleep(3600), takes=3600)
        if target == "draws":
            steps = 100 + os.urandom(1)[0]
            return Unit(lambda: loop(steps))
        if target == "wanders":
            return Unit(lambda: loop(os.urandom(1)[0] * 8))
        if target == "waits":
            return Unit(lambda: time.sleep(0.05))
        if target == "slow":
            return Unit(lambda: (time.sleep(0.1), loop(20_000)), n=3, warmup=3, takes=0.1)
        if target == "json":
            return Unit(lambda: json.loads(json.dumps(DOCUMENT)))
        if target == "cycles":
            def cycle():
                one, other = [], []
                one.append(other), other.append(one)
            return Unit(cycle, n=1000)
        return Unit(lambda: loop(int(target)))

    if __name__ == "__main__":
        run(lambda plan: measure(lambda: prepare(sys.argv[1]), plan))
"""


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], Program]:
    """Make the program of a target."""
    file = tmp_path / "payload.py"
    file.write_text(textwrap.dedent(PAYLOAD))
    python = Checkout.here().interpreter("3.14").executable
    return lambda target: Program(python, ["-P", "-S", str(file), target])


def count(*programs: Program, seconds: float = 600) -> list[float]:
    """Count programs beside each other; the median of each."""
    ends = time.monotonic() + seconds
    with ExitStack() as stack:
        under_way = [stack.enter_context(counting.count(program, ends)) for program in programs]
        return [statistics.median(collect()) for collect in under_way]


TARGETS = ["1000", "cycles", "json", "2000", "draws"]


@pytest.mark.thorough
@pytest.mark.long
@needs_valgrind
@pytest.mark.real
def test_counts_repeat(program: Callable[[str], Program]) -> None:
    """Two processes of each have the same figures."""
    once = dict(zip(TARGETS, count(*map(program, TARGETS)), strict=True))
    again = dict(zip(TARGETS, count(*map(program, TARGETS)), strict=True))
    assert again == pytest.approx(once, rel=1e-5)
    # A step of a loop takes 5 to 200 instructions.
    assert once["2000"] / once["1000"] == pytest.approx(2, rel=0.02)
    assert 5 * 1000 < once["1000"] < 200 * 1000


@needs_valgrind
@pytest.mark.real
@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("wanders", r"^rounds of 30 requests differ by more than 5%: \d+, \d+, \d+ instructions"),
        ("raises", "^ValueError: no such thing$"),
        ("dies", "process was ended by signal 9; its last words: none"),
    ],
)
def test_what_raises_dies_or_varies_has_no_figure(
    target: str, reason: str, program: Callable[[str], Program]
) -> None:
    with pytest.raises(CountError, match=reason):
        count(program(target))
    # The next count would draw the same names, of which Python tries twenty.
    assert not [*Path(tempfile.gettempdir()).glob("*.left-by-a-count")]


@pytest.fixture
def refuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Let `setarch` fail from a call on, as in containers; PATH has its folder before that."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", os.pathsep.join((str(tmp_path / "bin"), os.environ["PATH"])))

    def refuse() -> None:
        (tmp_path / "bin" / "setarch").write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / "bin" / "setarch").chmod(0o755)
        fixed_addresses.cache_clear()

    yield refuse
    fixed_addresses.cache_clear()


@pytest.mark.thorough
@pytest.mark.long
@needs_valgrind
@pytest.mark.real
def test_counts_repeat_where_addresses_cannot_be_fixed(
    program: Callable[[str], Program], refuse: Callable[[], None]
) -> None:
    """Figures are the same: Valgrind has its own layout."""
    fixed = count(program("json"))
    refuse()
    assert count(program("json")) == pytest.approx(fixed, rel=1e-5)


@needs_valgrind
@pytest.mark.real
def test_slow_calls_have_the_count_of_quick_ones_or_are_given_up_at_once(
    program: Callable[[str], Program],
) -> None:
    """A round of three has the count of one of thirty; there is no time for calls of an hour."""
    slow, quick = count(program("slow"), program("20000"), seconds=200)
    assert slow == pytest.approx(quick, rel=0.02)  # waiting takes a few itself
    began = time.monotonic()
    with pytest.raises(CountError, match=r"one takes 3\.6e\+03 s under Valgrind, so 3 of them"):
        count(program("hangs"), seconds=200)
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(
    ("left", "least", "calls"),
    [
        (9.1, 1, 30),  # 30 · 3 calls of 0.1 s
        (8.7, 1, 14),  # 14 · 3 are half of the time
        (8.7, 5, 10),  # … of two times five paths
        (1.3, 4, 4),
        (1.1, 4, None),
    ],
)
def test_as_many_calls_as_there_is_time_for(left: float, least: int, calls: int | None) -> None:
    unit = phases.Unit(int, least=least, takes=0.1)
    if calls is None:
        with pytest.raises(phases.UnfitError, match=r"0\.1 s under Valgrind, so 12 of them exceed"):
            phases.plan_calls(unit, left)
    else:
        assert phases.plan_calls(unit, left) == calls


# What may go wrong.


def pretend(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    folder.mkdir()
    (folder / "valgrind").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "valgrind").chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join((str(folder), os.environ["PATH"])))


LACKING = r"needs valgrind and cc on PATH: .* `apt-get install valgrind gcc libc6-dev`"


def test_without_valgrind_the_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CountError, match=LACKING):
        count(Program(Path(sys.executable), ["-c", ""]))


ONLY_RUN = 'while expr "$1" : -- >/dev/null; do shift; done; exec "$@"'


@pytest.mark.real
@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("kill -KILL $$", r"process was ended by signal 9; its last words: none"),
        (ONLY_RUN, "3 times, found 0 times"),
    ],
    ids=["killed", "counts nothing"],
)
def test_a_valgrind_that_does_not_count_gives_no_figure(
    script: str,
    sentence: str,
    tmp_path: Path,
    program: Callable[[str], Program],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pretend(tmp_path / "bin", monkeypatch, script)
    with pytest.raises(CountError, match=sentence):
        count(program("1000"))


@needs_valgrind
@pytest.mark.real
def test_what_takes_too_long_is_ended(tmp_path: Path, program: Callable[[str], Program]) -> None:
    """Valgrind and all processes of the payload are gone when the time is over."""
    waits = replace(program("waits"), env={"TOKEN": str(tmp_path)})
    with pytest.raises(CountError, match=r"did not end within [12]\S* s"):
        count(waits, seconds=2)
    eventually("nothing lives", lambda: not processes_with(str(tmp_path)))


_COUNT = """
import math, sys
from pathlib import Path
from duetbench.app.inside.process import Program
from duetbench.counts.counting import count
python, token, *payload = sys.argv[1:]
with count(Program(Path(python), payload, {"TOKEN": token}), math.inf) as collect:
    collect()
"""


@pytest.mark.thorough
@needs_valgrind
@pytest.mark.real
@pytest.mark.usefixtures("state_home")
def test_nothing_survives_the_process_that_counts(
    tmp_path: Path, program: Callable[[str], Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As asv ends it when its time is over: a signal to its group, with a target at work."""
    token, waits = str(tmp_path / "token"), program("waits")
    counter = subprocess.Popen(
        [sys.executable, "-c", _COUNT, str(waits.python), token, *waits.payload],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        start_new_session=True,
    )
    eventually("a target works", lambda: any(tmp_path.glob("duetbench-count-*/*.1")))
    assert processes_with(token)
    os.killpg(counter.pid, signal.SIGKILL)
    counter.wait()
    eventually("nothing lives", lambda: not processes_with(token))
    assert len(list(tmp_path.glob("duetbench-count-*"))) == 1
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pretend(tmp_path / "bin", monkeypatch, "exit 1")
    with pytest.raises(CountError, match="exit code 1"):
        count(program("1000"))
    assert not list(tmp_path.glob("duetbench-count-*"))


_IMPORTS = """
import subprocess, sys
for absent in ("psutil", "pydantic", "rich", "uv"):
    sys.modules[absent] = None
from pathlib import Path
from duetbench.app.inside import process
from duetbench.counts import counting
program = process.Program(Path(sys.executable), ["-c", "print(6 * 7)"])
with process.workspace({}) as folder:
    variables = process.environment(program.env, folder)
    subprocess.run(process.command(program, folder, counting.counter), env=variables, check=True)
"""


@needs_valgrind
@pytest.mark.real
def test_a_stacks_environment_counts_with_the_standard_library() -> None:
    """There asv imports the counter, beside the packages under test and no others."""
    done = subprocess.run([sys.executable, "-c", _IMPORTS], check=True, capture_output=True)
    assert done.stdout == b"42\n"
