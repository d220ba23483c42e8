"""Comments on a pull request: their text, and one comment only for each subject.

Untrusted text is shown and has no effect. Reports escape Markdown's own characters
(`report.formats.escape`). GitHub's additions know no escapes: mentions notify people, references
leave marks on other conversations, addresses become links (github/cmark-gfm#181,
github/cmark-gfm#389). A zero-width space inside each of them prevents that. Between two dollars is
a formula; within an element, as GitHub advises, a dollar is only a dollar.

A hidden first line identifies duetbench's own comments:

    <!-- duetbench:comparison {} -->

Anybody can write such a line, so it counts only in comments by the bot's account. A new report
replaces the text of a comment.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from duetbench.ci.actions import BOT
from duetbench.ci.api import GitHub
from duetbench.core.change import Cause
from duetbench.core.comparison import Comparison
from duetbench.report.cause import cause_lines
from duetbench.report.formats import escape
from duetbench.report.report import as_markdown, make_report

DIGITS: Final = 12
"""Digits of a commit that readers see."""

LIMIT: Final = 60_000
"""Characters of a comment. GitHub refuses more than 65,536."""

KIND: Final = "comparison"
_ANNOTATED: Final = 3  # functions
_ROOM: Final = 2_000  # characters for the text around the report
_ACTIVE: Final = re.compile(
    r"@(?=\w)"  # mentions, and mail addresses
    r"|\#(?=\d)|\bGH-(?=\d)"  # references to issues
    r"|&(?=[#A-Za-z])"  # entities, which could be any of these
    r"|(?<=:)(?=//)|\bwww(?=\.)",  # addresses
    re.IGNORECASE | re.ASCII,
)
_FOLD_END: Final = "\n</details>"
_CUT: Final = "\n\n… the rest did not fit.\n"


def plain(text: str) -> str:
    """Make untrusted text part of a line: on one line, and without effect."""
    return _break(escape(text))


def _break(text: str) -> str:
    broken = _ACTIVE.sub(lambda match: match[0] + "\u200b", text)
    return broken.replace("$", "<span>$</span>")


def cut(text: str, limit: int = LIMIT) -> str:
    """Cut a text that is too long at the end of a line; folded parts stay folded."""
    if len(text) <= limit:
        return text
    part = text[: max(limit - len(_CUT) - len(_FOLD_END), 0)].rpartition("\n")[0]
    is_open = part.count("<details>") > part.count("</details>")
    return part + (_FOLD_END if is_open else "") + _CUT


def marker(kind: str) -> str:
    """Return the hidden line of a kind of comment."""
    return f"<!-- duetbench:{kind} {{}} -->"


def publish(github: GitHub, pull: int, kind: str, body: str) -> str:
    """Write the comment of a kind in place of its old text; return what was done, where.

    Raises ServiceError.
    """
    body = cut(f"{marker(kind)}\n{body.rstrip()}")
    old = own(github, pull, kind)
    new = None if old else github.send("POST", f"/issues/{pull}/comments", body=body)
    # A lost answer may have left a second one.
    remove(github, (own(github, pull, kind) if new else old)[1:])
    if new:
        return f"created {new['html_url']}"
    if old[0]["body"] == body:
        return f"unchanged {old[0]['html_url']}"
    edited = github.send("PATCH", f"/issues/comments/{old[0]['id']}", body=body)
    return f"updated {edited['html_url']}"


def own(github: GitHub, pull: int, kind: str) -> list[dict[str, Any]]:
    """Return the bot's comments of a kind, the oldest first; normally at most one."""
    return [
        comment
        for comment in github.get_all(f"/issues/{pull}/comments")
        # A deleted account is null.
        if (comment["user"] or {}).get("login") == BOT
        if (comment["body"] or "").splitlines()[:1] == [marker(kind)]
    ]


def remove(github: GitHub, comments: Iterable[Mapping[str, Any]]) -> None:
    """Remove comments; one that is gone already is fine."""
    for comment in comments:
        github.send("DELETE", f"/issues/comments/{comment['id']}", absent={404})


def report(comparison: Comparison, cause: Cause | None = None) -> str:
    """Return a comparison as text without effects, with its cause."""
    lead = [f"**Cause**: {escape('; '.join(cause_lines(cause)))}."] if cause else ()
    lines = as_markdown(comparison, lead=lead).splitlines(keepends=True)
    # Indented code has no effects, and stays as it is.
    body = "".join(line if line.startswith("    ") else _break(line) for line in lines)
    return cut(body, LIMIT - _ROOM)


def annotations(comparison: Comparison) -> Iterator[tuple[str, str, str, int]]:
    """Yield a level, a text, a file and a line for functions that differ and are called."""
    verdict, covered = make_report(comparison).headline, comparison.coverage
    if not covered or not any(finding.moved for finding in comparison.findings):
        return
    level = "notice" if verdict.startswith("▲") else "warning"
    for function in covered.functions[:_ANNOTATED]:
        name, _, where = function.rpartition(", ")
        file, _, line = where.rpartition(":")
        if file and line.isdecimal():
            yield level, f"{verdict}; {name} differs and is called", file, int(line)


def sign(text: str, head: str, url: str, words: str) -> str:
    """Return a report with links to the run's `url` and to the meaning of its `words`."""
    glossary = f" · [what the words mean]({words})" if words else ""
    return (
        f"{text}\n---\n<sub>`{head[:DIGITS]}` · [the run, with all figures]({url}){glossary}. "
        "Smaller changes may have been missed.</sub>\n"
    )
