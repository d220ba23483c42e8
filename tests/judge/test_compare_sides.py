"""What base and head are: real repositories, real locks, a real resolver."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from bare import QUIET
from duetbench.app import revisions
from duetbench.app.setting import Contrast
from duetbench.core.errors import SetupError, UsageError
from duetbench.judge import affected
from duetbench.judge.pairs import Mode, Sides
from duetbench.judge.preparation import Scope
from observatory.matrix import sides
from observatory.matrix.checkout import Checkout, renew
from repos import (
    borrow_cache,
    commit,
    git,
    make_repository,
    make_shop,
    make_tiny,
    write,
)
from tiny_index import serving_beta

JSON = "asgi-wsgi/asgi-json/py3.14/w1/c128"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return borrow_cache(tmp_path / "cache", monkeypatch)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = make_repository(tmp_path / "repository")
    monkeypatch.setenv("DUETBENCH_ROOT", str(root))
    return root


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DUETBENCH_ROOT", str(tmp_path / "shop"))
    return make_shop(tmp_path / "shop")


@pytest.fixture
def scope(tmp_path: Path) -> Scope:
    return want(tmp_path, JSON)


def want(place: Path, *globs: str) -> Scope:
    copies = place / "copies"
    copies.mkdir(exist_ok=True)
    return Scope(globs, QUIET, copies)


def append(root: Path, name: str, line: str) -> None:
    write(root, name, f"{(root / name).read_text()}\n{line}\n")


def reasons(found: Sides) -> list[tuple[str, str]]:
    return [(pair.case.id, pair.reason) for pair in found.pairs]


def revised(root: Path, base: str | None, head: str | None, scope: Scope) -> Sides:
    return sides.prepare(Checkout(root), Contrast((base, head)), scope)


@pytest.mark.real
def test_each_revision_is_measured_from_its_own_files(repository: Path, scope: Scope) -> None:
    first = git(repository, "rev-parse", "HEAD")
    second = commit(repository, "Slower", apps__asgi__x="")
    app = "apps/asgi-wsgi/asgi_app.py"
    text = (repository / app).read_text()
    append(repository, app, "SLOW = True")
    third = commit(repository, "Slower still")
    before = sorted(path for path in (repository / ".git").iterdir())

    both = revised(repository, first, third, scope)
    assert (both.base.record.commit, both.head.record.commit) == (first, third)
    assert (both.base.record.kind, both.base.record.dirty, both.cross) == ("revision", False, False)
    assert (both.base.root / app).read_text() == text
    assert (both.head.root / app).read_text() == text + "\nSLOW = True\n"
    assert both.head.testbed.subject.root == both.head.root
    assert [case.id for case in both.head.cases] == [JSON]
    assert not (both.head.root / "results").exists()
    assert len(str(both.base.root)) == len(str(both.head.root))
    assert both.base.testbed.pythons == both.head.testbed.pythons  # the locks are the same
    environment = both.head.testbed.environment(both.head.cases[0])
    assert str(both.head.root / "apps") in environment["PYTHONPATH"]

    assert sorted(path for path in (repository / ".git").iterdir()) == before
    assert not git(repository, "status", "--porcelain")
    assert git(repository, "worktree", "list").count("\n") == 0
    assert revised(repository, second, third, scope).head.root != both.head.root


@pytest.mark.real
def test_what_is_not_committed_is_compared_without_being_changed(
    repository: Path, scope: Scope
) -> None:
    app = "apps/asgi-wsgi/asgi_app.py"
    append(repository, app, "STAGED = True")
    git(repository, "add", app)
    write(repository, "apps/asgi-wsgi/helper.py", "NEW = True\n")
    write(repository, "apps/asgi-wsgi/__pycache__/x.pyc", "")
    write(repository, "results/runs/two.json", "{}\n")
    (repository / "README.md").unlink()
    before = git(repository, "status", "--porcelain")
    git(repository, "config", "core.fsmonitor", f"touch {repository / '.git' / 'ran'};")
    inside = set((repository / ".git").rglob("*"))  # which may be read-only

    head = revisions.working(repository)
    assert (head.label, head.dirty) == ("working tree", True)
    assert head.commit == git(repository, "rev-parse", "HEAD")
    changed = revisions.changed_files(repository, "HEAD^{tree}", head.tree)
    assert changed == ("README.md", app, "apps/asgi-wsgi/helper.py")
    assert git(repository, "-c", "core.fsmonitor=false", "status", "--porcelain") == before

    both = revised(repository, None, None, scope)  # on main: against its own commit
    assert (both.base.record.commit, both.base.record.dirty) == (head.commit, False)
    assert both.head.record.dirty
    assert "STAGED" in (both.head.root / app).read_text()
    assert not (both.head.root / "README.md").exists()
    assert set((repository / ".git").rglob("*")) == inside


def left_main(root: Path) -> str:
    return revisions.where_left_main(root, revisions.working(root)).commit


@pytest.mark.real
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
    assert left_main(root) == left


@pytest.mark.real
def test_what_cannot_be_compared_is_refused_in_a_sentence(
    repository: Path, scope: Scope, tmp_path: Path
) -> None:
    def refused(
        sentence: str,
        base: str | None = None,
        head: str | None = None,
        root: Path = repository,
        by: Scope = scope,
    ) -> None:
        with pytest.raises(UsageError, match=sentence):
            revised(root, base, head, by)

    refused("'nowhere' is no revision here: expected a branch", "nowhere")
    refused(r"expected a git repository .* found none", root=tmp_path)
    nothing = want(tmp_path, "asgi-wsgi/x")
    refused(r"selects nothing; near: ", "HEAD", by=nothing)

    git(repository, "checkout", "--quiet", "--orphan", "island")
    commit(repository, "Nothing in common")
    refused("island and the main branch have no commit in common")
    write(repository, "apps/asgi-wsgi/experiment.toml", "question = 3\n")
    commit(repository, "Unreadable")
    refused(r"this duetbench cannot read HEAD: apps/asgi-wsgi", "HEAD~1", "HEAD")


@pytest.mark.real
def test_what_an_application_writes_is_gone_with_its_comparison(
    repository: Path, cache: Path, tmp_path: Path
) -> None:
    place = cache / "snapshots"
    with revisions.copies() as folder, revisions.copies() as beside:
        assert folder.is_dir()  # the second has not swept the first, whose maker lives
        assert beside != folder
        both = revised(repository, "HEAD", "HEAD", replace(want(tmp_path, JSON), copies=folder))
        roots = (both.base.root, both.head.root)
        assert roots[0] != roots[1]
        for root in roots:
            assert root.parent == folder
            (root / "apps" / "asgi-wsgi" / "bench.db").touch()
    assert list(place.iterdir()) == []
    with revisions.copies() as folder:
        again = revised(repository, "HEAD", "HEAD", replace(want(tmp_path, JSON), copies=folder))
        assert not list(again.head.root.rglob("bench.db"))
    with pytest.raises(KeyboardInterrupt), revisions.copies() as folder:
        raise KeyboardInterrupt
    assert list(place.iterdir()) == []


@pytest.mark.real
def test_each_side_serves_the_cases_that_it_declares(shop: Path, tmp_path: Path) -> None:
    """The application's module under another name is the same case, another load is another one."""
    declared, app = "apps/load/experiment.toml", "apps/load/load_app.py"
    text = (shop / declared).read_text().replace("load_app:app", "shop_app:app")
    write(shop, declared, text)
    (shop / app).rename(shop / "apps/load/shop_app.py")
    commit(shop, "Another name")
    (pair,) = revised(shop, "HEAD~1", "HEAD", want(tmp_path)).pairs
    assert [one.case.endpoint.app for one in pair.sides] == ["load_app:app", "shop_app:app"]

    write(shop, declared, text.replace("connections = 8", "connections = 16"))
    commit(shop, "Twice the load")
    both = revised(shop, "HEAD~1", "HEAD", want(tmp_path))
    assert (both.pairs, both.missing[0].reason) == ((), "differs on head: load.connections 8 → 16")


