"""Issues that keep themselves: announced changes and the watchdog's report, each exactly once."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from attributing import attribution, row
from duetbench.github import issues, text
from duetbench.github.comments import Note, Stage, read_note
from duetbench.github.slash import run_name
from duetbench.store import change, files
from duetbench.store.attribution import Function
from duetbench.store.change import ChangeRecord, SeriesName, StackState
from duetbench.store.comparison import PackageChange
from duetbench.store.night import NightRecord, ShardRecord
from fake_github import Table
from steps import BOT, HEAD, Step
from synthetic import change_record

SITE = "https://owner.github.io/name/"
CASE = "asgi-wsgi/asgi-json/py3.14t/w2/c256"
SERIES = SeriesName(machine="cloud-2c-1a2b", case=CASE, metric="server_cpu_per_request")


def record(name: str = "one", **more: Any) -> ChangeRecord:
    """A change of +3.10 % that granian 2.8.7 has caused."""
    fields: dict[str, Any] = {
        "series": SERIES,
        "before_run": "20261119T020000Z-nightly-aaaaaaaa",
        "after_run": "20261120T023000Z-nightly-bbbbbbbb",
        "base": StackState(stack="current", digest="0" * 64, as_of="2026-11-18"),
        "head": StackState(stack="current", digest="1" * 64, as_of="2026-11-19"),
        "evidence": "x-compare-y",
    }
    return change_record(id=name, **{**fields, **more})


def save(step: Step, *records: ChangeRecord) -> Path:
    results = step.folder / "results"
    (results / "changes").mkdir(parents=True, exist_ok=True)
    for one in records:
        change.save(results, one)
    return results


def tell(step: Step, *records: ChangeRecord, more: tuple[str, ...] = ()) -> list[str]:
    """Announce these records; what was said, one line each."""
    done = step("announce", "--results", save(step, *records), *more)
    assert (done.code, done.err) == (0, "")
    return done.out.splitlines()


def test_a_change_becomes_one_issue_and_is_never_announced_twice(step: Step) -> None:
    """Title and text say what, how much, since when, because of what, and where the evidence is."""
    (line,) = tell(step, record())
    (issue,) = step.github.state.issues
    assert line == f"one: opened {issue['html_url']}"
    assert issue["title"] == (
        "granian 2.8.6 → 2.8.7: FastAPI's JSON needs 3.10 % more CPU per request (2.50…3.70 %)"
    )  # fmt: skip
    assert [label["name"] for label in issue["labels"]] == ["duetbench", "slower"]
    lines = issue["body"].splitlines()
    assert lines[1:14] == [
        "**FastAPI's JSON needs 3.10 % more CPU per request (2.50…3.70 %)**, for good.", "",
        "- **change**: +3.10 % (+2.50…+3.70 %, 95 % interval): slower",
        ("- **what**: FastAPI's JSON on Granian, Python 3.14t (free-threaded), "
        "2 workers, 256 connections"),
        f"- **case**: {CASE}", "- **metric**: CPU/request",
        "- **since**: 2026-11-20 03:00 UTC",
        "- **runs**: 20261119T020000Z-nightly-aaaaaaaa → 20261120T023000Z-nightly-bbbbbbbb",
        "- **machine**: cloud-2c-1a2b", "- **caused by**: granian 2.8.6 → 2.8.7",
        "- **found**: Ten duets.", "",
        f"[The evidence]({SITE}c/one/) · [duet by duet]({SITE}cmp/x-compare-y/) · [all]({SITE}c/)",
    ]  # fmt: skip
    assert "| current | granian | 2.8.6 | 2.8.7 |" in lines
    assert (
        "    duetbench compare --stack-as-of 2026-11-18 --stack-as-of 2026-11-19" in (issue["body"])
    )
    assert "one: opened" in step.summary
    assert tell(step, record()) == ["no news"]
    assert step.github.state.issues == [issue]
    assert step.asked("PATCH") == []


@pytest.mark.parametrize("state", ["open", "closed"])
def test_what_becomes_known_is_added(state: str, step: Step) -> None:
    """The release is found some days later: the same issue says so.

    Whoever has closed it meanwhile is not contradicted: they have seen it.
    """
    tell(step, record(culprit=None))
    (issue,) = step.github.state.issues
    assert issue["title"].startswith("Unknown cause: FastAPI's JSON needs")
    assert "not known yet; this issue will say when it is" in issue["body"]
    issue["state"] = state
    (line,) = tell(step, record())
    assert line.startswith("one: updated")
    assert step.github.state.issues == [issue]
    assert issue["title"].startswith("granian 2.8.6 → 2.8.7: FastAPI's JSON needs")
    assert issue["state"] == state


def test_it_closes_and_opens_with_its_record(step: Step) -> None:
    """What was over before it was announced opens nothing."""
    assert tell(step, record(status="closed")) == ["no news"]
    assert step.github.state.issues == []
    tell(step, record())
    (issue,) = step.github.state.issues
    (line,) = tell(step, record(status="closed", note="fixed in granian 2.8.8"))
    assert line.startswith("one: closed")
    assert (issue["state"], issue["state_reason"]) == ("closed", "completed")
    assert "- **note**: fixed in granian 2.8.8" in issue["body"]
    assert tell(step, record(status="closed", note="fixed in granian 2.8.8")) == ["no news"]
    (line,) = tell(step, record(note="it came back"))
    assert line.startswith("one: opened again")
    assert (issue["state"], issue["state_reason"]) == ("open", "reopened")
    assert len(step.github.state.issues) == 1


def test_only_our_announcements_are_ours(step: Step) -> None:
    """Whatever the list holds: others' copies of our text, pull requests, our own other issues."""
    tell(step, record())
    copied = dict(step.github.state.issues[0])
    foreign = [
        {**copied, "number": 1, "user": {"login": "mallory", "type": "User"}},
        {**copied, "number": 2, "user": None},
        {**copied, "number": 3, "pull_request": {"url": "x"}},
        {**copied, "number": 4, "body": None},
        {**copied, "number": 5, "body": f"Quoted:\n{copied['body']}"},
    ]
    step.github.state.issues.clear()
    step.github.fail(method="GET", path="issues$", status=200, body=foreign, times=2)
    (line,) = tell(step, record())
    assert line.startswith("one: opened")
    ours = step.github.state.issues[0]
    step.github.state.issues.append(foreign[0])
    before = dict(foreign[0])
    tell(step, record(status="closed"))
    assert (ours["state"], foreign[0], step.asked("PATCH")) == (
        "closed", before, [f"/issues/{ours['number']}"],
    )  # fmt: skip


