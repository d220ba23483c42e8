"""Locks by date: bumped in commits of their own, found again, and measured against each other."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Final

import pytest

from bare import QUIET, QUIETLY
from bench import Bench
from detecting import CPU, MACHINE, moved_at, run_of
from duetbench.core.change import Cause
from duetbench.core.comparison import Duet, PackageChange
from duetbench.core.errors import HistoryError, SetupError, UsageError
from duetbench.judge import causes, comparison
from duetbench.judge.pairs import Pair
from fake_sessions import make_duet, note_sessions
from observatory.github import lock_branch
from observatory.matrix.checkout import Checkout
from observatory.matrix.checkout import renew as renew_locks
from observatory.store.change import Change, SeriesName, StackState
from observatory.store.history_branch import Remote
from observatory.trend.confirm import compare_stacks, find_locks
from repos import borrow_cache, commit, git, make_tiny, protect, write
from tiny_index import serving, serving_beta

LOCK = "apps/stacks/one.txt"


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository whose stack was locked at the end of January, in its only commit."""
    borrow_cache(tmp_path / "cache", monkeypatch)
    root = make_tiny(tmp_path / "tiny")
    declared = root / "apps" / "tiny" / "experiment.toml"
    declared.write_text(declared.read_text().replace("quick", "nightly"))
    monkeypatch.setenv("DUETBENCH_ROOT", str(root))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    git(tmp_path, "init", "--quiet", "--initial-branch=main", str(root))
    with serving_beta(monkeypatch, tmp_path / "uv"):
        renew_locks(Checkout.here(), QUIET, as_of=date(2026, 1, 31))
        write(root, ".gitignore", "__pycache__/\n")
        commit(root, "Everything")
        yield root


@dataclass(frozen=True)
class Bumps:
    """A repository with two locks: the commits at which each was measured, and their digests."""

    root: Path
    commits: tuple[str, str]
    digests: tuple[str, str]

    def candidate(self, **changes: object) -> Change:
        """Both cases moved between the locks."""
        made = moved_at(
            *(SeriesName(machine=MACHINE, case=f"tiny/{name}/py3.14", metric=CPU)
              for name in ("alone", "dependent")),
            packages=(PackageChange(stack="one", package="beta", base="1.0", head="1.5"),),
        )  # fmt: skip
        ours = {
            "base": StackState(stack="one", digest=self.digests[0]),
            "head": StackState(stack="one", digest=self.digests[1]),
            "base_commit": self.commits[0],
            "head_commit": self.commits[1],
        }
        return made.model_copy(update={**ours, **changes})


@pytest.fixture
def bumps(tiny: Path) -> Bumps:
    """Locked at the end of January and in mid-February; the checkout has a third lock by now."""
    commits, digests = [git(tiny, "rev-parse", "HEAD")], [Checkout.here().lock("one").digest]
    renew_locks(Checkout.here(), QUIET, as_of=date(2026, 2, 20))
    commits.append(lock_branch.commit(tiny, "Locks", lock_branch.LOCKS))
    digests.append(Checkout.here().lock("one").digest)
    renew_locks(Checkout.here(), QUIET)
    lock_branch.commit(tiny, "Locks", lock_branch.LOCKS)
    return Bumps(tiny, (commits[0], commits[1]), (digests[0], digests[1]))


def making(instruments: object) -> Any:
    return lambda: instruments


