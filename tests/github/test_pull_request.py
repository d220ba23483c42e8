"""Pull requests of any repository: both sides, upgrades, the comment, and what may be in it."""

import json
import os
import re
from pathlib import Path
from typing import Any, Final

import pytest

from comparing import WORSE
from duetbench.ci import actions, proposals
from duetbench.ci.actions import NONE
from duetbench.cli import pull_request
from duetbench.core.change import Cause
from duetbench.core.comparison import Comparison, PackageChange, Release
from duetbench.core.errors import SetupError, UsageError
from duetbench.host import files, result_files
from fake_github import BASE, HEAD, NEXT, Step, run_of_pull, zipped
from foreign import comparison
from repos import commit, git
from synthetic import attribution, share

HOME: Final = {"repository": {"full_name": "owner/name", "default_branch": "main"}}
PULL: Final = {
    "pull_request": {
        "number": 12,
        "state": "open",
        "base": {"ref": "main", "sha": NONE},
        "head": {"sha": HEAD, "ref": "feature", "repo": {"full_name": "owner/name"}},
    }
}
MOVED: Final = (
    PackageChange(stack="project", package="httpx", base="0.27.0", head="0.28.1"),
    PackageChange(stack="project", package="pydantic", base="2.13.0", head="2.14.3"),
)
ALONE: Final = share(
    Release(package="pydantic", version="2.14.3", previous="2.13.0"),
    low=1.015, ratio=1.0209, high=1.027, n=14,
)  # fmt: skip
CAUSE: Final = Cause(shares=(ALONE,))
SLOWER: Final = comparison(WORSE, packages=MOVED)


@pytest.mark.parametrize(
    ("name", "payload", "base", "expected"),
    [
        ("pull_request", PULL, BASE, (BASE, HEAD)),
        ("push", {"before": BASE, "after": HEAD, **HOME}, NEXT, (BASE, HEAD)),
        ("push", {"before": NONE, "after": HEAD, **HOME}, BASE, (BASE, HEAD)),
        ("workflow_dispatch", HOME, HEAD, (None, HEAD)),  # by hand, on the default branch
    ],
)
def test_both_sides_follow_from_the_event_and_from_what_github_knows(
    name: str, payload: dict[str, Any], base: str, expected: tuple[str | None, str], step: Step
) -> None:
    """Never from the base that the event names, which may be an older one.

    Where others' code would have our rights nothing begins.
    """
    step.github.merge_bases |= {"main": base}
    with step.connected() as github:
        assert actions.sides(name, payload, HEAD, github) == expected
        asked = len(step.github.requests)
        for trigger in ("pull_request_target", "issue_comment", "workflow_run"):
            with pytest.raises(UsageError, match="untrusted code"):
                actions.sides(trigger, payload, HEAD, github)
    assert len(step.github.requests) == asked