@pytest.mark.parametrize("fault", [{"status": 502}, {"cut": True}])
def test_a_lost_answer_leaves_one_issue_open(fault: Table, step: Step) -> None:
    """The request is repeated, and what it, or somebody else, has doubled is closed."""
    step.github.fail(method="POST", path="issues$", after=True, **fault)
    tell(step, record())
    issues = step.github.state.issues
    assert [one["state"] for one in issues] == ["open", "closed"]
    issues[1:] = [{**issues[0], "number": issues[0]["number"] + 1}]
    tell(step, record())
    assert [one["state_reason"] for one in issues] == [None, "not_planned"]


def test_a_night_that_breaks_everything_opens_few_issues(step: Step) -> None:
    """The newest changes first; the rest is counted, red, and opened the next time."""
    many = [
        record(f"change-{index}", when=datetime(2026, 11, index, tzinfo=UTC))
        for index in range(1, 6)
    ]
    results = save(step, *many)
    done = step("announce", "--results", results, "--most", "3")
    assert done.code == 1
    assert "2 changes are not announced yet" in done.err
    keys = [
        (text.marker_values("issue", one["body"]) or {})["key"] for one in step.github.state.issues
    ]
    assert keys == ["change/change-5", "change/change-4", "change/change-3"]
    assert step("announce", "--results", results, "--most", "3").code == 0
    assert len(step.github.state.issues) == 5


def test_one_broken_record_stops_no_other(step: Step) -> None:
    """A dry run only says it; addresses of the site are checked."""
    results = save(step, record())
    done = step("announce", "--results", results, "--site", "javascript:alert(1)")
    assert (done.code, "expected an address" in done.err) == (2, True)
    done = step("announce", "--results", results, "--dry-run", "--json")
    opened = {"key": "change/one", "done": "opened", "url": ""}
    assert json.loads(done.out) == {"issues": [opened], "problems": []}
    assert step.github.state.issues == []
    (results / "changes" / "broken.json").write_text("{}", "utf-8")
    done = step("announce", "--results", results)
    assert done.code == 1
    assert "broken.json: expected a change record" in done.err
    assert len(step.github.state.issues) == 1
    assert "broken.json" in step.summary