@pytest.mark.real
def test_both_stacks_are_measured_as_they_were(
    bumps: Bumps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the locks of then, installed, on the applications of now."""
    sessions = note_sessions(monkeypatch)
    actual = compare_stacks(
        Checkout(bumps.root, "nightly"), bumps.candidate(), 90.0, reporter=QUIETLY
    )
    (session,) = sessions
    assert session.extent.seconds == 90.0
    assert session.reporter is QUIETLY
    sides = session.sides.base, session.sides.head
    for side, version, digest in zip(sides, ("1.0", "1.5"), bumps.digests, strict=True):
        stack = side.testbed.stacks["one"]
        assert (stack.packages["beta"], stack.digest) == (version, digest)
        python = side.testbed.pythons["one", "3.14"]
        assert list(python.parents[1].glob(f"lib/python*/site-packages/beta-{version}.dist-info"))
    cases = [f"tiny/{name}/py3.14" for name in ("dependent", "alone")]
    assert [pair.case.id for pair in session.sides.pairs] == cases
    assert session.sides.untouched == 0
    for problem in session.seen.reasons.values():  # what one request does was looked at
        assert "expected an application, found module" in problem
    assert actual.base.label == f"one of {run_of(19)}"
    assert Checkout.here().lock("one").packages["beta"] == "2.0"  # the checkout's own lock stays


@pytest.mark.real
def test_a_lock_is_found_by_its_digest(bumps: Bumps, tmp_path: Path) -> None:
    """At the commit that was measured, fetched into a shallow history, or resolved."""
    before, after = find_locks(Checkout(bumps.root), bumps.candidate(), QUIET)
    digests = [hashlib.sha256(text.encode()).hexdigest() for text in (before, after)]
    assert tuple(digests) == bumps.digests

    git(bumps.root, "config", "uploadpack.allowAnySHA1InWant", "true")
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "--quiet", "--depth=1", bumps.root.as_uri(), str(shallow))
    assert find_locks(Checkout(shallow), bumps.candidate(), QUIET) == (before, after)

    # One that is gone is resolved again, if it has a date.
    lost = StackState(stack="one", digest="0" * 64)
    with pytest.raises(HistoryError, match="the lock of the stack one"):
        find_locks(Checkout(bumps.root), bumps.candidate(base=lost), QUIET)
    old, new = (lost.model_copy(update={"as_of": f"2026-{day}"}) for day in ("01-31", "02-20"))
    before, after = find_locks(Checkout(bumps.root), bumps.candidate(base=old, head=new), QUIET)
    assert ("beta==1.0 " in before, "beta==1.5 " in after) == (True, True)


@pytest.fixture
def origin(tiny: Path, tmp_path: Path) -> Remote:
    """A remote that has what the repository has, and whose main takes no push."""
    place = tmp_path / "origin.git"
    git(tmp_path, "clone", "--quiet", "--bare", str(tiny), str(place))
    git(tiny, "remote", "add", "origin", str(place))
    protect(place)
    return Remote(str(place))


def advance(root: Path, origin: Remote, **how: Any) -> str:
    """Renew the locks of a repository on the branch."""
    return lock_branch.advance(root, origin, lambda at: renew_locks(Checkout(at), QUIET), **how)[0]


def chain(origin: Remote) -> list[str]:
    """The subjects of the branch's commits, the newest first, as asv follows them."""
    words = ("log", "--first-parent", "--format=%s", lock_branch.BRANCH)
    return git(Path(origin.address), *words).splitlines()


@pytest.mark.real
def test_a_bump_is_a_commit_of_the_locks_alone(
    tiny: Path,
    origin: Remote,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a branch of its own, which main can be protected from; the checkout stays as it is."""
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    command = Bench(tiny, tmp_path, "bumping", capsys, monkeypatch)
    write(tiny, "staged.txt", "staged")
    git(tiny, "add", "staged.txt")
    write(tiny, "apps/tiny/alone.py", "changed = True\n")
    main = git(tiny, "rev-parse", "HEAD")
    result = command("observatory", "stack", "bump")
    assert result.code == 0, result
    there = Path(origin.address)
    tip = git(there, "rev-parse", lock_branch.BRANCH)
    shown = git(there, "show", "--name-only", "--format=%P%n%s%n%b", tip).splitlines()
    assert [line for line in shown if line] == [
        main,
        "Stacks: beta 2.0",
        "- beta 1.0 → 2.0 (one)",
        LOCK,
    ]
    assert git(there, "rev-parse", "main") == git(tiny, "rev-parse", "main") == main
    status = git(tiny, "status", "--porcelain").split()
    assert sorted(status) == ["A", "M", "apps/tiny/alone.py", "staged.txt"]
    assert git(tiny, "worktree", "list").count("\n") == 0
    sentence = (tmp_path / "output").read_text().split()
    assert [word for word in sentence if word in {main, tip}] == [main, tip]

    result = command("observatory", "stack", "bump")
    assert result.out == f"no package moved\ncommit {tip}\n"


@pytest.mark.real
def test_the_branch_of_the_locks_follows_the_code(tiny: Path, origin: Remote) -> None:
    """One line of commits: main's code is taken over, but neither its locks nor its workflows."""
    workflow = ".github/workflows/one.yml"
    commit(tiny, "A workflow", **{workflow: "name: One\n"})
    first = advance(tiny, origin)
    kept = git(tiny, "show", f"{first}:{LOCK}")
    main = commit(
        tiny, "Later", **{"apps/tiny/alone.py": "later = True\n", workflow: "name: Two\n",
                          ".github/workflows/new.yml": "name: New\n", "gone.txt": ""},
    )  # fmt: skip

    def broken(_: Path) -> list[PackageChange]:
        raise SetupError("the index is down")

    reached: list[str] = []
    with pytest.raises(SetupError):
        lock_branch.advance(tiny, origin, broken, reached=reached.append)
    there = Path(origin.address)
    tip = git(there, "rev-parse", lock_branch.BRANCH)
    assert reached == [tip]  # what can be measured although the locks cannot be renewed
    code, *others = chain(origin)
    assert (code, others[0]) == (f"Code of {main[:12]}", "Stacks: beta 2.0")
    changed = git(there, "diff", "--name-only", f"{tip}~1", tip).split()
    assert changed == ["apps/tiny/alone.py", "gone.txt"]
    assert git(there, "show", f"{tip}:{LOCK}") == kept
    # Nothing more to take over: the branch stays where it is.
    assert advance(tiny, origin) == tip


@pytest.mark.real
def test_what_somebody_pushes_beside_the_locks_is_not_measured(
    tiny: Path, origin: Remote, tmp_path: Path
) -> None:
    """The branch need not be protected as main is: its code is main's, whoever says otherwise."""
    code = "apps/tiny/alone.py"
    main = git(tiny, "rev-parse", "main")
    advance(tiny, origin)
    git(tmp_path, "clone", "--quiet", "--branch", lock_branch.BRANCH, origin.address, "theirs")
    theirs = tmp_path / "theirs"
    commit(theirs, "Mine", **{code: "stolen = True\n", "extra.py": "", LOCK: "beta==9\n"})
    git(theirs, "push", "--quiet", "origin", lock_branch.BRANCH)
    actual, _ = lock_branch.advance(tiny, origin, lambda _: ())
    assert chain(origin)[0] == f"Code of {main[:12]}"
    assert git(tiny, "diff", "--name-only", actual, main).split() == [LOCK]
    assert git(tiny, "show", f"{actual}:{LOCK}") == "beta==9"  # its packages have a room
    assert lock_branch.advance(tiny, origin, lambda _: ()) == (actual, ())


@pytest.mark.real
def test_two_nights_at_once_make_one_line(tiny: Path, origin: Remote, tmp_path: Path) -> None:
    """Who is late begins again from what the other has pushed."""
    others = tmp_path / "others"
    git(tmp_path, "clone", "--quiet", origin.address, str(others))
    tips: list[str] = []

    def renew(root: Path) -> tuple[PackageChange, ...]:
        if not tips:  # in the middle of ours, theirs is whole
            day = date(2026, 2, 20)
            theirs, _ = lock_branch.advance(
                others, origin, lambda root: renew_locks(Checkout(root), QUIET, as_of=day)
            )
            tips.append(theirs)
        return renew_locks(Checkout(root), QUIET)

    sentence: list[str] = []
    mine, _ = lock_branch.advance(tiny, origin, renew, say=sentence.append)
    assert len(sentence) == 1
    assert chain(origin) == ["Stacks: beta 2.0", "Stacks: beta 1.5", "Everything"]
    assert git(tiny, "rev-parse", f"{mine}~1") == tips[0]


@dataclass
class Ratios:
    """Instruments whose head takes as much longer as a version of `gamma` says."""

    first: list[bool] = field(default_factory=list)

    def duets(self, pairs: Sequence[Pair], *, head_first: bool, order: int) -> tuple[Duet, ...]:
        ((base, head),) = (pair.sides for pair in pairs)
        self.first.append(head_first)
        versions = [side.testbed.stacks["one"].packages for side in (base, head)]
        assert all(item["wrap"][0] == item["core"][0] for item in versions)
        grown = 1.05 if versions[0]["gamma"] != versions[1]["gamma"] else 1.0
        figures = {"server_cpu_per_request": 1e-4}, {"server_cpu_per_request": 1e-4 * grown}
        return (make_duet(head.case.id, order, *figures, head_first=head_first),)

    def instructions(self, *_: object) -> str:
        return "not counted"


@pytest.fixture
def four(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """Two locks of a stack in which four packages moved; of two each pins the other."""
    borrow_cache(tmp_path / "cache", monkeypatch)
    root = make_tiny(tmp_path / "tiny")
    needs = '"beta", "gamma", "wrap", "core"'
    file = root / "apps" / "pyproject.toml"
    file.write_text(file.read_text().replace('"alpha"', needs))
    write(root, "apps/tiny/dependent.py", "import beta, core, gamma, wrap\n\napp = beta\n")
    monkeypatch.setenv("DUETBENCH_ROOT", str(root))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    actual = []
    with serving(monkeypatch, tmp_path / "uv") as index:
        for version, day in (("1.0", date(2026, 1, 10)), ("2.0", date(2026, 2, 10))):
            for name in ("beta", "gamma", "core"):
                index.add(name, version, str(day))
            index.add("wrap", version, str(day), (f"core=={version}",))
            text = Checkout(root).resolve("one", date.fromordinal(day.toordinal() + 5))
            actual.append(text)
            write(root, "apps/stacks/one.txt", text)
        yield actual[0], actual[1]


DEPENDENT: Final = "tiny/dependent/py3.14"


@pytest.mark.real
def test_a_release_is_found_between_two_locks(
    four: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The locks between are resolved, and their sides really prepared; duets are made up."""
    here = Checkout(tmp_path / "tiny")

    def find(base: str, head: str, ratios: Ratios) -> Cause:
        monkeypatch.setattr(comparison, "Real", making(ratios))
        return causes.search_locks(here, "one", (base, head), DEPENDENT, 6000.0, QUIETLY, CPU)

    with pytest.raises(UsageError, match="same versions"):
        find(four[0], four[0], Ratios())
    ratios = Ratios()
    cause = find(*four, ratios)
    assert ratios.first[:4] in ([True, False] * 2, [False, True] * 2)
    (share,) = cause.shares
    assert [(item.package, item.previous, item.version) for item in share.releases] == [
        ("gamma", "1.0", "2.0")
    ]
    assert share.interval.estimate == pytest.approx(1.05)
    assert (cause.suspects, cause.reason) == ((), "")
