"""Counting instructions: reading Callgrind's dumps, real counts, and what may go wrong."""

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType

import pytest

from bench import PROJECT, eventually, processes_with
from duetbench.core.errors import CountError
from duetbench.measure.instructions import counting, phases
from duetbench.measure.instructions.counting import Dump, InstructionCount, NoCount
from observatory.matrix.checkout import Checkout

DATA = Path(__file__).parents[1] / "data" / "callgrind"

needs_valgrind = pytest.mark.skipif(
    counting.missing() is not None and "CI" not in os.environ, reason=f"{counting.missing()}"
)
needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None and "CI" not in os.environ, reason="no C compiler"
)


# Reading.


def test_a_recorded_dump_is_read() -> None:
    """A dump that Callgrind wrote at a mark: its number, what caused it, its instructions."""
    assert counting.read_dumps(DATA, 4242) == (*parts(20_034, 37_924),)


def test_a_dump_that_was_cut_short_is_refused() -> None:
    """Whatever is missing at its end, there is no count: a cut number would be a wrong one."""
    text = (DATA / "4242.2").read_text()
    for end in range(len(text)):
        with pytest.raises(CountError, match=r"4242\.2: expected .* is the disk full\?"):
            counting.parse_dump(text[:end], "4242.2")


# Arithmetic.


def parts(*instructions: int) -> list[Dump]:
    return [
        Dump(number, "--dump-before=getppid", count)
        for number, count in enumerate(instructions, start=1)
    ]


def test_the_figure_is_the_difference_of_the_phases() -> None:
    """(5300 - 3300) / 10 = 200, then 203 and 200: median 200, spread 3 / 200."""
    counted = (99_999, 400, 3300, 5300, 3300, 5330, 3301, 5301)
    assert counting.figure(parts(*counted), 10) == InstructionCount(200.0, 3 / 200, 10)


@pytest.mark.parametrize(
    ("counted", "reason"),
    [
        # (2000 - 1000) / 10 = 100 twice, and (2100 - 1000) / 10 = 110: 10 of 100.
        (
            (1000, 2000, 1000, 2100, 1000, 2000),
            "rounds of 10 units differ by 10.00%: 100, 110, 100 instructions per unit",
        ),
        ((7,) * 6, "20 units took no more instructions than 10: [7, 7, 7, 7, 7, 7]"),
    ],
)
def test_what_gives_no_figure_says_why(counted: tuple[int, ...], reason: str) -> None:
    found = counting.figure(parts(9, 400, *counted), 10)
    assert found == NoCount(reason)
    found = counting.figure(parts(9, 9, 400, *counted), 10)
    assert found == NoCount("the application calls getppid itself, which marks what is counted")


def test_marks_that_valgrind_did_not_see_are_noticed() -> None:
    """Without the symbol of either mark the parts would hold something else."""
    with pytest.raises(CountError, match="counters 8 times, found 0 times"):
        counting.figure([], 10)
    with pytest.raises(CountError, match="getpgrp sets no counters to zero"):
        counting.figure(parts(9, 1_000_000, *(1000, 2000) * 3), 10)


# Counting.

PAYLOAD = """
    import itertools, json, os, signal, threading, time
    from duetbench.measure.instructions.phases import Unit, run

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
        if target == "threads":
            start = threading.Thread(target=time.sleep, args=(60,), daemon=True).start
            return Unit(lambda: start() if threading.active_count() == 1 else None)
        if target == "hangs":
            return Unit(lambda: time.sleep(3600), seconds=3600)
        if target == "draws":
            steps = 100 + os.urandom(1)[0]
            return Unit(lambda: loop(steps))
        if target == "wanders":
            return Unit(lambda: loop(os.urandom(1)[0] * 8))
        if target == "waits":
            return Unit(lambda: time.sleep(0.05))
        if target == "slow":
            return Unit(lambda: (time.sleep(0.1), loop(20_000)), n=3, seconds=0.1)
        if target == "timed":
            return Unit(lambda: loop(20_000), n=10, seconds=0.01)
        if target == "json":
            return Unit(lambda: json.loads(json.dumps(DOCUMENT)))
        if target == "cycles":
            def cycle():
                one, other = [], []
                one.append(other), other.append(one)
            return Unit(cycle, n=1000)
        return Unit(lambda: loop(int(target)))

    if __name__ == "__main__":
        run(prepare)
"""


