"""The comment on a pull request, and its commit's status: what they say, and how they are kept.

There is one comment, ours, always about the newest request; where a repository has several
applications, one of each that has a name. It is found again by its hidden first
line *and* by its author, since anybody can write the line. Runs of a repository are numbered in the
order in which they start: what an overtaken one still has to say is dropped.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Final, Literal

from pydantic import StrictInt, TypeAdapter, ValidationError

from duetbench.core.errors import RecordError, ServiceError
from duetbench.core.text import one_line, short
from duetbench.github import text
from duetbench.github.repository import Comment, Repository, StatusState
from duetbench.show import attribution, markdown
from duetbench.show.view import UNDECIDED, exit_code, make_view
from duetbench.store.attribution import Attribution
from duetbench.store.comparison import Comparison

CONTEXT: Final = "duetbench"
"""The status's name. Advisory: it should not be among the required ones."""

DESCRIPTION: Final = 140
"""Characters of a status that GitHub takes."""

MEANINGS: Final[dict[StatusState, str]] = {
    "pending": "The comparison is queued or under way",
    "success": "Nothing got worse that could be seen",
    "failure": "Something got worse",
    "error": "No result; the run says why",
}
_STATES: Final[dict[int, StatusState]] = {0: "success", 1: "failure", UNDECIDED: "error"}
"""By the exit code that the comparison has: a gate on either says the same."""

SHOWN: Final = 12
"""Digits of a commit that people see."""

KIND: Final = "comparison"
ANSWER: Final = "answer"
_BRIEF: Final = 4_000  # characters that GitHub takes for certain
_ROOM: Final = 2_000  # characters for what stands around the report
_INVALID: Final = 422
_ADVISORY: Final = (
    "Advisory: nothing is blocked by this. Measured on one machine, base and head together; a "
    "change smaller than what the table says could be seen may be there all the same."
)

Lead = Callable[[Comparison], str]
"""Paragraphs of Markdown about a comparison, in which nothing of others' is left unescaped."""

Stage = Literal["queued", "running", "final", "failed"]


@dataclass(frozen=True, slots=True)
class Note:
    """What our comment says about itself."""

    head: str  # the commit that it is about, 40 hex digits
    run: StrictInt  # the workflow run that wrote it
    attempt: StrictInt  # of that run, from 1
    stage: Stage
    outdated: bool = False  # whether the head has moved since
    name: str = ""  # which of several applications of the repository it is about

    def body(self, said: str) -> str:
        """A comment that says so in its hidden first line."""
        values = {**asdict(self), "outdated": int(self.outdated)}
        if not self.name:
            del values["name"]
        return text.bounded(f"{text.marker(KIND, values)}\n{said.rstrip()}")


_NOTE: Final = TypeAdapter(Note)


@dataclass(frozen=True, slots=True)
class CommentOutcome:
    """What became of a comment."""

    # `superseded`: a newer run has spoken; `nothing`: there is no comment.
    outcome: Literal["created", "updated", "unchanged", "superseded", "nothing"]
    url: str = ""
    note: Note | None = None


def read_note(body: str | None) -> Note | None:
    """What a comment says about itself; None: it is not of this kind."""
    found = text.marker_values(KIND, body) or {}
    try:
        return _NOTE.validate_python(found | {"outdated": bool(found.get("outdated"))})
    except ValidationError:
        return None


def publish(
    repository: Repository, pull: int, note: Note, said: str, author: str
) -> CommentOutcome:
    """Write the comment, in place of what it said before; raises ServiceError."""
    mine = _only(repository, pull, KIND, author, note.name)
    before = read_note(mine.body) if mine is not None else None
    if mine is not None and before is not None:
        if (before.run, before.attempt) > (note.run, note.attempt):
            return CommentOutcome("superseded", mine.html_url, before)
        # A step that only adds that something failed has nothing to say after result or reason.
        told = before.stage in {"final", "failed"} and note.stage == "failed"
        if told and replace(before, stage="failed", outdated=note.outdated) == note:
            return CommentOutcome("unchanged", mine.html_url, before)
    now = repository.pull(pull).head.sha
    if now != note.head:
        note, said = replace(note, outdated=True), outdated(note.head, now) + said
    body = note.body(said)
    try:
        found = _put(repository, pull, mine, KIND, body, author, note.name)
    except ServiceError as error:
        brief = text.bounded(body, _BRIEF)
        if error.status != _INVALID or brief == body:
            raise
        # GitHub does not take the text. The news is at its top, and must not be lost with the rest.
        found = _put(repository, pull, mine, KIND, brief, author, note.name)
    return replace(found, note=note)


def mark_outdated(repository: Repository, pull: int, author: str) -> CommentOutcome:
    """Put a banner above our comment if it is about a commit that is not the head any more."""
    mine = _only(repository, pull, KIND, author)
    note = read_note(mine.body) if mine is not None else None
    if mine is None or note is None:
        return CommentOutcome("nothing")
    now = repository.pull(pull).head.sha
    if now == note.head or note.outdated:
        return CommentOutcome("unchanged", mine.html_url, note)
    note = replace(note, outdated=True)
    body = note.body(outdated(note.head, now) + text.without_marker(mine.body))
    return CommentOutcome("updated", repository.edit_comment(mine.id, body).html_url, note)


