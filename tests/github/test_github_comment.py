"""The comment on a pull request: one, ours, true to its commit, and harmless whatever is in it."""

import re
from pathlib import Path
from typing import Any

import pytest

from attributing import attribution, row
from bench import Done
from comparing import comparison_of, judged_case
from duetbench.core.model import Verdict
from duetbench.github import comments
from duetbench.store import files
from duetbench.store.attribution import Function
from duetbench.store.comparison import Comparison, Finding, PackageChange
from steps import BASE, BOT, HEAD, NEXT, Step

CPU = "server_cpu_per_request"
RUN = "https://github.com/owner/name/actions/runs/7"
SITE = "https://owner.github.io/name/"
WORDS = f"[what the words mean]({SITE}method/)"
FINAL = ("report", "--pr", "12", "--base", BASE, "--head", HEAD, "--from")


def compared(*found: Finding, head: str = HEAD, **more: Any) -> Comparison:
    side = comparison_of().base
    sides = {
        name: side.model_copy(update={"label": name, "commit": commit})
        for name, commit in (("base", BASE), ("head", head))
    }
    return comparison_of(judged_case("x/a/py3.14", *found), **{**sides, **more})


def judged(verdict: Verdict, metric: str = CPU, **more: Any) -> Finding:
    """A finding of two per cent."""
    fields = {"ratio": 1.021, "low": 1.015, "high": 1.025, "detectable": 0.006, "n": 8}
    return Finding(case="", subject=metric, verdict=verdict, limit=0.02, **{**fields, **more})


WORSE = judged(Verdict.WORSE)


def told(step: Step, *words: str | Path) -> Done:
    """Report what lies in `incoming`."""
    return step(*FINAL, step.folder / "incoming", *words)


def keep(step: Step, comparison: Comparison) -> None:
    files.replace(step.folder / "incoming" / "comparison.json", files.encode(comparison))


def test_a_comment_grows_from_placeholder_to_report(step: Step) -> None:
    """One comment on the pull request, rewritten in place; the last text is the report."""
    with step.connected() as github:
        result = comments.publish(github, 12, comments.KIND, comments.queued(HEAD, RUN))
    assert result.startswith("created https://")
    keep(step, compared(WORSE))
    done = told(step)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("updated https://")
    (body,) = step.ours()
    lines = body.splitlines()
    assert lines[1] == "### ▼ worse: x/a/py3.14 needs 2.1 % more CPU per request"
    assert lines[-1].startswith(
        f"<sub>`{HEAD[:12]}` · [the run, with all figures]({RUN}) · {WORDS}."
    )
    assert step.summary.startswith("### ▼ worse: x/a/py3.14")
    assert step.requests("POST") == ["/issues/12/comments"]
    patched = step.requests("PATCH")
    assert told(step).out.startswith("unchanged")
    assert step.requests("PATCH") == patched


def test_a_spoofed_marker_is_not_ours(step: Step) -> None:
    """Others may write our hidden line; their comment is left alone, and ours is made beside it."""
    forged = f"{comments.marker(comments.KIND, {})}\nAll is fine, merge it"
    others = [step.github.say(12, login, forged) for login in ("mallory", "evil[bot]")]
    others.append(step.github.say(12, BOT, f"> {forged}"))
    keep(step, compared(WORSE))
    assert told(step).code == 0
    assert [other["body"] for other in others] == [forged, forged, f"> {forged}"]
    assert len(step.comments()) == 4


@pytest.mark.parametrize("after", [True, False])
def test_a_lost_answer_doubles_nothing(after: bool, step: Step) -> None:
    """The request is repeated, whether it had arrived or not, and one comment stays."""
    step.github.fail(method="POST", path="comments", after=after, cut=True)
    keep(step, compared(WORSE))
    assert told(step).code == 0
    assert len(step.requests("POST")) == 2
    assert len(step.comments()) == 1