@pytest.fixture
def payload(tmp_path: Path) -> list[str]:
    file = tmp_path / "payload.py"
    file.write_text(textwrap.dedent(PAYLOAD))
    return ["-P", "-S", str(file)]


TARGETS = ["raises", "1000", "dies", "threads", "cycles", "json", "2000", "draws", "wanders"]


def figures(outcomes: dict[str, InstructionCount | NoCount]) -> dict[str, float]:
    assert all(isinstance(one, InstructionCount) for one in outcomes.values()), outcomes
    return {
        name: one.per_unit for name, one in outcomes.items() if isinstance(one, InstructionCount)
    }


@pytest.mark.thorough
@pytest.mark.long
@needs_compiler
@needs_valgrind
@pytest.mark.real
def test_counts_repeat_and_a_target_that_fails_spoils_none(payload: list[str]) -> None:
    """Two runs give the same figures, and reasons for what raises, dies, varies or has threads.

    One of them counts from the first mark on, as comparisons do.
    """
    executable = Checkout.here().interpreter("3.14").executable
    with ExitStack() as stack:
        runs = [
            stack.enter_context(counting.start(executable, payload, TARGETS, switched=switched))
            for switched in (False, True)
        ]
        first, second = (collect(counting.TIMEOUT_S) for collect in runs)
    for found in (first, second):
        unfit = found.pop("threads")
        assert isinstance(unfit, NoCount)
        assert unfit.unfit
        assert "it starts threads" in unfit.reason
        assert "units differ by" in str(found.pop("wanders"))
        assert found.pop("raises") == NoCount("ValueError: no such thing")
        assert found.pop("dies") == NoCount("its process ended with signal 9")
    # The next count would draw the same names, of which Python tries twenty.
    assert not [*Path(tempfile.gettempdir()).glob("*.left-by-a-count")]
    once = figures(first)
    assert set(once) == {"1000", "cycles", "json", "2000", "draws"}
    assert figures(second) == pytest.approx(once, rel=1e-5)  # marks differ by some instructions
    # A step of a loop takes 5 to 200 instructions.
    assert once["2000"] / once["1000"] == pytest.approx(2, rel=0.02)
    assert 5 * 1000 < once["1000"] < 200 * 1000
    assert all(isinstance(one, InstructionCount) and one.seeded for one in first.values())


@pytest.fixture
def refuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Let `setarch` fail from a call on, as in containers; PATH has its folder before that."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", os.pathsep.join((str(tmp_path / "bin"), os.environ["PATH"])))

    def refuse() -> None:
        (tmp_path / "bin" / "setarch").write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / "bin" / "setarch").chmod(0o755)
        counting.fixed_addresses.cache_clear()

    yield refuse
    counting.fixed_addresses.cache_clear()


@pytest.mark.thorough
@pytest.mark.long
@needs_valgrind
@pytest.mark.real
def test_counts_repeat_where_addresses_cannot_be_fixed(
    payload: list[str], refuse: Callable[[], None]
) -> None:
    """Figures are the same: Valgrind has its own layout."""
    executable = Checkout.here().interpreter("3.14").executable
    fixed = figures(counting.count(executable, payload, ["json"]))
    refuse()
    again = figures(counting.count(executable, payload, ["json"]))
    assert again == pytest.approx(fixed, rel=1e-5)


@needs_compiler
@needs_valgrind
@pytest.mark.real
def test_slow_calls_have_the_count_of_quick_ones_or_are_given_up_at_once(
    payload: list[str],
) -> None:
    """A phase of three has the count of one of thirty; there is no time for calls of an hour."""
    executable, ends = Checkout.here().interpreter("3.14").executable, time.monotonic() + 200
    targets = ["hangs", "slow", "timed", "20000"]
    with counting.start(executable, payload, targets, switched=True, ends=ends) as collect:
        hangs, slow, timed, quick = collect(counting.TIMEOUT_S).values()
    assert isinstance(hangs, NoCount)
    assert "one takes 3.6e+03 s under Valgrind, so 9 of them exceed" in hangs.reason
    assert isinstance(slow, InstructionCount)
    assert isinstance(quick, InstructionCount)
    assert isinstance(timed, InstructionCount)
    assert timed.per_unit == pytest.approx(quick.per_unit, rel=0.001)
    assert (slow.n, quick.n) == (3, 30)
    assert slow.per_unit == pytest.approx(quick.per_unit, rel=0.02)  # waiting takes a few itself


