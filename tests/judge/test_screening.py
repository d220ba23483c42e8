"""Instructions of two commits side by side: what is told, and how it ends."""

import json
from pathlib import Path

import pytest

from bench import Bench
from duetbench.cli import inprocess as verb
from duetbench.show.asv_figures import FLOOR, CountRow, headline, markdown, screen
from duetbench.store.asv_results import Reading, ReadingStatus, Snapshot
from repos import commit, git, make_repository

BASE, HEAD = "b" * 40, "a" * 40


def reading(endpoint: str, value: float | None, python: str = "3.14") -> Reading:
    status: ReadingStatus = "failed" if value is None else "measured" if value >= 0 else "skipped"
    return Reading(
        benchmark="instructions.Requests.track_request",
        params=(("endpoint", endpoint),),
        python=python,
        stack="current",
        unit="instructions",
        status=status,
        value=value if status == "measured" else None,
    )


def snapshot(commit_: str, *readings: Reading) -> Snapshot:
    return Snapshot("m", 2, "", commit_, 0, 0, readings)


def name(endpoint: str, python: str = "3.14") -> str:
    return f"Requests.track_request({endpoint}) on {python}, current"


def test_two_commits_are_held_against_each_other() -> None:
    """By hand: +10 %, the same, −20 %, broken, mended, new, and one that is left out on both."""
    before = snapshot(
        BASE, reading("a", 1000), reading("b", 1000), reading("c", 1000), reading("d", 1000),
        reading("e", None), reading("x", -1),
    )  # fmt: skip
    after = snapshot(
        HEAD, reading("a", 1100), reading("b", 1000), reading("c", 800), reading("d", None),
        reading("e", 1000), reading("f", 1000), reading("x", -1),
    )  # fmt: skip
    found = screen(before, after)
    assert found.rows == (
        CountRow(name("a"), 1000, 1100),
        CountRow(name("b"), 1000, 1000),
        CountRow(name("c"), 1000, 800),
    )
    assert [row.name for row in found.more] == [name("a")]
    assert [row.name for row in found.fewer] == [name("c")]
    assert (found.broken, found.others, found.exit_code) == ((name("d"),), 2, 1)
    assert headline(found) == (
        "1 of 3 execute more instructions, at most +10.0 %; 1 fewer, at most −20.0 %; 1 broken"
    )


def test_interpreters_are_told_apart() -> None:
    before = snapshot(BASE, reading("a", 1000), reading("a", 2000, "3.14t"))
    after = snapshot(HEAD, reading("a", 1000), reading("a", 2400, "3.14t"))
    assert [row.name for row in screen(before, after).more] == [name("a", "3.14t")]


@pytest.mark.parametrize(
    ("after", "code"),
    [(1000, 0), (1000 * (1 + FLOOR), 1), (1000 * (1 + FLOOR / 2), 0), (500, 0), (None, 1), (-1, 3)],
)
def test_exit_codes_say_how_it_ended(after: float | None, code: int) -> None:
    found = screen(snapshot(BASE, reading("a", 1000)), snapshot(HEAD, reading("a", after)))
    assert found.exit_code == code


def test_the_summary_is_bounded_and_quotes_names() -> None:
    many = [reading(f"e{n:03}|<b>", 1000) for n in range(100)]
    more = [reading(f"e{n:03}|<b>", 2000 + n) for n in range(100)]
    text = markdown(screen(snapshot(BASE, *many), snapshot(HEAD, *more)), "base", "head")
    assert "60 more are not shown." in text
    assert "<b>" not in text.replace(r"\<b\>", "")
    assert text.index("e099") < text.index("e098")


def test_the_verb_counts_both_commits_and_tells(
    tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_repository(tmp_path / "repository")
    base = git(root, "rev-parse", "HEAD")
    head = commit(root, "Words", **{"README.md": "# Words\n"})
    monkeypatch.setenv("DUETBENCH_ROOT", str(root))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    figures = {base: 1000.0, head: 1500.0}
    monkeypatch.setattr(
        verb, "counted", lambda _, sha, __: snapshot(sha, reading("a", figures[sha]))
    )
    done = bench("ci", "screen", "HEAD~1")
    assert done.code == 1
    assert "1 of 1 execute more instructions, at most +50.0 %" in done.out
    assert f"Instructions of `{head[:12]}` held against `{base[:12]}`." in done.out
    assert done.out in (tmp_path / "summary.md").read_text()
    done = bench("ci", "screen", head, base, "--json")
    assert done.code == 0
    assert json.loads(done.out)["rows"][0]["ratio"] == pytest.approx(2 / 3)
    done = bench("ci", "screen", "nowhere")
    assert (done.code, "'nowhere' is no revision here" in done.err) == (2, True)
