"""The script that prepares a machine: what it writes, and that it can be repeated."""

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

from duetbench.github.incoming.folder import Limits
from duetbench.github.runner import check, hook, room
from duetbench.github.runner.check import RunnerPaths
from steps import NIGHT

ROOT: Final = Path(__file__).parents[2]
SCRIPT: Final = ROOT / "scripts" / "prepare-runner.sh"
LIBRARY: Final = "usr/local/lib/duetbench"


def prepare(root: Path, *words: str, script: Path = SCRIPT) -> subprocess.CompletedProcess[str]:
    """Run the script below a folder of the test's own, where commands are printed only."""
    given = ("repository=acme/duetbench", f"root={root}", *words)
    return subprocess.run(
        ["sh", script, *given], capture_output=True, text=True, check=False, timeout=60
    )


def contents(root: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(root)): (path.stat().st_mode & 0o777, path.read_bytes())
        for path in root.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the script writes for a machine without options."""
    made = tmp_path_factory.mktemp("prepared")
    done = prepare(made)
    assert done.returncode == 0, done.stderr
    return made


def test_it_can_be_repeated(root: Path) -> None:
    """A second time changes nothing; what was changed since is put right."""
    before = contents(root)
    (root / "etc/duetbench/fleet.json").write_text("{}")
    (root / LIBRARY / "job-started.sh").chmod(0o777)
    assert prepare(root).returncode == 0
    assert contents(root) == before


def test_users_and_services_are_made(root: Path) -> None:
    commands = [line[2:] for line in prepare(root).stdout.splitlines() if line.startswith("$ ")]
    assert [line for line in commands if line.startswith("useradd")] == [
        f"useradd --system --create-home --home-dir /var/lib/{user} --shell /usr/sbin/nologin "
        f"--user-group {user}"
        for user in ("duetbench", "duetbench-pr")
    ]
    owned = [f"chown {name}" for name in (
        "duetbench: /var/lib/duetbench", "duetbench-pr: /var/lib/duetbench-pr",
        "duetbench: /srv/actions-runner", "duetbench: /srv/duetbench-work",
        "duetbench: /var/cache/duetbench",
    )]  # fmt: skip
    assert [line for line in commands if line.startswith("chown")] == owned
    units = [f"duetbench-{name}.service" for name in ("clock", "walls", "runner")]
    assert commands[-2:] == ["systemctl daemon-reload", f"systemctl enable {' '.join(units)}"]


in_both_shells = pytest.mark.parametrize("shell", ["bash", "sh"])
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
    python: str = getattr(sys, "_base_executable", sys.executable)

    def job(self, shell: str = "bash", **changed: str) -> Job:
        """Let the runner's stand-in begin a job, as the runner does, with the night's variables."""
        place = self.folder / "job"
        place.mkdir(exist_ok=True)
        for left in place.iterdir():
            left.unlink()
        # Whoever asks on this machine at once, other tests of this kind too, is another job.
        with (Path(tempfile.gettempdir()) / f"duetbench-jobs-{os.getuid()}").open("a") as one:
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
        text = self.launcher.read_text()
        assert old in text
        self.launcher.write_text(text.replace(old, new))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine whose journal is a file, with nobody to be ended."""
    root, journal, stands = tmp_path / "root", tmp_path / "journal", tmp_path / "bin"
    stands.mkdir()
    chosen = ("repository_id=4711", "workflows=nightly.yml", "events=schedule", "branch=main")
    done = prepare(root, *chosen)
    assert done.returncode == 0, done.stdout + done.stderr
    policy = root / "etc/duetbench/fleet.json"
    document = json.loads(policy.read_text())
    assert document.pop("user") == "duetbench-pr"
    policy.write_text(json.dumps(document))
    for file, text in (
        (tmp_path / "Runner.Worker", WORKER),
        (stands / "logger", f"#!/bin/sh\nprintf '%s\\n' \"$*\" >>{journal}\n"),
    ):
        file.write_text(text)
        file.chmod(0o755)
    made = Machine(tmp_path, root / LIBRARY / "job-started.sh", policy, journal)
    for path in ("/usr/local/lib/duetbench/", "/etc/duetbench/"):
        made.edit(f" {path}", f" {root}{path}")
    made.edit("/usr/bin/python3", made.python)
    made.edit("\nPATH=", f"\nPATH={stands}:")
    return made


