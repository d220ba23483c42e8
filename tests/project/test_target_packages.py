"""The packages of somebody's project, in layouts that public ones have: real locks, made by uv.

They are prepared without a server, from an index on loopback that also has newer versions.
"""

import io
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from bare import QUIET
from duetbench.app import deployment, revisions, stacks, target, target_locks
from duetbench.app.interpreters import Interpreter
from duetbench.app.setting import Contrast
from duetbench.app.stacks import Stack
from duetbench.app.subject import Subject
from duetbench.app.target import Target
from duetbench.app.target_locks import LockFile
from duetbench.core.errors import DeclarationError, SetupError, UsageError
from duetbench.host import paths
from duetbench.host.console import Console, Narrator
from duetbench.judge import affected
from duetbench.judge.preparation import resolve
from observatory.matrix.checkout import Checkout
from repos import BUILD, backend, borrow_cache, commit, git, keep, prepared, uv, write
from tiny_index import Index, serving

WANTED = Target(app="shop:app")
PROJECT = """\
[project]
name = "shop"
version = "0.1"
requires-python = ">=3.10"
dependencies = ["alpha"]

[project.optional-dependencies]
more = ["gamma"]

[dependency-groups]
dev = ["delta"]
"""


@pytest.fixture
def index(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    """`alpha` needs `beta`, of which a newer version came after the locks."""
    borrow_cache(tmp_path / "cache", monkeypatch)
    index.add("alpha", "1.0", "2026-01-10", ("beta", 'winonly; sys_platform == "win32"'))
    for name in ("gamma", "delta", "winonly", "granian", "uvicorn", "beta"):
        index.add(name, "1.0", "2026-01-10", ("beta",) if name == "granian" else ())
    return index


@pytest.fixture(scope="session")
def python() -> Interpreter:
    return Checkout.here().interpreter("3.14")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of a project, in which nothing is prepared."""
    write(tmp_path, "shop/pyproject.toml", PROJECT)
    return laid(tmp_path / "shop")


def deployed(root: Path, python: Interpreter) -> Subject:
    return Subject(root, target=WANTED, interpreters={"3.14": python}, source="uv.lock")


def laid(root: Path) -> Path:
    root.mkdir(exist_ok=True)
    (root / target.FOLDER).mkdir()
    return root


def given(root: Path, python: Interpreter, wanted: Target = WANTED) -> Stack:
    lock = target_locks.lock_of(root)
    assert lock is not None
    return target_locks.read(root, lock, wanted, python, QUIET)


def newer(index: Index) -> None:
    index.add("beta", "2.0", "2026-03-01")
    index.add("granian", "2.0", "2026-03-01", ("beta",))


@pytest.mark.real
@pytest.mark.parametrize("kind", ["uv.lock", "requirements.txt"])
def test_locked_versions_are_kept_and_a_server_is_added(
    kind: str, root: Path, index: Index, python: Interpreter
) -> None:
    compiled = ("pip", "compile", "pyproject.toml", "-o", "requirements.txt")
    uv(*(("lock",) if kind == "uv.lock" else compiled), cwd=root)
    newer(index)
    locked = given(root, python)
    assert locked.packages == {"alpha": "1.0", "beta": "1.0"}  # no Windows, no group, no extra
    stack = target_locks.add_packages(root, locked, ["granian"], python, QUIET)
    assert stack.packages == {"alpha": "1.0", "beta": "1.0", "granian": "2.0"}
    assert deployed(root, python).lock("project") == stack
    keep = stack.lock.read_text()
    assert index.address not in keep
    # As a search does: one package moves, all else stays.
    for package, version in (("granian", "1.0"), ("beta", "2.0")):
        pins = [f"{package}=={version}"]
        text = resolve(deployed(root, python), "project", None, keep=keep, pins=pins)
        moved = {**stack.packages, package: version}
        assert stacks.parse(text, "it", python.version) == moved
    # The other side takes the server that this one has got, whatever is out by then.
    index.add("granian", "3.0", "2026-04-01", ("beta",))
    base = laid(root.parent / "base")
    same = target_locks.add_packages(base, locked, ["granian"], python, QUIET, (locked, stack))
    assert (same.digest, same.lock.parent.parent) == (stack.digest, base)
    text = locked.lock.read_text().replace("alpha==1.0", "alpha == 1.0")
    written = target_locks.put(base, text, ["alpha"], python)
    other = target_locks.add_packages(base, written, ["granian"], python, QUIET, (locked, stack))
    assert other.packages["granian"] == "2.0"


@pytest.mark.real
@pytest.mark.usefixtures("index")
def test_extras_and_groups_come_where_they_are_asked_for(root: Path, python: Interpreter) -> None:
    wanted = WANTED.model_copy(update={"extras": ("more",), "groups": ("dev",)})
    uv("lock", cwd=root)
    for _ in ("uv.lock", "pyproject.toml"):
        assert given(root, python, wanted).packages.keys() == {"alpha", "beta", "gamma", "delta"}
        (root / "uv.lock").unlink(missing_ok=True)
    with pytest.raises(SetupError, match="less"):
        given(root, python, WANTED.model_copy(update={"extras": ("less",)}))


def test_the_first_of_several_locks_is_read(tmp_path: Path) -> None:
    write(tmp_path, "pyproject.toml", "[tool.ruff]\n")
    assert target_locks.lock_of(tmp_path) is None
    write(tmp_path, "pyproject.toml", "[project]\n")
    for name, text in {
        "pyproject.toml": "[project]\n", "requirements/base.txt": "", "requirements-prod.txt": "",
        "pyproject.toml ": "[project]\ndependencies = []\n", "requirements.txt": "",
        "pdm.lock": "", "uv.lock": "",
    }.items():  # fmt: skip
        write(tmp_path, name.strip(), text)
        write(tmp_path, "requirements-dev.txt", "")
        lock = target_locks.lock_of(tmp_path)
        assert lock is not None
        assert lock.file == tmp_path / name.strip()
    other = tmp_path / "other"
    for name in ("requirements-a.txt", "requirements-b.txt"):
        write(other, name, "")
    with pytest.raises(UsageError, match=r"has requirements-a\.txt, requirements-b\.txt: which"):
        target_locks.lock_of(other)


@pytest.mark.real
@pytest.mark.parametrize("name", ["uv.lock", "requirements.txt"])
def test_a_lock_that_is_none_is_named_as_its_project_names_it(
    tmp_path: Path, python: Interpreter, name: str
) -> None:
    for content in (b"no lock\n", b"\xff\0"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises((DeclarationError, SetupError)) as caught:
            given(tmp_path, python)
        assert str(tmp_path) not in str(caught.value)


@pytest.mark.real
def test_a_second_index_is_asked(root: Path, index: Index, python: Interpreter) -> None:
    newer(index)
    with serving() as second:
        second.add("own", "1.0+cpu", "2026-01-10")
        # uv refuses such a constraint where it requires hashes.
        settings = f"""
[tool.uv]
index = [{{ name = "second", url = "{second.address}/simple", explicit = true }}]
sources = {{ own = {{ index = "second" }} }}
constraint-dependencies = ["alpha>=1"]
"""
        write(root, "pyproject.toml", PROJECT.replace('"alpha"]', '"alpha", "own"]') + settings)
        file = LockFile(root, root / "pyproject.toml", "pyproject.toml")
        locked = target_locks.read(root, file, WANTED, python, QUIET)
        assert locked.packages == {"alpha": "1.0", "beta": "2.0", "own": "1.0+cpu"}
        uv("lock", cwd=root)
        locked = given(root, python)
        stack = target_locks.add_packages(root, locked, ["granian"], python, QUIET)
        assert stack.packages.items() >= {"own": "1.0+cpu", "granian": "2.0"}.items()
        assert stacks.make_environment(stack, python, QUIET)


@pytest.mark.real
def test_a_project_may_lock_a_package_without_a_hash(
    root: Path, index: Index, python: Interpreter
) -> None:
    """Its other hashes are checked; a package without a wheel for this Python is named."""
    for tag, digest, words in (
        ("py3-none-any", "", None),
        ("py3-none-any", "a" * 64, "Hash mismatch"),
        ("cp312-cp312-linux_x86_64", "", "old==1.0 has no wheels with a matching Python"),
    ):
        index.files = {name: file for name, file in index.files.items() if file[0] != "old"}
        right = index.add("old", "1.0", "2026-01-10", tag=tag).strip().rpartition(":")[2]
        write(root, "mixed.txt", f"alpha==1.0\nold==1.0 --hash=sha256:{digest or right} # {tag}\n")
        stack = stacks.read_lock("project", root / "mixed.txt", python.version, root)
        assert stack.packages == {"alpha": "1.0", "old": "1.0"}
        if words is None:
            assert stacks.make_environment(stack, python, QUIET)
            continue
        with pytest.raises(SetupError, match=words):
            stacks.make_environment(stack, python, QUIET)
        assert not stacks.place(stack, python).exists()


def package(root: Path, version: str, files: dict[str, str], made: str = "") -> None:
    """A project with a backend of its own, of which a wheel can be built without any index."""
    write(root, "backend.py", made + backend("lib", version, files))
    write(root, "pyproject.toml", f'{BUILD}[project]\nname = "lib"\nversion = "{version}"\n')


@pytest.mark.real
@pytest.mark.usefixtures("index")
def test_packages_that_are_folders_archives_and_commits_are_installed(
    root: Path, python: Interpreter, tmp_path: Path
) -> None:
    """A folder or archive belongs to its copy, and a commit to the lock."""
    remote = tmp_path / "remote"
    package(remote, "1.0", {})
    at = keep(remote)
    package(root / "libs" / "lib", "2.0", {"lib.py": "version = '2.0'\n"})
    (root / "pyproject.toml").unlink()
    for line in ("-e ./libs/lib ; python_full_version >= '3.10'", "./libs/lib"):
        write(root, "requirements.txt", f"alpha==1.0\n{line}\n")
        lock = LockFile(root, root / "requirements.txt", "")
        locked = target_locks.read(root, lock, WANTED, python, QUIET)
        assert locked.packages == {"alpha": "1.0", "beta": "1.0"}
        assert locked.lock.with_suffix(".in").read_text().startswith("alpha\nbeta\n")
        deployment.install(root, python, QUIET)
        assert "2.0" in (root / deployment.SITE / "lib.py").read_text()
        assert not (root / "libs" / "lib" / "build").exists()
    write(root, "requirements.txt", f"lib @ git+file://{remote}@{at}\n")
    locked = given(root, python)
    assert locked.packages == {"lib": f"git+{at[:8]}"}
    stack = target_locks.add_packages(root, locked, ["granian"], python, QUIET)
    assert stack.packages.keys() == {"lib", "granian", "beta"}
    assert stacks.make_environment(stack, python, QUIET)
    write(root, "more.txt", "-r requirements.txt\ngamma\n")
    stack = target_locks.read(root, LockFile(root, root / "more.txt", ""), WANTED, python, QUIET)
    assert stack.packages.keys() == {"lib", "gamma"}
    assert stack.lock.with_suffix(".in").read_text() == f"-r {root}/more.txt\n"
    write(root, "requirements.txt", "alpha==1.0\n./libs/no\n")
    with pytest.raises(SetupError):
        given(root, python)


@pytest.mark.real
@pytest.mark.usefixtures("index")
def test_a_project_whose_version_is_in_git_is_resolved_and_built_without_it(
    tmp_path: Path, python: Interpreter
) -> None:
    """A variable gives plug-ins a version with the three parts that they read."""
    root = tmp_path / "lib"
    read = "import os\n_, _, patch = os.environ['UV_DYNAMIC_VERSIONING_BYPASS'].split('.')\n"
    body = backend("lib", "1.0", {"lib.py": ""}, "alpha")
    project = f'{BUILD}[project]\nname = "lib"\ndynamic = ["version", "dependencies"]\n'
    write(root, "backend.py", read + body)
    for lock, content in (("pyproject.toml", project), ("requirements.txt", "-e .\n")):
        write(root, lock, content)
        assert given(root, python).packages == {"alpha": "1.0", "beta": "1.0"}
        assert not (root / target_locks.PLACES).read_text()
    deployment.install(root, python, QUIET)
    assert (root / deployment.SITE / "lib-1.0.dist-info").is_dir()


@pytest.mark.real
@pytest.mark.usefixtures("index")
@pytest.mark.parametrize(
    ("table", "note"),
    [
        ("", "building our-service failed .*ValueError: no cargo"),
        ("[tool.poetry]\npackage-mode = false\n", ""),
        ("[tool.uv]\npackage = false\n", ""),
    ],
)
def test_an_application_that_is_no_package_is_not_built(
    table: str, note: str, tmp_path: Path, python: Interpreter
) -> None:
    root, output = tmp_path / "shop", io.StringIO()
    write(root, "backend.py", "raise ValueError('no cargo')\n")
    write(root, "pyproject.toml", f'{BUILD}[project]\nname = "our-service"\nversion = "1"\n{table}')
    write(root, "web.py", "")
    narrator = Narrator(Console(file=output, width=400))
    assert deployment.install(root, python, narrator) == (deployment.SITE, ".")
    assert re.search(note or r"\A\Z", output.getvalue())


@pytest.mark.real
@pytest.mark.usefixtures("index")
def test_the_project_itself_is_imported_from_its_sources(
    tmp_path: Path, python: Interpreter
) -> None:
    """Where its build also puts compiled modules; the installed part says what it is."""
    root = tmp_path / "lib"
    write(root, "src/lib/__init__.py", "from lib.speed import built\n")
    write(root, "more/other.py", "")
    made = "import pathlib\npathlib.Path('src/lib/speed.py').write_text('built = True')\n"
    package(root, "3.0", {"_lib.pth": f"{root}/src\n{root}/more\n"}, made)
    search = deployment.install(root, python, QUIET)
    assert search == (deployment.SITE, "src", ".", "more")
    code = "import importlib.metadata as m, lib, other; print(m.version('lib'), lib.built)"
    actual = {"PYTHONPATH": ":".join(str(root / name) for name in search)}
    output = subprocess.check_output([python.executable, "-c", code], env=actual, text=True)
    assert output.split() == ["3.0", "True"]


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


def made(name: str, place: Path, index: Index) -> Path:
    """The layout's repository, with one commit; the folder in it that is worked in."""
    needs = {"alpha": ("beta<2", 'winonly; sys_platform == "win32"'), "beta": ()}
    digests = {
        f"<{name}>": index.add(name, "1.0", "2026-01-10", theirs).strip().rpartition("=")[2]
        for name, theirs in needs.items()
    }
    for package in needs:
        index.add(package, "2.0", "2026-03-01")
    for file in shutil.copytree(_FILES / name, place).rglob("*.txt"):
        text = file.read_text("utf-8")
        file.write_text(re.sub("<alpha>|<beta>", lambda match: digests[match[0]], text))
    git(place, "init", "--quiet", "--initial-branch=main")
    if name == "workspace":
        uv("lock", "--python", Checkout.here().interpreter("3.14").executable, cwd=place)
    commit(place, "All of it")
    return place / LAYOUTS[name][0]


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
        top = place / Path(*[".."] * len(project.inside.parts))
        files = [file for file in (_FILES / name).rglob("*") if file.is_file()]
        assert all((top / file.relative_to(_FILES / name)).is_file() for file in files)


@pytest.mark.real
def test_a_folder_of_a_repository_is_compared_by_commit(
    tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = made("folder", tmp_path / "repo", index)
    keys = {"app": "web:app", "interface": "asgi", "python": "3.14"}
    project = Subject(root, target=Target.model_validate(keys))
    monkeypatch.chdir(root)

    def reasons() -> list[str]:
        with prepared(project, Contrast(("HEAD~1", None)), loaded=False) as both:
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
    with (
        pytest.raises(UsageError, match="has no folder server"),
        prepared(moved, Contrast(("HEAD~1", None)), loaded=False),
    ):
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
        with prepared(project, Contrast(("HEAD~1", head)), loaded=False) as both:
            assert (both.base.root / "bench/starter.py").read_text() == "import shop.main\n"
            assert [pair.reason for pair in affected.find(both).pairs] == ["src/shop/main.py"]
            assert both.notes == tuple(map(note.format, lacking))


@pytest.mark.real
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[pytest.mark.thorough] * (n != "poetry.lock"))
        for n in target_locks.LOCKS[1:]
    ],
)
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