def test_an_interrupted_announcement_goes_on(step: Step) -> None:
    """GitHub fails after the first of three; what is done is not done again."""
    results = save(step, *(record(f"change-{index}") for index in range(3)))

    class Counted(list[Table]):
        def append(self, issue: Table) -> None:
            list.append(self, issue)
            if len(self) == 1:
                step.github.fail(method="POST", path="issues$", status=422)

    step.github.state.issues = Counted()
    assert step("announce", "--results", results).code == 4
    assert len(step.github.state.issues) == 1
    assert step("announce", "--results", results).code == 0
    assert len(step.github.state.issues) == 3


def test_hostile_words_in_a_record_do_nothing() -> None:
    bad = "@everyone #1 <img src=x> [x](https://evil.example)\n::warning::x"
    hostile = record(
        note=bad, method=bad, culprit=None,
        packages=(PackageChange(stack=bad, package=bad, base=bad, head=bad),),
        others=(SERIES.model_copy(update={"case": bad, "metric": bad}),),
    )  # fmt: skip
    function = Function(name=bad, file=bad, line=1, package=bad)
    explained = attribution(change=hostile.id, rows=(row(function, 0, 9_000, caller=function),))
    (wanted,) = issues.of_changes([hostile], SITE, [explained])
    title, body = wanted.written()
    for part in ("@everyone", "#1", "](https://evil", "\n::"):
        assert part not in body
        assert part not in title
    assert "\\<img" in body
    assert "<img" not in body.replace("\\<img", "")


def test_an_issue_has_the_first_rows_of_its_attribution() -> None:
    older = attribution(change="one", id="older", when=datetime(2026, 11, 1, tzinfo=UTC))
    every = [attribution(change="one"), older, attribution(change="another", id="x")]
    body = issues.change_body(record(), SITE)
    (wanted,) = issues.of_changes([record()], SITE, every)
    assert wanted.body.startswith(body.partition("<details>")[0])
    assert wanted.body.count("fastapi/routing.py:10") == 1
    assert f"({SITE}why/20261120-granian-0/)" in wanted.body


def test_an_issue_always_fits() -> None:
    """Thousands of series that moved together are counted, not listed."""
    series = tuple(
        SERIES.model_copy(update={"case": f"x/{'long' * 50}/{index}"}) for index in range(3000)
    )
    packages = tuple(
        PackageChange(stack="current", package=f"{'p' * 200}{index}", base="1", head="2")
        for index in range(3000)
    )
    (wanted,) = issues.of_changes([record(others=series, packages=packages)], SITE)
    title, body = wanted.written()
    assert len(title) <= 200
    assert title.endswith(", and 3000 more")
    assert len(body) <= 60_000
    assert "… and 2960 more" in body


# The watchdog.

NOW = "2026-11-20T12:00:00+00:00"


@pytest.fixture
def nights(step: Step) -> Step:
    """It is noon, and last night was good."""
    step.github.state.now = NOW
    night(step, "2026-11-20T02:00:00Z")
    return step


def night(step: Step, when: str, stored: str = "complete", conclusion: str = "failure") -> Table:
    """Add a night that has ended, and what the history holds of it, if anything."""
    if stored:
        missing = ("short/two",) if stored == "incomplete" else ()
        shard = ShardRecord(
            shard=1, machine=None, planned=2, missing=missing, failed=("short/one",),
            reason="no run of this shard arrived" if missing else "",
        )  # fmt: skip
        record = NightRecord(
            id=f"{when:.4}{when[5:7]}{when[8:10]}T020000Z-nightly-3f2a9c17", created=when,
            commit=HEAD, profile="nightly", status=stored, shards=(shard,),
        )  # fmt: skip
        step.github.state.files[f"gh-pages:results/{record.path}"] = files.encode(record).decode()
    return step.github.add_run(
        "nightly.yml", status="completed", conclusion=conclusion, created_at=when
    )


def waiting(step: Step, since: str, **more: Any) -> Table:
    run = step.github.add_run("bench.yml", display_title=run_name(12, HEAD), created_at=since)
    step.github.state.jobs[str(run["id"])] = [
        {"id": 1, "name": "queue", "status": "completed", "labels": ["ubuntu-24.04"]},
        {
            "id": 2, "name": "run", "status": "queued", "labels": ["self-hosted", "duetbench"],
            "created_at": since, **more},
    ]  # fmt: skip
    return run


def test_all_is_well(nights: Step) -> None:
    done = nights("watchdog")
    assert (done.code, done.out) == (0, "nothing waits for a machine, and the nights take place\n")
    assert nights.asked("POST") + nights.asked("PATCH") == []