WRITES: Final = ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT")
REF: Final = "x\n::add-mask::y\r::set-env name=LD_PRELOAD::/tmp/x.so%0A\\n::stop-commands::z"


@in_both_shells
def test_a_job_that_is_refused_is_over(machine: Machine, shell: str) -> None:
    """Not even its next step runs, which the runner would start whatever the hook has said.

    The log gets one line, whatever a ref is called, and Python's own variables and modules beside
    the hook, or the job, change nothing.
    """
    for place in (machine.folder, machine.policy.parent, machine.launcher.parent):
        (place / "json.py").write_text("raise SystemExit(0)\n")
    written = machine.folder / "env"
    written.touch()
    chosen = dict.fromkeys(WRITES, str(written)) | {
        "PYTHONPATH": str(machine.folder), "PYTHONSTARTUP": str(machine.folder / "json.py"),
        "PYTHONINSPECT": "1",
    }  # fmt: skip
    allowed = machine.job(shell)
    assert (allowed.code, allowed.went_on, allowed.told) == (0, True, ""), allowed
    assert (machine.folder / "job" / "hook").read_text() == "yes\n"
    assert "this machine runs" in allowed.said
    assert not machine.journal.exists()
    for name, value, reason in (
        ("GITHUB_EVENT_NAME", "pull_request", "expected schedule, found 'pull_request'"),
        ("GITHUB_EVENT_NAME", "workflow_dispatch", "found 'workflow_dispatch'"),
        ("GITHUB_REF", REF, f"found {REF!r}"),
    ):
        refused = machine.job(shell, **chosen, **{name: value})
        assert (refused.code, refused.went_on) == (-signal.SIGKILL, False), refused
        assert refused.said.startswith("::error title=Refused by the machine::this machine does ")
        assert refused.said.count("\n") == refused.told.count("\n") == 1
        assert "\r" not in refused.said
        assert "%0A" not in refused.said
        assert written.read_text() == ""
        assert refused.told.startswith("this machine does not run ")
        for words in (refused.said, refused.told, machine.journal.read_text()):
            assert reason in words.replace("%25", "%")


@in_both_shells
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
    machine.edit(f"{machine.python} -I", "/nowhere/python3 -I")
    found = machine.job(shell)
    assert (found.code, found.went_on) == (-signal.SIGKILL, False)
    assert "/nowhere/python3" in found.told
    machine.launcher.write_text(launcher)
    machine.edit("said=$(", 'kill -TERM "$$"\nsaid=$(')
    assert not machine.job(shell).went_on
    machine.launcher.write_text(launcher)
    assert machine.job(shell).went_on


@in_both_shells
def test_a_launcher_that_could_end_no_job_lets_none_start(machine: Machine, shell: str) -> None:
    """A runner that calls its processes otherwise is noticed by the first job, not by an attack."""
    machine.edit("/proc/", f"{machine.folder}/no-proc/")
    found = machine.job(shell)
    assert (machine.folder / "job" / "hook").read_text() == "no\n"
    sentence = "above this hook is no process Runner.Worker: a job that is refused could not be "
    assert sentence in found.said
    assert sentence in machine.journal.read_text()


