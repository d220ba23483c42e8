"""Foreign code runs as another user, for real: what it can reach, and what it leaves."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from duetbench.cli import app
from duetbench.core.errors import SetupError, UsageError
from duetbench.core.model import Run
from duetbench.github.runner import foreign
from duetbench.github.runner import room as room_
from duetbench.github.runner.room import OtherUser
from duetbench.host import paths
from duetbench.store import points, store
from duetbench.store.comparison import Comparison
from duetbench.store.points import Points
from repos import commit, git
from staging import LONG_AGO, SERVER, make_tree, stock
from tiny_index import serving

_PLAYER: Final = Path(__file__).parents[1] / "support" / "rooms.py"

# What somebody puts into an application, to see what it can get at.
HOSTILE: Final = """
import os as _os

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

LINGERING: Final = """
import subprocess as _subprocess

_subprocess.Popen(["sleep", "600"], start_new_session=True)
"""


def play(scene: str, folder: Path, **env: str) -> tuple[dict[str, Any], str]:
    """Play a scene as root, in namespaces of its own."""
    folder.mkdir(exist_ok=True)
    apart = ["unshare", "--mount", "--pid", "--fork", "--mount-proc"]
    kept = {
        name: os.environ[name]
        for name in ("HOME", "XDG_CACHE_HOME", "DUETBENCH_ROOT")
        if name in os.environ
    }
    kept |= {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "XDG_STATE_HOME": str(folder / "state"), **env,
    }  # fmt: skip
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
    """No groups, no way to privileges, none of the runner's variables; its cache is for reading."""
    found, _ = play("seen", tmp_path)
    assert found["id"] == found["groups"] == "65534"
    assert found["privileges"].split() == ["NoNewPrivs:", "1"]
    names = {line.partition("=")[0] for line in found["environment"].splitlines()}
    assert names == {
        "PATH", "LANG", "HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_STATE_HOME", "DUETBENCH_MEASURING"
    }  # fmt: skip
    assert "ermission denied" in found["secret"]
    assert "ermission denied" in found["parent"]
    assert "ermission denied" in found["cache"]
    assert found["oha"].startswith("oha 1.")
    # The checkout is not ours to write to.
    assert re.fullmatch(r"/tmp/duetbench-room-\w+/cache/duetbench/asv", found["asv"])


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


