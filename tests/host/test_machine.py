"""The machine: its id, its cores, its limits, what changed, and who measures on it."""

import getpass
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Final

import pytest

from duetbench.core.errors import BusyError
from duetbench.host import machine
from duetbench.host.machine import measuring


def test_the_generator_gets_the_last_core() -> None:
    """All allowed cores but the last are the server's; a single one is shared."""
    assert machine.allocate([0, 1]) == ((0,), (1,))
    assert machine.allocate([3, 1, 2]) == ((1, 2), (3,))
    assert machine.allocate(range(8)) == ((0, 1, 2, 3, 4, 5, 6), (7,))
    assert machine.allocate([5]) == ((5,), (5,))


def test_the_fingerprint_is_stable_and_free_of_kernel_and_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another kernel or host name leaves the id alone; another CPU does not."""
    first = machine.fingerprint()
    assert machine.fingerprint() == first
    assert first.id.startswith(f"{machine.slug(first.cpu)}-{first.cores}c-")
    names = "Intel(R) Xeon(R) Processor", "Intel(R) Core(TM) i7-8650U CPU @ 1.90GHz", "(R)"
    assert [*map(machine.slug, names)] == ["xeon", "core-i7-8650u", "cpu"]
    monkeypatch.setattr("platform.release", lambda: "99.0")
    monkeypatch.setattr("platform.node", lambda: "elsewhere")
    assert machine.fingerprint().id == first.id
    monkeypatch.setattr(machine, "cpu_model", lambda: "Another CPU")
    assert machine.fingerprint().id != first.id


_SECRET: Final = "s3cret-of-ours"
_TRY: Final = """
import sys
from duetbench.core.errors import BusyError
from duetbench.host.machine import measuring
try:
    with measuring():
        print("measuring", flush=True)
        sys.stdin.read()
except BusyError as error:
    print(error, flush=True)
"""


@contextmanager
def another(*prefix: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*prefix, sys.executable, "-c", _TRY, "bin/duetbench", "compare", "--env", f"PW={_SECRET}",
         "--app", "shop:app", "--header", f"Authorization: Basic {_SECRET}"],
        env={**os.environ, **env}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        yield process


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_another_home_is_the_same_machine_and_the_refusal_names_who_measures(
    tmp_path: Path,
) -> None:
    """By process, user and time, and by nothing of its command line; it can be waited for."""
    elsewhere = {
        name: str(tmp_path)
        for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "TMPDIR")
    }
    with another(**elsewhere) as holder:
        assert said(holder) == "measuring"
        with pytest.raises(BusyError) as caught, measuring():
            pytest.fail("two measurements at once")

        def end(sentence: str) -> None:
            sentences.append(sentence)  # said once, though the holder is looked for again
            Timer(1.2, holder.communicate).start()

        sentences = list[str]()
        with measuring(600, end):
            pass
    (words,) = sentences
    assert re.match(rf"waiting for this machine, at most .*: another .* \(pid {holder.pid} ", words)
    sentence = str(caught.value)
    assert f"(pid {holder.pid} of {getpass.getuser()}, since 20" in sentence
    assert _SECRET not in sentence
    with another() as killed:
        assert said(killed) == "measuring"
        killed.kill()
        killed.wait()
        with measuring(), measuring(), another() as other:  # a process does not exclude itself
            assert "another duetbench" in said(other)
