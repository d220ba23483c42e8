"""What an index would have: complete, and working where there is no checkout."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement

from bench import PROJECT, Ended, Once, execute
from duetbench import __version__
from duetbench.app import target
from duetbench.host import command
from repos import borrow_cache, commit, git, install, keep

pytestmark = [pytest.mark.real, pytest.mark.thorough]

_EVERY_VERB: Final = """
from duetbench.cli import app
for group in (app, app["ci"]):
    group.resolved_commands()
"""
_OF_NETWORK: Final = ("UV_", "SSL_", "HTTP", "NO_PROXY", "http", "no_proxy")
_APP: Final = "--app bare:app --env BARE_TOKEN --path /x --with expect-status=401"
_ORDER: Final = """--app bare:app --request 'POST /orders @order.json' --env BARE_TOKEN
--with expect-status=201 --header 'Authorization: Bearer {BARE_TOKEN}'"""
# Verbs of the README and their exit codes, in a repository of somebody's own with two commits.
_VERBS: Final = {
    f"compare HEAD~1 HEAD --only counts {_APP}": {1},
    f"run {_APP}": {0},
    "show latest": {0},
    f"init {_ORDER}": {0},
    "doctor": {0, 1},
}


@dataclass(frozen=True)
class Installed:
    """The wheel in an environment of its own, with what it requires, and no extra."""

    bin: Path
    folder: Path

    def run(self, *words: str | Path, **env: str) -> Ended:
        """Run a program of it somewhere else, on a machine where nothing was made."""
        own = {"PATH": os.defpath, "HOME": str(self.folder), "COLUMNS": "200"}
        own["DUETBENCH_LOCK"] = f"duetbench-tests-{os.getpid()}"
        argv = [self.bin / words[0], *words[1:]]
        return execute(argv, cwd=self.folder, env={**own, **env})


def build(folder: Path) -> None:
    """Build the source archive, and from it the wheel, by what is locked, as on GitHub."""
    argv: list[str | Path] = [command.uv(), "build", "--quiet", "--offline", "--no-build-isolation"]
    argv += ["--python", sys.executable, "--out-dir", folder]
    env = {**os.environ, "GITHUB_REPOSITORY": "ann/duetbench"}
    subprocess.run(argv, cwd=PROJECT, check=True, env=env)


def required(name: str, versions: dict[str, str]) -> dict[str, str]:
    """Add all that a package needs, without extras, with the versions installed here."""
    for requirement in map(Requirement, metadata.requires(name) or ()):
        needed = requirement.name
        wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if wanted and needed not in versions:
            versions[needed] = metadata.version(needed)
            required(needed, versions)
    return versions


@pytest.fixture(scope="module")
def wheel(once: Once) -> Path:
    (made,) = once("dist", build).glob("*.whl")
    return made


@pytest.fixture
def installed(wheel: Path, once: Once, tmp_path: Path) -> Installed:
    """With the versions of the lock; `uv` has them in its cache since it made our environment."""

    def fill(folder: Path) -> None:
        pins = (f"{name}=={at}" for name, at in required("duetbench", {}).items())
        install(folder / "venv", sys.executable, "--offline", "--no-deps", wheel, *pins)

    (tmp_path / "nowhere").mkdir()
    return Installed(once("elsewhere", fill) / "venv" / "bin", tmp_path / "nowhere")


def test_the_wheel_has_the_package_and_nothing_else(wheel: Path) -> None:
    """All that git has of the package and nothing beside it: no test, result, application, tool."""
    names = set(zipfile.ZipFile(wheel).namelist())
    place = "scripts/duetbench"
    listed = git(PROJECT, "ls-files", "--cached", "--others", "--exclude-standard", place)
    package = {f"duetbench{file.removeprefix(place)}" for file in listed.splitlines()}
    package.add("duetbench/glossary.md")  # of docs/, for `duetbench explain`
    of_package = {name for name in names if ".dist-info/" not in name}
    assert of_package == package
    info = f"duetbench-{__version__}.dist-info"
    assert names - of_package == {
        f"{info}/{name}"
        for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
    }
    described = metadata.PathDistribution(zipfile.Path(wheel, f"{info}/"))
    assert described.version == __version__
    page = described.metadata["Description"]
    assert "OWNER" not in page
    assert "Project-URL: Homepage, https://github.com/ann/duetbench\n" in str(described.metadata)
    assert "$ duetbench compare HEAD~1 --app" in page
    links = re.findall(r"\]\(([^)]+)\)|(?:src|srcset)=\"([^\"]+)\"", page)
    assert links
    assert {link or image for link, image in links if not (link or image).startswith("https:")} == {
        link for link, _ in links if link.startswith("#")
    }


@pytest.mark.long
def test_an_application_is_measured_without_a_checkout(
    installed: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pins are the checkout's; interpreters and stacks are nobody's here, and are not missed.

    No verb imports what is an extra at its top.
    """
    result = installed.run("python", "-c", _EVERY_VERB)
    assert (result.returncode, result.stderr) == (0, "")
    assert installed.run("duetbench", "--version").stdout == f"{__version__}\n"
    result = installed.run("duetbench", "doctor")
    assert (result.returncode, result.stderr) == (1, "")
    oha = target.configuration(PROJECT).oha.version
    assert f"oha {oha}: it is not there: run `duetbench setup`" in result.stdout
    assert "Not ready to measure: oha" in result.stdout
    assert not re.search("CPython 3|Stacks|make setup", result.stdout)
    borrow_cache(tmp_path / "cache", monkeypatch)
    root = tmp_path / "bare"
    shutil.copytree(PROJECT / "tests" / "projects" / "bare", root)
    keep(root)
    source = (root / "bare.py").read_text("utf-8")
    slower = source.replace("    token = f", "    sum(range(3000))\n    token = f")
    commit(root, "Slower", **{"bare.py": slower})
    env = {name: value for name, value in os.environ.items() if name.startswith(_OF_NETWORK)}
    env |= {"PATH": os.environ["PATH"], "BARE_TOKEN": "for-tests"}
    env["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    there = Installed(installed.bin, root)
    for words, codes in _VERBS.items():
        if "counts" in words and not shutil.which("valgrind"):
            continue
        result = there.run("duetbench", *shlex.split(words), **env)
        assert result.returncode in codes, (words, result.stdout, result.stderr)
        assert "Traceback" not in result.stderr, (words, result.stderr)
    assert not (there.bin / "observatory").exists()
