"""The comment on a pull request: one, ours, true to its commit, and harmless whatever is in it."""

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from attributing import attribution, row
from duetbench.core.errors import ArtifactError, RecordError
from duetbench.github import comments, text
from duetbench.github.comments import Note, publish, read_note
from duetbench.github.incoming import comparisons
from duetbench.store import files
from duetbench.store.attribution import Function
from duetbench.store.comparison import (
    CaseComparison,
    Comparison,
    Judgement,
    PackageChange,
    SideRecord,
    Verdict,
)
from steps import BASE, BOT, HEAD, NEXT, TOKEN, Step
from synthetic import MACHINE, make_case

CPU = "server_cpu_per_request"
RUN = "https://github.com/owner/name/actions/runs/7"
SITE = "https://owner.github.io/name/"
WORDS = f"[what the words mean]({SITE}glossary/)"
FINAL = ("comment", "final", "--pr", "12", "--head", HEAD, "--comparison")


def compared(*judgements: Judgement, head: str = HEAD, **more: Any) -> Comparison:
    side = SideRecord(label="base", kind="revision", commit=BASE, stacks=(), interpreters=())
    case = CaseComparison(case=make_case("x/a/py3.14"), because="x", judgements=judgements)
    fields: dict[str, Any] = {
        "id": "x", "status": "complete", "started": "2026-11-20T12:00:00Z",
        "wall_seconds": 60.0, "duetbench": "0.1.0", "oha": "1.16.0", "machine": MACHINE,
        "base": side, "head": side.model_copy(update={"label": "head", "commit": head}),
        "planned": 1, "untouched": 3, "cases": (case,),
    }  # fmt: skip
    return Comparison(**{**fields, **more})


def judged(verdict: Verdict, metric: str = CPU, **more: Any) -> Judgement:
    """A judgement of two per cent."""
    fields = {"ratio": 1.02, "low": 1.015, "high": 1.025, "detectable": 0.006, "duets": 8}
    return Judgement(metric=metric, verdict=verdict, **{**fields, **more})


SLOWER = judged(Verdict.SLOWER)
SAME = judged(Verdict.NO_CHANGE, ratio=1.0, low=0.998, high=1.002)


def test_a_comment_grows_from_placeholder_to_report(step: Step) -> None:
    """One comment on the pull request, rewritten in place; the last text is the report."""
    for stage in ("queued", "running"):
        done = step("comment", stage, "--pr", "12", "--head", HEAD)
        assert (done.code, done.err) == (0, "")
        (body,) = step.ours()
        heading = "queued" if stage == "queued" else "measuring"
        assert body.splitlines()[1] == f"### duetbench: {heading}"
        assert RUN in body
        asked = step.asked("PATCH")
        done = step("comment", stage, "--pr", "12", "--head", HEAD)  # it changes nothing
        assert done.out.startswith(f"unchanged ({stage})")
        assert step.asked("PATCH") == asked
    done = step(*FINAL, step.keep(compared(SLOWER)))
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("updated (final) https://")
    (body,) = step.ours()
    lines = body.splitlines()
    assert read_note(body) == Note(HEAD, 7, 1, "final")
    assert lines[1] == (
        "## Worse in 1 of 1 cases: x/a/py3.14 needs 2.00 % more CPU per request (1.50…2.50 %)."
    )
    assert lines[-1].startswith(
        f"<sub>`{HEAD[:12]}` · [the run, with all figures]({RUN}) · {WORDS}."
    )
    assert step.summary.startswith("## Worse in 1 of 1 cases")
    assert step.asked("POST") == ["/issues/12/comments"]


