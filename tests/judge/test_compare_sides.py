"""What base and head are: real repositories, real locks, a real resolver."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from bare import QUIET
from duetbench.app import revisions
from duetbench.app.setting import Contrast
from duetbench.core.errors import DeclarationError, SetupError, UsageError
from duetbench.judge import affected, preparation
from duetbench.judge.pairs import Mode, Sides
from duetbench.judge.preparation import Scope
from goldens import assert_said
from observatory.matrix import sides
from observatory.matrix.checkout import Checkout, lock_stacks
from repos import borrow_cache, commit, git, make_repository, make_tiny, write, write_all
from tiny_index import Index

pytestmark = pytest.mark.real
JSON: Final = "asgi-wsgi/asgi-json/py3.14/w1/c128"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return borrow_cache(tmp_path / "cache", monkeypatch)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_repository(tmp_path / "repository", monkeypatch)


def want(place: Path, *globs: str) -> Scope:
    copies = place / "copies"
    copies.mkdir(exist_ok=True)
    return Scope(globs, QUIET, copies)


def append(root: Path, name: str, line: str) -> None:
    write(root, name, f"{(root / name).read_text()}\n{line}\n")


def revised(root: Path, base: str | None, head: str | None, scope: Scope) -> Sides:
    return sides.prepare(Checkout(root), Contrast((base, head)), scope)


def test_each_side_is_measured_from_its_own_files_and_nothing_is_changed(
    repository: Path, cache: Path
) -> None:
    """Two revisions, and what is not committed against its own commit: as on main."""
    with revisions.copies() as folder, revisions.copies() as beside:
        assert folder.is_dir()  # the second has not swept the first, whose maker lives
        assert beside != folder
        _measured_from_its_own(repository, Scope((JSON,), QUIET, folder))
    assert not list((cache / "snapshots").glob("*/*"))  # with what applications have written
    with pytest.raises(KeyboardInterrupt), revisions.copies():
        raise KeyboardInterrupt
    assert not list((cache / "snapshots").glob("*/*"))


def _measured_from_its_own(repository: Path, scope: Scope) -> None:
    app, first = "apps/asgi-wsgi/asgi_app.py", git(repository, "rev-parse", "HEAD")
    text = (repository / app).read_text()
    append(repository, app, "SLOW = True")
    second = commit(repository, "Slower")
    append(repository, app, "STAGED = True")
    git(repository, "add", app)
    write(repository, "apps/asgi-wsgi/helper.py", "NEW = True\n")
    write(repository, "apps/asgi-wsgi/__pycache__/x.pyc", "")
    write(repository, "results/runs/two.json", "{}\n")
    (repository / "README.md").unlink()
    before = git(repository, "status", "--porcelain")
    git(repository, "config", "core.fsmonitor", f"touch {repository / '.git' / 'ran'};")
    inside = set((repository / ".git").rglob("*"))  # which may be read-only

    both = revised(repository, first, second, scope)
    base, head = both.base, both.head
    assert (base.record.commit, head.record.commit) == (first, second)
    assert (base.record.kind, base.record.dirty, both.cross) == ("revision", False, False)
    assert (base.root / app).read_text() == text
    assert (head.root / app).read_text() == text + "\nSLOW = True\n"
    assert [case.id for case in head.cases] == [JSON]
    assert not (head.root / "results").exists()
    assert len(str(base.root)) == len(str(head.root))
    assert {base.root.parent, head.root.parent} == {scope.copies}
    for side in (base, head):
        (side.root / "apps" / "asgi-wsgi" / "bench.db").touch()
    assert base.testbed.pythons == head.testbed.pythons  # the locks are the same
    assert str(head.root / "apps") in both.pairs[0].head.environment()["PYTHONPATH"]

    working = revisions.working(repository)
    assert (working.label, working.dirty, working.commit) == ("working tree", True, second)
    changed = affected.changed_files(repository, "HEAD^{tree}", working.tree)
    assert changed == ("README.md", app, "apps/asgi-wsgi/helper.py")
    both = revised(repository, None, None, scope)
    assert (both.base.record.commit, both.base.record.dirty) == (second, False)
    assert both.head.record.dirty
    assert "STAGED" in (both.head.root / app).read_text()
    assert not (both.head.root / "README.md").exists()
    assert set((repository / ".git").rglob("*")) == inside
    assert git(repository, "-c", "core.fsmonitor=false", "status", "--porcelain") == before


def left_main(root: Path) -> str:
    return preparation.where_left_main(root, revisions.working(root)).commit


def test_base_is_where_head_left_main(repository: Path) -> None:
    root = repository
    left = git(root, "rev-parse", "HEAD")
    git(root, "switch", "--quiet", "--create", "feature")
    commit(root, "Feature", apps__a="1")
    git(root, "switch", "--quiet", "main")
    ahead = commit(root, "Main goes on", apps__b="1")
    git(root, "switch", "--quiet", "feature")
    head = revisions.working(root)
    assert (head.label, head.dirty, left_main(root)) == ("feature", False, left)

    git(root, "switch", "--quiet", "main")
    for origin in (left, ahead):
        git(root, "update-ref", "refs/remotes/origin/main", origin)
        assert left_main(root) == origin

    # Whatever it is called; what origin says comes first.
    git(root, "branch", "--move", "main", "master")
    git(root, "update-ref", "-d", "refs/remotes/origin/main")
    git(root, "switch", "--quiet", "feature")
    assert left_main(root) == left
    git(root, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/next/2")
    git(root, "update-ref", "refs/remotes/origin/next/2", left)
    git(root, "branch", "--force", "master", "feature")
    assert preparation.where_left_main(root, head).label == f"{left[:8]} (main)"
    git(root, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/gone")
    with pytest.raises(UsageError, match="of the branches gone, origin/gone to compare with"):
        left_main(root)


def named(root: Path, words: Sequence[str], scope: Scope) -> Sides:
    """Prepare sides by a word for base, if there is one, and one for head."""
    base, head = ([word] if word else [] for word in words)
    return sides.prepare(Checkout(root), Contrast(base=base, head=head), scope)


TWO: Final = JSON.replace("w1/c128", "w2/c256")
FREE: Final = [(name, name.replace("3.14", "3.14t")) for name in (JSON, TWO)]
# The nights declare the first on uvicorn, too; WSGI is nothing that it serves.
SERVED: Final = [(f"{JSON}/uvicorn", JSON), (f"{TWO}/server-uvicorn", TWO)]
BACK: Final = [pair[::-1] for pair in SERVED]
MORE: Final = [(JSON, f"{JSON}/workers-2"), (f"{TWO}/workers-1", TWO)]
SAME: Final = [(JSON, JSON), (TWO, TWO)]
Pair: TypeAlias = tuple[str, str]


@pytest.mark.parametrize(
    ("words", "pairs", "reason"),
    [
        (("python=3.14", "python=3.14t"), FREE, "python=3.14t instead of python=3.14"),
        (("server=uvicorn", "server=granian"), SERVED, "server=granian instead of server=uvicorn"),
        (("server=granian", "server=uvicorn"), BACK, "server=uvicorn instead of server=granian"),
        (("workers=1", "workers=2"), MORE, "workers=2 instead of workers=1"),
        (("", "env.JIT=1"), SAME, "env.JIT=1 instead of as declared"),
    ],
)
def test_ways_to_serve_are_compared_on_the_same_files(
    words: Pair, pairs: list[Pair], reason: str, repository: Path, tmp_path: Path
) -> None:
    """Of an experiment: each case once, as it is declared if it is, and what follows with it."""
    both = named(repository, words, want(tmp_path, "asgi-wsgi/*-json/py3.14/*"))
    actual = affected.find(both)
    assert both.cross
    assert not [item.case for item in actual.missing if "asgi-json" in item.case]
    assert both.base.record.words + both.head.record.words == tuple(filter(None, words))
    served = [pair for pair in actual.pairs if "asgi-json" in pair.case.id]
    ids = {
        tuple(side.case.id.partition("/server-granian")[0] for side in pair.sides)
        for pair in served
    }
    assert {*pairs} <= ids
    assert {pair.reason for pair in actual.pairs} == {reason}
    (base, head), changed = (side.case for side in served[0].sides), words[1].partition("=")[0]
    if changed == "workers":
        assert {pair.mode for pair in actual.pairs} == {Mode.ALONE}
        flask = [pair for pair in actual.pairs if "wsgi-json" in pair.case.id]
        slots = {tuple(side.case.slots for side in pair.sides) for pair in flask}
        assert (64, 128) in slots
    elif changed == "env.JIT":
        assert ("JIT" in base.env, head.env["JIT"], served[0].alike) == (False, "1", False)


def test_what_names_no_sides_is_refused(repository: Path, tmp_path: Path) -> None:
    def prepare(words: str) -> str:
        return str(named(repository, words.split(", "), want(tmp_path, f"{JSON}*")))

    assert_said("sides", prepare)
    with pytest.raises(UsageError, match="selects nothing of"):
        prepare("threads=1, threads=4")

    git(repository, "checkout", "--quiet", "--orphan", "island")
    commit(repository, "Nothing in common")
    write(repository, "apps/asgi-wsgi/experiment.toml", "question = 3\n")
    commit(repository, "Unreadable")
    for root, base, glob, sentence in (
        (repository, "nowhere", JSON, "'nowhere' is no revision here: expected a branch"),
        (tmp_path, None, JSON, r"expected a git repository .* found none"),
        (repository, None, JSON, "island and the main branch have no commit in common"),
    ):
        with pytest.raises(UsageError, match=sentence):
            revised(root, base, None, want(tmp_path, glob))
    with pytest.raises(DeclarationError, match="apps/asgi-wsgi/experiment"):
        revised(repository, "HEAD~1", None, want(tmp_path, JSON))
    with pytest.raises(UsageError, match=r"selects nothing of asgi-wsgi/"):
        revised(repository, "main", "main", want(tmp_path, "asgi-wsgi/x"))


@pytest.fixture
def tiny(tmp_path: Path, beta_index: Index, monkeypatch: pytest.MonkeyPatch) -> Path:
    assert beta_index.files
    root = make_tiny(tmp_path / "tiny", monkeypatch)
    lock_stacks(Checkout.here(), QUIET, as_of=date(2026, 2, 20))
    return root


def test_stacks_of_other_dates_and_versions_are_installed(tiny: Path, tmp_path: Path) -> None:
    """One package in another version moves nothing else."""
    lock, as_of = Checkout.here().lock_file("one").read_bytes(), "as-of=2026-01-31"
    for words, versions, labels in (
        (("as-of=2026-01-31", ""), ("1.0", "1.5"), (as_of, "as declared")),
        (("", "beta==1.0"), ("1.5", "1.0"), ("as declared", "beta==1.0")),
        (("beta==1.0", "beta==2.0"), ("1.0", "2.0"), ("beta==1.0", "beta==2.0")),
        (("", "alpha==1.0"), ("1.5", "1.5"), ("as declared", "alpha==1.0")),
    ):
        both = named(tiny, words, want(tmp_path))
        records = both.base.record, both.head.record
        assert {(record.kind, record.commit) for record in records} == {("stack", None)}
        assert tuple(record.label for record in records) == labels
        packages = [side.testbed.stacks["one"].packages for side in (both.base, both.head)]
        assert packages == [{"alpha": "1.0", "beta": version} for version in versions]
        python = both.base.testbed.pythons["one", "3.14"].parents[1]
        assert [*python.glob(f"lib/python*/site-packages/beta-{versions[0]}.dist-info")]
        actual = affected.find(both)
        if versions[0] == versions[1]:
            assert actual.empty_reason == "base and head do not differ."
            continue
        (move,) = actual.packages
        assert (move.stack, move.package, (move.base, move.head)) == ("one", "beta", versions)
        assert [(pair.case.id, pair.reason) for pair in actual.pairs] == [
            (f"tiny/{name}/py3.14", str(move)) for name in ("dependent", "alone")
        ]
    assert Checkout.here().lock_file("one").read_bytes() == lock
    project = tiny / "apps" / "pyproject.toml"
    project.write_text(project.read_text().replace('["alpha"]', '["alpha", "beta>=1.5"]'))
    for pin in ("beta==9", "beta==1.0"):
        with pytest.raises(SetupError, match="resolving stack one failed"):
            named(tiny, ("", pin), want(tmp_path))


def test_a_repository_without_a_commit_is_copied_whole(tmp_path: Path) -> None:
    """Whoever has just begun has files, and no commit yet."""
    write_all(tmp_path / "new", {"uv.lock": "", "backend/web.py": "app = None"})
    git(tmp_path / "new", "init", "--quiet")
    with revisions.copies() as folder:
        place = revisions.copy(tmp_path / "new" / "backend", folder)
        assert (place / "web.py").read_text("utf-8") == "app = None"
        assert (place.parent / "uv.lock").exists()
