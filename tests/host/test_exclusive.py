"""Two measurements on one machine."""

import getpass
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from duetbench.core.errors import BusyError
from duetbench.host.machine import HOLDER, measuring

_TRY: Final = """# \x1b[2J
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
        [*prefix, sys.executable, "-c", _TRY],
        env={**os.environ, **env}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        yield process


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_second_measurement_is_refused_until_the_first_has_ended() -> None:
    with (
        measuring(),
        pytest.raises(BusyError, match="another duetbench is measuring"),
        measuring(),
    ):
        pytest.fail("two measurements at once")
    with measuring():
        pass


def test_another_home_is_the_same_machine_and_the_refusal_names_who_measures(
    tmp_path: Path,
) -> None:
    """By process, user, time and command; that command does nothing to a terminal."""
    elsewhere = {
        name: str(tmp_path)
        for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "TMPDIR")
    }
    with another(**elsewhere) as holder:
        assert said(holder) == "measuring"
        with pytest.raises(BusyError) as caught, measuring():
            pytest.fail("two measurements at once")
    sentence = str(caught.value)
    assert f"(pid {holder.pid} of {getpass.getuser()}, since 20" in sentence
    assert "# ␛[2J import sys" in sentence


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_another_user_shares_the_lock() -> None:
    """Either way round: no file belongs to one of them."""
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--")
    with another() as ours, another(*nobody) as theirs:
        answers = {said(ours), said(theirs)} - {"measuring"}
        (refusal,) = answers
        assert "another duetbench is measuring" in refusal
    with another(*nobody) as holder:
        assert said(holder) == "measuring"
        with pytest.raises(BusyError, match=rf"pid {holder.pid} of nobody"), measuring():
            pytest.fail("two measurements at once")
    with another(*nobody) as after:
        assert said(after) == "measuring"


def test_a_killed_holder_holds_nothing() -> None:
    with another() as holder:
        assert said(holder) == "measuring"
        holder.kill()
        holder.wait()
        with measuring():
            pass


def test_who_was_started_by_the_holder_measures_for_it() -> None:
    """A descendant, that is; anybody else who says so is refused."""
    with measuring():
        with another(**{HOLDER: str(os.getpid())}) as ours:
            assert said(ours) == "measuring"
        with another(**{HOLDER: "999999999"}) as stranger:
            assert "another duetbench is measuring" in said(stranger)
