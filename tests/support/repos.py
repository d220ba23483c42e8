"""Checkouts in git repositories of their own, and a cache that tests may write to."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from bare import QUIET, Programs
from bench import PROJECT, make_checkout
from duetbench.app import revisions
from duetbench.app.setting import Contrast
from duetbench.app.subject import Subject
from duetbench.host import command, paths
from duetbench.judge import preparation
from duetbench.judge.pairs import Sides
from duetbench.judge.preparation import Scope
from tiny_index import wheel

ASGI: Final = """

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    status, more = 200, []
    BODY
    headers = [(b"content-type", b"KIND"), (b"content-length", b"%d" % len(body)), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
"""


def asgi(top: str, body: str, kind: str = "text/plain") -> str:
    """Return a module with an application: what is at its top, and how it finds its body."""
    return top + ASGI.replace("BODY", body.strip()).replace("KIND", kind)


SHOP: Final = {
    "pyproject.toml": '[project]\nname = "shop"\nversion = "0.1"\nrequires-python = ">=3.11"\n',
    ".python-version": "3.14\n",
}
"""Files of a project of somebody's, without an application."""


def git(root: Path, *arguments: str) -> str:
    """Run git as the user Nobody; return its output."""
    who = ("-c", "user.name=Nobody", "-c", "user.email=nobody@example.invalid")
    result = subprocess.run(
        ["git", "-C", root, *who, *arguments], capture_output=True, text=True, check=True
    )
    return result.stdout.strip()


def uv(*words: str | Path, cwd: Path | None = None) -> None:
    subprocess.run([command.uv(), "--quiet", *words], cwd=cwd, check=True)


def install(environment: Path, python: str | Path, *packages: str | Path) -> None:
    """Make an environment of a Python with these packages."""
    uv("venv", "--no-project", "--python", python, environment)
    uv("pip", "install", "--python", environment / "bin" / "python", *packages)


def commit(root: Path, message: str, **files: str) -> str:
    """Write files (`apps__x` is apps/x), commit everything, and return the commit."""
    for name, text in files.items():
        write(root, name.replace("__", "/"), text)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--allow-empty", "--message", message)
    return git(root, "rev-parse", "HEAD")


def keep(root: Path) -> str:
    """Make a folder a repository with one commit, which has all of it; return the commit."""
    git(root, "init", "--quiet", "--initial-branch=main")
    return commit(root, "Everything")


def protect(remote: Path) -> None:
    """Refuse pushes to the default branch of a bare repository, as to a protected one."""
    (remote / "hooks").mkdir(exist_ok=True)
    refuse = 'while read -r old new name; do [ "$name" != refs/heads/main ] || exit 1; done'
    Programs(remote / "hooks").write("pre-receive", refuse)


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def write_all(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        write(root, name, text)


BUILD: Final = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
"""A backend in the project itself needs nothing from an index."""


def backend(name: str, version: str, files: Mapping[str, str], *needs: str) -> str:
    """The file `backend.py` of a project, whose wheel has these files."""
    return f"""\
def build_wheel(folder, config_settings=None, metadata_directory=None):
    with open(f"{{folder}}/{name}-{version}-py3-none-any.whl", "wb") as out:
        out.write({wheel(name, version, needs, files)!r})
    return "{name}-{version}-py3-none-any.whl"
build_editable = build_wheel
"""


def make_repository(root: Path, patch: pytest.MonkeyPatch) -> Path:
    """Make ours a repository of two of our experiments, all locks and settings, in one commit."""
    patch.setenv("DUETBENCH_ROOT", str(root))
    make_checkout(root, "asgi-wsgi", "gil-endpoints")
    write(root, "README.md", "# A checkout\n")
    write(root, ".gitignore", "__pycache__/\n")
    write(root, "results/runs/one.json", "{}\n")
    keep(root)
    return root


def make_tiny(root: Path, patch: pytest.MonkeyPatch) -> Path:
    """Make ours a checkout, without git, whose only stack `one` is `alpha`, not locked yet."""
    patch.setenv("DUETBENCH_ROOT", str(root))
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PROJECT / "tests" / "projects" / "tiny", root, ignore=ignored)
    shutil.copy(PROJECT / "pyproject.toml", root)
    return root


def work_in(root: Path, files: Mapping[str, str], patch: pytest.MonkeyPatch) -> Path:
    """Make somebody's repository of these files, with a cache beside it, and change to it."""
    borrow_cache(root.parent / "cache", patch)
    write_all(root, files)
    keep(root)
    patch.delenv("DUETBENCH_ROOT")
    patch.chdir(root)
    return root


@contextmanager
def prepared(project: Subject, words: Contrast, *, loaded: bool = True) -> Iterator[Sides]:
    """Both sides of a comparison, as copies; without `loaded` nothing of them is loaded."""
    with revisions.copies() as copies:
        yield preparation.prepare(project, words, Scope((), QUIET, copies, loaded=loaded))


def borrow_cache(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    """Provide a cache that links to what set-up has made, and takes everything new."""
    result, place = paths.cache_dir(), folder / "duetbench"
    (place / "environments").mkdir(parents=True)
    for name in ("interpreters", "tools"):
        (place / name).symlink_to(result / name)
    for environment in (result / "environments").iterdir():
        if environment.is_dir() and environment.name[0] != ".":
            (place / "environments" / environment.name).symlink_to(environment)
    patch.setenv("XDG_CACHE_HOME", str(folder))
    return place


TUTORIAL: Final = (PROJECT / "docs" / "first.md").read_text("utf-8")


def follow_tutorial(root: Path) -> None:
    """Make the repository with both commits of the page, word by word."""
    packages, before, after = re.findall(r"```(?:text|python)\n(.*?)```", TUTORIAL, re.DOTALL)[:3]
    root.mkdir(parents=True)
    git(root, "init", "--quiet", "--initial-branch=main")
    commit(root, "List authors", **{"requirements.txt": packages, "library.py": before})
    after = before.partition("@app.get")[0] + after
    commit(root, "Look each book up", **{"library.py": after})
