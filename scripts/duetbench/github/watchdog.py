"""Reports what nobody would notice: runs that never get a machine, nights that do not happen."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from duetbench.core.text import short
from duetbench.github import comments
from duetbench.github.comments import Note
from duetbench.github.issues import IssueDraft
from duetbench.github.repository import Job, Repository, WorkflowRun
from duetbench.github.slash import WORKFLOW, read_run_name, unguarded
from duetbench.github.text import plain
from duetbench.host.git import BRANCH
from duetbench.show.formats import duration
from duetbench.store.history.branch import RESULTS
from duetbench.store.night import FOLDER, NightRecord
from duetbench.trend import nights as nights_

KEY: Final = "watchdog"
NIGHTLY: Final = "nightly.yml"
HELD_UP: Final = timedelta(hours=4)
"""How long a night waits for a machine while no other one measures: longer than any comparison or
shard keeps one busy. GitHub itself would wait for a day."""

_MINE: Final = "self-hosted"
_LATELY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that goes wrong quietly."""

    what: str  # in a sentence, as plain text
    hint: str
    url: str = ""
    run: WorkflowRun | None = None  # the run that waits, where it is one
    since: datetime | None = None
    # Whether it is a night of which nothing else is under way: all that the other machines have
    # measured waits to be searched and shown.
    holds_up: bool = False


def look(repository: Repository, *, queued: timedelta, night: timedelta) -> list[Trouble]:
    """Find what goes wrong; raises ServiceError."""
    nights = repository.runs(NIGHTLY)
    found = [
        trouble
        for file, runs in ((WORKFLOW, repository.runs(WORKFLOW)), (NIGHTLY, nights))
        for run in runs
        if run.status != "completed"
        for trouble in _waiting(file, run, repository.jobs(run.id), repository.client.now, queued)
    ]
    found += _nights_missing(repository, nights, night)
    if repository.workflow_state(WORKFLOW) == "active" and (why := unguarded(repository)):
        what, _, hint = why.rstrip(".").partition(": ")
        found.append(Trouble(what, f"{hint}, or disable {WORKFLOW}"))
    return found


def end_held_up(repository: Repository, found: Sequence[Trouble]) -> list[WorkflowRun]:
    """Cancel nights that only wait: what has come is searched and shown, and the next one begins.

    ServiceError: GitHub refuses.
    """
    ended = {one.run.id: one.run for one in found if one.holds_up and one.run}
    for run in ended:
        repository.cancel(run)
    return list(ended.values())


def report(found: Sequence[Trouble]) -> IssueDraft:
    """The one issue about all of it."""
    lines = [
        f"- {plain(trouble.what)}: {plain(trouble.hint)}."
        + (f" [Look]({trouble.url})" if trouble.url else "")
        for trouble in found
    ]
    text = "\n".join(lines) or "Nothing waits for a machine, and the nights take place."
    return IssueDraft(
        key=KEY,
        title="The benchmarks need somebody to look at them",
        body=f"{text}\n\n<sub>This issue changes, closes and opens again by itself.</sub>",
        is_open=bool(found),
    )


def tell_pulls(repository: Repository, found: Sequence[Trouble], author: str) -> None:
    """Say where nobody has taken a comparison yet, or where one has ended without a word.

    Runs that were overtaken, or have said something themselves, are known by our comment.

    Raises:
        ServiceError: GitHub could not be told.
    """
    waiting = {one.run.id: (one.run, one.since) for one in found if one.run and one.since}
    ended = [
        (run, None)
        for run in repository.runs(WORKFLOW, status="completed")
        if run.conclusion != "success" and repository.client.now - run.created_at <= _LATELY
    ]
    for run, since in (*waiting.values(), *ended):
        if (named := read_run_name(run.display_title)) is None:
            continue
        pull, head = named
        note = Note(head, run.id, run.run_attempt, "queued" if since else "failed")
        why = f"the run has ended: {run.conclusion}"
        said = comments.failed(head, run.html_url, why)
        if since is not None:
            said = comments.waiting(head, run.html_url, f"{since:%Y-%m-%d %H:%M} UTC")
        told = comments.publish(repository, pull, note, said, author).outcome
        if since is None and told in {"created", "updated"}:
            words = short(f"no result: {why}", comments.DESCRIPTION)
            repository.set_status(head, "error", words, run.html_url, comments.CONTEXT)


def _waiting(
    file: str, run: WorkflowRun, jobs: Sequence[Job], now: datetime, limit: timedelta
) -> Iterator[Trouble]:
    """The jobs of a run that wait for a machine of ours; waiting for people is something else."""
    idle = not any(job.status == "in_progress" for job in jobs)
    for job in jobs:
        since = job.created_at or run.created_at
        if job.status == "queued" and _MINE in job.labels and now - since > limit:
            yield Trouble(
                what=f"{file}: job {job.name!r} has waited for a machine with the labels "
                f"{', '.join(job.labels)} since {since:%Y-%m-%d %H:%M} UTC",
                hint="see that the machine is on, that its runner is online and idle (one process "
                "per machine), and that it has these labels; GitHub gives up after a day",
                url=run.html_url,
                run=run,
                since=since,
                holds_up=file == NIGHTLY and idle and now - since > HELD_UP,
            )


def _nights_missing(
    repository: Repository, started: Sequence[WorkflowRun], limit: timedelta
) -> list[Trouble]:
    """Whether nights still take place: what the history holds of them, however their jobs ended."""
    state, now = repository.workflow_state(NIGHTLY), repository.client.now
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
    for began, record in _stored(repository, now):
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
        how += "".join(f" ({sentence})" for sentence in nights_.sentences(newest)[:1])
    return [
        Trouble(
            what=f"no complete night has begun for {duration(limit.total_seconds())}; {how}",
            hint="the run's summary says which shard or step failed",
            url=started[0].html_url,
        )
    ]


def _stored(repository: Repository, now: datetime) -> Iterator[tuple[datetime, NightRecord]]:
    """The records of nights and when they began, newest first; damaged ones are passed over."""
    for year in (now.year, now.year - 1):
        folder = f"{RESULTS}/{FOLDER}/{year}"
        for name in sorted(repository.listing(folder, BRANCH), reverse=True):
            with suppress(ValueError):
                found = repository.content(f"{folder}/{name}", BRANCH)
                record = NightRecord.model_validate_json(found)
                yield datetime.fromisoformat(record.created).astimezone(UTC), record