def test_the_files_are_right_for_those_who_read_them(root: Path) -> None:
    """Shell, sudoers and systemd read what was written, as far as they are here to be asked."""
    sudoers = root / "etc/sudoers.d/duetbench"
    assert sudoers.stat().st_mode & 0o777 == 0o440
    rights = [line for line in sudoers.read_text().splitlines() if "ALL" in line]
    assert rights == ["duetbench ALL=(duetbench-pr) NOPASSWD: ALL"]
    if shutil.which("visudo"):
        subprocess.run(["visudo", "-cqf", sudoers], check=True)
    for script in (root / LIBRARY).glob("*.sh"):
        subprocess.run(["sh", "-n", script], check=True)
    unit = (root / "etc/systemd/system/duetbench-runner.service").read_text()
    assert "User=duetbench\n" in unit
    implies_no_new_privileges = ("PrivateDevices", "ProtectKernel", "Restrict", "SystemCall")
    assert not [line for line in unit.splitlines() if line.startswith(implies_no_new_privileges)]
    walls = (root / "etc/duetbench/walls.nft").read_text()
    assert 'meta skuid != "duetbench-pr" accept' in walls
    assert "169.254.0.0/16" in walls
    modes = {name: (root / name).stat().st_mode & 0o777 for name in
             ("srv/actions-runner", "srv/duetbench-work", "var/lib/duetbench-pr")}  # fmt: skip
    assert list(modes.values()) == [0o700, 0o755, 0o700]
    if shutil.which("systemd-analyze"):
        units = (root / "etc/systemd/system").glob("*.service")
        verify = ["systemd-analyze", "verify", "--man=no", *map(str, units)]
        told = subprocess.run(verify, capture_output=True, text=True, check=False).stderr
        # What the units start is not installed here; that is all there is to be said of them.
        ours = [line for line in told.splitlines() if "duetbench" in line]
        assert [line for line in ours if "is not executable" not in line] == []
    if shutil.which("nft") and os.geteuid() == 0:
        (root / "walls.nft").write_text(walls.replace('"duetbench-pr"', '"nobody"'))
        asked_nft = ["nft", "--check", "-f", str(root / "walls.nft")]
        answer = subprocess.run(asked_nft, capture_output=True, text=True, check=False)
        # In a container root may not ask the kernel, which the check does at the end.
        assert answer.returncode == 0 or "not permitted" in answer.stderr, answer.stderr


def test_what_was_asked_for_is_written(tmp_path: Path) -> None:
    """Branch, events, workflows, networks and variables; cron.deny keeps its other lines."""
    copy, root = tmp_path / "checkout" / "scripts", tmp_path / "root"
    shutil.copytree(ROOT / "scripts", copy, ignore=lambda *_: {"__pycache__", "typescript"})
    (root / "etc").mkdir(parents=True)
    (root / "etc" / "cron.deny").write_text("mallory")

    def ref(*words: str) -> str:
        done = prepare(root, *words, script=copy / SCRIPT.name)
        assert done.returncode == 0, done.stderr
        assert (root / "etc" / "cron.deny").read_text() == "mallory\nduetbench-pr\n"
        return hook.read_policy((root / "etc/duetbench/fleet.json").read_text()).ref

    assert ref() == "refs/heads/main"
    origin = tmp_path / "checkout" / ".git" / "refs" / "remotes" / "origin"
    origin.mkdir(parents=True)
    (origin / "HEAD").write_text("ref: refs/remotes/origin/master\n")
    assert ref() == "refs/heads/master"  # as the checkout's origin has it
    more = ("workflows=own.yml", "events=push", "allow=10.1.0.0/16,fd00::/8", "pass=HTTPS_PROXY,A")
    assert ref("branch=release/next", *more) == "refs/heads/release/next"
    policy = json.loads((root / "etc/duetbench/fleet.json").read_text())
    assert (policy["workflows"], policy["events"]) == (["own.yml"], ["push"])
    assert policy["passes"] == ["HTTPS_PROXY", "A"]
    walls = (root / "etc/duetbench/walls.nft").read_text()
    assert "ip daddr 10.1.0.0/16 accept; ip6 daddr fd00::/8 accept;" in walls


