"""Comments on a pull request, and issues: what they say, and how there is only one for each thing.

What others wrote is shown and does nothing. Markdown's own characters are escaped where a report is
written (`show.formats.escape`). What GitHub adds afterwards knows no escapes: mentions call people,
references leave marks on other conversations, addresses become links (github/cmark-gfm#181,
github/cmark-gfm#389). A zero-width space in the middle keeps each of them from being one.

By a hidden first line duetbench knows its own comments and issues again:

    <!-- duetbench:comparison {"name":"shop"} -->

Anybody can write such a line; it counts only where the account that wrote it is ours. A comment is
replaced by whatever is known next; of several applications of a repository each has one. An issue's
line says what duetbench did last: one that somebody has closed stays closed until there is news. Of
a confirmed change the record is the truth: its issue says what that says, and closes with it.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any, Final, Literal

from duetbench.core.errors import RecordError, ServiceError
from duetbench.core.model import Verdict
from duetbench.core.text import one_line, short
from duetbench.github import api
from duetbench.github.api import Comment, GitHub, Issue
from duetbench.github.event import bench_request
from duetbench.github.incoming import Upgrade
from duetbench.show import addresses, formats
from duetbench.show.change import brief, cause_lines, commands, describe
from duetbench.show.formats import MISSING, escape
from duetbench.show.report import as_markdown
from duetbench.store.attribution import Attribution
from duetbench.store.change import Change
from duetbench.store.comparison import Comparison, PackageChange

DIGITS: Final = 12
"""Digits of a commit that people see."""

LIMIT: Final = 60_000
"""Characters of a comment or issue. GitHub refuses more than 65,536."""

WORKFLOW: Final = "bench.yml"
"""The workflow that compares; it is started on the default branch, never on a pull request's.

