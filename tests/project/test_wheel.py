"""What an index would have: complete, and working where there is no checkout."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bench import PROJECT, Once
from duetbench import __version__
from duetbench.app import target
from duetbench.host import command
from repos import borrow_cache, commit, git

_EVERY_VERB: Final = """
from typer.main import get_group
from duetbench.cli import app
from duetbench.cli.verbs import ci_app
for group in (app, ci_app):
    for verb in get_group(group).commands.values():
        verb.load()
from duetbench.host import paths
from duetbench.app.inside import process
print(process.packages_folder(), paths.project_root(), sep=":")
"""


@dataclass(frozen=True)
class Installed:
    """The wheel in an environment of its own, with what it requires, and no extra."""

    bin: Path
    folder: Path

    def run(self, *words: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a program of it somewhere else, on a machine where nothing was made."""
        return subprocess.run(
            [self.bin / words[0], *words[1:]],
            cwd=self.folder,
            env={
                "PATH": os.defpath,
                "HOME": str(self.folder),
                "COLUMNS": "200",
                "DUETBENCH_LOCK": f"duetbench-tests-{os.getpid()}",
                **env,
            },
            capture_output=True,
            text=True,
            check=False,
        )


def build(folder: Path) -> None:
    """Build the source archive, and from it the wheel, by what is locked, as on GitHub."""
    argv: list[str | Path] = [command.uv(), "build", "--quiet", "--offline", "--no-build-isolation"]
    argv += ["--python", sys.executable, "--out-dir", folder]
    env = {**os.environ, "GITHUB_REPOSITORY": "ann/duetbench"}
    subprocess.run(argv, cwd=PROJECT, check=True, env=env)


@pytest.fixture(scope="module")
def wheel(once: Once) -> Path:
    (made,) = once("dist", build).glob("*.whl")
    return made


@pytest.fixture(scope="module")
def described(wheel: Path) -> metadata.Distribution:
    info = zipfile.Path(wheel, f"duetbench-{__version__}.dist-info/")
    return metadata.PathDistribution(info)


@pytest.fixture
def installed(
    wheel: Path, described: metadata.Distribution, once: Once, tmp_path: Path
) -> Installed:
    """With the versions of the lock; `uv` has them in its cache since it made our environment."""

    def install(folder: Path) -> None:
        uv, python = command.uv(), folder / "venv" / "bin" / "python"
        offline = {**os.environ, "UV_OFFLINE": "1"}
        make: list[str | Path] = [uv, "venv", "--quiet", "--no-project", "--python", sys.executable]
        subprocess.run([*make, folder / "venv"], check=True, env=offline)
        pins = [f"{name}=={metadata.version(name)}" for name in required(described)]
        words: list[str | Path] = [uv, "pip", "install", "--quiet", "--no-deps", "--python", python]
        subprocess.run([*words, wheel, *pins], check=True, env=offline)

    (tmp_path / "nowhere").mkdir()
    return Installed(once("elsewhere", install) / "venv" / "bin", tmp_path / "nowhere")


def required(of: metadata.Distribution) -> set[str]:
    """The names of all packages that one needs, without extras, as those installed here say."""
    found: set[str] = set()

    def follow(one: metadata.Distribution) -> Iterator[Requirement]:
        wanted = map(Requirement, one.requires or ())
        yield from (r for r in wanted if r.marker is None or r.marker.evaluate({"extra": ""}))

    left = list(follow(of))
    while left:
        name = canonicalize_name(left.pop().name)
        if name not in found:
            found.add(name)
            left += follow(metadata.distribution(name))
    return found


@pytest.mark.real
def test_the_wheel_has_the_package_and_nothing_else(
    wheel: Path, described: metadata.Distribution
) -> None:
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


@pytest.mark.real
def test_the_core_is_enough_for_every_verb_to_begin(installed: Installed) -> None:
    """None imports what is an extra at its top; and what is counted imports duetbench alone."""
    done = installed.run("python", "-c", _EVERY_VERB)
    assert done.returncode == 0, done.stderr
    packages, own = done.stdout.strip().split(":")
    assert [path.name for path in Path(packages).iterdir()] == ["duetbench"]
    assert own == str(Path(packages, "duetbench").resolve() / "app" / "pins")
    imports = "from duetbench.app.inside import program"
    done = installed.run("python", "-S", "-c", imports, PYTHONPATH=packages)
    assert done.returncode == 0, done.stderr


@pytest.mark.real
def test_the_machine_is_looked_at_without_a_checkout(installed: Installed) -> None:
    """Pins are the checkout's; interpreters and stacks are nobody's here, and are not missed."""
    assert installed.run("duetbench", "--version").stdout == f"{__version__}\n"
    done = installed.run("duetbench", "doctor")
    assert (done.returncode, done.stderr) == (1, "")
    oha = target.configuration(PROJECT).oha.version
    assert f"oha {oha} is not installed: run `duetbench setup`" in done.stdout
    assert "Not ready to measure: oha" in done.stdout
    assert "CPython 3" not in done.stdout
    assert "Stacks" not in done.stdout
    assert "make setup" not in done.stdout


@pytest.mark.long
@pytest.mark.real
@pytest.mark.parametrize(
    "counts",
    [
        False,
        pytest.param(
            True,
            marks=[
                pytest.mark.thorough,
                pytest.mark.skipif(not shutil.which("valgrind"), reason="no Valgrind"),
            ],
        ),
    ],
)
def test_an_application_is_measured_without_a_checkout(
    counts: bool, installed: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Verbs of the README, typed in a repository of somebody's own with two commits."""
    borrow_cache(tmp_path / "cache", monkeypatch)
    root = tmp_path / "bare"
    shutil.copytree(PROJECT / "tests" / "projects" / "bare", root)
    git(root, "init", "--quiet", "--initial-branch=main")
    source = (root / "bare.py").read_text("utf-8")
    commit(root, "As it was")
    slower = source.replace("    token = f", "    sum(range(3000))\n    token = f")
    (root / "bare.py").write_text(slower, "utf-8")
    commit(root, "Slower")
    of_network = ("UV_", "SSL_", "HTTP", "NO_PROXY", "http", "no_proxy")
    env = {name: value for name, value in os.environ.items() if name.startswith(of_network)}
    env |= {"PATH": os.environ["PATH"], "BARE_TOKEN": "for-tests"}
    env["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    at = Installed(installed.bin, root)
    app = (
        "--app",
        "bare:app",
        "--env",
        "BARE_TOKEN",
        "--path",
        "/x",
        "--with",
        "expect-status=401",
    )
    order = (
        *("--app", "bare:app", "--request", "POST /orders @order.json", "--with"),
        *("expect-status=201", "--header", "Authorization: Bearer {BARE_TOKEN}"),
    )
    words: dict[str, tuple[tuple[str, ...], set[int]]] = {
        "run": ((*app, "--seconds", "1"), {0}),
        "show": (("latest",), {0}),
        "init": ((*order, "--env", "BARE_TOKEN"), {0}),
        "doctor": ((), {0, 1}),
    }
    if counts:
        words = {"compare": (("HEAD~1", "HEAD", "--only", "counts", *app), {1})}
    for verb, (arguments, codes) in words.items():
        done = at.run("duetbench", verb, *arguments, **env)
        assert done.returncode in codes, (verb, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr, (verb, done.stderr)
    assert not (at.bin / "observatory").exists()
