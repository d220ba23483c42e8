"""The script that prepares a machine: what it writes, and that it can be repeated."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from servebench.artifacts.folder import Limits
from servebench.fleet import check, hook, place
from servebench.fleet.check import Where

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


def prepare(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the script below a folder of the test's own."""
    words = ["--repository", "acme/servebench", "--root", str(tmp_path / "root"), *options]
    return subprocess.run(
        [sys.executable, "-S", SCRIPT, *words],
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


@pytest.mark.usefixtures("stands")
def test_what_is_installed_works_together(tmp_path: Path) -> None:
    """The launcher starts the hook with the policy; a night may start, a pull request may not."""
    chosen = ("--repository-id", "4711", "--workflow", "nightly.yml", "--event", "schedule")
    assert prepare(tmp_path, *chosen).returncode == 0
    root = tmp_path / "root"
    library, policy = root / "usr/local/lib/servebench", root / "etc/servebench/fleet.json"
    document = json.loads(policy.read_text())
    assert document.pop("user") == "servebench-pr"  # nobody of that name is here to be ended
    policy.write_text(json.dumps(document))
    launcher = library / "job-started.sh"
    text = launcher.read_text()
    for path in ("/usr/local/lib/servebench/", "/etc/servebench/"):
        text = text.replace(f" {path}", f" {root}{path}")
    python = getattr(sys, "_base_executable", sys.executable)
    launcher.write_text(text.replace("/usr/bin/python3", python))
    night = {
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_REPOSITORY": "acme/servebench",
        "GITHUB_REPOSITORY_ID": "4711",
        "GITHUB_EVENT_NAME": "schedule",
        "GITHUB_REF": "refs/heads/main",
        "GITHUB_WORKFLOW_REF": "acme/servebench/.github/workflows/nightly.yml@refs/heads/main",
    }
    cases: list[tuple[dict[str, str] | None, int]] = [
        ({}, 0),
        ({"GITHUB_EVENT_NAME": "pull_request"}, 1),
        ({"GITHUB_EVENT_NAME": "workflow_dispatch"}, 1),
        (None, 1),
    ]
    for changed, code in cases:
        job = {} if changed is None else {**night, **changed}
        done = subprocess.run(
            ["bash", "-e", launcher],  # as GitHub's runner does
            env={"PYTHONPATH": "/nowhere", **job},
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr


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