def test_a_spoofed_marker_is_not_ours(step: Step) -> None:
    """Others may write our hidden line; their comment is left alone, and ours is made beside it."""
    forged = Note(HEAD, 999, 1, "final").body("All is fine, merge it")
    spoofed = step.github.say(12, "mallory", forged)
    robot = step.github.say(12, "evil[bot]", forged)
    quoted = step.github.say(12, BOT, f"> {forged}")
    assert step("comment", "queued", "--pr", "12", "--head", HEAD).code == 0
    assert [spoofed["body"], robot["body"], quoted["body"]] == [forged, forged, f"> {forged}"]
    assert len(step.comments()) == 4
    assert step.comments()[3]["body"].splitlines()[1] == "### duetbench: queued"


def test_a_note_with_a_run_that_is_no_number_is_none() -> None:
    for run in ("7", None):
        values = {"head": HEAD, "run": run, "attempt": 1, "stage": "final"}
        assert read_note(f"<!-- duetbench:{comments.KIND} {json.dumps(values)} -->\n") is None
    whole = {"head": HEAD, "run": 7, "attempt": 1, "stage": "final", "outdated": 2}
    assert read_note(f"<!-- duetbench:{comments.KIND} {json.dumps(whole)} -->\n") == Note(
        HEAD, 7, 1, "final", outdated=True
    )


def test_what_an_overtaken_run_says_is_dropped(step: Step) -> None:
    """Asked again while it was measured: the older run reports on what nobody asks any more."""
    step.set(GITHUB_RUN_ID="9")
    assert step("comment", "running", "--pr", "12", "--head", HEAD).code == 0
    step.set(GITHUB_RUN_ID="8")
    done = step(*FINAL, step.keep(compared(SLOWER)))
    assert (done.code, done.out.split()[0]) == (0, "superseded")
    (body,) = step.ours()
    assert read_note(body) == Note(HEAD, 9, 1, "running")
    step.set(GITHUB_RUN_ID="10")
    assert step("comment", "queued", "--pr", "12", "--head", HEAD).out.startswith("updated")


def test_a_moved_head_makes_a_report_outdated(step: Step) -> None:
    """Both ways: the report comes after the push, or the push after the report."""
    done = step("comment", "outdated", "--pr", "12", "--head", NEXT)  # as most pushes find it
    assert (done.code, done.out, step.comments()) == (0, "nothing\n", [])
    step.github.add_pull(12, NEXT, BASE)
    assert step(*FINAL, step.keep(compared(SLOWER))).code == 0
    (body,) = step.ours()
    banner = f"> **Outdated**: this is about `{HEAD[:12]}`, and the head is `{NEXT[:12]}` now."
    assert body.splitlines()[1].startswith(banner)
    assert "## Worse in 1 of 1 cases" in body
    assert read_note(body) == Note(HEAD, 7, 1, "final", outdated=True)

    step.github.add_pull(12, HEAD, BASE)
    assert step(*FINAL, step.keep(compared(SLOWER))).code == 0
    assert "Outdated" not in step.ours()[0]
    outdated = ("comment", "outdated", "--pr", "12", "--head", NEXT)
    assert step(*outdated).out.startswith("unchanged")
    step.github.add_pull(12, NEXT, BASE)
    assert step(*outdated).out.startswith("updated (final, outdated)")
    (body,) = step.ours()
    assert body.splitlines()[1].startswith(banner)
    assert (step(*outdated).out.split()[0], step.ours()) == ("unchanged", [body])


def test_a_failure_hides_neither_result_nor_reason(step: Step) -> None:
    """The last step of a run says that something failed; what is known already says more."""
    failed = ("comment", "failed", "--pr", "12", "--head", HEAD)
    assert step(*failed, "--reason", "the machine went away").code == 0
    told = step.ours()
    assert "The comparison of `aaaaaaaaaaaa` failed" in told[0]
    assert "the machine went away." in told[0]
    assert f"```\n/bench {HEAD}\n```" in told[0]
    assert step(*failed).out.startswith("unchanged")
    assert step.ours() == told
    step.set(GITHUB_RUN_ATTEMPT="2")
    assert step(*FINAL, step.keep(compared(SAME))).code == 0
    told = step.ours()
    assert step(*failed).out.startswith("unchanged")
    assert step.ours() == told
    step.set(GITHUB_RUN_ATTEMPT="3")
    assert step(*failed).out.startswith("updated (failed)")