def test_sides_are_fetched_into_a_shallow_clone(step: Step) -> None:
    """The clone knows the tip of main alone, as actions/checkout leaves it."""
    origin, clone = step.folder / "origin", step.folder / "clone"
    git(step.folder, "init", "--quiet", "--initial-branch=main", str(origin))
    base = commit(origin, "First", **{"uv.lock": "1"})
    commit(origin, "Elsewhere", **{"README.md": "1"})
    git(origin, "switch", "--quiet", "--detach", base)
    head = commit(origin, "Newer", **{"uv.lock": "2"})
    git(origin, "update-ref", "refs/pull/12/head", head)
    git(origin, "switch", "--quiet", "main")
    git(origin, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(step.folder, "clone", "--quiet", "--depth=1", f"file://{origin}", str(clone))
    step.patch.chdir(clone)
    step.github.add_pull(12, head, base)
    step.set_event(json.loads(json.dumps(PULL).replace(HEAD, head)))
    step.set(GITHUB_EVENT_NAME="pull_request", GITHUB_OUTPUT=str(step.folder / "output"))
    result = step("sides")
    assert (result.code, result.err) == (0, "")
    handed = (step.folder / "output").read_text("utf-8")
    values = dict(re.findall(r"^([\w-]+)<<(?:end-\w+)\n(.*)$", handed, re.MULTILINE))
    assert (values["base"], values["head"]) == (base, head)
    assert git(clone, "diff", "--name-only", base, head) == "uv.lock"


LEAD: Final = """\
### ▼ worse: asgi-wsgi/e/py3.14/w1/c128 needs 2.1 % more CPU per request

**Cause**: pydantic 2.13.0 → 2.14.3: +2.1 % CPU per request (+1.5…+2.7 %, 14 duets) alone.

"""


def test_a_comment_says_what_the_upgrade_did_and_what_could_be_seen(step: Step) -> None:
    """On the pull requests with that head alone; whoever says it again changes nothing."""
    words = "https://github.com/duetbench/duetbench/blob/v1/docs/glossary.md"

    def report(**ended: Any) -> str:
        """Perform the step of the workflow that starts when run 5 has ended."""
        step.set_event({"workflow_run": {**run_of_pull(5, HEAD), **ended}})
        step.set(GITHUB_EVENT_NAME="workflow_run", GITHUB_RUN_ID="9")
        result = step("report", "--words", words)
        assert (result.code, result.err) == (0, "")
        return result.out

    assert report().startswith("nothing to say")
    sent = {proposals.COMPARISON: SLOWER, proposals.CAUSE: CAUSE}
    archive = zipped({name: files.encode(entry) for name, entry in sent.items()})
    step.github.leave(5, pull_request.ARTIFACT, archive)
    report()
    (body,) = step.ours()
    text = body.partition("\n")[2]
    assert text[: len(LEAD)] == LEAD
    assert text[len(LEAD) :].startswith("|  | before → after | change |\n")
    assert len(text.partition("<details>")[0].splitlines()) < 16, "with the blank lines"
    assert "a change of 0.62 % or more in CPU per request" in text
    assert f"[what the words mean]({words})" in text
    assert "/actions/runs/5)" in body
    assert report().startswith("unchanged")
    assert report(workflow_id=4).startswith("created")  # another application's
    step.github.add_pull(12, NEXT, BASE)
    assert report(workflow_id=4).startswith("nothing to say")
    assert step.ours()[0] == body


Calls = list[tuple[str, ...]]


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """The verbs that a comparison calls; `INPUT_CODE` is the exit code of the first."""
    calls = Calls()

    def call(*words: str) -> int | Cause:
        calls.append(words)
        if words[0] == "bisect":
            return CAUSE
        code = int(os.environ.get("INPUT_CODE", "0"))
        if code == 4:
            raise SetupError("nothing could be installed")
        sent = comparison(WORSE, packages=MOVED, why=attribution())
        files.write(Path(words[words.index("-o") + 1]), sent)
        return code

    monkeypatch.setattr(pull_request, "_call", call)
    return calls


@pytest.mark.parametrize(
    ("code", "fail_on", "expected"),
    [("1", "slower", 1), ("1", "never", 0), ("3", "slower", 0), ("4", "", 4)],
)
def test_a_job_is_red_where_it_was_asked_for_or_nothing_could_be_measured(
    code: str, fail_on: str, expected: int, step: Step, called: Calls
) -> None:
    """And what is asked of the other verbs is what the inputs say."""
    to = step.folder / "out"
    step.set(
        INPUT_APP="shop.main:app", INPUT_PATH="/items/7\n/items/8\n",
        INPUT_BUDGET="5m", INPUT_ARGS="--with 'server=granian'", INPUT_FAIL_ON=fail_on,
        INPUT_CODE=code,
    )  # fmt: skip
    assert step("compare", BASE, HEAD, "--to", to).code == expected
    target = "--app shop.main:app --path /items/7 --path /items/8 --with server=granian --budget 5m"
    file = str(to / "report" / "comparison.json")
    assert called[0] == ("compare", BASE, HEAD, *target.split(), "-o", file, "--why")
    if code == "4":
        assert len(called) == 1
        return
    assert called[1:] == [("bisect", file, *target.split())]
    assert result_files.read(Cause, to / "report" / "cause.json") == CAUSE
    assert result_files.read(Comparison, Path(file)).why == attribution()
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
    inputs: dict[str, str], words: tuple[str, ...], step: Step, called: Calls
) -> None:
    (root := step.folder / "shop").mkdir()
    (root / "duetbench.toml").write_text('tests = ["api"]\n')
    git(root, "init", "--quiet")
    step.patch.chdir(root)
    step.set(INPUT_BUDGET="5m", **inputs)
    assert step("compare", BASE, HEAD, "--to", step.folder / "out").code == 0
    assert called[0][: 3 + len(words)] == ("compare", BASE, HEAD, *words)
    for loads in ("--why", "--budget"):
        assert (loads in called[0]) is ("--budget" in words)


def test_who_starts_others_code_has_none_of_the_jobs_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are back afterwards, and the exit code is returned."""
    for name in (*pull_request._SECRET, "KEPT_FOR_THE_APPLICATION"):
        monkeypatch.setenv(name, "secret")
    seen: set[str] = set()

    def explain() -> int:
        seen.update(os.environ)
        return 3

    monkeypatch.setattr(pull_request, "every_command", lambda _: explain())
    assert pull_request._call("explain") == 3
    assert "KEPT_FOR_THE_APPLICATION" in seen
    assert {"GITHUB_TOKEN", "GITHUB_ENV", "GITHUB_PATH"} <= pull_request._SECRET
    assert not seen & pull_request._SECRET
    assert os.environ.keys() >= pull_request._SECRET
