"""Foreign code runs as another user, for real: what it can reach, and what it leaves."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from repos import commit, git, make_repository
from servebench.compare.model import Comparison
from servebench.errors import SetupError
from servebench.fleet import place
from servebench.fleet.other_user import OtherUser

_PLAYER: Final = Path(__file__).with_name("rooms.py")
_CASE: Final = "asgi-wsgi/asgi-json/py3.14/w1/c128"

# What somebody puts into an application, to see what it can get at.
HOSTILE: Final = """
import os as _os
import subprocess as _subprocess

_subprocess.Popen(["sleep", "600"], start_new_session=True)
for _target in ({secret!r}, {checkout!r} + "/pyproject.toml", {cache!r} + "/x"):
    try:
        with open(_target, "r" if _target == {secret!r} else "a") as _file:
            _file.read()
        _found = "open"
    except OSError as _error:
        _found = type(_error).__name__
    with open({loot!r}, "a") as _file:
        _file.write(_target + ": " + _found + "\\n")
with open({loot!r}, "a") as _file:
    _file.write("uid: " + str(_os.getuid()) + "\\n")
print("\\n::set-env name=LD_PRELOAD::/tmp/x.so")
"""


def play(scene: str, folder: Path, **env: str) -> tuple[dict[str, Any], str]:
    """Play a scene as root, in namespaces of its own.

    Returns:
        What it saw, and what it said.
    """
    folder.mkdir(exist_ok=True)
    apart = ["unshare", "--mount", "--pid", "--fork", "--mount-proc"]
    kept = {
        name: os.environ[name]
        for name in ("HOME", "XDG_CACHE_HOME", "SERVEBENCH_ROOT")
        if name in os.environ
    }
    kept |= {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "XDG_STATE_HOME": str(folder / "state"),
        **env,
    }
    variables = [f"{name}={value}" for name, value in kept.items()]
    ask = [] if os.geteuid() == 0 else ["sudo", "-n"]
    done = subprocess.run(
        [*ask, *apart, "env", "-i", *variables, sys.executable, _PLAYER, scene, folder],
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((folder / "seen.json").read_text()), done.stdout


def can_become_others() -> bool:
    """Whether a user can be changed here: as root, or with sudo that does not ask."""
    root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    apart = [*root, "unshare", "--mount", "--pid", "--fork", "--mount-proc", "true"]
    if root and shutil.which("sudo") is None:
        return False
    return subprocess.run(apart, capture_output=True, check=False).returncode == 0


changes_user = pytest.mark.skipif(
    "CI" not in os.environ and not can_become_others(),
    reason="becoming another user needs root, or sudo without a password",
)


@changes_user
def test_foreign_code_is_somebody_else_and_sees_nothing_of_ours(tmp_path: Path) -> None:
    """No groups, no way to privileges, none of the runner's variables; its cache is for reading.

    What set-up has made can be used.
    """
    found, _ = play("seen", tmp_path)
    assert found["id"] == found["groups"] == "65534"
    assert found["privileges"].split() == ["NoNewPrivs:", "1"]
    names = {line.partition("=")[0] for line in found["environment"].splitlines()}
    assert names == {
        "PATH", "LANG", "HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_STATE_HOME", "SERVEBENCH_MEASURING"
    }  # fmt: skip
    assert "ermission denied" in found["secret"]
    assert "ermission denied" in found["parent"]
    assert "ermission denied" in found["cache"]
    assert found["oha"].startswith("oha 1.")


@changes_user
def test_nothing_of_foreign_code_stays(tmp_path: Path) -> None:
    """Processes in sessions of their own that ignore signals, closed folders, files in /tmp."""
    found, _ = play("cleared", tmp_path)
    assert found == {"before": 1, "after": 0, "room": [], "bystander": None}


@changes_user
def test_a_result_is_read_with_the_rights_of_who_made_it(tmp_path: Path) -> None:
    """A link to our secrets gives none of them, a pipe does not hold us up, size is bounded."""
    found, _ = play("collected", tmp_path)
    assert found["file"] == "right"
    for name in ("link", "pipe", "large", "absent"):
        assert found[name].startswith("refused: "), name
    assert "token" not in json.dumps(found)
    assert "more than 50 bytes" in found["large"]


@pytest.mark.long
@pytest.mark.real
@changes_user
def test_a_hostile_commit_is_compared_and_harms_nobody(tmp_path: Path) -> None:
    """From two commits to a checked comparison, while the application looks for our secrets."""
    folder = tmp_path / "scene"
    folder.mkdir()
    repository = make_repository(tmp_path / "checkout")
    base = git(repository, "rev-parse", "HEAD")
    loot = folder / "loot"
    loot.touch()
    loot.chmod(0o666)
    secret = folder / "secret"
    secret.write_text("token")
    secret.chmod(0o600)
    application = repository / "apps" / "asgi-wsgi" / "asgi_app.py"
    evil = HOSTILE.format(
        secret=str(secret), checkout=str(repository), cache=str(tmp_path), loot=str(loot)
    )
    head = commit(
        repository, "Faster", **{"apps__asgi-wsgi__asgi_app.py": application.read_text() + evil}
    )
    git(repository, "checkout", "--quiet", base)
    options = ["--select", _CASE, "--budget", "18s"]
    wanted = {"base": base, "head": head, "options": options}
    (folder / "wanted.json").write_text(json.dumps(wanted))
    found, said = play("compared", folder, SERVEBENCH_ROOT=str(repository))
    tried = loot.read_text()
    assert found["alive"] == found["room"] == [], found
    assert found["code"] in {0, 1, 3}, said
    result = Comparison.model_validate_json((folder / "comparison.json").read_bytes())
    assert (result.base.commit, result.head.commit) == (base, head)
    assert result.cases[0].duets, said
    lines = set(tried.splitlines())
    assert "uid: 65534" in lines, "the application ran"
    assert not [line for line in lines if line.endswith(": open")]
    assert len(lines) == 4
    first, *others = said.splitlines()
    assert first.startswith("::stop-commands::")
    token = first.removeprefix("::stop-commands::")
    assert f"::{token}::" in others
    after = others[others.index(f"::{token}::") + 1 :]
    assert after == [f"Checked and saved: {folder / 'comparison.json'}"]


def test_a_machine_that_is_not_prepared_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file, a wrong one, no such user, ourselves, a room that must not be emptied."""
    file = tmp_path / "fleet.json"
    monkeypatch.setenv(place.VARIABLE, str(file))
    with pytest.raises(SetupError, match="not prepared to run foreign code"):
        place.read()
    for text, reason in (
        ("{}", "user: Field required"),
        ('{"user": "a b", "room": "/var/lib/x"}', "user: String should match"),
        ('{"user": "x", "room": "/"}', "expected the absolute path of a folder"),
        ('{"user": "x", "room": "/home"}', "expected the absolute path of a folder"),
        ('{"user": "x", "room": "var/lib/x"}', "expected the absolute path of a folder"),
        ("[", "the file: "),
    ):
        file.write_text(text)
        with pytest.raises(SetupError) as caught:
            place.read()
        assert reason in str(caught.value)
    with pytest.raises(SetupError, match="has no user 'no-such-user'"):
        OtherUser("no-such-user")
    with pytest.raises(SetupError, match="who is root: expected a lesser user"):
        OtherUser("root")
