"""What base and head are: real repositories, real locks, a real resolver."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
import rich.console

from repos import borrow_cache, commit, git, make_repository, make_tiny, write
from servebench import stacklock, stacks, tools
from servebench.compare import relocking, revisions, sides, touched
from servebench.compare.sides import Sides, Wanted
from servebench.errors import SetupError, UsageError
from servebench.toolchain.narrator import Narrator
from tiny_index import Index, serving_beta

JSON = "asgi-wsgi/asgi-json/py3.14/w1/c128"
QUIET = Narrator(rich.console.Console(quiet=True))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with what set-up has made."""
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, "/dev/null")
    return borrow_cache(tmp_path / "cache", monkeypatch)


@pytest.fixture
def repository(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit."""
    assert cache.is_dir()
    root = make_repository(tmp_path / "repository")
    monkeypatch.setenv("SERVEBENCH_ROOT", str(root))
    return root


@pytest.fixture
def wanted(tmp_path: Path) -> Wanted:
    """One case of the quick profile."""
    return Wanted("quick", (JSON,), tmp_path / "logs", QUIET)


def revised(root: Path, base: str | None, head: str | None, wanted: Wanted) -> Sides:
    """Prepare two revisions."""
    return sides.of_revisions(root, base, head, wanted)


def test_each_revision_is_measured_from_its_own_files(repository: Path, wanted: Wanted) -> None:
    """Snapshots hold the files of their commits, and the repository is as it was."""
    first = git(repository, "rev-parse", "HEAD")
    second = commit(repository, "Slower", apps__asgi__x="")
    app = "apps/asgi-wsgi/asgi_app.py"
    text = (repository / app).read_text()
    write(repository, app, text + "\nSLOW = True\n")
    third = commit(repository, "Slower still")
    before = sorted(path for path in (repository / ".git").iterdir())

    both = revised(repository, first, third, wanted)
    assert (both.base.record.commit, both.head.record.commit) == (first, third)
    assert (both.base.record.kind, both.base.record.dirty, both.cross) == ("revision", False, False)
    assert (both.base.root / app).read_text() == text
    assert (both.head.root / app).read_text() == text + "\nSLOW = True\n"
    assert both.head.rig.apps == both.head.root / "apps"
    assert [case.id for case in both.head.cases] == [JSON]
    assert not (both.head.root / "results").exists()
    assert len(str(both.base.root)) == len(str(both.head.root))
    assert both.base.rig.pythons == both.head.rig.pythons  # the locks are the same
    environment = both.head.rig.environment(both.head.cases[0])
    assert str(both.head.root / "apps") in environment["PYTHONPATH"]

    assert sorted(path for path in (repository / ".git").iterdir()) == before
    assert not git(repository, "status", "--porcelain")
    assert git(repository, "worktree", "list").count("\n") == 0
    assert revised(repository, second, third, wanted).head.root == both.head.root


def test_what_is_not_committed_is_compared_without_being_touched(
    repository: Path, wanted: Wanted
) -> None:
    """Changed, staged, new and removed files count; ignored ones, results and the index do not."""
    app = "apps/asgi-wsgi/asgi_app.py"
    write(repository, app, (repository / app).read_text() + "\nSTAGED = True\n")
    git(repository, "add", app)
    write(repository, "apps/asgi-wsgi/helper.py", "NEW = True\n")
    write(repository, "apps/asgi-wsgi/__pycache__/x.pyc", "")
    write(repository, "results/runs/two.json", "{}\n")
    (repository / "README.md").unlink()
    before = git(repository, "status", "--porcelain")

    head = revisions.working(repository)
    assert (head.label, head.dirty) == ("working tree", True)
    assert head.commit == git(repository, "rev-parse", "HEAD")
    changed = revisions.changed(repository, revisions.resolve(repository, "HEAD").tree, head.tree)
    assert changed == ("README.md", app, "apps/asgi-wsgi/helper.py")
    assert git(repository, "status", "--porcelain") == before

    both = revised(repository, None, None, wanted)  # on main: against its own commit
    assert (both.base.record.commit, both.base.record.dirty) == (head.commit, False)
    assert both.head.record.dirty
    assert "STAGED" in (both.head.root / app).read_text()
    assert not (both.head.root / "README.md").exists()


def test_base_is_where_head_left_main(repository: Path) -> None:
    """Main may have gone on since; on main itself it is where it left the remote's."""
    root = repository
    left = git(root, "rev-parse", "HEAD")
    git(root, "switch", "--quiet", "--create", "feature")
    commit(root, "Feature", apps__a="1")
    git(root, "switch", "--quiet", "main")
    ahead = commit(root, "Main goes on", apps__b="1")
    git(root, "switch", "--quiet", "feature")
    head = revisions.working(root)
    assert (head.label, head.dirty) == ("feature", False)
    assert revisions.where_left_main(root, head).commit == left

    git(root, "switch", "--quiet", "main")
    git(root, "update-ref", "refs/remotes/origin/main", left)
    assert revisions.where_left_main(root, revisions.working(root)).commit == left
    git(root, "update-ref", "refs/remotes/origin/main", ahead)
    assert revisions.where_left_main(root, revisions.working(root)).commit == ahead


def test_the_main_branch_is_whatever_origin_calls_it(repository: Path) -> None:
    """As origin's HEAD says; without one it is main or master, whichever is there."""
    root = repository
    left = git(root, "rev-parse", "HEAD")
    git(root, "branch", "--move", "master")
    git(root, "switch", "--quiet", "--create", "feature")
    commit(root, "Feature", apps__a="1")
    feature = revisions.working(root)
    assert revisions.where_left_main(root, feature).commit == left
    git(root, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/next/2")
    with pytest.raises(UsageError, match="expected one of the branches next/2, origin/next/2 to"):
        revisions.where_left_main(root, feature)
    git(root, "update-ref", "refs/remotes/origin/next/2", left)
    git(root, "branch", "--force", "master", "feature")
    assert revisions.where_left_main(root, feature).commit == left


def test_what_cannot_be_compared_is_refused_in_a_sentence(
    repository: Path, wanted: Wanted, tmp_path: Path
) -> None:
    """Unknown names, no repository, no main branch, nothing in common, and unreadable states."""
    with pytest.raises(UsageError, match="'nowhere' is no revision here: expected a branch"):
        revised(repository, "nowhere", None, wanted)
    with pytest.raises(UsageError, match="'--all' is no revision here"):
        revised(repository, "--all", None, wanted)
    with pytest.raises(UsageError, match=r"expected a git repository .* found none"):
        revised(tmp_path, None, None, wanted)
    with pytest.raises(UsageError, match=r"expected a git repository .* found none"):
        revised(repository / "apps", None, None, wanted)
    with pytest.raises(UsageError, match=r"selects nothing in profile quick.*near: "):
        revised(repository, "HEAD", None, Wanted("quick", ("asgi-wsgi/x",), tmp_path, QUIET))

    git(repository, "switch", "--quiet", "--orphan", "unborn")
    with pytest.raises(UsageError, match="found none"):
        revised(repository, None, None, wanted)
    git(repository, "switch", "--quiet", "main")
    git(repository, "checkout", "--quiet", "--orphan", "island")
    commit(repository, "Nothing in common")
    with pytest.raises(UsageError, match="island and the main branch have no commit in common"):
        revised(repository, None, None, wanted)
    git(repository, "branch", "--quiet", "--delete", "--force", "main")
    with pytest.raises(UsageError, match=r"one of the branches main, origin/main, master"):
        revised(repository, None, None, wanted)

    write(repository, "apps/asgi-wsgi/experiment.toml", "question = 3\n")
    commit(repository, "Unreadable")
    with pytest.raises(UsageError, match=r"HEAD cannot be read by this servebench: apps/asgi-wsgi"):
        revised(repository, "HEAD", "HEAD~1", wanted)


def test_only_so_many_snapshots_are_kept(repository: Path, cache: Path) -> None:
    """The newest ones, with nothing left of the others."""
    for number in range(revisions.KEPT + 2):
        commit(repository, "Again", apps__number=str(number))
        last = revisions.snapshot(repository, revisions.working(repository), QUIET)
    names = {path.name.strip(".") for path in (cache / "snapshots").iterdir()}
    folders = {name for name in names if not name.endswith(".lock")}
    assert last.name in folders
    assert len(folders) == revisions.KEPT
    assert names - folders == {f"{name}.lock" for name in folders}


def test_interpreters_are_compared_on_the_same_files(repository: Path, tmp_path: Path) -> None:
    """Each case meets the one that differs in nothing but the interpreter."""
    globs = ("asgi-wsgi/asgi-json/py3.14/*", "gil-endpoints/sync_cpu/*")
    both = sides.of_interpreters(
        repository, "3.14", "3.14t", Wanted("quick", globs, tmp_path, QUIET)
    )
    assert both.cross
    assert (both.base.record.label, both.head.record.label) == ("3.14", "3.14t")
    assert {case.python for case in both.head.cases} == {"3.14t"}
    found = touched.find(both)
    assert [(pair.base.id, pair.head.id) for pair in found.pairs] == [
        (name.format("3.14"), name.format("3.14t"))
        for name in (
            "asgi-wsgi/asgi-json/py{}/w1/c128",
            "asgi-wsgi/asgi-json/py{}/w2/c256",
            "gil-endpoints/sync_cpu/py{}",
        )
    ]
    assert {pair.because for pair in found.pairs} == {"Python 3.14t instead of 3.14"}
    assert not found.missing
    wanted = Wanted("quick", (), tmp_path, QUIET)
    with pytest.raises(UsageError, match=r"no interpreter '2\.7'; declared are"):
        sides.of_interpreters(repository, "3.14", "2.7", wanted)
    with pytest.raises(UsageError, match=r"two different interpreters, found 3\.14 twice"):
        sides.of_interpreters(repository, "3.14", "3.14", wanted)


@pytest.fixture
def index() -> Iterator[Index]:
    """`alpha` needs `beta`; of `beta` there are three versions, the newest of March."""
    with serving_beta() as served:
        yield served


@pytest.fixture
def tiny(tmp_path: Path, cache: Path, index: Index, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout, in no repository, with the stack `one` as of mid-February."""
    assert cache.is_dir()
    root = make_tiny(tmp_path / "tiny")
    monkeypatch.setenv("SERVEBENCH_ROOT", str(root))
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"{index.address}/simple")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    for name in ("UV_FIND_LINKS", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    stacklock.lock(as_of=date(2026, 2, 20))
    return root


@pytest.fixture
def everything(tmp_path: Path) -> Wanted:
    """All cases of the quick profile."""
    return Wanted("quick", (), tmp_path / "logs", QUIET)


def packages(both: Sides) -> list[dict[str, str]]:
    """What the stack `one` holds on base and on head."""
    return [side.rig.stacks["one"].packages for side in (both.base, both.head)]


def test_stacks_of_two_dates_are_resolved_and_installed(tiny: Path, everything: Wanted) -> None:
    """The checkout's own locks stay; only the case that imports what moved is touched."""
    lock = stacks.lock_file("one").read_bytes()
    both = sides.of_dates(tiny, date(2026, 1, 31), None, everything)
    assert packages(both) == [{"alpha": "1.0", "beta": "1.0"}, {"alpha": "1.0", "beta": "1.5"}]
    assert (both.base.record.kind, both.base.record.commit) == ("stack", None)
    assert both.base.record.label == "stacks as of 2026-01-31"
    assert both.head.record.label == "stacks as locked"
    python = both.base.rig.pythons["one", "3.14"]
    assert list(python.parents[1].glob("lib/python*/site-packages/beta-1.0.dist-info"))
    assert stacks.lock_file("one").read_bytes() == lock

    found = touched.find(both)
    assert [(pair.head.id, pair.because) for pair in found.pairs] == [
        ("tiny/dependent/py3.14", "beta 1.0 → 1.5")
    ]
    assert (found.untouched, found.nothing) == (1, "")
    (note,) = found.notes
    assert "went by UV_DEFAULT_INDEX of" in note
    (move,) = found.packages
    assert (move.stack, move.package, move.base, move.head) == ("one", "beta", "1.0", "1.5")


def test_one_package_in_another_version_moves_nothing_else(tiny: Path, everything: Wanted) -> None:
    """Packages that could be newer by now stay where they are locked."""
    both = sides.of_packages(tiny, ["beta==1.0"], everything)
    assert packages(both) == [{"alpha": "1.0", "beta": "1.5"}, {"alpha": "1.0", "beta": "1.0"}]
    assert (both.base.record.label, both.head.record.label) == ("stacks as locked", "beta==1.0")
    assert packages(sides.of_packages(tiny, ["alpha==1.0"], everything))[1]["beta"] == "1.5"
    same = touched.find(sides.of_packages(tiny, ["alpha==1.0"], everything))
    assert same.nothing == "Nothing to judge: base and head do not differ."


def test_what_uv_went_by_is_named_without_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """It belongs to repeating a comparison of stacks; uv knows all of these variables."""
    for name in relocking.RESOLVING:
        monkeypatch.delenv(name, raising=False)
    assert relocking.surroundings() == ()
    monkeypatch.setenv("UV_FIND_LINKS", "/home/me/private")
    monkeypatch.setenv("UV_INDEX_URL", "")
    (sentence,) = relocking.surroundings()
    assert sentence == "uv went by UV_FIND_LINKS of the environment: set it again to repeat this"
    done = subprocess.run(
        [tools.uv(), "pip", "compile", "--help"], capture_output=True, text=True, check=True
    )
    assert set(relocking.RESOLVING) <= set(re.findall(r"\bUV_\w+", done.stdout))


def test_versions_that_cannot_be_had_are_refused(tiny: Path, everything: Wanted) -> None:
    """No version, no such package, no such release, and a stack that insists on its own."""
    for text in ("beta", "beta @ file:///x", "beta[extra]==1", "beta==1; python_version<'4'", "=="):
        with pytest.raises(UsageError, match="expected a package and its version"):
            sides.of_packages(tiny, [text], everything)
    with pytest.raises(UsageError, match=r"--with delta==1 changes nothing: expected a package of"):
        sides.of_packages(tiny, ["delta==1"], everything)
    with pytest.raises(SetupError, match="resolving stack one failed"):
        sides.of_packages(tiny, ["beta==9"], everything)
    project = tiny / "apps" / "pyproject.toml"
    project.write_text(project.read_text().replace('["alpha"]', '["alpha", "beta>=1.5"]'))
    with pytest.raises(UsageError, match=r"changes nothing: stack one declares beta>=1\.5 and"):
        sides.of_packages(tiny, ["beta==1.0"], everything)
