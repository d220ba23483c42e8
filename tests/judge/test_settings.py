"""How servers are served, and what they do beside requests: one side is other than the other."""

from pathlib import Path
from typing import Final

import pytest

from bench import Bench
from duetbench.core.comparison import Comparison, SideName
from duetbench.core.metrics import CPU
from duetbench.core.model import Run
from duetbench.host import files
from repos import asgi, work_in

APP: Final = asgi(
    """\
import asyncio, itertools, os, threading, time

NUMBERS = itertools.count()



""",
    """
    if "SLEEP" in os.environ and next(NUMBERS) % 5 == 0:
        await asyncio.sleep(float(os.environ["SLEEP"]))
    body = b"right"
""",
)
"""By its variables a thread computes while no request comes, or one of five requests is slow."""

PROJECT: Final = """\
[project]
name = "bare"
version = "0"
requires-python = ">=3.11"
dependencies = ["granian", "uvicorn", "httptools"]
[tool.duetbench]
app = "bare:app"
"""


pytestmark = pytest.mark.usefixtures("unobserved")


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Path:
    assert bench.folder == tmp_path
    project = {"bare.py": APP, "pyproject.toml": PROJECT, ".python-version": "3.14\n"}
    return work_in(tmp_path / "bare", project, monkeypatch)


def compared(bench: Bench, *words: str) -> Comparison:
    out = bench.folder / "found.json"
    done = bench("compare", *words, "--budget", "16s", "--all", "-o", out)
    assert (done.code in {0, 3}, done.err) == (True, ""), done
    return files.read(Comparison, out)


def measured(bench: Bench, *words: str) -> dict[str, float]:
    """The figures of one launch."""
    out = bench.folder / "run.json"
    done = bench("run", *words, "--seconds", "1", "-o", out)
    assert done.code == 0, done
    (result,) = files.read(Run, out).results
    return result.launches[0].metrics


def ratios(found: Comparison, metric: str, side: SideName) -> list[float]:
    """The figure of a side over that of the other, in each duet."""
    pairs = [(duet.base[metric], duet.head[metric]) for duet in found.cases[0].duets if duet.base]
    assert pairs, found.cases[0]
    return [
        head / max(base, 1e-9) if side == "head" else base / max(head, 1e-9) for base, head in pairs
    ]


EITHER = pytest.mark.parametrize(
    ("server", "side"),
    [("uvicorn", "base"), pytest.param("granian", "head", marks=pytest.mark.thorough)],
)
EACH = pytest.mark.parametrize(
    "server", ["uvicorn", pytest.param("granian", marks=pytest.mark.thorough)]
)


@pytest.mark.real
@EACH
def test_a_request_that_is_slow_once_in_five_moves_the_slower_half(
    bench: Bench, server: str
) -> None:
    """By two fifths of 0.2 s, which is more than any queue; the median answer is a fast one."""
    words = ("--with", f"server={server}", "--with", "connections=4", "--launches", "1")
    fast, slow = (measured(bench, *words, *env) for env in ((), ("--env", "SLEEP=0.2")))
    assert slow["response_slow_half"] > 5 * fast["response_slow_half"]
    assert slow["response_slow_half"] > 3 * slow["response_p50"]


@pytest.mark.real
@EITHER
def test_an_argument_of_one_side_reaches_its_server_alone(
    bench: Bench, server: str, side: SideName
) -> None:
    """A line in its log for each request costs CPU."""
    found = compared(bench, "--with", f"server={server}", f"--{side}=arg=--access-log")
    assert min(ratios(found, CPU, side)) > 1.1
    labels = {"base": found.base.label, "head": found.head.label}
    assert labels[side] == "--access-log"
    assert "no --access-log" in labels.values()
    assert found.cases[0].case.server_args == (("--access-log",) if side == "head" else ())
    assert f"compare --{side} arg=--access-log " in found.reproduce


@pytest.mark.real
@EACH
def test_an_argument_that_the_server_refuses_is_told_in_its_words(
    bench: Bench, server: str
) -> None:
    done = bench("run", "--with", f"server={server}", "--with", "arg=--nonsense", "--launches", "1")
    assert (done.code, "No such option" in done.out, "--nonsense" in done.out) == (3, True, True)
    done = bench("run", "--with", f"server={server}", "--with", "arg=--port=1")
    assert done.code == 2
    assert "arg=--port=1: expected other arguments" in done.err
