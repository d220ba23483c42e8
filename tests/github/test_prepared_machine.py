"""A machine of one's own: its hook, what prepares it, and its units."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from bare import Programs
from bench import PROJECT, Ended, execute
from goldens import assert_said

pytestmark = [pytest.mark.real, pytest.mark.thorough]

SCRIPT: Final = PROJECT / "scripts" / "prepare-runner.sh"
UNITS: Final = "etc/systemd/system"
HOOK: Final = "usr/local/lib/duetbench/job-started.sh"
POLICY: Final = "etc/duetbench/policy"
PACKAGES: Final = f"{UNITS}/duetbench-runner.service.d/50-packages.conf"


def prepare(root: Path, *words: str) -> Ended:
    """Run the script below a folder, where it only prints commands."""
    values = ("repository=acme/duetbench", "packages=none", f"root={root}", *words)
    return execute(["sh", SCRIPT, *values])


def contents(root: Path) -> dict[str, tuple[int, bytes]]:
    files = filter(Path.is_file, root.rglob("*"))
    return {str(f.relative_to(root)): (f.stat().st_mode & 0o777, f.read_bytes()) for f in files}


# The hook.

FILES: Final = "acme/duetbench/.github/workflows"
NIGHT: Final = {
    "GITHUB_SERVER_URL": "https://github.com",
    "GITHUB_REPOSITORY": "acme/duetbench",
    "GITHUB_REPOSITORY_ID": "4711",
    "GITHUB_EVENT_NAME": "schedule",
    "GITHUB_REF": "refs/heads/main",
    "GITHUB_WORKFLOW_REF": f"{FILES}/nightly.yml@refs/heads/main",
}
"""Variables of a job of the night, as GitHub sets them."""

WORKER: Final = """\
# Stands in for the runner's process of a job: the next step runs whatever the hook has said.
"$@"
echo ran >next-step
"""
Begin = Callable[..., Ended]


@pytest.fixture
def begin(tmp_path: Path) -> Begin:
    """What begins a job as the runner does: a worker, and changes of the night's variables.

    The hook names files and programs of this folder; its last resort, killing everything of its
    user, writes the file `killed-all`.
    """
    root, programs = tmp_path / "root", tmp_path / "bin"
    prepare(root, "repository_id=4711", "branch=main")
    programs.mkdir()
    Programs(programs).write("logger", f"printf '%s\\n' \"$*\" >>{tmp_path}/journal")
    hook = root / HOOK
    for old, new in (
        ("policy=/etc/duetbench/policy", f"policy={root / POLICY}"),
        ("kill -KILL -1", f"echo >{tmp_path}/killed-all"),
        ("PATH=/usr/sbin", f"PATH={programs}:/usr/sbin"),
    ):
        assert old in hook.read_text()
        hook.write_text(hook.read_text().replace(old, new))

    def job(worker: str = "Runner.Worker", shell: str = "bash", **changed: str) -> Ended:
        stand_in = Programs(tmp_path).write(worker, WORKER)
        env = {"PATH": os.environ["PATH"]} | NIGHT | changed
        return execute([stand_in, shell, "-e", hook], cwd=tmp_path, env=env)

    return job


@pytest.mark.parametrize("worker", ["Runner.Worker", "Runner.Work2"])
@pytest.mark.parametrize(
    ("shell", "event", "workflow"),
    [("bash", "schedule", "nightly"), ("sh", "workflow_dispatch", "bench")],
)
def test_our_own_workflows_at_main_may_start(
    begin: Begin, tmp_path: Path, worker: str, shell: str, event: str, workflow: str
) -> None:
    """Of a runner that calls its processes otherwise, too."""
    ours = f"{FILES}/{workflow}.yml@refs/heads/main"
    job = begin(worker, shell, GITHUB_EVENT_NAME=event, GITHUB_WORKFLOW_REF=ours)
    assert (job.returncode, job.stderr) == (0, "")
    assert f"this machine runs {ours} for {event}" in job.stdout
    assert (tmp_path / "next-step").exists()
    assert not (tmp_path / "journal").exists()
    assert not (tmp_path / "killed-all").exists()


def test_any_other_job_ends_before_its_next_step(begin: Begin, tmp_path: Path) -> None:
    """The log, what the runner shows of its process, and the journal have one line: the reason."""

    def refuse(changed: str) -> str:
        (tmp_path / "journal").unlink(missing_ok=True)
        given = json.loads(changed).items()
        job = begin(**{f"GITHUB_{name}": value for name, value in given})
        assert job.returncode == -signal.SIGKILL, job
        texts = {job.stdout, job.stderr, (tmp_path / "journal").read_text()}
        assert all((text.count("\n"), "\r" in text) == (1, False) for text in texts)
        assert not {"next-step", "killed-all"} & {path.name for path in tmp_path.iterdir()}
        shown = {text.strip().rpartition("]")[2].partition(": ")[2] for text in texts}
        return " | ".join(sorted(shown))

    assert_said("jobs", refuse)


@pytest.mark.parametrize("text", [None, "ref='refs/heads/main'", "repository='a"])
def test_a_job_ends_where_the_policy_cannot_be_read(
    begin: Begin, tmp_path: Path, text: str | None
) -> None:
    (policy := tmp_path / "root" / POLICY).unlink()
    if text:
        policy.write_text(text)
    assert begin().returncode == -signal.SIGKILL
    assert not (tmp_path / "next-step").exists()


def test_without_a_worker_everything_of_the_user_is_killed(begin: Begin, tmp_path: Path) -> None:
    assert "found push" in begin("Runner.Work2", GITHUB_EVENT_NAME="push").stdout
    assert (tmp_path / "killed-all").exists()


# The script that prepares a machine, and its units.


def test_it_can_be_repeated(tmp_path: Path) -> None:
    """What was asked for is written; a second time puts right what was changed since."""
    words = "packages=index.example,files.example", "branch=release/next"
    prepare(tmp_path, *words)
    before = contents(tmp_path)
    assert "ref='refs/heads/release/next'" in (tmp_path / POLICY).read_text()
    packages = "[Service]\nEnvironment=DUETBENCH_PACKAGES=index.example,files.example\n"
    assert packages in (tmp_path / PACKAGES).read_text()
    (tmp_path / POLICY).write_text("")
    (tmp_path / HOOK).chmod(0o777)
    result = prepare(tmp_path, *words)
    assert contents(tmp_path) == before
    assert "--shell /usr/sbin/nologin --user-group duetbench\n" in result.stdout
    assert "$ systemctl enable duetbench-clock.service duetbench-runner.service\n" in result.stdout
    folders = ("var/lib/duetbench", "srv/actions-runner", "srv/duetbench-work")
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in folders] == [0o700, 0o700, 0o755]


@pytest.mark.parametrize(
    "word",
    ["repository=acme/x; reboot", "user=root", "branch=x\nExecStart=/bin/x", "branch=a/../b",
     "packages=a.b,HOST", "packages=a/b", "repository=OWNER/NAME",
     "repository=acme/NAME", "packages="],
)  # fmt: skip
def test_hostile_values_placeholders_and_gaps_are_refused(tmp_path: Path, word: str) -> None:
    result = prepare(tmp_path, word)
    assert (result.returncode, contents(tmp_path)) == (2, {})
    assert f"{word}: expected " in result.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_reads_the_units_and_the_sandbox_can_be_made_in_the_service(tmp_path: Path) -> None:
    """What the units start is not installed here."""
    prepare(tmp_path)
    units = [*(tmp_path / UNITS).glob("*.service")]
    result = execute(["systemd-analyze", "verify", "--man=no", *units])
    ours = [line for line in result.stderr.splitlines() if "duetbench" in line]
    assert [line for line in ours if "is not executable" not in line] == []
    runner = (tmp_path / UNITS / "duetbench-runner.service").read_text().splitlines()
    # They hide parts of /proc, and then the kernel lets nobody mount another one.
    hiding = ("ProtectKernelTunables=", "ProtectKernelLogs=", "ProtectProc=", "ProcSubset=")
    assert [line for line in runner if line.startswith((*hiding, "RestrictNamespaces="))] == []
    assert {"NoNewPrivileges=yes", "CapabilityBoundingSet=", "MemoryMax=80%"} <= {*runner}
