"""The script that prepares a machine: what it writes, and that it can be repeated."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from servebench.artifacts.folder import Limits
from servebench.fleet import check, hook, place
from servebench.fleet.check import Where
from test_fleet_hook import NIGHT

ROOT: Final = Path(__file__).parents[1]
SCRIPT: Final = ROOT / "scripts" / "prepare_runner.py"


@pytest.fixture
def stands(tmp_path: Path) -> Path:
    """Stand-ins for what changes a system; they remember users and units, as the real ones do."""
    folder = tmp_path / "bin"
    folder.mkdir()
    note = f'echo "$(basename "$0") $*" >>{tmp_path}/asked\n'
    known = f'grep -qx "$1" {tmp_path}/known 2>/dev/null'
    remember = f'for last; do :; done; echo "$last" >>{tmp_path}/known\n'
    programs = {
        "useradd": note + remember,
        "id": f"shift; {known}\n",
        "visudo": note,
        "systemctl": note
        + f'case "$1" in is-enabled) shift; shift; {known};; enable) {remember};; esac\n',
    }
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}")
        (folder / name).chmod(0o755)
    return folder


def prepare(
    tmp_path: Path, *options: str, script: Path = SCRIPT
) -> subprocess.CompletedProcess[str]:
    """Run the script below a folder of the test's own."""
    words = ["--repository", "acme/servebench", "--root", str(tmp_path / "root"), *options]
    return subprocess.run(
        [sys.executable, "-S", script, *words],
        env={"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def asked(tmp_path: Path) -> list[str]:
    """What the stand-ins were asked to change."""
    noted = tmp_path / "asked"
    words = noted.read_text().splitlines() if noted.exists() else []
    return [line for line in words if "is-enabled" not in line]


def installed(tmp_path: Path) -> set[str]:
    """The files that were written."""
    root = tmp_path / "root"
    return {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()}


@pytest.mark.usefixtures("stands")
def test_a_dry_run_shows_everything_and_changes_nothing(tmp_path: Path) -> None:
    """Every file's text and every command, with what it is for."""
    done = prepare(tmp_path, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "root").exists()
    assert asked(tmp_path) == []
    for said in (
        "would  user servebench-pr: runs foreign code",
        "servebench ALL=(servebench-pr) NOPASSWD: ALL",
        '"repository": "acme/servebench"',
        "ACTIONS_RUNNER_HOOK_JOB_STARTED=/usr/local/lib/servebench/job-started.sh",
        "$ systemctl enable servebench-runner.service",
        "https://github.com/acme/servebench/settings/actions/runners/new",
    ):
        assert said in done.stdout, said
    assert not re.search(r"^do ", done.stdout, re.MULTILINE)


@pytest.mark.usefixtures("stands")
def test_it_can_be_repeated(tmp_path: Path) -> None:
    """The second time there is nothing to do; after a change of a file, that one alone."""
    first = prepare(tmp_path)
    assert first.returncode == 0, first.stdout + first.stderr
    assert [line for line in asked(tmp_path) if line.startswith("useradd")] == [
        f"useradd --system --create-home --home-dir /var/lib/{user} --shell /usr/sbin/nologin "
        f"--user-group {user}"
        for user in ("servebench", "servebench-pr")
    ]
    changes, files = asked(tmp_path), installed(tmp_path)
    second = prepare(tmp_path)
    assert second.returncode == 0
    assert not re.search(r"^do ", second.stdout, re.MULTILINE)
    assert "0 steps done" in second.stdout
    assert (asked(tmp_path), installed(tmp_path)) == (changes, files)

    policy = tmp_path / "root" / "etc" / "servebench" / "fleet.json"
    policy.write_text("{}")
    (tmp_path / "root" / "usr/local/lib/servebench/job-started.sh").chmod(0o777)
    third = prepare(tmp_path)
    assert "2 steps done" in third.stdout
    assert hook.read_policy(policy.read_text()).repository == "acme/servebench"
    mode = (tmp_path / "root" / "usr/local/lib/servebench/job-started.sh").stat().st_mode
    assert mode & 0o777 == 0o755


WORKER: Final = """\
#!/bin/sh
# Stands in for the runner's process of a job: the next step runs whatever the hook has said.
"$@" && echo yes >hook || echo no >hook
echo ran >next-step
"""


@dataclass(frozen=True)
class Job:
    """What became of a job: whether its next step ran, what its log and its process have said."""

    code: int
    went_on: bool
    said: str
    told: str


@dataclass(frozen=True)
class Machine:
    """A prepared machine below a folder: its launcher names files and programs of that folder."""

    folder: Path
    launcher: Path
    policy: Path
    journal: Path

    def job(self, shell: str = "bash", **changed: str) -> Job:
        """Let the runner's stand-in begin a job, as the runner does, with the night's variables."""
        place = self.folder / "job"
        place.mkdir(exist_ok=True)
        for left in place.iterdir():
            left.unlink()
        # Whoever asks on this machine at once, other tests of this kind too, is another job.
        with (Path(tempfile.gettempdir()) / f"servebench-jobs-{os.getuid()}").open("a") as one:
            fcntl.flock(one, fcntl.LOCK_EX)
            done = subprocess.run(
                [self.folder / "Runner.Worker", shell, "-e", self.launcher],
                cwd=place, env={"PATH": os.environ["PATH"], "PYTHONPATH": "/nowhere"}
                | NIGHT | changed,
                capture_output=True, text=True, check=False, timeout=60,
            )  # fmt: skip
        went_on = (place / "next-step").exists()
        return Job(done.returncode, went_on, done.stdout, done.stderr)

    def edit(self, old: str, new: str) -> None:
        """Change the launcher."""
        text = self.launcher.read_text()
        assert old in text
        self.launcher.write_text(text.replace(old, new))


@pytest.fixture
def machine(tmp_path: Path, stands: Path) -> Machine:
    """A machine whose journal is a file, with nobody to be ended."""
    chosen = ("--repository-id", "4711", "--workflow", "nightly.yml", "--event", "schedule")
    done = prepare(tmp_path, *chosen, "--branch", "main")
    assert done.returncode == 0, done.stdout + done.stderr
    root, journal = tmp_path / "root", tmp_path / "journal"
    policy = root / "etc/servebench/fleet.json"
    document = json.loads(policy.read_text())
    assert document.pop("user") == "servebench-pr"
    policy.write_text(json.dumps(document))
    for file, text in (
        (tmp_path / "Runner.Worker", WORKER),
        (stands / "logger", f"#!/bin/sh\nprintf '%s\\n' \"$*\" >>{journal}\n"),
    ):
        file.write_text(text)
        file.chmod(0o755)
    launcher = root / "usr/local/lib/servebench/job-started.sh"
    made = Machine(tmp_path, launcher, policy, journal)
    for path in ("/usr/local/lib/servebench/", "/etc/servebench/"):
        made.edit(f" {path}", f" {root}{path}")
    made.edit("/usr/bin/python3", getattr(sys, "_base_executable", sys.executable))
    made.edit("\nPATH=", f"\nPATH={stands}:")
    return made


@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_a_job_that_is_refused_is_over(machine: Machine, shell: str) -> None:
    """Not even its next step runs, which the runner would start whatever the hook says.

    The reason is in its log, in the journal, and in what its process has written last: that is what
    the runner tells GitHub of a process that was killed. A job that may start goes on.
    """
    allowed = machine.job(shell)
    assert (allowed.code, allowed.went_on, allowed.told) == (0, True, ""), allowed
    assert (machine.folder / "job" / "hook").read_text() == "yes\n"
    assert "this machine runs" in allowed.said
    assert not machine.journal.exists()
    for name, value, reason in (
        ("GITHUB_EVENT_NAME", "pull_request", "expected schedule, found 'pull_request'"),
        ("GITHUB_EVENT_NAME", "workflow_dispatch", "found 'workflow_dispatch'"),
        ("GITHUB_REF", "x\n::add-mask::y\\n::z", r"found 'x\n::add-mask::y\\n::z'"),
    ):
        refused = machine.job(shell, **{name: value})
        assert (refused.code, refused.went_on) == (-signal.SIGKILL, False), refused
        assert refused.said.startswith("::error title=Refused by the machine::this machine does ")
        assert refused.said.count("\n") == refused.told.count("\n") == 1
        assert refused.told.startswith("this machine does not run ")
        for words in (refused.said, refused.told, machine.journal.read_text()):
            assert reason in words


@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_a_job_is_over_where_nobody_can_decide(machine: Machine, shell: str) -> None:
    """Without a policy, with half of one, without a Python, or when the launcher is ended."""
    text, launcher = machine.policy.read_text(), machine.launcher.read_text()
    machine.policy.write_text(text[:20])
    assert not machine.job(shell).went_on
    machine.policy.unlink()
    found = machine.job(shell)
    assert (found.code, found.went_on) == (-signal.SIGKILL, False)
    assert "the policy of this machine cannot be applied" in found.told
    machine.policy.write_text(text)
    python = getattr(sys, "_base_executable", sys.executable)
    machine.edit(f"{python} -I", "/nowhere/python3 -I")
    found = machine.job(shell)
    assert (found.code, found.went_on) == (-signal.SIGKILL, False)
    assert "/nowhere/python3" in found.told
    machine.launcher.write_text(launcher)
    machine.edit("said=$(", 'kill -TERM "$$"\nsaid=$(')
    assert not machine.job(shell).went_on
    machine.launcher.write_text(launcher)
    assert machine.job(shell).went_on


@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_a_launcher_that_could_end_no_job_lets_none_start(machine: Machine, shell: str) -> None:
    """A runner that calls its processes otherwise is noticed by the first job, not by an attack."""
    machine.edit("/proc/", f"{machine.folder}/no-proc/")
    found = machine.job(shell)
    assert (machine.folder / "job" / "hook").read_text() == "no\n"
    sentence = "above this hook is no process Runner.Worker: a job that is refused could not be "
    assert sentence in found.said
    assert sentence in machine.journal.read_text()


@pytest.mark.usefixtures("stands")
def test_the_files_are_right_for_those_who_read_them(tmp_path: Path) -> None:
    """Shell, sudoers and systemd read what was written, as far as they are here to be asked."""
    assert prepare(tmp_path).returncode == 0
    root = tmp_path / "root"
    sudoers = root / "etc/sudoers.d/servebench"
    assert sudoers.stat().st_mode & 0o777 == 0o440
    rights = [line for line in sudoers.read_text().splitlines() if "ALL" in line]
    assert rights == ["servebench ALL=(servebench-pr) NOPASSWD: ALL"]
    for script in (root / "usr/local/lib/servebench").glob("*.sh"):
        subprocess.run(["sh", "-n", script], check=True)
    unit = (root / "etc/systemd/system/servebench-runner.service").read_text()
    assert "User=servebench\n" in unit
    implies_no_new_privileges = ("PrivateDevices", "ProtectKernel", "Restrict", "SystemCall")
    assert not [line for line in unit.splitlines() if line.startswith(implies_no_new_privileges)]
    walls = (root / "etc/servebench/walls.nft").read_text()
    assert 'meta skuid != "servebench-pr" accept' in walls
    assert "169.254.0.0/16" in walls
    modes = {name: (root / name).stat().st_mode & 0o777 for name in
             ("srv/actions-runner", "srv/servebench-work", "var/lib/servebench-pr")}  # fmt: skip
    assert list(modes.values()) == [0o700, 0o755, 0o700]
    assert "servebench-pr" in (root / "etc/cron.deny").read_text().splitlines()
    if shutil.which("systemd-analyze"):
        units = (root / "etc/systemd/system").glob("*.service")
        verify = ["systemd-analyze", "verify", "--man=no", *map(str, units)]
        told = subprocess.run(verify, capture_output=True, text=True, check=False).stderr
        # What the units start is not installed here; that is all there is to be said of them.
        ours = [line for line in told.splitlines() if "servebench" in line]
        assert [line for line in ours if "is not executable" not in line] == []
    if shutil.which("nft") and os.geteuid() == 0:
        text = walls.replace('"servebench-pr"', '"nobody"')
        (root / "walls.nft").write_text(text)
        asked_nft = ["nft", "--check", "-f", str(root / "walls.nft")]
        answer = subprocess.run(asked_nft, capture_output=True, text=True, check=False)
        # In a container root may not ask the kernel, which the check does at the end.
        assert answer.returncode == 0 or "not permitted" in answer.stderr, answer.stderr


@pytest.mark.usefixtures("stands")
def test_the_default_branch_is_that_of_the_repository(tmp_path: Path) -> None:
    """As the checkout's origin has it, or as it is given; without either it is called main."""
    copy = tmp_path / "checkout" / "scripts"
    shutil.copytree(ROOT / "scripts", copy, ignore=lambda *_: {"__pycache__"})

    def ref(*options: str) -> str:
        done = prepare(tmp_path, *options, script=copy / SCRIPT.name)
        assert done.returncode == 0, done.stderr
        policy = tmp_path / "root" / "etc" / "servebench" / "fleet.json"
        return hook.read_policy(policy.read_text()).ref

    assert ref() == "refs/heads/main"
    origin = tmp_path / "checkout" / ".git" / "refs" / "remotes" / "origin"
    origin.mkdir(parents=True)
    (origin / "HEAD").write_text("ref: refs/remotes/origin/master\n")
    assert ref() == "refs/heads/master"
    assert ref("--branch", "release/next") == "refs/heads/release/next"


@pytest.mark.usefixtures("stands")
def test_a_line_is_added_to_what_others_have_written(tmp_path: Path) -> None:
    """cron.deny keeps its other lines, with or without an end of the last one."""
    deny = tmp_path / "root" / "etc" / "cron.deny"
    deny.parent.mkdir(parents=True)
    deny.write_text("mallory")
    for _ in range(2):
        assert prepare(tmp_path).returncode == 0
        assert deny.read_text() == "mallory\nservebench-pr\n"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--repository", "acme/x; reboot"], "argument --repository"),
        (["--user", "root:root"], "argument --user"),
        (["--runner", "/srv/a b"], "argument --runner"),
        (["--runner", "/srv/a\nExecStartPre=/bin/x"], "argument --runner"),
        (["--allow", "10.0.0.0/8; accept"], "argument --allow"),
        (["--server", "https://x\n"], "argument --server"),
        (["--workflow", "../x.yml"], "argument --workflow"),
        (["--branch", "--upload-pack"], "argument --branch"),
        (["--branch", 'x"'], "argument --branch"),
        (["--event", "pull_request"], "argument --event: invalid choice"),
        (["--reserve", "4096"], "two must be left to measure with"),
        (["--reserve", "-1"], "two must be left to measure with"),
    ],
)
def test_values_cannot_write_lines_of_their_own(
    tmp_path: Path, options: list[str], reason: str
) -> None:
    """What is put into files of root's is checked first."""
    done = prepare(tmp_path, "--dry-run", *options)
    assert done.returncode == 2
    assert reason in done.stderr


