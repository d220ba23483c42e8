"""An application in the environment where it already runs, whose files and packages stay as is."""

import hashlib
import platform
import shutil
import sys
from pathlib import Path
from typing import Final

import pytest

from bare import QUIET
from bench import Bench
from duetbench.app import interpreters
from duetbench.app.deployment import can_share, deploy_all, find_running
from duetbench.app.interpreters import Environment
from duetbench.app.subject import Subject
from duetbench.app.target import Target
from duetbench.core.comparison import Comparison
from duetbench.core.model import Verdict
from duetbench.host.console import Console, Narrator
from repos import asgi, commit, git, install, uv, work_in, write

_APP: Final = asgi(
    'import os\nimport six\nfrom shop.items import find\nNAME = os.environ["SHOP_TOKEN"]\n',
    'body = find(scope["path"]) + (open("data/word").read() + open("seed").read()).encode()',
)
_PYPROJECT: Final = """\
[project]
name = "shop"
version = "1"
dependencies = ["six==1.17.0"]
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
"""
_TOKEN: Final = "a-private-value"


@pytest.fixture
def shop(bench: Bench) -> Path:
    """A repository with an environment, an ignored file and a new one; two commits, two answers."""
    files = {
        "pyproject.toml": _PYPROJECT,
        "src/shop/__init__.py": "",
        "src/shop/main.py": _APP,
        "src/shop/items.py": "def find(path):\n    return path.encode()\n",
        ".gitignore": "__pycache__/\n.venv/\ndata/\n*.egg-info/\n",
    }
    root = work_in(bench.folder / "shop", files, bench.patch)
    answer = {"src/shop/items.py": "def find(path):\n    return b'other' + path.encode()\n"}
    commit(root, "Another answer", **answer)
    write(root, "data/word", "word")
    write(root, "seed", "")
    install(root / ".venv", sys.executable, "--editable", root)
    bench.patch.delenv("CI", raising=False)  # where tokens must be named
    bench.patch.setenv("SHOP_TOKEN", _TOKEN)
    return root


def _state(root: Path) -> dict[str, str]:
    """Map every file of a repository, its environment's too, to the digest of its content."""
    files = (path for path in root.rglob("*") if ".git" not in path.parts and path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.real
def test_each_side_runs_its_own_copy_in_the_environment_that_works(
    shop: Path, bench: Bench
) -> None:
    """The environment imports the working tree; both sides would answer alike if it did here.

    In CI, where a platform sets tokens of its own, none is passed on that was not named.
    """
    before, file = _state(shop), bench.folder / "c.json"
    words = ("compare", "HEAD~1", "HEAD", "--app", "shop.main:app", "--only", "effects")
    result = bench(*words, "-o", file)
    assert "packages from .venv" in result.out, result.err
    assert "with uncommitted files: data/word, seed" in result.out
    comparison = Comparison.model_validate_json(file.read_bytes())
    (finding,) = [about for about in comparison.findings if about.subject == "answer"]
    assert finding.verdict is Verdict.DIFFERENT
    assert finding.text == 'head answers line 1: "other/word" instead of "/word"'
    assert _TOKEN not in result.out + file.read_text("utf-8")
    assert comparison.base.stacks[0].packages["six"] == "1.17.0"
    bench.patch.setenv("CI", "true")
    bench.refused("add --env SHOP_TOKEN=VALUE", *words)
    assert _state(shop) == before
    assert git(shop, "status", "--porcelain") == "?? seed"


@pytest.mark.real
def test_an_environment_is_built_where_this_one_is_not_enough(
    shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not for a lock that differs, for a package that it lacks, or for a chosen interpreter.

    What is built has the Python of this one, and another one beside it if that is asked for.
    """
    named = {"app": "shop.main:app", "packages": "pyproject.toml", "server": "granian"}
    target = Target.model_validate({**named, "interface": "asgi"})
    target = target.model_copy(update={"python": (None, "3.14t")})
    (place := tmp_path / "both").mkdir()
    shutil.copy(shop / "pyproject.toml", place)
    (side,) = deploy_all(Subject(shop, target=target), [place], QUIET)
    own = ".".join(platform.python_version_tuple()[:2])
    assert [python.name for python in side.interpreters.values()] == [own, "3.14t"]
    uv("lock", cwd=shop)
    lock, other = (shop / "uv.lock").read_text(), tmp_path / "other"
    released = lock.replace('name = "shop"\nversion = "1"', 'name = "shop"\nversion = "2"')
    assert lock != released
    write(other, "pyproject.toml", _PYPROJECT)
    write(other, "uv.lock", released)

    def usable(*places: Path, **keys: object) -> bool:
        target = Target.model_validate({"app": "shop.main:app", **keys})
        narrator, project = Narrator(Console()), Subject(shop, target=target)
        running = find_running(project, narrator)
        return running is not None and can_share(running, project, places or [shop], narrator)

    assert usable()
    assert not usable(packages="uv.lock")
    assert usable(shop, other)  # another version of the project itself
    write(other, "uv.lock", lock.replace("1.17.0", "1.16.0"))
    assert not usable(shop, other)
    assert "uv.lock differs, so that an environment is built" in capsys.readouterr().out
    for asked in ("toml", "six==1.16.0"):
        write(shop, "pyproject.toml", _PYPROJECT.replace("six==1.17.0", asked))
        assert not usable()
        assert f".venv lacks {asked}, so that an environment is built" in capsys.readouterr().out


def test_what_comes_first_on_the_search_path_is_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two versions of a package; what the repository installs of itself stays in its folder."""
    first, second = (tmp_path / name / "site-packages" for name in (".venv", "usr"))
    for site, version in ((first, "2.0"), (second, "1.0")):
        write(site, f"six-{version}.dist-info/RECORD", "")
        write(site, "six.py", version)
    proof = {"sites": [str(first), str(second)], "folders": [str(tmp_path / "libs"), str(first)]}
    monkeypatch.setattr(interpreters, "prove", lambda _: proof)
    write(tmp_path, ".venv/bin/python", "")
    write(tmp_path, ".venv/bin/flask", f"#!{tmp_path}/.venv/bin/python\n")
    write(tmp_path, "made/bin/python", "")
    site = tmp_path / "made/lib/python3.14/site-packages"
    site.mkdir(parents=True)
    environment = Environment(tmp_path / ".venv/bin/python", ".venv", tmp_path)
    environment.link(tmp_path / "made", tmp_path / "final")
    assert sorted(file.name for file in site.iterdir()) == ["six-2.0.dist-info", "six.py"]
    assert (site / "six.py").read_text() == "2.0"
    assert (tmp_path / "made/bin/flask").read_text() == f"#!{tmp_path}/final/bin/python\n"
    assert environment.folders == (Path("libs"),)