def test_a_run_without_a_machine_is_reported_until_it_has_one(nights: Step) -> None:
    """In one issue, which opens, closes and opens again; and on the pull request that waits."""
    run = waiting(nights, "2026-11-20T10:30:00Z")
    done = nights("watchdog")
    assert done.code == 0
    assert done.out.startswith(
        "bench.yml: job 'run' has waited for a machine with the labels self-hosted, duetbench "
        "since 2026-11-20 10:30 UTC: see that the machine is on"
    )
    (issue,) = nights.github.state.issues
    assert "has waited for a machine" in issue["body"]
    assert run["html_url"] in issue["body"]
    (body,) = nights.ours()
    assert "no measuring machine has taken it since 2026-11-20 10:30 UTC" in body
    assert read_note(body) == Note(HEAD, run["id"], 1, "queued")

    assert nights("watchdog").code == 0  # an hour later: nothing new to say
    assert nights.asked("PATCH") == []
    run.update(status="completed", conclusion="success")
    assert nights("watchdog").code == 0
    assert issue["state"] == "closed"
    waiting(nights, "2026-11-20T10:40:00Z")
    assert nights("watchdog", "--json").code == 0
    assert issue["state"] == "open"
    assert len(nights.github.state.issues) == 1


@pytest.mark.parametrize(
    "job",
    [
        {"created_at": "2026-11-20T11:30:00Z"},
        {"status": "waiting"},
        {"status": "in_progress"},
        {"labels": ["ubuntu-24.04"]},
    ],
)
def test_waiting_for_something_else_is_no_trouble(job: Table, nights: Step) -> None:
    """For half an hour, for an approval, for its own end, or for a machine of GitHub's."""
    waiting(nights, "2026-11-20T10:30:00Z", **job)
    assert nights("watchdog").out.startswith("nothing waits")


def test_only_the_newest_request_is_told_and_only_by_a_title_of_ours(nights: Step) -> None:
    run = waiting(nights, "2026-11-20T10:30:00Z")
    title = run["display_title"]
    run["display_title"] = f"Re: {title} @everyone"
    assert nights("watchdog").code == 0
    assert nights.comments() == []
    assert "everyone" not in nights.github.state.issues[0]["body"]
    run["display_title"] = title
    said = nights.github.say(12, BOT, Note(HEAD, run["id"] + 1, 1, "final").body("result"))
    assert nights("watchdog").code == 0
    assert said["body"].endswith("\nresult")
    # A run that waits again is told again: the comment is of the attempt that waits now, or before.
    run["run_attempt"] = 2
    said["body"] = Note(HEAD, run["id"], 2, "queued").body("queued")
    assert nights("watchdog").code == 0
    assert "no measuring machine has taken it" in nights.ours()[0]


GOOD, LATE = "2026-11-20T02:00:00Z", "2026-11-18T02:00:00Z"
NONE = "no complete night has begun for 36 h 0 min; "
NEWEST = f"{NONE}the newest that was stored, 20261120T020000Z-nightly-3f2a9c17, is "


@pytest.mark.parametrize(
    ("ended", "state", "sentence"),
    [
        ([(LATE, "complete")], "active", NONE),
        ([(LATE, "complete"), (GOOD, "incomplete")], "active",
         f"{NEWEST}incomplete (shard 1: 1 of 2 cases are missing: no run of this shard arrived)"),
        ([(LATE, "complete"), (GOOD, "empty")], "active", f"{NEWEST}empty"),
        ([(LATE, "")], "active", f"{NONE}none has been stored"),
        ([], "active", "nightly.yml has never run"),
        ([(GOOD, "complete")], "disabled_inactivity", "nightly.yml is disabled inactivity"),
    ],
)  # fmt: skip
def test_nights_that_do_not_take_place_are_reported(
    ended: list[tuple[str, str]], state: str, sentence: str, step: Step
) -> None:
    """Late, incomplete, not stored, never, or switched off by GitHub; told once, in an issue."""
    step.github.state.now = NOW
    step.github.state.workflows["nightly.yml"] = state
    for when, stored in ended:
        night(step, when, stored, conclusion="success")
    done = step("watchdog")
    assert done.code == 0
    assert sentence in done.out
    assert sentence.partition(":")[0] in step.summary.replace("\\", "")
    assert [issue["state"] for issue in step.github.state.issues] == ["open"]


def test_what_is_no_missing_night(nights: Step) -> None:
    """The newest record is damaged, as if not stored; or the very first one is under way."""
    state = nights.github.state
    for number in range(3):
        state.files[f"gh-pages:results/nights/2026/20261120T03000{number}Z-x.json"] = "{" * number
    assert nights("watchdog").out.startswith("nothing waits")
    state.files.clear()
    state.runs.clear()
    nights.github.add_run("nightly.yml", status="in_progress", created_at="2026-11-20T11:00:00Z")
    assert nights("watchdog").out.startswith("nothing waits")