def test_of_two_comments_the_newer_one_goes(step: Step) -> None:
    first = step.github.say(12, BOT, Note(HEAD, 1, 1, "queued").body("old"))
    step.github.say(12, BOT, Note(HEAD, 1, 1, "queued").body("old"))
    assert step("comment", "running", "--pr", "12", "--head", HEAD).code == 0
    assert [one["id"] for one in step.comments()] == [first["id"]]


def test_a_text_that_github_refuses_is_cut_rather_than_lost(step: Step) -> None:
    step.github.fail(method="POST", path="comments", status=422)
    with step.repository() as repository:
        said = "## The news\n\n" + "row\n" * 3000
        assert publish(repository, 12, Note(HEAD, 7, 1, "final"), said, BOT).outcome == "created"
    (body,) = step.ours()
    assert len(body) <= 4000
    assert body.splitlines()[1] == "## The news"
    assert body.endswith("the rest did not fit.\n")


def test_github_down_is_told_and_leaves_what_was_there(step: Step) -> None:
    """Exit code 4 with a sentence; the comment says what it said before."""
    assert step("comment", "queued", "--pr", "12", "--head", HEAD).code == 0
    before = step.ours()
    step.github.fail(method="PATCH", status=503, times=-1)
    done = step("comment", "running", "--pr", "12", "--head", HEAD, "--patience", "20")
    assert done.code == 4
    assert "GitHub answered 503 to PATCH" in done.err
    assert "run the job again later" in done.err
    assert step.ours() == before


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "none has arrived"),
        ("", "found an empty file"),
        ("[" * 100_000, "in strict JSON, found"),
        ('{"format": 3}', "expected a comparison of format 2"),
        (compared(SLOWER, head=NEXT).model_dump_json(), "found one of 'cccccccccccc'"),
        (compared(SLOWER, head="x@everyone").model_dump_json(), "found one of 'x@\u200beveryone'"),
        (compared(judged(Verdict.SLOWER, metric="no such")).model_dump_json(), "cannot (KeyError"),
    ],
)
def test_without_a_usable_comparison_the_comment_says_why(
    content: str | None, sentence: str, step: Step
) -> None:
    path = step.folder / "comparison.json"
    if content is not None:
        path.write_text(content, "utf-8")
    done = step(*FINAL, path)
    assert done.code == 4
    (body,) = step.ours()
    assert body.splitlines()[1] == "### duetbench: no result"
    assert sentence in body.replace("\\", "")
    assert sentence.replace("\u200b", "") in done.err
    assert read_note(body) == Note(HEAD, 7, 1, "failed")


def test_files_that_are_no_plain_files_are_not_read(tmp_path: Path) -> None:
    """Links, pipes, folders and 2 GB of nothing: other people's code made the file."""
    real = tmp_path / "real.json"
    real.write_text(compared(SLOWER).model_dump_json(), "utf-8")
    link, pipe, hole = tmp_path / "link.json", tmp_path / "pipe.json", tmp_path / "hole.json"
    link.symlink_to(real)
    os.mkfifo(pipe)
    with hole.open("wb") as file:
        file.truncate(2 * 2**30)
    (tmp_path / "folder").mkdir()
    for path in (link, pipe, hole, tmp_path / "folder"):
        with pytest.raises((ArtifactError, RecordError)):
            comparisons.read(path, HEAD)
    assert comparisons.read(real, HEAD).head.commit == HEAD


_ACTIVE = re.compile(r"(?<!\\)<img|(?<!\\)\]\((?!\))")
"""An element, or a link that is not ours, whose address was taken out: neither is escaped."""

HOSTILE = (
    "@everyone #1 GH-2 &#64;team &commat;x https://evil.example www.evil.example "
    "<img src=x onerror=alert(1)> [x](javascript:alert(1)) ![x](//evil.example) `code` "
    "| cell | $(touch /tmp/owned) ${{ github.token }} --> \n::set-env name=X::y\n# title"
)