@pytest.mark.parametrize(
    "words", [[], ["--to", "../x"], ["--to", ".."], ["--to=x"], ["--to", "/x"]]
)
def test_what_is_measured_goes_to_a_folder_here(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is begun: the room's other user would write nowhere else."""
    file = tmp_path / "fleet.json"
    file.write_text('{"user": "no-such-user", "room": "/var/lib/no-such-user"}')
    monkeypatch.setenv(room_.CONFIG_VARIABLE, str(file))
    found = CliRunner().invoke(app, ["ci", "fleet", "inprocess", "--record", *words]).exception
    assert isinstance(found, UsageError)
    assert "expected" in str(found)


@pytest.mark.parametrize(
    ("name", "verb"),
    [("run", ["run"]), ("play", ["anchor", "play"]), ("detect", ["ci", "detect"])],
)
def test_verbs_of_the_room_are_those_of_everywhere(
    name: str, verb: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, heard = tmp_path / "fleet.json", []
    file.write_text('{"user": "no-such-user", "room": "/var/lib/no-such-user"}')
    monkeypatch.setenv(room_.CONFIG_VARIABLE, str(file))
    monkeypatch.setattr(foreign, "measure", lambda _, words, __: heard.append(words))
    done = CliRunner().invoke(app, ["ci", "fleet", name, "--results", "x", "--shard", "1"])
    assert done.exit_code == 0, done
    assert heard == [[*verb, "--results", "x", "--shard", "1"]]


@changes_user
def test_a_folder_is_read_with_the_rights_of_who_made_it(tmp_path: Path) -> None:
    """Plain files within the bounds of an artifact; of anything else, nothing at all."""
    found, _ = play("brought", tmp_path)
    assert found.pop("there") == {"result/runs/a.json": "right\n"}
    assert found.pop("right") == found.pop("absent") == "came"
    assert {what: said[:9] for what, said in found.items()} == dict.fromkeys(found, "refused: ")
    assert len(found) == 8
    assert "token" not in json.dumps(found)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """A small repository, and the address of an index with its packages."""
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, "/dev/null")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    with serving() as index:
        source = f"{index.address}/simple"
        monkeypatch.setenv("UV_DEFAULT_INDEX", source)
        stock(index, SERVER)
        index.add("alpha", "1.0", LONG_AGO)
        repository = make_tree(tmp_path / "checkout")
        monkeypatch.setenv("DUETBENCH_ROOT", str(repository))
        yield repository, source


@pytest.mark.long
@pytest.mark.real
@changes_user
@pytest.mark.parametrize("verb", [("run",), ("play", "--budget", "8s")], ids=" ".join)
def test_a_hostile_release_is_measured_and_harms_nobody(
    tmp_path: Path, checkout: tuple[Path, str], verb: tuple[str, ...]
) -> None:
    """A shard of a night: what it gave comes out, while what it executes looks for our secrets."""
    repository, source = checkout
    assert CliRunner().invoke(app, ["anchor", "renew", "first"]).exit_code == 0
    commit(repository, "An anchor")
    folder, loot = hostile(tmp_path, repository, "")
    plan = folder / "night.json"
    words = ["ci", "plan", "--select", "short/one", "--launches", "1"]
    assert CliRunner().invoke(app, [*words, "--output", str(plan)]).exit_code == 0
    words = [*verb, "--plan", plan.name, "--plan-sha256"]
    words += [hashlib.sha256(plan.read_bytes()).hexdigest(), "--shard", "1"]
    (folder / "wanted.json").write_text(json.dumps([*words, "--results", "measured"]))
    made = paths.cache_dir() / "environments"
    before = set(made.iterdir())
    found, said = play("fleet", folder, DUETBENCH_ROOT=str(repository), UV_DEFAULT_INDEX=source)
    assert found["alive"] == found["room"] == [], found
    # On a busy machine no duet is usable, and there is no point.
    assert found["code"] in ({0} if verb == ("run",) else {0, 3}), said
    assert set(made.iterdir()) == before
    (file,) = (folder / "measured").rglob("*.json")
    run: Run | Points
    if verb == ("run",):
        run = store.load(file)
        assert [launch.status for result in run.results for launch in result.launches] == ["ok"]
    else:
        run = points.read(file)
        assert {one.case for one in run.cases} | {one.case for one in run.missing} == {"short/one"}
        assert all("usable duets: host_noise" in one.reason for one in run.missing), said
    assert (run.shard, run.commit) == (1, git(repository, "rev-parse", "HEAD"))
    assert run.stacks[0].packages["alpha"] == "1.0"
    require_harmless(loot)


def require_harmless(loot: Path) -> None:
    """The application ran, as somebody else, and nothing was open to it."""
    lines = set(loot.read_text().splitlines())
    assert "uid: 65534" in lines
    assert not [line for line in lines if line.endswith(": open")]
    assert len(lines) == 4


def hostile(parent: Path, repository: Path, more: str) -> tuple[Path, Path]:
    """Commit an application that looks for our secret; the scene's folder, and what it found."""
    folder = parent / "scene"
    folder.mkdir()
    loot = folder / "loot"
    loot.touch()
    loot.chmod(0o666)
    places = {"secret": folder / "secret", "checkout": repository, "cache": parent, "loot": loot}
    evil = HOSTILE.format(**{name: str(place) for name, place in places.items()})
    application = repository / "apps" / "short" / "short.py"
    application.write_text(application.read_text() + evil + more)
    commit(repository, "A release")
    return folder, loot


@pytest.mark.long
@pytest.mark.real
@changes_user
def test_a_hostile_commit_is_compared_and_harms_nobody(
    tmp_path: Path, checkout: tuple[Path, str]
) -> None:
    """From two commits to a checked comparison, while the application looks for our secrets."""
    repository, source = checkout
    base = git(repository, "rev-parse", "HEAD")
    folder, loot = hostile(tmp_path, repository, LINGERING)
    head = git(repository, "rev-parse", "HEAD")
    git(repository, "checkout", "--quiet", base)
    options = ["--select", "short/one", "--budget", "12s"]
    wanted = ["compare", base, head, "--output", str(folder / "comparison.json"), *options]
    (folder / "wanted.json").write_text(json.dumps(wanted))
    found, said = play("fleet", folder, DUETBENCH_ROOT=str(repository), UV_DEFAULT_INDEX=source)
    assert found["alive"] == found["room"] == [], found
    assert found["code"] in {0, 1, 3}, said
    result = Comparison.model_validate_json((folder / "comparison.json").read_bytes())
    assert (result.base.commit, result.head.commit) == (base, head)
    assert result.cases[0].duets, said
    require_harmless(loot)
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
    monkeypatch.setenv(room_.CONFIG_VARIABLE, str(file))
    with pytest.raises(SetupError, match="not prepared to run foreign code"):
        room_.read_config()
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
            room_.read_config()
        assert reason in str(caught.value)
    with pytest.raises(SetupError, match="has no user 'no-such-user'"):
        OtherUser("no-such-user")
    with pytest.raises(SetupError, match="who is root: expected a lesser user"):
        OtherUser("root")
