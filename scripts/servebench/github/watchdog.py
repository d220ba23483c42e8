"""What nobody would notice: runs that never get a machine, and nights that do not take place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from servebench.git import BRANCH
from servebench.github import comments, wording
from servebench.github.answers import Job, WorkflowRun
from servebench.github.comments import Note
from servebench.github.issues import Wanted
from servebench.github.repository import Repository
from servebench.github.slash import ENVIRONMENT, WORKFLOW, read_run_name
from servebench.github.text import plain
from servebench.github.verdicts import CONTEXT, DESCRIPTION
from servebench.history.branch import RESULTS
from servebench.night import outcome
from servebench.night.model import FOLDER, NightRecord
from servebench.report.formats import duration
from servebench.text import short

KEY: Final = "watchdog"
NIGHTLY: Final = "nightly.yml"
HELD_UP: Final = timedelta(hours=4)
"""How long a night waits for a machine while no other one measures: longer than any comparison or
shard keeps one busy. GitHub itself would wait for a day."""

_MINE: Final = "self-hosted"
_FINE: Final = "success"
_LATELY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that goes wrong quietly.

    Attributes:
        what: In a sentence, as plain text.
        hint: What to do.
        url: Where to look.
        run: The run that waits, where it is one.
        since: Since when.
        holds_up: Whether it is a night of which nothing else is under way: all that the other
            machines have measured waits to be searched and shown.
    """

    what: str
    hint: str
    url: str = ""
    run: WorkflowRun | None = None
    since: datetime | None = None
    holds_up: bool = False


def look(repository: Repository, *, queued: timedelta, night: timedelta) -> list[Trouble]:
    """Find what goes wrong.

    Args:
        repository: Where.
        queued: How long a job may wait for a machine.
        night: How long ago the last complete night may have begun.

    Raises:
        ServiceError: GitHub could not be asked.
    """
    found: list[Trouble] = []
    nights = repository.runs(NIGHTLY)
    for file, runs in ((WORKFLOW, repository.runs(WORKFLOW)), (NIGHTLY, nights)):
        for run in runs:
            if run.status == "completed":
                continue
            found += waiting(file, run, repository.jobs(run.id), repository.now, queued)
    return found + nights_missing(repository, nights, night) + unguarded(repository)


def waiting(
    file: str, run: WorkflowRun, jobs: Sequence[Job], now: datetime, limit: timedelta
) -> list[Trouble]:
    """The jobs of a run that wait for a machine of ours; waiting for people is something else."""
    found = []
    idle = not any(job.status == "in_progress" for job in jobs)
    for job in jobs:
        since = job.created_at or run.created_at
        if job.status == "queued" and _MINE in job.labels and now - since > limit:
            labels = ", ".join(job.labels)
            found.append(
                Trouble(
                    what=f"{file}: job {job.name!r} has waited for a machine with the labels "
                    f"{labels} since {since:%Y-%m-%d %H:%M} UTC",
                    hint="see that the machine is on, that its runner is online and idle (one "
                    "process per machine), and that it has these labels; GitHub gives up after a "
                    "day",
                    url=run.html_url,
                    run=run,
                    since=since,
                    holds_up=file == NIGHTLY and idle and now - since > HELD_UP,
                )
            )
    return found


def end_held_up(repository: Repository, found: Sequence[Trouble]) -> list[WorkflowRun]:
    """Cancel nights that only wait: what has come is searched and shown, and the next one begins.

    Raises:
        ServiceError: GitHub refuses.
    """
    ended = {one.run.id: one.run for one in found if one.holds_up and one.run is not None}
    for run in ended:
        repository.cancel(run)
    return list(ended.values())