@pytest.mark.parametrize(("others", "ended"), [("completed", True), ("in_progress", False)])
def test_a_night_that_only_waits_is_ended(others: str, ended: bool, nights: Step) -> None:
    """Where no other machine measures any more, what they have sent is shown at last."""
    run = nights.github.add_run("nightly.yml", status="in_progress", created_at=GOOD)
    job = {"name": "Shard", "labels": ["self-hosted", "duetbench"]}
    nights.github.state.jobs[str(run["id"])] = [
        {"id": 1, **job, "status": others, "created_at": GOOD},
        {"id": 2, **job, "status": "queued", "created_at": "2026-11-20T07:59:00Z"},
    ]
    assert nights("watchdog", "--dry-run").code == 0
    assert run["status"] == "in_progress"
    done = nights("watchdog")
    assert done.code == 0
    assert (run["conclusion"] == "cancelled") is ended
    assert (f"cancelled, so that what has come is shown: {run['html_url']}" in done.out) is ended
    nights.github.state.now = "2026-11-20T11:58:00+00:00"  # not for four hours yet
    run.update(status="in_progress", conclusion=None)
    nights("watchdog")
    assert run["status"] == "in_progress"


@pytest.mark.parametrize("rules", [None, [], [{"type": "wait_timer"}]])
def test_an_environment_without_reviewers_is_reported(
    rules: list[Table] | None, nights: Step
) -> None:
    """Comparisons are refused until it has some; where they are switched off, that is fine."""
    state = nights.github.state
    state.environments = {} if rules is None else {"bench": {"protection_rules": rules}}
    done = nights("watchdog")
    assert done.code == 0
    assert "nobody would approve the comparison: name some in" in done.out
    state.workflows["bench.yml"] = "disabled_manually"
    assert nights("watchdog").code == 0


@pytest.mark.parametrize("stage", ["queued", "running", "final", "failed"])
def test_a_comparison_that_ended_without_a_word_is_told(stage: Stage, nights: Step) -> None:
    """Cancelled by hand: once, in its comment and status; what it said itself stays."""
    run = nights.github.add_run(
        "bench.yml", status="completed", conclusion="cancelled",
        display_title=run_name(12, HEAD), created_at="2026-11-20T10:30:00Z",
    )  # fmt: skip
    nights.github.say(12, BOT, Note(HEAD, run["id"], 1, stage).body("before"))
    assert nights("watchdog").code == 0
    assert nights("watchdog").code == 0
    statuses = [(one["sha"], one["state"]) for one in nights.github.state.statuses]
    (body,) = nights.ours()
    if stage in {"final", "failed"}:
        assert (body.splitlines()[1:], statuses) == (["before"], [])
        return
    assert "The reason: the run has ended: cancelled." in body
    assert statuses == [(HEAD, "error")]
    assert len(nights.asked("PATCH")) == 1


@pytest.mark.parametrize(
    ("more", "body"),
    [
        ({}, "overtaken"),
        ({"created_at": "2026-11-19T10:30:00Z"}, ""),
        ({"display_title": "Bench, by hand"}, ""),
        ({"conclusion": "success"}, ""),
    ],
)
def test_what_is_over_and_done_is_left_alone(more: Table, body: str, nights: Step) -> None:
    """A run that was overtaken, one of days ago, one that is not ours, and one that went well."""
    ended = {"status": "completed", "conclusion": "cancelled", "display_title": run_name(12, HEAD)}
    ended["created_at"] = "2026-11-20T10:30:00Z"
    run = nights.github.add_run("bench.yml", **{**ended, **more})
    if body:
        nights.github.say(12, BOT, Note(HEAD, run["id"] + 1, 1, "running").body(body))
    assert nights("watchdog").code == 0
    assert nights.asked("PATCH") + nights.asked("POST") == []


def test_a_watchdog_that_cannot_look_says_so(nights: Step) -> None:
    nights.github.fail(path="actions", status=500, times=-1)
    done = nights("watchdog", "--patience", "5")
    assert done.code == 4
    assert "nothing waits" not in done.out
    assert nights.github.state.issues == []


def test_words_of_issues_wait_for_no_chart() -> None:
    """A few sentences and the address of a page need nothing that computes or draws."""
    program = "import sys, duetbench.github.issues; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    imported = set(done.stdout.split())
    assert "duetbench.show.site.pages.addresses" in imported
    assert not imported & {"jinja2", "numpy", "duetbench.show.site.charts"}