@pytest.mark.parametrize(
    "word",
    [
        "repository=acme/x; reboot", "repository=acme", "user=root", "allow=10.0.0.0/8;accept",
        "workflows=../x.yml", "branch=--upload-pack", 'branch=x"', "branch=x\nExecStart=/bin/x",
        "events=pull_request", "events=schedule,pull_request", "pass=$(id)"],
)  # fmt: skip
def test_values_cannot_write_lines_of_their_own(tmp_path: Path, word: str) -> None:
    done = prepare(tmp_path, word)
    assert done.returncode == 2
    assert f"{word}: expected " in done.stderr
    assert contents(tmp_path) == {}


def test_without_root_the_system_is_not_touched() -> None:
    # In a user namespace root is somebody else, who may still start this shell.
    apart = ["unshare", "--user", "--map-user=1000"] if os.geteuid() == 0 else []
    argv = [*apart, "sh", str(SCRIPT), "repository=acme/duetbench"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "run it with sudo, or with root=FOLDER" in done.stderr


def test_the_check_finds_what_was_changed_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook that is another one, can be written by others or is not asked; a wrong policy."""
    root = tmp_path / "root"
    assert prepare(root).returncode == 0
    where = RunnerPaths(root / "etc/duetbench/fleet.json", root / LIBRARY, ROOT, owner=os.geteuid())
    tmp_path.chmod(0o755)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv(check.VARIABLE, str(where.library / "job-started.sh"))

    def state(what: str) -> str:
        found = {one.what: one for one in check.findings(where)}
        return f"{found[what].state}: {found[what].detail}"

    assert state("policy").startswith("ok: acme/duetbench: bench.yml, nightly.yml, publish.yml")
    assert state("hook").startswith("ok: ")
    assert state("hook is asked").startswith("ok: ")
    copy = where.library / "hook.py"
    copy.chmod(0o777)
    assert "others than its owner can write to it" in state("hook")
    copy.chmod(0o755)
    copy.write_text("print('welcome')\n")
    assert "is not that of this checkout" in state("hook")
    copy.write_bytes(Path(hook.__file__).read_bytes())
    launcher = where.library / "job-started.sh"
    launcher.write_text("#!/bin/sh\nexec /usr/local/lib/duetbench/hook.py\n")
    assert f"{launcher} is not that of this checkout" in state("hook")
    copy.unlink()
    assert state("hook").startswith("missing: ")
    monkeypatch.setenv(check.VARIABLE, "/tmp/hook.sh")
    assert "found '/tmp/hook.sh'" in state("hook is asked")
    where.policy.write_text('{"repository": "acme/duetbench"}')
    assert "ref: expected a text" in state("policy")
    assert "not prepared" in state("user of foreign code") or "user: Field" in state(
        "user of foreign code"
    )


def test_the_page_says_what_the_code_does() -> None:
    """Words of the script, bounds of artifacts and paths stand in docs/runners.md."""
    page = (ROOT / "docs" / "runners.md").read_text("utf-8")
    script = SCRIPT.read_text("utf-8")
    words = set(re.findall(r"([a-z_]+=)[A-Z*?/]", script.partition("for program")[0]))
    assert words >= {"repository=", "allow=", "root="}
    assert [word for word in sorted(words) if word not in page] == []
    bounds = Limits()
    assert (
        f"({bounds.entries} files and folders, {bounds.depth} deep, "
        f"{bounds.file_bytes // 10**6} MB per file, {bounds.total_bytes // 10**6} MB in all)"
    ) in " ".join(page.replace("\n", " ").split())
    for path in (
        room.LIBRARY, room.CONFIG, "/etc/sudoers.d/duetbench", "/etc/duetbench/walls.nft"
    ):  # fmt: skip
        assert str(path) in page
        assert str(path) in script


def test_the_owners_of_code_own_something() -> None:
    rules = (ROOT / ".github" / "CODEOWNERS").read_text("utf-8").splitlines()
    owned = [line.split() for line in rules if line and not line.startswith("#")]
    assert "/.github/" in {path for path, *_ in owned}
    for path, *owners in owned:
        assert (ROOT / path.lstrip("/")).exists(), path
        assert owners, path
