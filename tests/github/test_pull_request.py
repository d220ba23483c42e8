"""Pull requests of any repository: both sides, upgrades, the comment, and what may be in it."""

import io
import json
import os
import re
import zipfile
from pathlib import Path
from typing import Any, Final

import pytest
from typer import Exit

import synthetic
from attributing import attribution
from bench import Done
from comparing import SAME, WORSE
from duetbench.ci import actions, comments, event, proposals
from duetbench.ci.event import NONE
from duetbench.cli import pull_request
from duetbench.core.change import Cause, Release
from duetbench.core.comparison import Comparison, Coverage, PackageChange
from duetbench.core.errors import SetupError, UsageError
from duetbench.host import files
from duetbench.judge.repetition import rebuilt
from foreign import BASE, HEAD, comparison
from repos import commit, git
from steps import Step

NEWER: Final = "c" * 40
HOME: Final = {"repository": {"full_name": "owner/name", "default_branch": "main"}}
PULL: Final = {
    "pull_request": {
        "number": 12,
        "state": "open",
        "base": {"ref": "main", "sha": NONE},
        "head": {"sha": HEAD, "ref": "feature", "repo": {"full_name": "owner/name"}},
    }
}
ENDED: Final = {
    "workflow_run": {
        "id": 5,
        "run_attempt": 2,
        "event": "pull_request",
        "head_sha": HEAD,
        "head_branch": "feature",
        "head_repository": {"owner": {"login": "owner"}},
    }
}
MOVED: Final = (
    PackageChange(stack="project", package="httpx", base="0.27.0", head="0.28.1"),
    PackageChange(stack="project", package="pydantic", base="2.13.0", head="2.14.3"),
)
ALONE: Final = synthetic.share(
    Release(package="pydantic", version="2.14.3", previous="2.13.0"),
    low=1.015, ratio=1.0209, high=1.027, n=14,
)  # fmt: skip
CAUSE: Final = Cause(whole=WORSE.model_copy(update={"n": 9}), shares=(ALONE,))


def compared(**changes: Any) -> Comparison:
    """A comparison as this duetbench makes them, in which packages and CPU moved."""
    entry = comparison()
    name = entry.cases[0].case.id
    found = changes.pop("found", WORSE).model_copy(update={"case": name})
    fields = {"findings": (found,), "packages": MOVED}
    return entry.model_copy(update={**fields, **changes})


NAMES: Final = {
    Comparison: proposals.COMPARISON,
    Cause: proposals.CAUSE,
}


@pytest.fixture
def asked(step: Step) -> Step:
    """A step of the job of pull request 12."""
    step.github.add_pull(12, HEAD, BASE)
    step.set_event(PULL)
    step.set(GITHUB_EVENT_NAME="pull_request")
    return step


EVENTS: Final[dict[str, tuple[str, dict[str, Any], str, tuple[str | None, str]]]] = {
    "a pull request": ("pull_request", PULL, "", (BASE, HEAD)),
    "… against another branch": ("pull_request", PULL, "stable", (NEWER, HEAD)),
    "a push": ("push", {"before": BASE, "after": HEAD, **HOME}, "", (BASE, HEAD)),
    "by hand, on the default branch": ("workflow_dispatch", HOME, "same", (None, HEAD)),
}


@pytest.mark.parametrize("kind", EVENTS)
def test_both_sides_follow_from_the_event_and_from_what_github_knows(
    kind: str, asked: Step
) -> None:
    """Never from the base that the event names, which may be an older one."""
    asked.github.merge_bases |= {"stable": NEWER, "same": HEAD, "main": BASE}
    name, payload, base, expected = EVENTS[kind]
    with asked.connected() as github:
        assert event.sides(name, payload, HEAD, github, base) == expected


def test_where_others_code_would_have_our_rights_nothing_begins(asked: Step) -> None:
    with asked.connected() as github, pytest.raises(UsageError, match="untrusted code"):
        event.sides("pull_request_target", PULL, HEAD, github)
    assert asked.github.requests == []