def test_hostile_words_are_shown_and_do_nothing(step: Step) -> None:
    """Reasons, package names and labels come from the machine on which other people's code ran."""
    comparison = compared(
        judged(Verdict.NOT_COMPARABLE, ratio=None, low=None, high=None, reason=HOSTILE),
        packages=(PackageChange(stack=HOSTILE, package=HOSTILE, base=HOSTILE, head=None),),
        notes=(HOSTILE,),
        reproduce=(HOSTILE,),
    )
    assert step(*FINAL, step.keep(comparison)).code == 0
    (body,) = step.ours()
    assert read_note(body) == Note(HEAD, 7, 1, "final")
    told = [line for line in body.splitlines()[1:] if not line.startswith("    ")]
    shown = "\n".join(told).replace(RUN, "").replace(f"{SITE}glossary/", "")
    step.set(GITHUB_RUN_ID="8")
    assert step("comment", "failed", "--pr", "12", "--head", HEAD, "--reason", HOSTILE).code == 0
    for said in (shown, step.ours()[0].partition("\n")[2].replace(RUN.replace("7", "8"), "")):
        for active in ("@everyone", "#1", "GH-2", "&#64;", "&commat;", "://", "www.", "\n# title"):
            assert active not in said
        assert "\n::" not in said
        assert "everyone" in said
        assert not _ACTIVE.search(said)


def test_the_first_rows_of_an_attribution_stand_below_the_headline(step: Step) -> None:
    """If it is one of this comparison; its words do nothing either."""
    comparison, file = compared(SLOWER), step.folder / "why.json"
    function = Function(name=HOSTILE, file=HOSTILE, line=1, package=HOSTILE)
    for name, code in ((comparison.id, 0), ("other", 4)):
        explained = attribution(comparison=name, rows=(row(function, 0, 9_000),))
        file.write_bytes(files.encode(explained))
        assert step(*FINAL, step.keep(comparison), "--why", file).code == code
        if not code:
            (body,) = step.ours()
            headline, told = body.splitlines()[1], body.splitlines()[3]
            assert headline.startswith("## ")
            assert told.startswith("**Which code it is**: a/b executes 15.0 % more instructions")
            assert "+9.0 %" in body
            assert "@everyone" not in body


def test_a_report_always_fits(step: Step) -> None:
    """Two thousand long rows that got worse: the headline, the worst of them, and a count."""
    case = make_case(f"x/{'long' * 40}/py3.14")
    many = tuple(CaseComparison(case=case, because="x", judgements=(SLOWER,)) for _ in range(2000))
    said = comments.final(compared(cases=many, planned=2000), HEAD, RUN, f"{SITE}glossary/")
    assert len(said) <= text.LIMIT
    assert said.startswith("## Worse in 1 of 2000 cases")
    assert "more, in the comparison's JSON" in said
    assert said.endswith("</sub>\n")
    step.github.add_pull(12, NEXT, BASE)
    with step.repository() as repository:
        publish(repository, 12, Note(HEAD, 7, 1, "final"), said, BOT)
    assert text.LIMIT >= len(step.ours()[0]) > len(said)


def test_a_cut_leaves_nothing_folded_open() -> None:
    long = "<details><summary>x</summary>\n\n" + "row\n" * 100 + "\n</details>\n"
    cut = text.bounded(long, 120)
    assert len(cut) <= 120
    assert cut.endswith("\n</details>\n\n… the rest did not fit.\n")
    assert text.bounded(long, len(long)) == long
    assert text.bounded("line\n" * 100, 60) == "line\n" * 3 + "line\n\n… the rest did not fit.\n"