def pythons(project: Checkout, head: str, scope: Scope) -> Sides:
    words = ("python=3.14",), (f"python={head}",)
    return sides.prepare(project, Contrast(base=words[0], head=words[1]), scope)


@pytest.mark.real
def test_interpreters_are_compared_on_the_same_files(repository: Path, tmp_path: Path) -> None:
    globs = ("asgi-wsgi/asgi-json/py3.14/*", "gil-endpoints/sync_cpu/*")
    both = pythons(Checkout(repository), "3.14t", want(tmp_path, *globs))
    assert both.cross
    assert (both.base.record.label, both.head.record.label) == ("3.14", "3.14t")
    assert {case.python for case in both.head.cases} == {"3.14t"}
    found = affected.find(both)
    assert [(pair.base.case.id, pair.case.id) for pair in found.pairs] == [
        (name.format("3.14"), name.format("3.14t"))
        for name in (
            "asgi-wsgi/asgi-json/py{}/w1/c128",
            "asgi-wsgi/asgi-json/py{}/w2/c256",
            "gil-endpoints/sync_cpu/py{}",
        )
    ]
    assert {pair.reason for pair in found.pairs} == {"Python 3.14t instead of 3.14"}
    assert not found.missing
    scope = want(tmp_path)
    with pytest.raises(UsageError, match=r"no interpreter '2\.7'; declared are"):
        pythons(Checkout(repository), "2.7", scope)
    with pytest.raises(UsageError, match=r"two different sides, found python=3\.14"):
        pythons(Checkout(repository), "3.14", scope)


