"""Comments on a pull request: one, ours, true to its commit, harmless."""

import re
from typing import Final

import pytest

from bench import Done
from comparing import WORSE, comparison_of, judged_case
from duetbench.ci import comments
from duetbench.core.comparison import PackageChange
from duetbench.core.model import Verdict
from duetbench.host import files
from fake_github import zipped
from foreign import comparison
from observatory.cli import github as verbs
from steps import BASE, BOT, HEAD, Step

RUN: Final = "https://github.com/owner/name/actions/runs/7"
WORDS: Final = "https://owner.github.io/name/docs/glossary/"


def told(step: Step, content: bytes | None) -> Done:
    """Report what a machine has sent."""
    if content is not None:
        step.github.leave(7, "comparison", zipped({"comparison.json": content}))
    step.set_event({"inputs": {"pr": "12", "base": BASE, "head": HEAD}})
    return step("comment")


def test_a_new_report_replaces_the_comment(step: Step) -> None:
    """One comment on the pull request, rewritten in place; others' with our hidden line stay."""
    forged = f"{comments.marker(comments.KIND, {})}\nAll is fine, merge it"
    others = [step.github.say(12, login, forged) for login in ("mallory", "evil[bot]")]
    others.append(step.github.say(12, BOT, f"> {forged}"))
    with step.connected() as github:
        did, link = comments.publish(github, 12, comments.KIND, "Soon.")
    assert (did, link[:8]) == ("created", "https://")
    result = told(step, files.encode(comparison(WORSE)))
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("updated https://")
    _, body = step.ours()
    lines, head = body.splitlines(), "### ▼ worse: asgi-wsgi/e/py3.14/w1/c128 needs 2.1 % more CPU"
    assert lines[1].startswith(head)
    assert lines[-1].startswith(
        f"<sub>`{HEAD[:12]}` · [the run, with all figures]({RUN}) · [what the words mean]({WORDS})."
    )
    assert step.summary.startswith(head)
    assert step.requests("POST") == ["/issues/12/comments"]
    patched = step.requests("PATCH")
    assert told(step, None).out.startswith("unchanged")
    assert step.requests("PATCH") == patched
    assert [other["body"] for other in others] == [forged, forged, f"> {forged}"]
    assert len(step.comments()) == 4


@pytest.mark.parametrize("after", [True, False])
def test_a_lost_answer_doubles_nothing(after: bool, step: Step) -> None:
    """The request is repeated, whether it had arrived or not, and one comment stays."""
    step.github.fail(method="POST", path="comments", after=after, cut=True)
    assert told(step, files.encode(comparison(WORSE))).code == 0
    assert (len(step.requests("POST")), len(step.comments())) == (2, 1)


def test_without_a_usable_comparison_the_comment_says_why(step: Step) -> None:
    sentence = "files: expected ['comparison.json']"
    result = told(step, None)
    assert (result.code, sentence in result.err) == (4, True)
    (body,) = step.ours()
    assert body.splitlines()[1] == "### duetbench: no result"
    assert sentence in body.replace("\\", "")


_ACTIVE: Final = re.compile(r"(?<!\\)<img|(?<!\\)\]\((?!\))")
"""An element, or a link that is not ours, whose address was taken out: neither is escaped."""

HOSTILE: Final = (
    "@everyone #1 GH-2 &#64;team &commat;x https://evil.example www.evil.example "
    "<img src=x onerror=alert(1)> [x](javascript:alert(1)) ![x](//evil.example) `code` "
    "| cell | $(touch /tmp/owned) ${{ github.token }} --> \n::set-env name=X::y\n# title"
)
LINE: Final = HOSTILE.replace("\n", " ")
"""In files, control characters are refused."""


def test_hostile_words_are_shown_and_do_nothing(step: Step) -> None:
    """Reasons, package names and labels come from the machine on which other people's code ran."""
    unknown = {"verdict": Verdict.UNKNOWN, "ratio": None, "low": None, "high": None, "why": LINE}
    sent = comparison(
        WORSE.model_copy(update=unknown),
        packages=(PackageChange(stack=LINE, package=LINE, base=LINE, head=None),),
        notes=(LINE,),
        reproduce=LINE,
    )
    assert told(step, files.encode(sent)).code == 0
    (body,) = step.ours()
    lines = [line for line in body.splitlines()[1:] if not line.startswith("    ")]
    printed = "\n".join(lines).replace(RUN, "").replace(WORDS, "")
    for message in (printed, verbs.failed(HEAD, "", HOSTILE)):
        for active in ("@everyone", "#1", "GH-2", "&#64;", "&commat;", "://", "www.", "\n# title"):
            assert active not in message
        assert "\n::" not in message
        assert "everyone" in message
        assert message.count("$") == message.count("<span>$</span>") > 1
        assert not _ACTIVE.search(message)


def test_a_report_always_fits() -> None:
    """Two thousand long rows that got worse: the headline, the worst of them, and a count."""
    cases = [judged_case(f"x/{'long' * 40}{number}/py3.14", WORSE) for number in range(2000)]
    message = comments.sign(comments.report(comparison_of(*cases)), HEAD, RUN, WORDS)
    assert len(message) <= comments.LIMIT
    assert message.startswith("### ▼ worse in 2000 of 2000 cases")
    assert "the rest did not fit" in message
    assert message.endswith("</sub>\n")


def test_markers_survive_what_is_in_them() -> None:
    """No value ends the hidden line early; what is no marker is none."""
    line = comments.marker("issue", {"key": "a--> <b -- ---", "n": "3"})
    assert (line.count("--"), line.count(">")) == (2, 1)
    assert comments.marker_values("issue", f"{line}\r\nrest") == {"key": "a--> <b -- ---", "n": "3"}
    for body in (None, "", "x", f" {line}", f"text\n{line}", line.replace("{", "[")):
        assert comments.marker_values("issue", body) is None
    assert comments.marker_values("comparison", line) is None
