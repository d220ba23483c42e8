"""A machine of one's own: its hook, what prepares it, and its units."""

import os
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from bare import Programs
from bench import invoke
from observatory.github import readiness, sandbox
from steps import NIGHT

pytestmark = [pytest.mark.real, pytest.mark.thorough]

ROOT: Final = Path(__file__).parents[2]
SCRIPT: Final = ROOT / "scripts" / "prepare-runner.sh"
UNITS: Final = "etc/systemd/system"
PULL: Final = "refs/pull/7/merge"
FILES: Final = "acme/duetbench/.github/workflows"


def prepare(root: Path, *words: str, script: Path = SCRIPT) -> subprocess.CompletedProcess[str]:
    """Run the script below a folder, where it only prints commands."""
    values = ("repository=acme/duetbench", "packages=none", f"root={root}", *words)
    return subprocess.run(
        ["sh", script, *values], capture_output=True, text=True, check=False, timeout=60
    )


# The hook.

WORKER: Final = """\
# Stands in for the runner's process of a job: the next step runs whatever the hook has said.
"$@"
echo ran >next-step
"""


@dataclass(frozen=True)
class Job:
    """What became of a job: whether its next step ran, and what it and its process printed."""

    code: int
    went_on: bool
    out: str
    err: str


@dataclass(frozen=True)
class Machine:
    """A prepared machine below a folder; its hook names files and programs of that folder.

    The hook's last resort, killing everything of its user, writes a file here instead.
    """

    folder: Path
    hook: Path
    policy: Path

    @property
    def killed_all(self) -> bool:
        return (self.folder / "killed-all").exists()

    def job(self, shell: str = "bash", worker: str = "Runner.Worker", **changed: str) -> Job:
        """Begin a job as the runner does, with the variables of the night."""
        place = self.folder / "job"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        stand_in = Programs(self.folder).write(worker, WORKER)
        done = subprocess.run(
            [stand_in, shell, "-e", self.hook],
            cwd=place,
            env={"PATH": os.environ["PATH"]} | NIGHT | changed,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        went_on = (place / "next-step").exists()
        return Job(done.returncode, went_on, done.stdout, done.stderr)

    def edit(self, old: str, new: str) -> None:
        text = self.hook.read_text()
        assert old in text
        self.hook.write_text(text.replace(old, new))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    root, programs = tmp_path / "root", tmp_path / "bin"
    done = prepare(root, "repository_id=4711", "workflows=bench.yml,nightly.yml", "branch=main")
    assert done.returncode == 0, done.stdout + done.stderr
    programs.mkdir()
    Programs(programs).write("logger", f"printf '%s\\n' \"$*\" >>{tmp_path}/journal")
    hook, policy = root / "usr/local/lib/duetbench/job-started.sh", root / "etc/duetbench/policy"
    result = Machine(tmp_path, hook, policy)
    result.edit("policy=/etc/duetbench/policy", f"policy={policy}")
    result.edit("kill -KILL -1", f"echo >{tmp_path}/killed-all")
    result.edit("PATH=/usr/sbin", f"PATH={programs}:/usr/sbin")
    return result


@pytest.mark.parametrize(
    ("shell", "event", "workflow"),
    [("bash", "schedule", "nightly"), ("sh", "workflow_dispatch", "bench")],
)
def test_our_own_workflows_at_main_may_start(
    machine: Machine, shell: str, event: str, workflow: str
) -> None:
    ours = f"{FILES}/{workflow}.yml@refs/heads/main"
    job = machine.job(shell, GITHUB_EVENT_NAME=event, GITHUB_WORKFLOW_REF=ours)
    assert (job.code, job.went_on, job.err) == (0, True, ""), job
    assert f"this machine runs {ours} for {event}" in job.out
    assert not (machine.folder / "journal").exists()


JOBS: Final[dict[str, tuple[dict[str, str], str]]] = {
    "a fork's pull request that names our label": (
        {"EVENT_NAME": "pull_request", "REF": PULL, "WORKFLOW_REF": f"{FILES}/ci.yml@{PULL}"},
        "event: expected schedule or workflow_dispatch, found pull_request",
    ),
    "pull_request_target, which runs at main": (
        {"EVENT_NAME": "pull_request_target"},
        "event: expected schedule or workflow_dispatch, found pull_request_target",
    ),
    "a dispatch on another branch": (
        {"REF": "refs/heads/mine", "WORKFLOW_REF": f"{FILES}/bench.yml@refs/heads/mine"},
        "ref: expected refs/heads/main, found refs/heads/mine",
    ),
    "who took the name of a deleted repository": (
        {"REPOSITORY_ID": "4712"},
        "repository_id: expected 4711, found 4712",
    ),
    "another workflow at main": (
        {"WORKFLOW_REF": f"{FILES}/x.yml@refs/heads/main"},
        f"workflow: expected {FILES}/bench.yml@refs/heads/main or {FILES}/nightly.yml",
    ),
    "a ref that acts on a log": (
        {"REF": "x\n::set-env name=A::b\r%0A##[x]$(id)"},
        "found x?::set-env name?A::b??0A???x???id?",
    ),
    **{f"no {name}": ({name.removeprefix("GITHUB_"): ""}, "found nothing") for name in NIGHT},
}


@pytest.mark.parametrize("attack", JOBS)
def test_any_other_job_ends_before_its_next_step(machine: Machine, attack: str) -> None:
    """The log, what the runner shows of its process, and the journal have one line: the reason."""
    changed, reason = JOBS[attack]
    job = machine.job(**{f"GITHUB_{name}": value for name, value in changed.items()})
    assert (job.code, job.went_on) == (-signal.SIGKILL, False), job
    for text in (job.out, job.err, (machine.folder / "journal").read_text()):
        assert reason in text
        assert text.count("\n") == 1
        assert "\r" not in text
    assert not machine.killed_all


@pytest.mark.parametrize("text", ["", "ref='refs/heads/main'", "repository='a"])
def test_a_job_ends_where_the_policy_cannot_be_read(machine: Machine, text: str) -> None:
    machine.policy.unlink()
    if text:
        machine.policy.write_text(text)
    job = machine.job()
    assert (job.code, job.went_on) == (-signal.SIGKILL, False)


def test_without_a_worker_everything_of_the_user_is_killed(machine: Machine) -> None:
    """A runner that calls its processes otherwise; jobs of ours start all the same."""
    assert machine.job(worker="Runner.Work2").went_on
    assert not machine.killed_all
    job = machine.job(worker="Runner.Work2", GITHUB_EVENT_NAME="push")
    assert machine.killed_all
    assert "found push" in job.out


# The script that prepares a machine, and its units.


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the script writes for a machine with two hosts of packages."""
    result = tmp_path_factory.mktemp("prepared")
    done = prepare(result, "packages=index.example,files.example")
    assert done.returncode == 0, done.stderr
    return result


def contents(root: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(root)): (path.stat().st_mode & 0o777, path.read_bytes())
        for path in root.rglob("*")
        if path.is_file()
    }


def test_it_can_be_repeated(root: Path) -> None:
    """A second time changes nothing; what was changed since is put right."""
    before = contents(root)
    (root / "etc/duetbench/policy").write_text("")
    (root / "usr/local/lib/duetbench/job-started.sh").chmod(0o777)
    done = prepare(root, "packages=index.example,files.example")
    assert contents(root) == before
    commands = [line[2:] for line in done.stdout.splitlines() if line.startswith("$ ")]
    (useradd,) = [line for line in commands if line.startswith("useradd")]
    assert useradd.endswith("--shell /usr/sbin/nologin --user-group duetbench")
    assert commands[-1].endswith(
        "duetbench-runner.service duetbench-packages@index.example.socket "
        "duetbench-packages@files.example.socket"
    )
    folders = ("var/lib/duetbench", "srv/actions-runner", "srv/duetbench-work")
    assert [(root / name).stat().st_mode & 0o777 for name in folders] == [0o700, 0o700, 0o755]


def test_a_host_that_is_no_longer_named_has_no_way(root: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(root, tmp_path / "machine"))
    done = prepare(copy, "packages=files.example")
    units = [path.name for path in (copy / UNITS).glob("duetbench-packages@*.d")]
    assert units == ["duetbench-packages@files.example.socket.d"]
    gone = "$ systemctl disable --now duetbench-packages@index.example.socket\n"
    assert done.stdout.count("disable") == done.stdout.count(gone) == 1


POLICY: Final = "etc/duetbench/policy"
HOSTS: Final = "etc/duetbench/hosts"
ASKED: Final = [
    # Words, and what one of the files then has.
    ("", POLICY, "ref='refs/heads/main'"),
    ("branch=release/next", POLICY, "ref='refs/heads/release/next'"),
    ("workflows=own.yml events=schedule", POLICY, "events='schedule' workflows='own.yml'"),
    ("packages=none", HOSTS, "127.0.0.1 localhost\n"),
    ("packages=a.b,c.d", HOSTS, "127.0.0.1 localhost\n127.9.0.1 a.b\n127.9.0.2 c.d\n"),
    ("packages=a.b,c.d", f"{UNITS}/duetbench-packages@c.d.socket.d/50-address.conf",
     "[Socket]\nListenStream=127.9.0.2:443\n"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "file", "text"), ASKED)
def test_what_was_asked_for_is_written(tmp_path: Path, words: str, file: str, text: str) -> None:
    done = prepare(tmp_path, *words.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert text in (tmp_path / file).read_text()


@pytest.mark.parametrize(
    ("word", "told"),
    [
        *((word, f"{word}: expected ") for word in (
            "repository=acme/x; reboot", "user=root", "branch=x\nExecStart=/bin/x",
            "events=pull_request", "packages=a.b,HOST", "repository=OWNER/NAME",
            "repository=acme/NAME", "group=MACHINE",
        )),
        ("", "expected packages=HOST,…: the sandbox installs"),
    ],
)  # fmt: skip
def test_hostile_values_placeholders_and_gaps_are_refused(
    tmp_path: Path, word: str, told: str
) -> None:
    words = ["repository=acme/x", f"root={tmp_path}", *([word, "packages=none"] if word else [])]
    argv = ["sh", str(SCRIPT), *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, told in done.stderr, contents(tmp_path)) == (2, True, {})


systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd is not installed here"
)


@systemd
def test_systemd_can_read_the_units(root: Path) -> None:
    """All but that what they start is not installed here, and sockets get addresses by host."""
    units = [*(root / UNITS).glob("*.service"), *(root / UNITS).glob("duetbench-s*.socket")]
    verify = ["systemd-analyze", "verify", "--man=no", *map(str, units)]
    done = subprocess.run(verify, capture_output=True, text=True, check=False, timeout=60)
    ours = [line for line in done.stderr.splitlines() if "duetbench" in line]
    known = ("is not executable", "duetbench-packages@i.socket: Unit has no Listen setting")
    assert [line for line in ours if not any(words in line for words in known)] == []


@systemd
def test_the_sandbox_is_as_closed_as_measuring_allows(root: Path) -> None:
    """Systemd's own measure of exposure, 0 to 10, as tenths."""
    unit = root / UNITS / "duetbench-sandbox@.service"
    words = ["systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold=20"]
    done = subprocess.run([*words, unit], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout
    text = unit.read_text()
    for line in ("DynamicUser=yes", "KillMode=control-group", "IPAddressDeny=any"):
        assert f"\n{line}\n" in text
    own = "\nNetworkNamespacePath=/run/netns/duetbench\n"
    assert own in text
    assert own in (root / UNITS / "duetbench-packages@.socket").read_text()
    forwarder = (root / UNITS / "duetbench-packages@.service").read_text()
    assert own not in forwarder  # it goes out
    assert "\nPartOf=duetbench-packages@%i.socket\n" in forwarder
    for bound in ("MemoryMax", "TasksMax", "RuntimeMaxSec", "LimitFSIZE"):
        assert re.search(rf"^{bound}=\d", text, re.MULTILINE)


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    """A machine that is prepared, whose files a test may change."""
    tmp_path.chmod(0o755)
    return Path(shutil.copytree(root, tmp_path / "machine"))


def differences(copy: Path) -> list[tuple[str, str]]:
    found = readiness.machine(copy, owner=os.geteuid())
    return [(level, text.replace(f"{copy}/", "")) for level, text in found]


@pytest.mark.parametrize(
    ("file", "level"),
    [
        (f"{UNITS}/duetbench-sandbox@.service", "error"),
        (f"{UNITS}/duetbench-network.service", "error"),
        (f"{UNITS}/duetbench-packages@index.example.socket.d/50-address.conf", "error"),
        ("etc/duetbench/hosts", "error"),
        ("etc/duetbench/policy", "warning"),
        ("usr/local/lib/duetbench/job-started.sh", "warning"),
        (f"{UNITS}/apt-daily.timer.d/50-duetbench.conf", "warning"),
    ],
)
def test_what_differs_from_the_checkout_is_found(copy: Path, file: str, level: str) -> None:
    """Every file that the script writes for the machine's words, but for comments."""
    assert differences(copy) == []
    with (copy / file).open("a") as opened:
        opened.write("# in your own words\n")
    assert differences(copy) == []
    with (copy / file).open("a") as opened:
        opened.write("more\n")
    assert differences(copy) == [(level, f"{file} differs from this checkout's")]
    (copy / file).unlink()
    assert differences(copy) == [(level, f"{file}: No such file or directory")]


def test_who_may_write_to_it_and_what_was_added_is_found(copy: Path) -> None:
    hook = copy / "usr/local/lib/duetbench/job-started.sh"
    hook.chmod(0o777)
    addition = f"{UNITS}/duetbench-sandbox@.service.d/override.conf"
    (copy / addition).parent.mkdir(exist_ok=True)
    (copy / addition).write_text("[Service]\nEnvironment=UV_INDEX_URL=https://index.example\n")
    wrong, added = differences(copy)
    assert wrong[0] == "error"
    assert wrong[1].startswith("usr/local/lib/duetbench/job-started.sh: expected root as its owner")
    assert added == ("notice", f"{addition}: an addition of this machine's")


def test_a_machine_that_nobody_has_prepared(copy: Path) -> None:
    words = copy / "etc/duetbench/words"
    words.write_text("repository=OWNER/NAME packages=none\n")
    (level, text), *_ = differences(copy)
    assert level == "error"
    assert "expected your own value, not a placeholder" in text
    words.unlink()
    reason = "etc/duetbench/words: No such file or directory"
    assert differences(copy) == [("error", f"this machine is not prepared as a runner: {reason}")]


def test_a_job_shows_how_its_machine_differs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the job's page. With another sandbox than the checkout's, nothing is started."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    started = list[str]()
    monkeypatch.setattr(sandbox, "run", lambda _, words: started.extend(words))
    found = [readiness.Difference("warning", "/etc/x differs"), readiness.Difference("notice", "y")]
    monkeypatch.setattr(readiness, "machine", lambda: found)
    words = ("observatory", "sandbox", "--", "run", "--to", "out")
    done = invoke(capsys, monkeypatch, words)
    assert (done.code, started) == (0, ["run", "--to", "out"])
    remedy = "; to install it, run scripts/prepare-runner.sh (docs/observatory/runners.md)"
    lines = [f"::warning title=duetbench::/etc/x differs{remedy}"]
    lines += ["::notice title=duetbench::y"]
    assert done.out.splitlines() == lines
    found.append(readiness.Difference("error", "/etc/z: 100 %\nwrong"))
    done = invoke(capsys, monkeypatch, words)
    assert (done.code, len(started)) == (4, 3)
    assert done.out.splitlines()[2] == f"::error title=duetbench::/etc/z: 100 %25%0Awrong{remedy}"
    assert "nothing was started: /etc/z" in done.err
    assert invoke(capsys, monkeypatch, ("observatory", "runner")).code == 1