@pytest.mark.parametrize(
    ("left", "least", "calls"),
    [
        (30.0, 1, 30),  # 28 more of the warm-up and 3 · 30 · 3: 298 calls of 0.1 s
        (29.0, 1, 13),  # 28 more and 3 · 13 · 3 are half of the time
        (29.0, 5, 10),  # … of two rounds of five paths
        (6.5, 4, 4),  # 28 more and 3 · 4 · 3
        (6.3, 4, None),
    ],
)
def test_as_many_calls_as_there_is_time_for(left: float, least: int, calls: int | None) -> None:
    unit = phases.Unit(int, least=least)
    if calls is None:
        with pytest.raises(phases.SlowError, match=r"0\.1 s under Valgrind, so 36 of them exceed"):
            phases.plan_calls(unit, 0.1, left, 28)
    else:
        assert phases.plan_calls(unit, 0.1, left, 28) == calls


@pytest.mark.parametrize(
    ("seconds", "calls"),
    [
        (0.0, (0, 20)),  # nobody knows whether there is time for so many
        (0.001, (18, 2)),
        (phases.SLOW, (3, 1)),
    ],
)
def test_calls_of_a_known_time_warm_up_uncounted(seconds: float, calls: tuple[int, int]) -> None:
    assert phases.plan_warmup(phases.Unit(int, seconds=seconds)) == calls


# A request costs as much as a thousand steps, or several; the server's packages are no part of it.
SPINNING = """
    import itertools, json, os

    async def app(_scope, _receive, send):
        for _ in itertools.repeat(None, int(os.environ["SPIN"])):
            pass
        for number in range(15):
            body = json.dumps({"message": "Hello, world!", "number": number}).encode()
        kind = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": kind})
        await send({"type": "http.response.body", "body": body})
"""
STEPS = {"spin-a": 0, "spin-b": 0, "spin-1000": 1000, "spin-100": 100}


@pytest.fixture
def spinning(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout" / "apps" / "spinning"
    folder.mkdir(parents=True)
    (folder / "app.py").write_text(textwrap.dedent(SPINNING))
    endpoints = "".join(
        f'[endpoints.{name}]\napp = "app:app"\ninterface = "asgi"\npath = "/"\n'
        'expect = { content_type = "application/json" }\n'
        f'env = {{ SPIN = "{steps}" }}\n'
        for name, steps in STEPS.items()
    )
    cases = f'[[cases]]\nendpoint = {json.dumps([*STEPS])}\nstack = "gil-in-process"\n'
    (folder / "experiment.toml").write_text(f"[profiles]\nquick = {{}}\n{endpoints}{cases}")
    return tmp_path / "checkout"


# What may go wrong.


def pretend(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    folder.mkdir()
    (folder / "valgrind").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "valgrind").chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join((str(folder), os.environ["PATH"])))


LACKING = r"needs valgrind and setpriv .* `apt-get install valgrind util-linux`"


def test_without_valgrind_the_sentence_says_what_to_install(
    tmp_path: Path, payload: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CountError, match=LACKING):
        counting.count(Path(sys.executable), payload, ["1000"])


ONLY_RUN = 'while expr "$1" : -- >/dev/null; do shift; done; exec "$@"'