@pytest.mark.real
def test_settings_are_compared_on_the_same_files(repository: Path, tmp_path: Path) -> None:
    """Of an experiment: each case once, as it is declared if it is, and what follows with it."""
    project, scope = Checkout(repository), want(tmp_path, "asgi-wsgi/*-json/py3.14/*")

    def served(*words: str) -> Sides:
        contrast = Contrast(base=[w for w in words[:1] if w], head=words[1:])
        return sides.prepare(project, contrast, scope)

    def pairs(base: str, head: str) -> list[tuple[str, str, str]]:
        both = affected.find(served(base, head))
        assert (both.cross, both.head.record.kind) == (True, "setting")
        assert (both.base.record.words, both.head.record.words) == ((base,), (head,))
        return [(pair.base.case.id, pair.case.id, pair.reason) for pair in both.pairs]

    uvicorn, granian = "server=uvicorn", "server=granian"
    one, two = JSON, JSON.replace("w1/c128", "w2/c256")
    reason = r"granian 2.8.7 instead of uvicorn 0.54.0"
    # The nights declare the first on uvicorn, too; WSGI is nothing that it serves.
    found = [(f"{one}/uvicorn", one, reason), (f"{two}/server-uvicorn", two, reason)]
    assert pairs(uvicorn, granian) == found
    back = "uvicorn 0.54.0 instead of granian 2.8.7"
    assert pairs(granian, uvicorn) == [(head, base, back) for base, head, _ in found]

    both = served("workers=1", "workers=2")
    assert {(p.base.case.workers, p.case.workers, p.mode) for p in both.pairs} == {
        (1, 2, Mode.ALONE)
    }
    flask = [pair for pair in both.pairs if "wsgi-json" in pair.case.id]
    assert {(pair.base.case.slots, pair.case.slots) for pair in flask} == {(64, 128)}
    assert both.pairs[0].reason == "2 workers instead of 1 worker"

    both = served("", "env.JIT=1")
    assert {(p.base.case.id, "JIT" in p.base.case.env) for p in both.pairs} >= {(one, False)}
    assert {pair.case.env["JIT"] for pair in both.pairs} == {"1"}
    assert both.pairs[0].reason == "JIT=1 instead of no JIT"
    assert not both.pairs[0].alike

    for words, sentence in (
        (
            (granian, "server=hypercorn"),
            "served on both sides: the lock of stack current has no hypercorn",
        ),
        (("threads=1", "threads=4"), "selects no case of base or head"),
        (("", granian), "expected --base server=VALUE and --head server=VALUE"),
        ((granian, granian), "expected two different sides, found server=granian"),
    ):
        scope = replace(scope, select=(f"{JSON}*",))
        with pytest.raises(UsageError, match=sentence):
            served(*words)


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    root = make_tiny(tmp_path / "tiny")
    monkeypatch.setenv("DUETBENCH_ROOT", str(root))
    with serving_beta(monkeypatch, tmp_path / "uv"):
        renew(Checkout.here(), QUIET, as_of=date(2026, 2, 20))
        yield root