def test_without_root_the_system_is_not_touched() -> None:
    """It says how it wants to be run, before it does anything."""
    words = [sys.executable, "-S", str(SCRIPT), "--repository", "acme/servebench"]
    # In a user namespace root is somebody else, who may still start this Python.
    apart = ["unshare", "--user", "--map-user=1000"] if os.geteuid() == 0 else []
    done = subprocess.run([*apart, *words], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "run it with sudo, or with --dry-run" in done.stderr


@pytest.mark.usefixtures("stands")
def test_the_check_finds_what_was_changed_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook that is another one, can be written by others or is not asked; a wrong policy."""
    assert prepare(tmp_path).returncode == 0
    root = tmp_path / "root"
    where = Where(
        root / "etc/servebench/fleet.json",
        root / "usr/local/lib/servebench",
        ROOT,
        owner=os.geteuid(),
    )
    tmp_path.chmod(0o755)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv(check.VARIABLE, str(where.library / "job-started.sh"))

    def state(what: str) -> str:
        found = {one.what: one for one in check.findings(where)}
        return f"{found[what].state}: {found[what].detail}"

    assert state("policy").startswith("ok: acme/servebench: bench.yml, nightly.yml at refs/heads")
    assert state("hook").startswith("ok: ")
    assert state("hook is asked").startswith("ok: ")
    copy = where.library / "hook.py"
    copy.chmod(0o777)
    assert "others than its owner can write to it" in state("hook")
    copy.chmod(0o755)
    copy.write_text("print('welcome')\n")
    assert "is not the hook of this checkout" in state("hook")
    copy.write_bytes(Path(hook.__file__).read_bytes())
    launcher = where.library / "job-started.sh"
    launcher.write_text("#!/bin/sh\nexec /usr/local/lib/servebench/hook.py\n")
    assert f"{launcher} is not the launcher of this checkout" in state("hook")
    copy.unlink()
    assert state("hook").startswith("missing: ")
    monkeypatch.setenv(check.VARIABLE, "/tmp/hook.sh")
    assert "found '/tmp/hook.sh'" in state("hook is asked")
    where.policy.write_text('{"repository": "acme/servebench"}')
    assert "ref: expected a text" in state("policy")
    assert "not prepared" in state("user of foreign code") or "user: Field" in state(
        "user of foreign code"
    )
    assert str(place.LIBRARY) in SCRIPT.read_text("utf-8"), "where the script puts it"


def test_the_page_says_what_the_code_does() -> None:
    """Options of the script, bounds of artifacts and paths stand in docs/runners.md."""
    page = (ROOT / "docs" / "runners.md").read_text("utf-8")
    script = SCRIPT.read_text("utf-8")
    options = set(re.findall(r'add\(\s*"(--[a-z-]+)"', script))
    assert options >= {"--repository", "--allow", "--dry-run"}
    told_elsewhere = {"--server", "--user", "--foreign-user", "--root"}
    assert [option for option in sorted(options - told_elsewhere) if option not in page] == []
    bounds = Limits()
    assert (
        f"({bounds.entries} files and folders, {bounds.depth} deep, "
        f"{bounds.file_bytes // 10**6} MB per file, {bounds.total_bytes // 10**6} MB in all)"
    ) in " ".join(page.replace("\n", " ").split())
    for path in (
        place.LIBRARY,
        place.FILE,
        "/etc/sudoers.d/servebench",
        "/etc/servebench/walls.nft",
    ):
        assert str(path) in page
        assert str(path).rpartition("/")[0] in script


def test_the_owners_of_code_own_something() -> None:
    """A rule for a path that is not there protects nothing."""
    rules = (ROOT / ".github" / "CODEOWNERS").read_text("utf-8").splitlines()
    owned = [line.split() for line in rules if line and not line.startswith("#")]
    assert "/.github/" in {path for path, *_ in owned}
    for path, *owners in owned:
        assert (ROOT / path.lstrip("/")).exists(), path
        assert owners, path