def answer(repository: Repository, pull: int, said: str | None, author: str) -> None:
    """Answer a request that was not granted; None: it was, and an old answer goes."""
    old = _only(repository, pull, ANSWER, author)
    if said is not None:
        body = f"{text.marker(ANSWER, {})}\n{said.rstrip()}"
        _put(repository, pull, old, ANSWER, body, author)
    elif old is not None:
        repository.delete_comment(old.id)


def _put(
    repository: Repository,
    pull: int,
    mine: Comment | None,
    kind: str,
    body: str,
    author: str,
    name: str = "",
) -> CommentOutcome:
    if mine is None:
        made = repository.add_comment(pull, body)
        _only(repository, pull, kind, author, name)  # the first answer may have been lost
        return CommentOutcome("created", made.html_url)
    if mine.body == body:
        return CommentOutcome("unchanged", mine.html_url)
    return CommentOutcome("updated", repository.edit_comment(mine.id, body).html_url)


def _only(
    repository: Repository, pull: int, kind: str, author: str, name: str = ""
) -> Comment | None:
    """Our comment of a kind and name; should there be several, the oldest stays, the others go."""
    ours = [
        one
        for one in repository.comments(pull)
        if one.is_by(author)
        and (values := text.marker_values(kind, one.body)) is not None
        and values.get("name", "") == name
    ]
    for double in ours[1:]:
        repository.delete_comment(double.id)
    return ours[0] if ours else None


def queued(head: str, url: str) -> str:
    """The placeholder: asked for, not yet measured."""
    return (
        f"### duetbench: queued\n\nThe comparison of `{head[:SHOWN]}` with the commit where it "
        "left its base waits for an approval and for the measuring machine. This comment becomes "
        f"the report. [Follow it]({url})\n"
    )


def waiting(head: str, url: str, since: str) -> str:
    """No runner has taken the job for too long."""
    return (
        f"### duetbench: waiting for a machine\n\nThe comparison of `{head[:SHOWN]}` is queued, "
        f"but no measuring machine has taken it since {since}. It goes on by itself as soon as one "
        f"is there; the maintainers have been told. [Follow it]({url})\n"
    )


def running(head: str, url: str) -> str:
    """It is being measured."""
    return (
        f"### duetbench: measuring\n\n`{head[:SHOWN]}` is being compared with the commit where it "
        f"left its base. This comment becomes the report. [Follow it]({url})\n"
    )


def failed(head: str, url: str, reason: str) -> str:
    """There is no result, and why."""
    said = f" The reason: {text.plain(reason).rstrip('.')}." if reason else ""
    return (
        f"### duetbench: no result\n\nThe comparison of `{head[:SHOWN]}` failed, which says "
        f"nothing about the change.{said} [The log]({url}) has the details. "
        f"To ask again:\n\n```\n/bench {head}\n```\n"
    )


def explained(record: Attribution) -> Lead:
    """Which code a comparison's change of instructions is in: its first rows, which do nothing."""
    return lambda _: f"{text.report(attribution.brief(record))}\n\n"


def final(comparison: Comparison, head: str, url: str, words: str, lead: Lead | None = None) -> str:
    """The report, with links to the run's `url` and to the `words` it uses; raises RecordError."""
    glossary = f" · [what the words mean]({words})" if words else ""
    footer = (
        f"\n---\n<sub>`{head[:SHOWN]}` · [the run, with all figures]({url}){glossary}. "
        f"{_ADVISORY}</sub>\n"
    )
    return report(comparison, lead) + footer


def report(comparison: Comparison, lead: Lead | None = None) -> str:
    """A comparison as text that does nothing; `lead` gives paragraphs for below its headline.

    RecordError: the comparison holds what cannot be shown.
    """
    try:
        told = lead(comparison) if lead is not None else ""
        body = markdown.comparison(comparison, limit=text.LIMIT - 2 * _ROOM - len(told), end="")
    except Exception as error:  # whatever strange values lead to, it is the file's fault
        name = (comparison.head.commit or comparison.id)[:SHOWN]
        raise RecordError(
            f"the comparison of {name}: expected values that can be shown, found some that "
            f"cannot ({type(error).__name__}: {one_line(str(error), 100)})"
        ) from error
    headline, gap, rest = text.report(body).partition("\n\n")
    return text.bounded(f"{headline}{gap}{told}{rest}", text.LIMIT - _ROOM)


def outdated(measured: str, now: str) -> str:
    """The banner above a report on a commit that is no longer the head."""
    return (
        f"> **Outdated**: this is about `{measured[:SHOWN]}`, and the head is `{now[:SHOWN]}` now. "
        "Once you have looked at what was added, ask again with `/bench` and the full commit.\n\n"
    )


def refused(reason: str, head: str | None) -> str:
    """The answer to a request that cannot be granted; head: the commit that could be asked for."""
    said = f"### duetbench: not started\n\n{reason}\n"
    if head is None:
        return said
    return (
        f"{said}\nTo compare a pull request with the commit where it left its base, somebody with "
        "write permission names the commit that they have looked at. This is the newest one; look "
        f"at it, and ask for it on the first line of a comment:\n\n```\n/bench {head}\n```\n"
    )


def status(comparison: Comparison) -> tuple[StatusState, str]:
    """State and description: what got worse fails; what is not decided is an error.

    RecordError: the comparison holds what cannot be shown.
    """
    try:
        view = make_view(comparison)
    except Exception as error:  # the file comes from a machine on which other people's code ran
        raise RecordError(
            f"the comparison: expected values that can be shown, found {type(error).__name__}"
        ) from error
    return _STATES[exit_code(comparison)], short(view.headline, DESCRIPTION)
