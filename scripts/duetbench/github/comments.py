"""Comments on a pull request: what they say, and how there is only one for each thing.

What others wrote is shown and does nothing. Markdown's own characters are escaped where a report is
written (`show.formats.escape`). What GitHub adds afterwards knows no escapes: mentions call people,
references leave marks on other conversations, addresses become links (github/cmark-gfm#181,
github/cmark-gfm#389). A zero-width space in the middle keeps each of them from being one.

By a hidden first line duetbench knows its own comments again, and its issues:

    <!-- duetbench:comparison {"name":"shop"} -->

Anybody can write such a line; it counts only where the account that wrote it is ours. A comment is
replaced by whatever is known next; of several applications of a repository each has one.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from duetbench.core.errors import RecordError
from duetbench.core.model import Verdict
from duetbench.core.text import short, some
from duetbench.github.actions import BOT
from duetbench.github.api import Comment, GitHub
from duetbench.github.incoming import Upgrade
from duetbench.show.change import brief, cause_lines
from duetbench.show.comparison_text import as_markdown
from duetbench.show.formats import escape
from duetbench.store.attribution import Attribution
from duetbench.store.comparison import Comparison, PackageChange

DIGITS: Final = 12
"""Digits of a commit that people see."""

LIMIT: Final = 60_000
"""Characters of a comment or issue. GitHub refuses more than 65,536."""

KIND: Final = "comparison"
ANSWER: Final = "answer"
_NAMED: Final = 8  # packages and series that a sentence names
_ROOM: Final = 2_000  # characters for what stands around the report
_ADVISORY: Final = (
    "Advisory: nothing is blocked by this. Measured on one machine, base and head together; a "
    "change smaller than what the table says could be seen may be there all the same."
)
_ACTIVE: Final = re.compile(
    r"@(?=\w)"  # mentions, and mail addresses
    r"|\#(?=\d)|\bGH-(?=\d)"  # references to issues
    r"|&(?=[#A-Za-z])"  # entities, which could be any of these
    r"|(?<=:)(?=//)|\bwww(?=\.)",  # addresses
    re.IGNORECASE | re.ASCII,
)
_MARKER: Final = re.compile(r"<!-- duetbench:([a-z][a-z/-]*) (\{[^\n]*\}) -->")
_FOLD_END: Final = "\n</details>"
_CUT: Final = "\n\n… the rest did not fit.\n"


def plain(text: str) -> str:
    """Other people's text inside of ours: on one line, and nothing but text."""
    return _broken(escape(text))


def inert(text: str) -> str:
    """A report in Markdown that names things which others named; indented code stays as it is."""
    lines = text.splitlines(keepends=True)
    return "".join(line if line.startswith("    ") else _broken(line) for line in lines)


def _broken(text: str) -> str:
    return _ACTIVE.sub(lambda match: match[0] + "\u200b", text)


def bounded(text: str, limit: int = LIMIT) -> str:
    """Cut a text at the end of a line, so that it fits; what was folded stays folded."""
    if len(text) <= limit:
        return text
    part = text[: max(limit - len(_CUT) - len(_FOLD_END), 0)].rpartition("\n")[0]
    is_open = part.count("<details>") > part.count("</details>")
    return part + (_FOLD_END if is_open else "") + _CUT


def marker(kind: str, values: Mapping[str, str]) -> str:
    """Write the hidden line. Nothing in it can end the HTML comment."""
    written = json.dumps(dict(values), separators=(",", ":"), sort_keys=True)
    # JSON may write any letter as an escape; these could be the end of the comment.
    safe = written.replace(">", "\\u003e").replace("<", "\\u003c").replace("--", "-\\u002d")
    return f"<!-- duetbench:{kind} {safe} -->"


def marker_values(kind: str, body: str | None) -> dict[str, Any] | None:
    """Read the first line of a body of ours; None: there is none of this kind."""
    match = _MARKER.fullmatch((body or "").partition("\n")[0].rstrip("\r"))
    if match is None or match[1] != kind:
        return None
    values: dict[str, Any] = json.loads(match[2])
    return values


def publish(github: GitHub, pull: int, kind: str, body: str, name: str = "") -> str:
    """Write our comment of a kind and name in place of what it said: what was done to which.

    Raises ServiceError.
    """
    body = bounded(f"{marker(kind, {'name': name} if name else {})}\n{body.rstrip()}")
    old = _ours(github, pull, kind, name)
    new = None if old else github.add_comment(pull, body)
    # An answer that was lost has left another.
    _remove(github, (_ours(github, pull, kind, name) if new else old)[1:])
    if new:
        return f"created {new.html_url}"
    if old[0].body == body:
        return f"unchanged {old[0].html_url}"
    return f"updated {github.edit_comment(old[0].id, body).html_url}"


