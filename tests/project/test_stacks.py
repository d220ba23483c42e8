"""Stacks: what a lock says, and renewing locks against a real index."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from bare import QUIET
from bench import Shell
from duetbench.app import interpreters, stacks
from duetbench.core.errors import DeclarationError, SetupError, UsageError
from observatory.matrix.checkout import Checkout, lock_stacks
from repos import make_tiny
from tiny_index import Index

HASH = "--hash=sha256:" + "a" * 64


@pytest.fixture
def checkout(tmp_path: Path, beta_index: Index, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one stack, `one`, and the index of `beta` as the only one."""
    assert beta_index.files
    return make_tiny(tmp_path / "checkout", monkeypatch)


def test_locking_as_of_a_date_and_then_of_today(checkout: Path) -> None:
    """The as-of date hides what came later; only what moved is another line afterwards.

    What is no group is wrong usage; a group without lock names the remedy, and where uv finds no
    solution, no lock changes.
    """
    lock = checkout / "apps" / "stacks" / "one.txt"
    with pytest.raises(UsageError, match=r"no stack 'two': .* are one$"):
        lock_stacks(Checkout.here(), QUIET, ["two"])
    with pytest.raises(SetupError, match="run `observatory lock one`"):
        Checkout.here().lock("one")
    lock_stacks(Checkout.here(), QUIET, as_of=date(2026, 2, 1))
    before = lock.read_text().splitlines()
    assert Checkout.here().lock("one").packages == {"alpha": "1.0", "beta": "1.0"}
    lock_stacks(Checkout.here(), QUIET, ["one"])
    after = lock.read_text().splitlines()
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False]
    assert Checkout.here().lock("one").packages == {"alpha": "1.0", "beta": "2.0"}
    with pytest.raises(SetupError, match="resolving stack one failed"):
        lock_stacks(Checkout.here(), QUIET, as_of=date(2020, 1, 1))
    assert lock.read_text().splitlines() == after
    assert [file.name for file in lock.parent.iterdir()] == ["one.txt"]


@pytest.mark.real
@pytest.mark.usefixtures("checkout")
def test_an_environment_is_made_from_a_lock_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by name, and made again if its Python is gone."""
    interpreter = Checkout.here().interpreter("3.14t")
    lock_stacks(Checkout.here(), QUIET)
    stack = Checkout.here().lock("one")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(SetupError, match=r"no environment for 3\.14t .*run `observatory setup`"):
        stacks.executable(stack, interpreter)
    for times in range(2):
        assert stacks.make_environment(stack, interpreter, QUIET)
        assert not stacks.make_environment(stack, interpreter, QUIET)
        python = stacks.executable(stack, interpreter)
        assert interpreters.identify(python).version == interpreter.version, times
        python.unlink()


def test_no_release_runs_code_where_that_is_asked_for(
    checkout: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release without a wheel would be built for its metadata; the one before it is taken."""
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")  # uv takes it for cut short, and asks again
    index.files["alpha-3.0.tar.gz"] = ("alpha", "2026-04-01", b"nothing that can be unpacked")
    with pytest.raises(SetupError, match="resolving stack one failed"):
        lock_stacks(Checkout.here(), QUIET)
    monkeypatch.setenv("UV_NO_BUILD", "1")
    lock_stacks(Checkout.here(), QUIET)
    lock = checkout / "apps" / "stacks" / "one.txt"
    assert lock.read_text().splitlines()[0].startswith("alpha==1.0 ")


def test_a_lock_holds_nothing_but_pinned_packages(tmp_path: Path) -> None:
    """Unpinned, unhashed and foreign lines are refused with file, line and remedy."""
    for line in (f"alpha {HASH}", f"alpha>=1 {HASH}", "alpha==1", f"==1 {HASH}", "-r other.txt"):
        (lock := tmp_path / "lock.txt").write_text(line + "\n")
        with pytest.raises(DeclarationError, match=r"lock\.txt: line: found .*observatory lock"):
            stacks.read_lock("one", lock, "3.14.0")


def test_the_pydantic_arms_differ_in_nothing_else() -> None:
    """Packages that both arms have are the same versions; what only one has is Pydantic's own."""
    first, second = (Checkout.here().lock(f"pydantic-{arm}").packages for arm in ("v1", "v2"))
    assert {name for name in first if first[name] != second[name]} == {"pydantic"}
    assert (first["pydantic"][:2], second["pydantic"][:2]) == ("1.", "2.")
    assert second.keys() - first.keys() == {"annotated-types", "pydantic-core", "typing-inspection"}


@pytest.mark.usefixtures("checkout")
def test_nights_wait_before_they_lock_a_release(index: Index, call: Shell) -> None:
    """Three days by default, none where that is asked for."""
    today = datetime.now(UTC).date()
    lock_stacks(Checkout.here(), QUIET)
    index.add("alpha", "2.0", (today - timedelta(days=1)).isoformat(), ("beta",))
    index.add("beta", "3.0", (today - timedelta(days=1)).isoformat())
    index.add("beta", "2.5", (today - timedelta(days=9)).isoformat())

    def locked(*words: str) -> dict[str, str]:
        call.done("observatory", "lock", *words)
        return dict(Checkout.here().lock("one").packages)

    assert locked() == {"alpha": "1.0", "beta": "2.5"}
    assert locked("--cooldown-days", "0") == {"alpha": "2.0", "beta": "3.0"}
    call.refused("cooldown-days", "observatory", "lock", "--cooldown-days", "-1")
