"""Layouts that public repositories have: which packages, interpreter and sources each one gets.

They are prepared without a server, from an index on loopback that also has newer versions.
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from bare import QUIET
from duetbench.app import deployment, revisions, target_locks
from duetbench.app.setting import Contrast
from duetbench.app.subject import Subject
from duetbench.app.target import Target
from duetbench.core.errors import SetupError, UsageError
from duetbench.host import paths
from duetbench.judge import affected, preparation
from duetbench.judge.pairs import Sides
from duetbench.judge.preparation import Scope
from observatory.matrix.checkout import Checkout
from repos import borrow_cache, commit, git, uv, write
from tiny_index import Index

_FILES: Final = paths.project_root() / "tests/projects/layouts"
# Of each folder: the folder in it that one works in, the application, the file that the packages
# come from, and where code is imported from, after what is installed of it.
LAYOUTS: Final = {
    "folder": ("backend", "web:app", "pyproject.toml", (".",)),
    "packages-above": ("services/api", "web:app", "../../requirements.txt", (".",)),
    "workspace": ("backend", "shop.web:app", "../uv.lock", (".",)),  # which uv makes
    "src": (".", "shop.main:app", "requirements.txt", ("src", ".")),
    "requirements": (".", "app.main:app", "requirements/production.txt", (".",)),
}


@pytest.fixture
def index(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    borrow_cache(tmp_path / "cache", monkeypatch)
    for name in ("gamma", "delta", "winonly", "granian", "beta"):
        index.add(name, "1.0", "2026-01-10")
    index.add("alpha", "1.0", "2026-01-10", ("beta<2", 'winonly; sys_platform == "win32"'))
    for name in ("alpha", "beta"):
        index.add(name, "2.0", "2026-03-01")
    return index


def made(name: str, place: Path, index: Index) -> Path:
    """The layout's repository, with one commit; the folder in it that is worked in."""
    needs = {"alpha": ("beta<2", 'winonly; sys_platform == "win32"'), "beta": ()}
    digests = {
        f"<{name}>": index.add(name, "1.0", "2026-01-10", theirs).strip().rpartition("=")[2]
        for name, theirs in needs.items()
    }
    for file in files_of(name):
        text = (_FILES / name / file).read_text("utf-8")
        write(place, file, re.sub("<alpha>|<beta>", lambda match: digests[match[0]], text))
    git(place, "init", "--quiet", "--initial-branch=main")
    if name == "workspace":
        uv("lock", "--python", Checkout.here().interpreter("3.14").executable, cwd=place)
    commit(place, "All of it")
    return place / LAYOUTS[name][0]


def files_of(name: str) -> list[str]:
    top = _FILES / name
    return [str(file.relative_to(top)) for file in top.rglob("*") if file.is_file()]


@pytest.mark.real
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_public_layout_is_prepared_as_its_tools_would(
    name: str, tmp_path: Path, index: Index
) -> None:
    folder, app, packages, home = LAYOUTS[name]
    root = made(name, tmp_path / name, index)
    wanted = Target.model_validate({"app": app, "interface": "asgi"})
    wanted = wanted.model_copy(update={"python": ("3.14",)})
    with revisions.copies() as copies:
        project = deployment.working(Subject(root, target=wanted), QUIET, copies)
        place = project.root
        stack = project.lock("project")
        assert stack.packages == {"alpha": "1.0", "beta": "1.0", "granian": "1.0"}
        assert project.source == packages
        assert project.search == (deployment.SITE, *home)
        assert project.inside == Path(folder)
        # The whole repository is there, as far up as its top.
        for file in files_of(name):
            assert (place / Path(*[".."] * len(project.inside.parts)) / file).is_file()


@contextmanager
def compared(project: Subject, base: str, head: str | None = None) -> Iterator[Sides]:
    """Both sides, prepared, of which nothing is loaded."""
    with revisions.copies() as copies:
        scope = Scope((), QUIET, copies, loaded=False)
        yield preparation.prepare(project, Contrast((base, head)), scope)


@pytest.mark.real
def test_a_folder_of_a_repository_is_compared_by_commit(
    tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = made("folder", tmp_path / "repo", index)
    keys = {"app": "web:app", "interface": "asgi", "python": "3.14"}
    project = Subject(root, target=Target.model_validate(keys))
    monkeypatch.chdir(root)

    def reasons() -> list[str]:
        with compared(project, "HEAD~1") as both:
            return [pair.reason for pair in affected.find(both).pairs]

    top = root.parent
    commit(top, "Slower", **{"backend/web.py": "x = 1\n"})
    assert reasons() == ["web.py"]
    commit(top, "Words", **{"README.md": "hello", "uv.lock": "", ".github/x.yml": ""})
    assert reasons() == []
    commit(top, "Beside", **{"frontend/index.html": "other"})  # which it may read
    assert reasons() == ["../frontend/index.html"]
    git(top, "mv", "backend", "server")
    commit(top, "Moved")
    moved = Subject(top / "server", target=project.target)
    with pytest.raises(UsageError, match="has no folder server"), compared(moved, "HEAD~1"):
        pass


@pytest.mark.real
def test_a_starter_file_is_lent_to_a_side_without_it(tmp_path: Path, index: Index) -> None:
    root = made("src", tmp_path / "repo", index)
    commit(root, "A change", **{"src/shop/main.py": "x = 1\n"})
    keys = {"app": "bench.starter:app", "interface": "asgi", "python": "3.14"}
    project = Subject(root, target=Target.model_validate(keys))
    write(root, "bench/starter.py", "import shop.main\n")

    note = "{} has no module bench.starter: lent the checkout's bench/starter.py"
    for head, lacking in ((None, ["HEAD~1"]), ("HEAD", ["HEAD~1", "HEAD"])):
        with compared(project, "HEAD~1", head) as both:
            assert (both.base.root / "bench/starter.py").read_text() == "import shop.main\n"
            assert [pair.reason for pair in affected.find(both).pairs] == ["src/shop/main.py"]
            assert both.notes == tuple(map(note.format, lacking))


@pytest.mark.real
@pytest.mark.parametrize("name", target_locks.LOCKS[1:])
def test_a_lock_of_another_tool_is_exported_by_it(name: str, tmp_path: Path) -> None:
    """By the real tools, which uv fetches: the group that serves, and none that develops."""
    shutil.copytree(_FILES.with_name("locks") / name, tmp_path, dirs_exist_ok=True)
    lock = target_locks.lock_of(tmp_path)
    assert lock is not None
    exported = target_locks._exported(lock, Target(app="shop:app", groups=("web",)))
    lines = (line.partition(" ")[0].rstrip(";") for line in exported.splitlines())
    assert [line for line in lines if line.strip("#")] == ["alpha==1.0", "beta==2.0"]
    write(tmp_path, name, "<")
    with pytest.raises(SetupError, match=rf"^{name}: `uv tool run --from .* failed: ") as caught:
        target_locks._exported(lock, Target(app="shop:app"))
    assert str(tmp_path) not in str(caught.value)