def test_github_down_is_told_and_leaves_what_was_there(step: Step) -> None:
    """Exit code 4 with a sentence; the comment says what it said before."""
    keep(step, compared(WORSE))
    assert told(step).code == 0
    before = step.ours()
    step.github.fail(method="PATCH", status=503, times=-1)
    keep(step, compared(WORSE, notes=("another",)))
    done = told(step)
    assert done.code == 4
    assert "GitHub answered 503 to PATCH" in done.err
    assert "try again later" in done.err
    assert step.ours() == before


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "no comparison has arrived"),
        ("[" * 100_000, "expected a comparison"),
        (compared(WORSE, head=NEXT).model_dump_json(), "commit of head: expected aaaaaaaaaaaa"),
    ],
)
def test_without_a_usable_comparison_the_comment_says_why(
    content: str | None, sentence: str, step: Step
) -> None:
    if content is not None:
        files.replace(step.folder / "incoming" / "comparison.json", content.encode())
    done = told(step)
    assert done.code == 4
    (body,) = step.ours()
    assert body.splitlines()[1] == "### duetbench: no result"
    assert sentence in body.replace("\\", "")
    assert sentence.replace("\u200b", "") in done.err
    assert f"```\n/bench {HEAD}\n```" in body


_ACTIVE = re.compile(r"(?<!\\)<img|(?<!\\)\]\((?!\))")
"""An element, or a link that is not ours, whose address was taken out: neither is escaped."""

HOSTILE = (
    "@everyone #1 GH-2 &#64;team &commat;x https://evil.example www.evil.example "
    "<img src=x onerror=alert(1)> [x](javascript:alert(1)) ![x](//evil.example) `code` "
    "| cell | $(touch /tmp/owned) ${{ github.token }} --> \n::set-env name=X::y\n# title"
)
LINE = HOSTILE.replace("\n", " ")
"""In files, control characters are refused."""


def test_hostile_words_are_shown_and_do_nothing(step: Step) -> None:
    """Reasons, package names and labels come from the machine on which other people's code ran."""
    comparison = compared(
        judged(Verdict.UNKNOWN, ratio=None, low=None, high=None, why=LINE),
        packages=(PackageChange(stack=LINE, package=LINE, base=LINE, head=None),),
        notes=(LINE,),
        reproduce=(LINE,),
    )
    keep(step, comparison)
    assert told(step).code == 0
    (body,) = step.ours()
    lines = [line for line in body.splitlines()[1:] if not line.startswith("    ")]
    printed = "\n".join(lines).replace(RUN, "").replace(f"{SITE}method/", "")
    for message in (printed, comments.failed(HEAD, "", HOSTILE)):
        for active in ("@everyone", "#1", "GH-2", "&#64;", "&commat;", "://", "www.", "\n# title"):
            assert active not in message
        assert "\n::" not in message
        assert "everyone" in message
        assert message.count("$") == message.count("<span>$</span>") > 1
        assert not _ACTIVE.search(message)


def test_the_first_rows_of_an_attribution_stand_below_the_headline(step: Step) -> None:
    """If it is one of this comparison; its words do nothing either."""
    comparison = compared(WORSE)
    function = Function(name=LINE, file=LINE, line=1, package=LINE)
    keep(step, comparison)
    for name, code in ((comparison.id, 0), ("other", 4)):
        explained = attribution(comparison=name, rows=(row(function, 0, 9_000),))
        files.replace(step.folder / "incoming" / "attribution.json", files.encode(explained))
        assert told(step).code == code
        if not code:
            (body,) = step.ours()
            assert body.splitlines()[1].startswith("### ▼ worse")
            visible, _, folded = body.partition("<details>")
            assert " adds 9.0 % of a request (new, " in visible
            assert "**Which code it is**: a/b executes 15.0 % more instructi" in folded
            assert "+9.0 %" in folded
            assert "@everyone" not in body


def test_a_report_always_fits() -> None:
    """Two thousand long rows that got worse: the headline, the worst of them, and a count."""
    cases = [judged_case(f"x/{'long' * 40}{number}/py3.14", WORSE) for number in range(2000)]
    text = comments.report(comparison_of(*cases))
    message = comments.sign(text, HEAD, RUN, f"{SITE}method/")
    assert len(message) <= comments.LIMIT
    assert message.startswith("### ▼ worse in 2000 of 2000 cases")
    assert "the rest did not fit" in message
    assert message.endswith("</sub>\n")


def test_markers_survive_what_is_in_them() -> None:
    """No value ends the hidden line early; what is no marker is none."""
    line = comments.marker("issue", {"key": "a--> <b -- ---", "n": "3"})
    assert line.count("--") == 2
    assert line.count(">") == 1
    assert comments.marker_values("issue", f"{line}\r\nrest") == {"key": "a--> <b -- ---", "n": "3"}
    for body in (None, "", "x", f" {line}", f"text\n{line}", line.replace("{", "[")):
        assert comments.marker_values("issue", body) is None
    assert comments.marker_values("comparison", line) is None