def withdraw(github: GitHub, pull: int, kind: str) -> None:
    """Remove our comment of a kind, where there is one; raises ServiceError."""
    _remove(github, _ours(github, pull, kind, ""))


def _ours(github: GitHub, pull: int, kind: str, name: str) -> list[Comment]:
    """Our comments of a kind and name, the oldest first; there should be one at most."""
    return [
        comment
        for comment in github.comments(pull)
        if comment.author == BOT
        and (values := marker_values(kind, comment.body)) is not None
        and values.get("name", "") == name
    ]


def _remove(github: GitHub, comments: Iterable[Comment]) -> None:
    for comment in comments:
        github.delete_comment(comment.id)


def queued(head: str, url: str) -> str:
    """The placeholder: asked for, not yet measured."""
    return (
        f"### duetbench: queued\n\nThe comparison of `{head[:DIGITS]}` with the commit where it "
        "left its base waits for an approval and for the measuring machine. This comment becomes "
        f"the report. [Follow it]({url})\n"
    )


def failed(head: str, url: str, reason: str) -> str:
    """There is no result, and why."""
    return (
        f"### duetbench: no result\n\nThe comparison of `{head[:DIGITS]}` failed, which says "
        f"nothing about the change. The reason: {plain(reason).rstrip('.')}. [The log]({url}) has "
        f"the details. To ask again:\n\n```\n/bench {head}\n```\n"
    )


def refused(reason: str, head: str | None) -> str:
    """The answer to a request that cannot be granted; head: the commit that could be asked for."""
    answer = f"### duetbench: not started\n\n{reason}\n"
    if head is None:
        return answer
    return (
        f"{answer}\nTo compare a pull request with the commit where it left its base, somebody "
        "with write permission names the commit that they have looked at. This is the newest one; "
        f"look at it, and ask for it on the first line of a comment:\n\n```\n/bench {head}\n```\n"
    )


def report(
    comparison: Comparison, upgrade: Upgrade | None = None, code: Attribution | None = None
) -> str:
    """A comparison as text that does nothing.

    Below its headline stands what an upgrade did, and which code it is. RecordError: the comparison
    holds what cannot be shown.
    """
    try:
        paragraphs = [*_upgrade(comparison, upgrade)] if upgrade is not None else []
        paragraphs += [brief(code)] if code is not None else []
        lead = "".join(f"{paragraph}\n\n" for paragraph in paragraphs)
        body = as_markdown(comparison, lead=lead, end="")
    except Exception as error:  # whatever strange values lead to, it is the file's fault
        name = (comparison.head.commit or comparison.id)[:DIGITS]
        raise RecordError(
            f"the comparison of {name}: expected values that can be shown, found some that "
            f"cannot ({type(error).__name__}: {short(str(error), 100)})"
        ) from error
    return bounded(inert(body), LIMIT - _ROOM)


def signed(text: str, head: str, url: str, words: str) -> str:
    """A report with links to the run's `url` and to the `words` it uses."""
    glossary = f" · [what the words mean]({words})" if words else ""
    return (
        f"{text}\n---\n<sub>`{head[:DIGITS]}` · [the run, with all figures]({url}){glossary}. "
        f"{_ADVISORY}</sub>\n"
    )


def _upgrade(comparison: Comparison, upgrade: Upgrade) -> Iterator[str]:
    # One package may be in the locks of several stacks.
    moved = tuple(dict.fromkeys(map(_package, comparison.packages)))
    packages = escape(some(moved, _NAMED)) or "no package that is installed here"
    yield f"**Upgrade**: nothing but locks differs: {packages}."
    verdicts = {judged.verdict for case in comparison.cases for judged in case.judgements}
    did = verdicts & {Verdict.SLOWER, Verdict.FASTER}
    if upgrade.cause is not None:
        yield f"**Cause**: {escape('; '.join(cause_lines(upgrade.cause)))}."
    elif did and len(moved) == 1:
        yield "**Cause**: no other package moved."
    elif did:
        why = escape(upgrade.note).rstrip(".") or "it was not searched for"
        yield f"**Cause**: not known: {why}."


def _package(change: PackageChange) -> str:
    return f"{change.package} {change.base or 'new'} → {change.head or 'gone'}"
