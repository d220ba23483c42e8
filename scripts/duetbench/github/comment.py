"""The comments on a pull request: what they say, and how there is only one of each kind.

A comment is found again by its hidden first line *and* by its author, since anybody can write the
line. It names the commit that it is about, and is replaced by whatever is known next; where a
repository has several applications, each has one. Other people's words are escaped.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal

from duetbench.core.errors import RecordError
from duetbench.core.metrics import METRICS
from duetbench.core.text import one_line
from duetbench.github import text
from duetbench.github.api import Comment, GitHub
from duetbench.github.upgrades import Upgrade
from duetbench.show import attribution, formats, rows
from duetbench.show.change import cause_lines
from duetbench.show.report import as_markdown
from duetbench.show.rows import Groups, ViewRow
from duetbench.store.attribution import Attribution
from duetbench.store.comparison import Comparison, PackageChange

DIGITS: Final = 12
"""Digits of a commit that people see."""

KIND: Final = "comparison"
ANSWER: Final = "answer"
_NAMED: Final = 6  # packages that a sentence names
_ROOM: Final = 2_000  # characters for what stands around the report
_ADVISORY: Final = (
    "Advisory: nothing is blocked by this. Measured on one machine, base and head together; a "
    "change smaller than what the table says could be seen may be there all the same."
)

Lead = Callable[[Comparison], str]
"""Paragraphs of Markdown about a comparison, in which nothing of others' is left unescaped."""

Outcome = Literal["created", "updated", "unchanged"]


def publish(github: GitHub, pull: int, kind: str, body: str, name: str = "") -> tuple[Outcome, str]:
    """Write our comment of a kind and name in place of what it said: the outcome and its address.

    Raises ServiceError.
    """
    values = {"name": name} if name else {}
    body = text.bounded(f"{text.marker(kind, values)}\n{body.rstrip()}")
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
        and (values := text.marker_values(kind, comment.body)) is not None
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
    because = f" The reason: {text.plain(reason).rstrip('.')}." if reason else ""
    return (
        f"### duetbench: no result\n\nThe comparison of `{head[:DIGITS]}` failed, which says "
        f"nothing about the change.{because} [The log]({url}) has the details. "
        f"To ask again:\n\n```\n/bench {head}\n```\n"
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


def final(comparison: Comparison, head: str, url: str, words: str, lead: Lead | None = None) -> str:
    """The report, with links to the run's `url` and to the `words` it uses; raises RecordError."""
    glossary = f" · [what the words mean]({words})" if words else ""
    footer = (
        f"\n---\n<sub>`{head[:DIGITS]}` · [the run, with all figures]({url}){glossary}. "
        f"{_ADVISORY}</sub>\n"
    )
    return report(comparison, lead) + footer


def report(comparison: Comparison, lead: Lead | None = None) -> str:
    """A comparison as text that does nothing; `lead` gives paragraphs for below its headline.

    RecordError: the comparison holds what cannot be shown.
    """
    try:
        paragraphs = lead(comparison) if lead is not None else ""
        limit = text.LIMIT - 2 * _ROOM - len(paragraphs)
        body = as_markdown(comparison, limit=limit, end="")
    except Exception as error:  # whatever strange values lead to, it is the file's fault
        name = (comparison.head.commit or comparison.id)[:DIGITS]
        raise RecordError(
            f"the comparison of {name}: expected values that can be shown, found some that "
            f"cannot ({type(error).__name__}: {one_line(str(error), 100)})"
        ) from error
    headline, gap, rest = text.report(body).partition("\n\n")
    return text.bounded(f"{headline}{gap}{paragraphs}{rest}", text.LIMIT - _ROOM)


def preface(
    comparison: Comparison, upgrade: Upgrade | None, code: Attribution | None = None
) -> str:
    """What the upgrade did, which code it is, and what could be seen on a shared machine.

    Paragraphs of Markdown, each ending in a blank line; what others wrote is escaped.
    """
    groups = rows.group_rows(comparison)
    paragraphs = [*_upgrade(comparison, groups, upgrade)] if upgrade is not None else []
    paragraphs += [text.report(attribution.brief(code))] if code is not None else []
    return "".join(f"{text}\n\n" for text in (*paragraphs, *_visible(comparison, groups)))


def _upgrade(comparison: Comparison, groups: Groups, upgrade: Upgrade) -> Iterator[str]:
    # One package may be in the locks of several stacks.
    moved = tuple(dict.fromkeys(map(_package, comparison.packages)))
    packages = text.plain(formats.some(moved, _NAMED)) or "no package that is installed here"
    yield f"**Upgrade**: nothing but locks differs: {packages}."
    did = any(row.metric for row in (*groups.worse, *groups.better))
    if upgrade.cause is not None:
        yield f"**Cause**: {text.plain('; '.join(cause_lines(upgrade.cause)))}."
    elif did and len(moved) == 1:
        yield "**Cause**: no other package moved."
    elif did:
        why = text.plain(upgrade.note).rstrip(".") or "it was not searched for"
        yield f"**Cause**: not known: {why}."


def _package(change: PackageChange) -> str:
    return f"{change.package} {change.base or 'new'} → {change.head or 'gone'}"


def _visible(comparison: Comparison, groups: Groups) -> Iterator[str]:
    """The noise that was measured alongside, and what it let be seen; never more."""
    largest: dict[str, float] = {}
    for row in _judged(groups):
        largest[row.metric] = max(largest.get(row.metric, 0.0), row.judged.detectable or 0.0)
    if not largest:
        return
    noise = (
        f"the base against itself scatters by {formats.size(comparison.noise)} of CPU per request "
        "from duet to duet"
        if comparison.noise is not None
        else "the base was not held against itself, for lack of time or of need"
    )
    sizes = ", ".join(
        f"{formats.size(size)} of {formats.title(metric)}" for metric, size in largest.items()
    )
    yield (
        f"**Seen on this machine**: {noise}. Had one figure alone moved by as much as {sizes}, it "
        "would have been called in 4 of 5 comparisons like this. Smaller changes may be there."
    )


def _judged(groups: Groups) -> Iterator[ViewRow]:
    """Rows of cases with a size that could have been seen, the metrics in their order."""
    sized = [row for row in groups.all if row.metric and row.judged.detectable is not None]
    for metric in METRICS:
        yield from (row for row in sized if row.metric == metric)
