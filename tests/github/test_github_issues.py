"""Issues that keep themselves: announced changes, each exactly once."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from duetbench.core.comparison import PackageChange
from duetbench.host import files
from observatory.github import issues
from observatory.store.change import Change, SeriesName
from steps import Step
from synthetic import change_record

SITE: Final = "https://owner.github.io/name/"
CASE: Final = "asgi-wsgi/asgi-json/py3.14t/w2/c256"
SERIES: Final = SeriesName(machine="cloud-2c-1a2b", case=CASE, metric="server_cpu_per_request")


def record(name: str = "one", **more: Any) -> Change:
    """A change of +3.1 % that granian 2.8.7 has caused."""
    return change_record(id=name, **{"series": SERIES, "evidence": "x-compare-y", **more})


def save(step: Step, *records: Change) -> Path:
    for entry in records:
        files.save(step.folder / "results", entry)
    return step.folder / "results"


def tell(step: Step, *records: Change) -> list[str]:
    """Announce these records; what was said, one line each."""
    result = step("announce", "--results", save(step, *records))
    assert (result.code, result.err) == (0, "")
    return result.out.splitlines()


def test_an_issue_says_what_how_much_since_when_because_of_what_and_where(step: Step) -> None:
    (line,) = tell(step, record())
    (issue,) = step.github.issues
    assert line == f"one: opened {issue['html_url']}"
    title = "granian 2.8.7 needs 3.1 % more CPU (2.5…3.7 %) for a JSON response from FastAPI"
    assert issue["title"] == title
    assert [label["name"] for label in issue["labels"]] == ["duetbench", "worse"]
    evidence = f"[The evidence]({SITE}c/one/). It closes if the change is undone."
    assert issue["body"].splitlines()[1:] == [f"**{title}**, for good.", "", evidence]
    assert "one: opened" in step.summary
    assert tell(step, record()) == ["no news"]
    assert (step.github.issues, step.requests("PATCH")) == ([issue], [])


def test_an_issue_closes_with_its_record_or_by_hand(step: Step) -> None:
    """What was over before it was announced gets none; who closes it has seen it."""
    fixed = record(status="closed", note="fixed in granian 2.8.8")
    assert tell(step, fixed) == ["no news"]
    assert tell(step, record(culprit=None))[0].startswith("one: opened")
    (issue,) = step.github.issues
    assert issue["title"].startswith("Unknown cause: A JSON response from FastAPI needs")
    assert tell(step, fixed)[0].startswith("one: closed")
    assert (issue["state"], issue["state_reason"]) == ("closed", "completed")
    assert "\nfixed in granian 2.8.8\n" in issue["body"]
    assert tell(step, fixed) == tell(step, record()) == ["no news"]
    assert len(step.github.issues) == 1


def test_only_our_announcements_are_ours(step: Step) -> None:
    """Whatever the list holds: others' copies of our text, pull requests, our own other issues."""
    tell(step, record())
    ours = step.github.issues.pop()
    foreign = [
        {**ours, "number": 1, "user": {"login": "mallory", "type": "User"}},
        {**ours, "number": 3, "pull_request": {"url": "x"}},
        {**ours, "number": 5, "body": f"Quoted:\n{ours['body']}"},
    ]
    step.github.fail(method="GET", path="issues$", status=200, body=foreign)
    assert tell(step, record())[0].startswith("one: opened")
    assert (len(step.github.issues), step.requests("PATCH")) == (1, [])


def test_a_night_that_breaks_everything_opens_few_issues(step: Step) -> None:
    """The newest changes first; the rest the next time."""
    step.patch.setattr(issues, "MOST", 3)
    days = [datetime(2026, 11, day, tzinfo=UTC) for day in range(1, 6)]
    results = save(step, *(record(f"change-{day.day}", when=day) for day in days))
    result = step("announce", "--results", results)
    opened = [line.partition(":")[0] for line in result.out.splitlines()]
    assert opened == ["change-5", "change-4", "change-3"]
    assert (result.code, step("announce", "--results", results).code) == (0, 0)
    assert len(step.github.issues) == 5


def test_one_broken_record_stops_no_other(step: Step) -> None:
    results = save(step, record())
    (results / "changes" / "broken.json").write_text("{}", "utf-8")
    result = step("announce", "--results", results)
    assert (result.code, len(step.github.issues)) == (1, 1)
    assert "broken.json: expected a change record" in result.out
    assert "broken.json" in step.summary


def test_hostile_words_in_a_record_do_nothing() -> None:
    bad = "@everyone #1 <img src=x> [x](https://evil.example)\n::warning::x"
    hostile = record(
        note=bad,
        method=bad,
        culprit=None,
        packages=(PackageChange(stack=bad, package=bad, base=bad, head=bad),),
        others=(SERIES.model_copy(update={"case": bad, "metric": bad}),),
    )
    title, body = issues.text(hostile, SITE)
    for part in ("@everyone", "#1", "](https://evil", "\n::"):
        assert part not in body
        assert part not in title
    assert "\\<img" in body
    assert "<img" not in body.replace("\\<img", "")
