"""Artefacts are whole or absent, whoever is killed, and however many make them."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import psutil
import pytest

from bench import eventually, lives
from duetbench.host import cache, process_session

pytestmark = pytest.mark.usefixtures("state_home")

# The tool of a maker: it runs until a file is there.
TOOL = """
import sys, time
from pathlib import Path
while not Path(sys.argv[1]).exists():
    time.sleep(0.01)
"""

# A maker in a process of its own: it counts its builds, starts its tool, and writes what it hears
# to stdout.
MAKER = """
import sys
from pathlib import Path
from duetbench.host import cache, command
from duetbench.host.signals import interruptible

folder = Path(sys.argv[1])
target = folder / "thing"

def build(staging):
    with (folder / "builds").open("a") as file:
        file.write("x")
    (staging / "half").write_text("done")
    tool = [sys.executable, "-c", *sys.argv[2:]]
    command.run(tool, what="waiting", log=folder / "log", tick=lambda line: None)
    return {"answer": 42}

with interruptible():
    cache.make(target, build=build, say=print)
"""


def start_maker(
    folder: Path, gate: Path, output: int | IO[str] = subprocess.PIPE
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-u", "-c", MAKER, str(folder), TOOL, str(gate)], stdout=output, text=True
    )


def tool_of(maker: subprocess.Popen[str], gate: Path) -> psutil.Process:
    """Wait until a maker's child has become its tool: the maker's command line holds the tool's."""
    argv, children = [sys.executable, "-c", TOOL, str(gate)], psutil.Process(maker.pid).children
    tool: psutil.Process
    (tool,) = eventually("its tool", lambda: [c for c in children() if c.cmdline() == argv])
    return tool


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_an_end_in_the_middle_leaves_nothing_visible(tmp_path: Path, end: signal.Signals) -> None:
    """The artefact is absent; the tool ends, at latest with the next run.

    After a kill two at once make it whole: one builds, and the other says that it waits.
    """
    gate, log = tmp_path / "gate", tmp_path / "said"
    first = start_maker(tmp_path, gate)
    tool = tool_of(first, gate)
    first.send_signal(end)
    assert first.wait(30) != 0
    assert not (tmp_path / "thing").exists()
    assert len(process_session.reap()) == (end is signal.SIGKILL)
    assert not lives(tool.pid)
    # One that hears of its end removes what it has begun.
    assert bool(list(tmp_path.glob(".making-thing-*"))) == (end is signal.SIGKILL)
    if end is signal.SIGTERM:
        return
    waits = "another set-up is making thing: waiting for it"
    with log.open("a") as output:
        makers = [start_maker(tmp_path, gate, output) for _ in range(2)]
    try:
        eventually("that one waits", lambda: waits in log.read_text())
    finally:
        gate.touch()
    assert [maker.wait(60) for maker in makers] == [0, 0]
    assert (tmp_path / "builds").read_text() == "xx"
    assert log.read_text().count(waits) == 1
    assert cache.facts(tmp_path / "thing") == {"answer": 42}
    assert (tmp_path / "thing" / "half").read_text() == "done"
    assert not list(tmp_path.glob(".making-thing-*"))


def test_a_stamp_follows_what_it_stands_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut, whatever has a stamp is whole."""
    written = list[list[Path]]()
    monkeypatch.setattr(os, "sync", lambda: written.append([*tmp_path.glob(".making-*/*")]))
    assert cache.make(tmp_path / "thing", build=lambda _: {}, say=print)
    assert written == [[]]