Asking again ends the older run, by its `concurrency`."""

KIND: Final = "comparison"
ANSWER: Final = "answer"
PAUSE: Final = 1.0
"""Between two writes of issues, s, as GitHub asks."""

MOST: Final = 10
"""Issues that are opened at once: more have one cause, most likely not a package."""

_ISSUE: Final = "issue"
_TITLE: Final = 200  # characters of an issue's; GitHub takes 256
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

Outcome = Literal["created", "updated", "unchanged"]
IssueAction = Literal["opened", "updated", "closed", "reopened", "unchanged", "left", "nothing"]


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


def publish(github: GitHub, pull: int, kind: str, body: str, name: str = "") -> tuple[Outcome, str]:
    """Write our comment of a kind and name in place of what it said: the outcome and its address.

    Raises ServiceError.
    """
    body = bounded(f"{marker(kind, {'name': name} if name else {})}\n{body.rstrip()}")
    old = _ours(github, pull, kind, name)
    if not old:
        new = github.add_comment(pull, body)
        old = _ours(github, pull, kind, name)  # an answer that was lost has left another
        _remove(github, old[1:])
        return "created", new.html_url
    _remove(github, old[1:])
    if old[0].body == body:
        return "unchanged", old[0].html_url
    return "updated", github.edit_comment(old[0].id, body).html_url


def withdraw(github: GitHub, pull: int, kind: str) -> None:
    """Remove our comment of a kind, where there is one; raises ServiceError."""
    _remove(github, _ours(github, pull, kind, ""))


def _ours(github: GitHub, pull: int, kind: str, name: str) -> list[Comment]:
    """Our comments of a kind and name, the oldest first; there should be one at most."""
    return [
        comment
        for comment in github.comments(pull)
        if comment.author == github.account
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


def answer(github: GitHub) -> str:
    """Answer a comment that may ask for a comparison, start it, and say it; raises ServiceError."""
    request = bench_request(github)
    if isinstance(request, str):
        return request
    number, head, base, url = request.number, request.head, request.base, github.context.run_url
    if request.reason is not None or base is None:
        publish(github, number, ANSWER, refused(str(request.reason), request.hint))
        return f"refused: {request.reason}"
    withdraw(github, number, ANSWER)
    publish(github, number, KIND, queued(head, url))
    inputs = {"pr": str(number), "head": head, "base": base}
    try:
        github.dispatch(WORKFLOW, request.branch, inputs)
    except ServiceError:
        publish(github, number, KIND, failed(head, url, "it could not be started"))
        raise
    return "dispatched: the comparison was started"


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
            f"cannot ({type(error).__name__}: {one_line(str(error), 100)})"
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
    packages = escape(formats.some(moved, _NAMED)) or "no package that is installed here"
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


@dataclass(frozen=True, slots=True)
class IssueDraft:
    """An issue as it should be."""

    key: str  # what it is about: the same thing always has the same one
    title: str
    body: str  # markdown
    is_open: bool  # whether there is something to look at
    labels: tuple[str, ...] = ("duetbench",)  # for an issue that is opened

    def render(self) -> tuple[str, str]:
        """Title and body, with the hidden first line."""
        heading, body = short(self.title, _TITLE), self.body.rstrip()
        digest = hashlib.sha256(f"{heading}\n{body}".encode()).hexdigest()[:16]
        state = "open" if self.is_open else "closed"
        line = marker(_ISSUE, {"key": self.key, "state": state, "digest": digest})
        return heading, bounded(f"{line}\n{body}")


def keep(github: GitHub, wanted: Sequence[IssueDraft]) -> dict[str, tuple[IssueAction, str]]:
    """Let the repository's issues be as wanted: what became of each, by key, and its address.

    Raises ServiceError.
    """
    issues, outcomes = _by_key(github), dict[str, tuple[IssueAction, str]]()
    for draft in wanted:
        ours = issues.get(draft.key, [])
        if ours:
            outcomes[draft.key] = _change(github, draft, ours[0]), ours[0].html_url
        elif not draft.is_open:
            outcomes[draft.key] = "nothing", ""
        elif sum(action == "opened" for action, _ in outcomes.values()) >= MOST:
            outcomes[draft.key] = "left", ""
        else:
            heading, body = draft.render()
            outcomes[draft.key] = "opened", github.open_issue(heading, body, draft.labels).html_url
            api.WAIT(PAUSE)
            ours = _by_key(github).get(draft.key, [])
        for double in ours[1:]:  # what a lost answer may have left: all but the oldest
            if double.state == "open":
                _edit(github, double, state="closed", state_reason="not_planned")
    return outcomes


def _change(github: GitHub, draft: IssueDraft, issue: Issue) -> IssueAction:
    heading, body = draft.render()
    before = marker_values(_ISSUE, issue.body) or {}
    after = marker_values(_ISSUE, body) or {}
    if before == after:
        return "unchanged"
    changes = {"title": heading, "body": body}
    action: IssueAction = "updated"
    if before.get("state") != after["state"]:
        changes["state"] = "open" if draft.is_open else "closed"
        changes["state_reason"] = "reopened" if draft.is_open else "completed"
        action = "reopened" if draft.is_open else "closed"
    _edit(github, issue, **changes)
    return action


def _edit(github: GitHub, issue: Issue, **changes: str) -> None:
    github.edit_issue(issue.number, **changes)
    api.WAIT(PAUSE)


def _by_key(github: GitHub) -> dict[str, list[Issue]]:
    """Our issues, oldest first."""
    by_key: dict[str, list[Issue]] = {}
    for issue in github.issues():
        if (values := marker_values(_ISSUE, issue.body)) is not None:
            by_key.setdefault(values["key"], []).append(issue)
    return by_key


def of_changes(
    records: Iterable[Change], site: str, explained: Iterable[Attribution] = ()
) -> list[IssueDraft]:
    """One issue per change, the newest change first; `explained`: which code changes are."""
    why = {code.change: code for code in sorted(explained, key=lambda code: (code.when, code.id))}
    newest = sorted(records, key=lambda record: (record.when, record.id), reverse=True)
    return [
        IssueDraft(
            key=f"change/{record.id}",
            title=change_title(record),
            body=change_body(record, site, why.get(record.id)),
            is_open=record.status == "open",
            labels=("duetbench", "slower" if record.verdict is Verdict.SLOWER else "faster"),
        )
        for record in newest
    ]


def change_title(record: Change) -> str:
    """`granian 2.8.7: FastAPI's JSON needs 2.1 % more memory (1.6…2.6 %), and 3 more`."""
    summary = describe(record)
    more = f", and {len(record.others)} more" if record.others else ""
    return f"{summary.releases or 'Unknown cause'}: {summary.sentence}{more}"


def change_body(record: Change, site: str, why: Attribution | None = None) -> str:
    """The issue's text, in Markdown; everything in it is of the record."""
    summary = describe(record)
    packages = [
        f"{package.package} {package.base or MISSING} → {package.head or MISSING} ({package.stack})"
        for package in record.packages
    ]
    others, unplayed = (
        [f"{series.case} {formats.series_title(series.metric)}" for series in group]
        for group in (record.others, record.unplayed)
    )
    facts = {
        "change": f"{summary.change} ({summary.interval}, 95 % interval): {summary.word}",
        "what": str(summary.name) if summary.name.known else "",
        "case": record.series.case,
        "metric": summary.title,
        "since": f"{record.when.astimezone(UTC):%Y-%m-%d %H:%M} UTC",
        "runs": f"{record.before_run or MISSING} → {record.after_run or MISSING}",
        "machine": record.series.machine,
        "caused by": summary.cause or "not known yet; this issue will say when it is",
        "packages that differ": formats.some(packages, _NAMED),
        "moved with it": formats.some(others, _NAMED),
        "stepped then, but was not played": formats.some(unplayed, _NAMED),
        "found": record.method,
        "note": record.note,
    }
    links = {
        "The evidence": addresses.change(record.id),
        "duet by duet": addresses.comparison(record.evidence) if record.evidence else "",
        "all": addresses.CHANGES,
    }
    parts = [
        f"**{plain(summary.sentence)}**, for good.",
        "\n".join(f"- **{name}**: {plain(fact)}" for name, fact in facts.items() if fact),
        " · ".join(f"[{name}]({site}{address})" for name, address in links.items() if address),
    ]
    if why is not None:
        parts.append(inert(brief(why)))
        parts.append(f"[All rows and the flame graph]({site}{addresses.attribution(why.id)})")
    if again := commands(record, None, None):
        # Indented, not fenced: no text can close an indented block.
        parts.append("To see for yourself:")
        parts.append("\n".join(f"    {' '.join(command.split())}" for _, command in again))
    parts.append(
        "<sub>This issue changes and closes by itself. Closed by hand it stays closed until there "
        "is news.</sub>"
    )
    return "\n\n".join(parts)