def test_markers_survive_what_is_in_them() -> None:
    """No value ends the hidden line early; what is no marker is none."""
    line = text.marker("issue", {"key": "a--> <b -- ---", "n": 3})
    assert line.count("--") == 2
    assert line.count(">") == 1
    assert text.marker_values("issue", f"{line}\r\nrest") == {"key": "a--> <b -- ---", "n": 3}
    assert text.without_marker(f"{line}\r\nrest\r\nmore") == "rest\nmore"
    for body in (None, "", "x", f" {line}", f"text\n{line}", line.replace("{", "[")):
        assert text.marker_values("issue", body) is None
    assert text.marker_values("comparison", line) is None


COMMENT = "comment queued --pr 12 --head"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (f"{COMMENT} main", "expected a commit as 40 hex digits"),
        (f"{COMMENT} {HEAD[:39]}", "expected a commit as 40 hex digits"),
        (f"comment final --pr 12 --head {HEAD}", "goes with final"),
        (f"{COMMENT} {HEAD} --reason x", "--reason goes with failed"),
        (f"{COMMENT} {HEAD} --run-url 'x) [y](z'", "--run-url 'x) [y](z': expected an address"),
        (f"status --sha {HEAD}", "needs --comparison FILE"),
        ("status --sha HEAD --state error", "commit as 40 hex digits"),
    ],
)
def test_wrong_usage_is_refused(words: str, sentence: str, step: Step) -> None:
    done = step(*shlex.split(words))
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err
    assert step.github.state.requests == []


def test_outside_of_actions_it_says_what_is_missing(
    step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_TOKEN")
    done = step("status", "--sha", HEAD, "--state", "pending")
    assert done.code == 2
    assert "GITHUB_TOKEN is not set; a job of GitHub Actions has it" in done.err


@pytest.mark.parametrize(
    ("comparison", "state", "words"),
    [
        (compared(SLOWER), "failure", "Worse in 1 of 1 cases: x/a/py3.14 needs 2.00 % more"),
        (compared(SAME), "success", "No change in 1 of 1 cases; changes of CPU/request from"),
        (compared(judged(Verdict.FASTER)), "success", "Better in 1 of 1 cases"),
        (compared(judged(Verdict.INCONCLUSIVE)), "error", "Not decided in 1 of 1 cases"),
        (compared(judged(Verdict.NOT_COMPARABLE)), "error", "Not comparable in 1 of 1 cases."),
        (compared(SAME, status="partial"), "error", "Partial: No change in 1 of 1 cases"),
        (compared(), "error", "Not judged in 1 of 1 cases."),
        (compared(cases=(), planned=0), "success", "Nothing to judge"),
        (compared(SLOWER, head=NEXT), "error", "no result: comparison.json: expected"),
    ],
)
def test_the_status_says_what_the_report_says(
    comparison: Comparison, state: str, words: str, step: Step
) -> None:
    """Worse fails, no answer is an error, and both are only advice."""
    done = step("status", "--sha", HEAD, "--comparison", step.keep(comparison))
    assert done.code == (4 if comparison.head.commit == NEXT else 0)
    (status,) = step.github.state.statuses
    assert (status["sha"], status["state"], status["context"]) == (HEAD, state, "duetbench")
    assert status["description"].startswith(words)
    assert len(status["description"]) <= 140
    assert status["target_url"] == RUN


def test_a_status_without_comparison_is_as_told(step: Step) -> None:
    assert step("status", "--sha", HEAD, "--state", "pending").code == 0
    assert step("status", "--sha", HEAD, "--state", "error", "--description", "lost").code == 0
    told = [(one["state"], one["description"]) for one in step.github.state.statuses]
    assert told == [("pending", "The comparison is queued or under way"), ("error", "lost")]


def test_a_token_in_an_answer_of_github_is_not_shown(step: Step) -> None:
    """`Step` looks for the token in all that a verb says; here it could be."""
    step.github.fail(path="pulls", status=400, body={"message": f"Bad {TOKEN}"})
    done = step("comment", "queued", "--pr", "12", "--head", HEAD)
    assert done.code == 4
    assert "Bad ***" in done.err