@pytest.fixture
def everything(tmp_path: Path) -> Scope:
    return want(tmp_path)


def packages(both: Sides) -> list[dict[str, str]]:
    return [side.testbed.stacks["one"].packages for side in (both.base, both.head)]


@pytest.mark.real
def test_stacks_of_other_dates_and_versions_are_installed(tiny: Path, everything: Scope) -> None:
    lock = Checkout.here().lock_file("one").read_bytes()

    def packed(base: str | None, head: str | None) -> Sides:
        words = [[word] if word else [] for word in (base, head)]
        return sides.prepare(Checkout(tiny), Contrast(base=words[0], head=words[1]), everything)

    both = packed("as-of=2026-01-31", None)
    assert packages(both) == [{"alpha": "1.0", "beta": "1.0"}, {"alpha": "1.0", "beta": "1.5"}]
    base = both.base.record
    assert (base.kind, base.commit, base.label) == ("stack", None, "stacks as of 2026-01-31")
    assert both.head.record.label == "stacks as locked"
    python = both.base.testbed.pythons["one", "3.14"]
    assert list(python.parents[1].glob("lib/python*/site-packages/beta-1.0.dist-info"))
    assert Checkout.here().lock_file("one").read_bytes() == lock

    found = affected.find(both)
    assert reasons(found) == [
        (f"tiny/{name}/py3.14", "beta 1.0 → 1.5") for name in ("dependent", "alone")
    ]
    (move,) = found.packages
    assert (move.stack, move.package, move.base, move.head) == ("one", "beta", "1.0", "1.5")

    # One package in another version moves nothing else.
    both = packed(None, "beta==1.0")
    assert packages(both) == [{"alpha": "1.0", "beta": "1.5"}, {"alpha": "1.0", "beta": "1.0"}]
    assert (both.base.record.label, both.head.record.label) == ("stacks as locked", "beta==1.0")
    both = packed("beta==1.0", "beta==2.0")
    assert [one["beta"] for one in packages(both)] == ["1.0", "2.0"]
    assert (both.base.record.label, both.head.record.label) == ("beta==1.0", "beta==2.0")
    same = affected.find(packed(None, "alpha==1.0"))
    assert same.empty_reason == "base and head do not differ."


@pytest.mark.real
def test_versions_that_cannot_be_had_are_refused(tiny: Path, everything: Scope) -> None:
    def refused(text: str, sentence: str, error: type[Exception] = UsageError) -> None:
        with pytest.raises(error, match=sentence):
            sides.prepare(Checkout(tiny), Contrast(head=[text]), everything)

    refused("beta", "expected PACKAGE==VERSION, or KEY=VALUE with one of python, server")
    refused("beta==1.*", "expected a package and its version")
    refused("delta==1", r"delta==1 changes nothing: expected a package of")
    refused("beta==9", "resolving stack one failed", SetupError)
    project = tiny / "apps" / "pyproject.toml"
    project.write_text(project.read_text().replace('["alpha"]', '["alpha", "beta>=1.5"]'))
    refused("beta==1.0", "resolving stack one failed", SetupError)


@pytest.mark.real
def test_a_repository_without_a_commit_is_copied_whole(tmp_path: Path) -> None:
    """Whoever has just begun has files, and no commit yet."""
    files = {"uv.lock": "", "backend/web.py": "app = None"}
    for name, text in files.items():
        (tmp_path / "new" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "new" / name).write_text(text, "utf-8")
    git(tmp_path / "new", "init", "--quiet")
    with revisions.copies() as folder:
        place = revisions.copy(tmp_path / "new" / "backend", folder)
        assert (place / "web.py").read_text("utf-8") == "app = None"
        assert (place.parent / "uv.lock").exists()
