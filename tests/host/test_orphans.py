"""What a killed duetbench leaves behind is found and ended or removed, and nothing else."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from uuid import uuid4

import pytest

from bench import PROJECT, lives
from duetbench.host import proc, process_session
from duetbench.measure import testbed
from serverlings import command, launch, said

pytestmark = pytest.mark.usefixtures("state_home")


@pytest.mark.parametrize("program", ["escaped", "washed"])
def test_daemons_of_a_killed_owner_are_ended(program: str, tmp_path: Path) -> None:
    """They carry the mark; the words of the owner name them."""
    owner = subprocess.Popen(command("owner", tmp_path, program), stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    try:
        text = "".join(iter(owner.stdout.readline, "\n"))
        (daemon,) = map(int, re.findall(r"\d+", text))
    finally:
        owner.kill()
        owner.communicate()
    assert lives(daemon)
    (sentence,) = process_session.reap()
    assert sentence.startswith("ended 2 processes left by an earlier run (")
    assert not lives(daemon)


def test_the_orphans_of_a_killed_owner_are_ended_and_nothing_else(
    tmp_path: Path, sessions: Path
) -> None:
    """Kill -9 of the owner in the middle: exactly its three server processes are ended."""
    env = {k: v for k, v in os.environ.items() if k != process_session.MARKER}
    look_alike = subprocess.Popen(
        command("stubborn_master"),
        stdout=subprocess.PIPE, text=True, start_new_session=True, env=env,
    )  # fmt: skip
    owner = subprocess.Popen(
        command("owner", tmp_path, "stubborn_master"), stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    assert look_alike.stdout is not None
    alike = [look_alike.pid, *map(int, look_alike.stdout.readline().split()[1:])]
    try:
        with launch(tmp_path, "obedient") as mine:
            said(mine, "ready")
            workers = [int(word) for word in owner.stdout.readline().split()[1:]]
            assert process_session.reap() == []  # both owners live
            assert all(map(lives, workers))
            owner.kill()
            owner.wait()
            assert all(map(lives, workers))
            (sentence,) = process_session.reap()
            assert sentence.startswith("ended 3 processes left by an earlier run (")
            assert re.search(r" stubborn_master, started \d{4}-\d\d-\d\dT", sentence)
            assert not any(map(lives, workers))
            assert lives(mine.pid)
            assert all(map(lives, alike))
            assert [path.stem for path in sessions.iterdir()] == [mine.record.marker]
            assert process_session.reap() == []
    finally:
        owner.kill()
        owner.wait()
        for pid in alike:
            found = proc.stat(pid)
            if found:
                proc.kill(pid, found.start)
        look_alike.wait()
        for stream in (owner.stdout, look_alike.stdout):
            stream.close()


@pytest.mark.parametrize(("changed", "left"), [({}, 0), ({"namespace": "pid:[1]"}, 1)])
def test_an_abandoned_record_without_processes_goes_silently(
    sessions: Path, changed: dict[str, str], left: int
) -> None:
    """That of another container stays: whether its owner lives cannot be known."""
    record = process_session.SessionRecord.new("server", ("granian",))
    dead = {"owner_start": record.owner_start - 1}
    record.model_copy(update={**dead, **changed}).save()
    assert process_session.reap() == []
    assert len(list(sessions.iterdir())) == left


def test_duetbench_never_takes_itself_for_an_orphan(monkeypatch: pytest.MonkeyPatch) -> None:
    marker = str(uuid4())
    script = (
        "from duetbench.host import proc, process_session; import os;"
        "m = os.environ[process_session.MARKER];"
        "record = process_session.SessionRecord.new('command', ());"
        "record = record.model_copy(update={'marker': m});"
        "print(proc.carries(os.getpid(), process_session.MARKER, m), record.processes())"
    )
    monkeypatch.setenv(process_session.MARKER, marker)

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "[]"]


_MAKE = "import sys; from pathlib import Path; from duetbench.host import proc; "
_MAKE += "(proc.make_scratch('sb-x', Path(sys.argv[1])) / 'file').write_text('left')"


def test_the_folders_of_a_dead_process_are_removed_and_nothing_else(tmp_path: Path) -> None:
    """Kept: a living owner's, another container's, another prefix', and what has other names.

    A pid that was given again keeps none.
    """
    mine, other = proc.make_scratch("sb-x", tmp_path), proc.make_scratch("sb-y", tmp_path)
    subprocess.run([sys.executable, "-c", _MAKE, str(tmp_path)], check=True)
    (left,) = set(tmp_path.iterdir()) - {mine, other}
    dead = left.name.removeprefix("sb-x-")
    namespace, pid, start, _ = dead.split("-")
    _, own, since, _ = mine.name.removeprefix("sb-x-").split("-")
    (tmp_path / f"sb-x-{namespace}-{own}-{int(since) - 1:012}-abc").mkdir()
    foreign = tmp_path / f"sb-x-1-{pid}-{start}-abc"
    odd = tmp_path / f"sb-x-{namespace}-words-{start}-abc"
    elsewhere = tmp_path / f"sb-y-{dead}"
    for folder in (foreign, odd, elsewhere):
        folder.mkdir()
    proc.sweep_scratch("sb-x", tmp_path)
    assert set(tmp_path.iterdir()) == {mine, other, foreign, odd, elsewhere}


PACKAGE = PROJECT / "scripts" / "duetbench"
_KILLED = "import os; from duetbench.host import git, proc; git.elsewhere(git.Path('.')); "
_KILLED += "held = proc.scratch(); held.__enter__(); os.kill(os.getpid(), 9)"


def test_a_killed_process_leaves_no_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every folder is one that the next call finds."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", _KILLED], cwd=PROJECT, env=environment, check=False)
    assert len(list(tmp_path.iterdir())) == 2
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    testbed.sweep()
    assert not list(tmp_path.iterdir())
    sources = {path.name: path.read_text("utf-8") for path in PACKAGE.rglob("*.py")}
    makes = re.compile(r"mkdtemp\(|TemporaryDirectory")
    assert [name for name, text in sources.items() if makes.search(text)] == ["proc.py"]