def nights_missing(
    repository: Repository, started: Sequence[WorkflowRun], limit: timedelta
) -> list[Trouble]:
    """Whether nights still take place: what the history holds of them, however their jobs ended.

    Args:
        repository: Where.
        started: Runs of the nightly workflow, newest first.
        limit: How long ago the last complete night may have begun.

    Raises:
        ServiceError: GitHub could not be asked.
    """
    state, now = repository.workflow_state(NIGHTLY), repository.now
    if state != "active":
        return [
            Trouble(
                what=f"{NIGHTLY} is {state.replace('_', ' ')}: there are no nights",
                hint="enable the workflow on the Actions page; GitHub switches schedules off after "
                "60 days without a commit",
            )
        ]
    if not started:
        hint = "start it by hand on the Actions page, and see what it says"
        return [Trouble(f"{NIGHTLY} has never run", hint)]
    newest: NightRecord | None = None
    for began, record in _stored(repository):
        newest = newest or record
        if now - began > limit:
            break
        if record.status == "complete":
            return []
    if newest is None and now - started[-1].created_at <= limit:
        return []  # the very first one is under way
    how = "none has been stored"
    if newest is not None:
        how = f"the newest that was stored, {newest.id}, is {newest.status}"
        how += "".join(f" ({sentence})" for sentence in outcome.sentences(newest)[:1])
    return [
        Trouble(
            what=f"no complete night has begun for {duration(limit.total_seconds())}; {how}",
            hint="the run's summary says which shard or step failed",
            url=started[0].html_url,
        )
    ]


def _stored(repository: Repository) -> Iterator[tuple[datetime, NightRecord]]:
    """The records of nights and when they began, newest first; damaged ones are passed over."""
    for year in (repository.now.year, repository.now.year - 1):
        folder = f"{RESULTS}/{FOLDER}/{year}"
        for name in sorted(repository.listing(folder, BRANCH), reverse=True):
            with suppress(ValueError):
                found = repository.content(f"{folder}/{name}", BRANCH)
                record = NightRecord.model_validate_json(found)
                yield datetime.fromisoformat(record.created).astimezone(UTC), record


def unguarded(repository: Repository) -> list[Trouble]:
    """Whether other people's code would run on our machine without anybody's approval.

    Raises:
        ServiceError: GitHub could not be asked.
    """
    if repository.workflow_state(WORKFLOW) != "active" or repository.has_reviewers(ENVIRONMENT):
        return []
    return [
        Trouble(
            what=f"the environment {ENVIRONMENT!r} has no required reviewers: no comparison "
            "is started",
            hint=f"name reviewers in the repository's settings, or disable {WORKFLOW}",
        )
    ]


def report(found: Sequence[Trouble]) -> Wanted:
    """The one issue about all of it."""
    if not found:
        text = "Nothing waits for a machine, and the nights take place."
    else:
        text = "\n".join(
            f"- {plain(trouble.what)}: {plain(trouble.hint)}."
            + (f" [Look]({trouble.url})" if trouble.url else "")
            for trouble in found
        )
    return Wanted(
        key=KEY,
        title="The benchmarks need somebody to look at them",
        body=f"{text}\n\n<sub>This issue changes, closes and opens again by itself.</sub>",
        is_open=bool(found),
    )


def tell_pulls(repository: Repository, found: Sequence[Trouble], author: str) -> int:
    """Say where nobody has taken a comparison yet, or where one has ended without a word.

    Returns:
        How many pull requests were told.

    Raises:
        ServiceError: GitHub could not be told.
    """
    told = 0
    for trouble in found:
        named = read_run_name(trouble.run.display_title) if trouble.run is not None else None
        if named is None or trouble.run is None or trouble.since is None:
            continue
        pull, head = named
        said = wording.waiting(head, trouble.run.html_url, f"{trouble.since:%Y-%m-%d %H:%M} UTC")
        note = Note(head, trouble.run.id, trouble.run.run_attempt, "queued")
        told += comments.publish(repository, pull, note, said, author).outcome != "superseded"
    return told + _tell_ended(repository, author)


def _tell_ended(repository: Repository, author: str) -> int:
    """Say where a comparison has ended without a word: somebody has cancelled it, for example.

    Runs that were overtaken, or have said something themselves, are known by our comment.
    """
    told = 0
    for run in repository.runs(WORKFLOW, status="completed"):
        named = read_run_name(run.display_title)
        late = repository.now - run.created_at > _LATELY
        if named is None or run.conclusion == _FINE or late:
            continue
        pull, head = named
        said = wording.failed(head, run.html_url, f"the run has ended: {run.conclusion}")
        note = Note(head, run.id, run.run_attempt, "failed")
        if comments.publish(repository, pull, note, said, author).outcome in {"created", "updated"}:
            words = short(f"no result: the run has ended: {run.conclusion}", DESCRIPTION)
            repository.set_status(head, "error", words, run.html_url, CONTEXT)
            told += 1
    return told