def test_sides_are_fetched_into_a_shallow_clone(
    asked: Step, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clone knows the tip of main alone, as actions/checkout leaves it."""
    origin = tmp_path / "origin"
    git(tmp_path, "init", "--quiet", "--initial-branch=main", str(origin))
    base = commit(origin, "First", **{"uv.lock": "1"})
    commit(origin, "Elsewhere", **{"README.md": "1"})
    git(origin, "switch", "--quiet", "--detach", base)
    head = commit(origin, "Newer", **{"uv.lock": "2"})
    git(origin, "update-ref", "refs/pull/12/head", head)
    git(origin, "switch", "--quiet", "main")
    git(origin, "config", "uploadpack.allowAnySHA1InWant", "true")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{origin}", str(clone))
    monkeypatch.chdir(clone)
    asked.github.add_pull(12, head, base)
    asked.set_event(json.loads(json.dumps(PULL).replace(HEAD, head)))
    asked.set(GITHUB_EVENT_NAME="pull_request", GITHUB_OUTPUT=str(tmp_path / "output"))
    done = asked("sides")
    assert (done.code, done.err) == (0, "")
    handed = (tmp_path / "output").read_text("utf-8")
    values = dict(re.findall(r"^([\w-]+)<<(?:end-\w+)\n(.*)$", handed, re.MULTILINE))
    assert (values["base"], values["head"]) == (base, head)
    assert git(clone, "diff", "--name-only", base, head) == "uv.lock"


LEAD: Final = """\
### ▼ worse: asgi-wsgi/e/py3.14/w1/c128 needs 2.1 % more CPU per request

**Cause**: pydantic 2.13.0 → 2.14.3: +2.1 % CPU per request (+1.5…+2.7 %, 14 duets) alone; \
all packages that moved, together: +2.1 % CPU per request (+1.6…+2.6 %, 9 duets).

"""


@pytest.fixture
def ended(step: Step) -> Step:
    """A step of the workflow that starts when run 5, of pull request 12, has ended."""
    step.github.add_pull(12, HEAD, BASE)
    step.set_event(ENDED)
    step.set(GITHUB_EVENT_NAME="workflow_run", GITHUB_RUN_ID="9")
    return step


def packed(*sent: Comparison | Cause) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for entry in sent:
            archive.writestr(NAMES[type(entry)], files.encode(entry))
    return buffer.getvalue()


def report(ended: Step, *sent: Comparison | Cause, words: str = "") -> Done:
    """What the job of run 5 has sent is reported."""
    ended.github.leave(5, pull_request.ARTIFACT, packed(*sent))
    return ended("report", "--words", words)


def test_a_comment_says_what_the_upgrade_did_and_what_could_be_seen(ended: Step) -> None:
    words = "https://github.com/duetbench/duetbench/blob/v1/docs/glossary.md"
    done = report(ended, compared(), CAUSE, words=words)
    assert (done.code, done.err) == (0, "")
    (body,) = ended.ours()
    text = body.partition("\n")[2]
    assert text[: len(LEAD)] == LEAD
    assert text[len(LEAD) :].startswith("|  | before → after | change |\n")
    assert len(text.partition("<details>")[0].splitlines()) < 16, "with the blank lines"
    assert "a change of 0.62 % or more in CPU per request" in text
    assert f"[what the words mean]({words})" in text
    assert "/actions/runs/5)" in body
    # Whoever says it again changes nothing.
    assert ended("report", "--words", words).out.startswith("unchanged")


@pytest.mark.parametrize("changed", [True, False])
def test_a_comment_begins_only_where_something_changed_if_so_asked(
    changed: bool, ended: Step
) -> None:
    """A comment that is there is renewed, so it never says what is no longer true."""
    sent = compared() if changed else compared(found=SAME)
    ended.github.leave(5, pull_request.ARTIFACT, packed(sent))
    done = ended("report", "--only-if-changed")
    assert done.code == 0
    assert len(ended.ours()) == changed
    assert done.out.startswith("created" if changed else "nothing to say: nothing changed")
    if changed:
        ended.github.leave(5, pull_request.ARTIFACT, packed(compared(found=SAME)))
        assert ended("report", "--only-if-changed").out.startswith("updated")
        assert "### = same" in ended.ours()[0]


def test_functions_behind_a_change_are_marked_at_their_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    covered = Coverage(differ=1, entered=1, functions=("item, shop/a,b.py:5",))
    ((_, text, file, line),) = comments.annotations(compared(coverage=covered))
    assert text.endswith("; item differs and is called")
    assert not [*comments.annotations(compared(found=SAME, coverage=covered))]
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    actions.annotate("warning", "10 %\nmore", file, line)
    assert capsys.readouterr().out == (
        "::warning title=duetbench,file=shop/a%2Cb.py,line=5::10 %25%0Amore\n"
    )


def test_it_is_said_of_the_pull_requests_with_that_head_alone(ended: Step) -> None:
    assert ended("report").out.startswith("nothing to say")
    assert report(ended, compared()).code == 0
    (body,) = ended.ours()
    ended.github.add_pull(12, NEWER, BASE)
    assert ended("report").out.startswith("nothing to say")
    assert ended.ours() == [body]


def test_each_of_several_applications_has_a_comment_of_its_own(ended: Step) -> None:
    """What is none of ours hinders no other."""
    for name, kind in (
        ("", packed(compared())),
        ("-shop", packed(compared())),
        ("-billing", packed(compared())),
        ("-logs", b"no archive"),
    ):
        ended.github.leave(5, f"{pull_request.ARTIFACT}{name}", kind)
    for _ in range(2):
        done = ended("report")
        assert done.code == 4
        assert "artifact 'duetbench-logs': expected a zip archive" in done.err
        titles = [re.search("### duetbench: (.*)", body) for body in ended.ours()]
        assert [title and title[1] for title in titles] == [None, "billing", "shop"]
    for number in range(9):
        ended.github.leave(5, f"{pull_request.ARTIFACT}-{number}", packed(compared()))
    assert "expected at most 10 comparisons" in ended("report").err
    assert len(ended.ours()) == 3
    refused = ended("sides", "--name", "../shop")
    assert (refused.code, "expected letters, digits" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("code", "fail_on", "expected"),
    [(1, "slower", 1), (1, "never", 0), (3, "slower", 0), (4, "", 4)],
)
def test_a_job_is_red_where_it_was_asked_for_or_nothing_could_be_measured(
    code: int, fail_on: str, expected: int, step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what is asked of the other verbs is what the inputs say."""
    called: list[tuple[str, ...]] = []

    def call(*words: str) -> int | Cause:
        called.append(words)
        if words[0] == "bisect":
            return CAUSE
        if code == 4:
            raise SetupError("nothing could be installed")
        files.write(Path(words[words.index("-o") + 1]), compared(why=attribution()))
        return code

    monkeypatch.setattr(pull_request, "_call", call)
    to = step.folder / "out"
    step.set(
        INPUT_APP="shop.main:app", INPUT_REQUESTS="", INPUT_PATH="/items/7\n/items/8\n",
        INPUT_BUDGET="5m", INPUT_ARGS="--with 'server=granian'", INPUT_FAIL_ON=fail_on,
        INPUT_ONLY="counts", INPUT_LIMITS="cpu=5%\nanswers",
    )  # fmt: skip
    done = step("compare", BASE, HEAD, "--to", to)
    assert done.code == expected
    target: tuple[str, ...] = ("--app", "shop.main:app", "--path", "/items/7", "--path", "/items/8")
    target += ("--with", "server=granian")
    file = str(to / "report" / "comparison.json")
    which: tuple[str, ...] = ("-o", file, "--why")
    which += ("--only", "counts", "--limit", "cpu=5%", "--limit", "answers")
    assert called[0] == ("compare", BASE, HEAD, *target, "--budget", "5m", *which)
    if code == 4:
        assert len(called) == 1
        return
    assert called[1] == ("bisect", file, *target, "--budget", "5m")
    assert len(called) == 2
    found = files.read(Cause, to / "report" / "cause.json")
    assert found == CAUSE
    rest = to / "results" / "comparisons" / f"{compared().id}.json"
    stored = files.read(Comparison, rest)
    assert stored == compared(why=attribution())
    assert step.summary.startswith(f"**Exit code {code}**: ")
    assert f"\n\n{LEAD}|  | " in step.summary
    assert "#### Which code it is" in step.summary.partition("<details>")[2]


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"INPUT_TESTS": "tests/api\ntests/web"}, ("--tests", "tests/api", "--tests", "tests/web")),
        ({}, ("--tests", "api")),  # as the repository declares
        ({"INPUT_ARGS": "--env KEY"}, ("--env", "KEY", "--tests", "api")),
        ({"INPUT_ARGS": "--app=shop:app"}, ("--app=shop:app", "--budget", "5m")),
        ({"INPUT_PATH": "/items"}, ("--path", "/items", "--budget", "5m")),
        ({"INPUT_ARGS": "--call shop:send"}, ("--call", "shop:send")),
    ],
)
def test_tests_are_compared_without_a_budget_where_no_application_is_named(
    inputs: dict[str, str], words: tuple[str, ...], step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[tuple[str, ...]] = []

    def call(*words: str) -> int:
        called.append(words)
        files.write(Path(words[words.index("-o") + 1]), compared(packages=()))
        return 0

    monkeypatch.setattr(pull_request, "_call", call)
    (root := step.folder / "shop").mkdir()
    (root / "duetbench.toml").write_text('tests = ["api"]\n')
    git(root, "init", "--quiet")
    monkeypatch.chdir(root)
    step.set(INPUT_BUDGET="5m", **inputs)
    assert step("compare", BASE, HEAD, "--to", step.folder / "out").code == 0
    assert called[0][: 3 + len(words)] == ("compare", BASE, HEAD, *words)
    assert ("--why" in called[0]) is ("--budget" in words)
    assert ("--budget" in called[0]) is ("--budget" in words)


def test_who_starts_others_code_has_none_of_the_jobs_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are back afterwards, and the exit code is returned."""
    for name in (*pull_request._SECRET, "KEPT_FOR_THE_APPLICATION"):
        monkeypatch.setenv(name, "secret")
    seen: set[str] = set()

    def explain() -> None:
        seen.update(os.environ)
        raise Exit(3)

    monkeypatch.setattr("duetbench.cli.explain.explain_command", explain)
    assert pull_request._call("explain") == 3
    assert "KEPT_FOR_THE_APPLICATION" in seen
    assert not seen & pull_request._SECRET
    assert os.environ.keys() >= pull_request._SECRET


@pytest.mark.parametrize(
    ("options", "safe"),
    [
        ("--app shop.main:app --path /items/7 --with factory --with server=granian", True),
        (
            "--app a:b --header 'x-key: {KEY}' --env KEY --with ready-timeout=9s",
            True,
        ),
        ("--app a:b --with packages=../../secrets", False),
        ("--app 'shop:app;id'", False),
        ("--app shop.main:app --before 'curl evil'", False),
    ],
)
def test_of_an_application_only_harmless_options_are_told_again(options: str, safe: bool) -> None:
    requests = f"duetbench compare {BASE[:12]} {HEAD[:12]} {options}"
    assert (rebuilt(compared(reproduce=requests)) == requests) is safe