@pytest.mark.real
@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("kill -KILL $$", r"was ended by signal 9, no instructions .*; it said nothing"),
        (ONLY_RUN, "8 times, found 0 times"),
    ],
    ids=["killed", "counts nothing"],
)
def test_a_valgrind_that_does_not_count_gives_no_figure(
    script: str, sentence: str, tmp_path: Path, payload: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(tmp_path / "bin", monkeypatch, script)
    python = Checkout.here().interpreter("3.14").executable
    with pytest.raises(CountError, match=sentence):
        counting.count(python, payload, ["1000"])


@needs_valgrind
@pytest.mark.real
def test_what_takes_too_long_is_ended(tmp_path: Path, payload: list[str]) -> None:
    """Valgrind and all processes of the payload are gone when the time is over."""
    with pytest.raises(CountError, match="Valgrind did not finish in the 2 s"):
        counting.count(
            Checkout.here().interpreter("3.14").executable, payload, ["waits"],
            env={"TOKEN": str(tmp_path)}, timeout=2,
        )  # fmt: skip
    eventually("nothing lives", lambda: not processes_with(str(tmp_path)))


@needs_valgrind
def test_all_that_others_wait_for_is_ended_at_once(tmp_path: Path) -> None:
    """As after Ctrl-C, while threads wait for minutes."""
    sleep = ("-c", "import time; time.sleep(60)")
    with (
        counting.Process(Path(sys.executable), sleep, tmp_path, {}) as process,
        ThreadPoolExecutor(1) as pool,
    ):
        waiting = pool.submit(process.wait, 60)
        counting.Process.end_all()
        with pytest.raises(CountError, match="was ended by signal 9"):
            waiting.result(30)


_COUNT = """
import sys
from pathlib import Path
from duetbench.measure.instructions.counting import count
python, token, *payload = sys.argv[1:]
count(Path(python), payload, ["hangs"], env={"TOKEN": token})
"""


@pytest.mark.thorough
@needs_valgrind
@pytest.mark.real
def test_nothing_survives_the_process_that_counts(
    tmp_path: Path, payload: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As asv ends it when its time is over: a signal to its group, with a target at work."""
    python, token = Checkout.here().interpreter("3.14").executable, str(tmp_path / "token")
    counter = subprocess.Popen(
        [sys.executable, "-c", _COUNT, str(python), token, *payload],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        start_new_session=True,
    )
    eventually("a target works", lambda: len(processes_with(token)) >= 2)
    os.killpg(counter.pid, signal.SIGKILL)
    counter.wait()
    eventually("nothing lives", lambda: not processes_with(token))
    assert len(list(tmp_path.glob("duetbench-count-*"))) == 1
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pretend(tmp_path / "bin", monkeypatch, "exit 1")
    with pytest.raises(CountError, match="exit code 1"):
        counting.count(python, payload, ["1000"])
    assert not list(tmp_path.glob("duetbench-count-*"))


_IMPORTS = """
import sys
for absent in ("psutil", "pydantic", "rich", "uv"):
    sys.modules[absent] = None
from pathlib import Path
from duetbench.measure.instructions.counting import Process
with Process(Path(sys.executable), ["-c", "print(6 * 7)"], Path(sys.argv[1]), {}) as process:
    process.wait(60)
"""


@needs_valgrind
@pytest.mark.real
def test_a_stacks_environment_counts_with_the_standard_library(tmp_path: Path) -> None:
    """There asv imports the counter, beside the packages under test and no others."""
    subprocess.run([sys.executable, "-c", _IMPORTS, str(tmp_path)], check=True)
    assert (tmp_path / "log").read_text() == "42\n"


# The benchmarks.


@pytest.fixture
def instructions(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(PROJECT))
    monkeypatch.setenv("DUETBENCH_STACK", "current")
    return importlib.import_module("benchmarks.instructions")


def test_without_valgrind_the_benchmarks_are_skipped_with_that_reason(
    instructions: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skipped = importlib.import_module("asv_runner.benchmarks.mark").SkipNotImplemented

    monkeypatch.setenv("PATH", str(tmp_path))
    counted = instructions.setup_cache()
    assert counted["figures"] == counted["failures"] == {}
    assert set(counted["unfit"]) == set(instructions.targets())
    with pytest.raises(skipped, match="apt-get install valgrind"):
        instructions.Requests().track_request(counted, "asgi-wsgi/asgi-json")
    with pytest.raises(skipped, match="computes for longer"):
        instructions.Requests().track_request(counted, "gil-endpoints/async_cpu")
