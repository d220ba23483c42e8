"""Workflows run by act: a night, a pull request, and the action for any repository."""

import json
import re
import shutil
import subprocess
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pytest

import acting
from bench import PROJECT
from duetbench.cli import init
from duetbench.core.errors import HistoryError
from duetbench.host import files
from duetbench.host.git import ask, ask_or_none
from fake_github import BOT, run_of_pull
from repos import asgi, commit, git, keep, protect, write, write_all
from synthetic import change_record

SCHEDULED: Final = {"schedule": "41 9 * * *"}
TRIED: Final = "short/one"
BRANCH: Final = "duetbench/stack"
STARTED: Final = {
    "ref": "refs/heads/main",
    "repository": {"default_branch": "main"},
    "inputs": {"select": TRIED},
}


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.real
def test_a_night_and_what_is_published_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release comes out: it is locked, measured, stored and shown, with an earlier change.

    One case is tried, and nothing inside the process.
    """
    acting.need("act")
    with acting.set_stage(tmp_path, monkeypatch) as (stage, index):
        history = tmp_path / "history"  # which begins with a change by granian 2.8.7
        subprocess.run(["git", "clone", "--quiet", stage.remote, history], check=True)
        git(history, "switch", "--quiet", "--orphan", "gh-pages")
        files.save(history / "results", change_record())
        commit(history, "A change")
        git(history, "push", "--quiet", "origin", "gh-pages")
        before = git(stage.tree, "rev-parse", "HEAD")
        protect(stage.remote)
        index.add("alpha", "2.0", "2026-11-01")
        night = stage.act("nightly.yml", "workflow_dispatch", STARTED)
        jobs = ("stack", "run", "store")
        assert night.results == dict.fromkeys(jobs, "success"), night.text

        # The stack: a commit of its own, which says what was released.
        assert git(stage.remote, "rev-parse", "main") == before
        bump, start = (git(stage.remote, "rev-parse", f"{BRANCH}~{n}") for n in range(2))
        assert start == before
        changed = git(stage.remote, "diff", "--name-only", before, bump)
        assert changed == "apps/stacks/current.txt"
        message = git(stage.remote, "log", "-1", "--format=%B", bump)
        assert all(word in message for word in ("alpha", "1.0", "2.0"))

        # The history: the machine's run.
        listed = git(stage.remote, "ls-tree", "-r", "--name-only", "gh-pages", "results/runs/")
        run = json.loads(git(stage.remote, "show", f"gh-pages:{listed}"))
        assert run["commit"] == bump
        assert run["stacks"][0]["packages"]["alpha"] == "2.0"
        (result,) = run["results"]
        assert (result["case"]["id"], result["launches"][0]["status"]) == (TRIED, "ok")
        assert "Run Main Measure against the anchor" in night.text
        assert "Run Main Measure inside the process" not in night.text

        # Without Pages its job says so.
        stage.variables["STANDIN_NO_PAGES"] = "1"
        outcome = stage.act("publish.yml", "schedule", SCHEDULED)
        assert outcome.results == {"detect": "success", "site": "failure"}, outcome.text
        assert "Get Pages site failed" in outcome.text
        del stage.variables["STANDIN_NO_PAGES"]
        outcome = stage.act("publish.yml", "schedule", SCHEDULED)
        assert outcome.results == dict.fromkeys(("detect", "site"), "success"), outcome.text
        site = stage.folder / "pages" / str(outcome.number)
        for page in ("", "p/granian/2.8.7/", "sides/", "docs/"):
            assert (site / page / "index.html").is_file(), page
        assert 'href="./docs/"' in (site / "index.html").read_text("utf-8")
        assert git(stage.remote, "ls-tree", "--name-only", "gh-pages") == "results"


PULL: Final = 7
NASTY = '$(touch pwned) `touch pwned` ${{ github.token }} <img src=x> **x** "; exit 1 #'
APP = "apps/short/short.py"


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.real
def test_from_the_question_to_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One comment: a placeholder, then the report; where nothing comes of it, the reason."""
    acting.need("act")
    with acting.set_stage(tmp_path, monkeypatch) as (stage, _):
        stage.github.permit("maintainer", "write")
        fork = tmp_path / "fork"
        subprocess.run(["git", "clone", "--quiet", stage.remote, fork], check=True)
        base, app = git(stage.tree, "rev-parse", "main"), (fork / APP).read_text()

        def propose(**files: str) -> str:
            """Push a commit; its message, title and branch are nasty."""
            head = commit(fork, NASTY, **files)
            git(fork, "push", "--quiet", "--force", "origin", f"HEAD:refs/pull/{PULL}/head")
            pull = stage.github.add_pull(PULL, head, base)
            pull["title"] = pull["head"]["ref"] = NASTY
            return head

        def said() -> str:
            comments = stage.github.comments_of(PULL)
            (body,) = (comment["body"] for comment in comments if comment["user"]["login"] == BOT)
            return str(body)

        head = propose(**{APP: f"{app}\nCHANGED = True\n"})
        event = stage.github.comment_event(PULL, "maintainer", f"/bench {head}")
        event["issue"]["title"] = NASTY
        requests = stage.act("slash.yml", "issue_comment", event)
        assert requests.results == {"answer": "success"}, requests.text
        assert "duetbench: queued" in said()
        inputs = {"pr": str(PULL), "head": head, "base": base}
        assert stage.github.dispatches[-1]["inputs"] == inputs
        budget, result = (
            {"DUETBENCH_BUDGET": "5s"},
            dict.fromkeys(("approve", "run", "report"), "success"),
        )
        payload = {"inputs": inputs}
        measured = stage.act("bench.yml", "workflow_dispatch", payload, variables=budget)
        assert measured.results == result, measured.text
        assert head[:12] in said()
        assert "no result" not in said()
        assert "short/" in said()

        head = propose(**{"apps/short/experiment.toml": "question = 1\n"})
        payload = {"inputs": {**inputs, "head": head}}
        broken = stage.act("bench.yml", "workflow_dispatch", payload, variables=budget)
        assert broken.results == {**result, "run": "failure", "report": "failure"}, broken.text
        assert "no result" in said()
        assert not list(stage.folder.rglob("pwned"))


PAGE: Final = PROJECT / "docs" / "pull-requests.md"
OURS: Final = "duetbench/duetbench"
FENCE: Final = re.compile(r"^```yaml (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOP: Final = {
    "pyproject.toml": (
        '[project]\nname = "shop"\nversion = "1"\nrequires-python = ">=3.14"\n\n'
        '[tool.duetbench]\napp = "shop.main:app"\nrequests = ["GET /items/7"]\n'
    ),
    ".gitignore": "__pycache__/\n",
    "requirements.txt": "alpha==1.0\nhttptools\nuvicorn\n",
    "src/shop/__init__.py": "",
    "src/shop/main.py": asgi("", 'body = scope["path"].encode()'),
}
"""Somebody's repository."""

HOSTILE: Final = """\
import os
from pathlib import Path

LOOT = Path({loot!r})
EVIL = LOOT / "evil"


def leave():
    pid, found = os.getppid(), {{}}
    while (name := Path(f"/proc/{{pid}}/comm").read_text().strip()) != "act":
        text = Path(f"/proc/{{pid}}/environ").read_text(errors="replace")
        (LOOT / f"of-{{name}}-{{pid}}").write_text(text)
        found = dict(line.split("=", 1) for line in text.split(chr(0)) if "=" in line) | found
        pid = int(Path(f"/proc/{{pid}}/stat").read_text().rpartition(")")[2].split()[1])
    EVIL.write_text(f"env > {{LOOT}}/later-$$\\n")
    EVIL.chmod(0o755)
    for name, line in ("ENV", f"BASH_ENV={{EVIL}}"), ("PATH", LOOT), ("OUTPUT", "artifact=evil"):
        with open(found[f"GITHUB_{{name}}"], "a") as file:
            file.write(f"{{line}}\\n")
    program = Path(found["GITHUB_ACTION_PATH"], ".venv", "bin", "duetbench")
    program.unlink()
    program.symlink_to(EVIL)
    checkout = Path(found["GITHUB_WORKSPACE"])
    (LOOT / "config").write_text((checkout / ".git" / "config").read_text())
    (checkout / ".git" / "hooks" / "post-checkout").symlink_to(EVIL)
    for file in (checkout / ".github" / "workflows").iterdir():
        file.write_text("on: push")


if not EVIL.exists():
    leave()
"""
"""What an application does when it is imported that wants more than to be measured."""


def examples(revision: str) -> dict[str, str]:
    """The page's workflows by their names, with the action and GitHub's own at their commits."""
    own = (PROJECT / "action.yml", *sorted((PROJECT / ".github" / "workflows").iterdir()))
    used = (re.findall(r"(actions/[\w-]+)@(\w+)", file.read_text("utf-8")) for file in own)
    uses = dict(chain.from_iterable(used))
    result = {}
    for name, text in FENCE.findall(PAGE.read_text("utf-8")):
        named = re.sub(r"OWNER/duetbench(\S*)@main", rf"{OURS}\1@{revision} # v1.0.0", text)
        # In a line of braces a comment would swallow the rest.
        pinned = re.sub(r"(actions/[\w-]+)@v\d+", lambda item: f"{item[1]}@{uses[item[1]]}", named)
        result[name.rpartition("/")[2]] = pinned
    return result


def test_the_page_keeps_its_promises(tmp_path: Path) -> None:
    """Ten lines at most; no finding of actionlint, nor of zizmor; rights only as the page says."""
    result = examples("1" * 40)
    assert max(len(text.splitlines()) for text in result.values()) <= 10
    git(tmp_path.parent, "init", "--quiet", str(tmp_path))
    for name, text in result.items():
        write(tmp_path, f".github/workflows/{name}", text)
    assert acting.actionlint(tmp_path).stdout == ""
    outcome = acting.zizmor(tmp_path, "regular")
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert {*result} == {"duetbench.yml", "duetbench-comment.yml"}
    for name, text in result.items():
        document = acting.load(text)
        for job in document["jobs"].values():
            measures = any(f"{OURS}@" in step.get("uses", "") for step in job["steps"])
            # Others' code reaches all that its job has, and whatever its workflow's run has later.
            assert measures == (job["permissions"] == {"contents": "read"}), name
            assert measures == ("workflow_run" not in document["on"]), name


def test_the_workflows_that_init_writes_are_those_of_the_page(tmp_path: Path) -> None:
    """But for the application, which its keys declare, in its folder."""
    git(tmp_path.parent, "init", "--quiet", str(tmp_path))
    made = init.workflows(Path("backend"))
    for name, text in made.items():
        write(tmp_path, f".github/workflows/{name}", text)
    assert acting.actionlint(tmp_path).stdout == ""
    page = examples("main")
    for name in made:
        ours, theirs = acting.load(made[name]), acting.load(page[name])
        assert ours["on"] == theirs["on"]
        assert {*ours["jobs"]} == {*theirs["jobs"]}
        for job, parts in ours["jobs"].items():
            assert parts["permissions"] == theirs["jobs"][job]["permissions"]
    assert acting.load(made["duetbench.yml"])["jobs"]["duetbench"]["steps"][-1]["with"] == {
        "root": "backend"
    }


def test_no_later_step_has_what_compared_code_could_take() -> None:
    """It may have changed the programs and files of the job: no step after it starts any of them.

    Nor has one a token, and what it leaves for them (GITHUB_ENV, GITHUB_PATH) meets no shell.
    """
    steps = acting.load((PROJECT / "action.yml").read_text("utf-8"))["runs"]["steps"]
    names = [step["name"] for step in steps]
    later = steps[names.index("Compare") :]
    assert [step["name"] for step in steps if "GITHUB_TOKEN" in str(step)] == ["Find both sides"]
    assert not re.search(r"token|secrets", str(later), re.IGNORECASE)
    assert ["actions/upload-artifact" in step.get("uses", "") for step in later[1:]] == [True]


def test_every_input_is_on_the_page_and_every_word_of_the_page_is_an_input() -> None:
    """With the default that it has."""
    inputs = acting.load((PROJECT / "action.yml").read_text("utf-8"))["inputs"]
    page = PAGE.read_text("utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| .* \| (.*?) ?\|$", page, re.MULTILINE)
    assert [name for name, _ in rows] == list(inputs)
    text = {name: result[1] for name, default in rows if (result := re.match("`(.*)`$", default))}
    assert text == {
        name: entry["default"]
        for name, entry in inputs.items()
        if entry["default"] and not entry["default"].startswith("$")
    }


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.real
def test_compared_code_leaves_nothing_for_who_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fork's has the rest of its own job, where no token is; the second workflow does as ever.

    A shallow clone has neither side; little is measured.
    """
    acting.need("act")
    loot = tmp_path / "loot"
    loot.mkdir()

    def read(pattern: str) -> str:
        return "".join(file.read_text() for file in sorted(loot.glob(pattern)))

    with acting.theatre(tmp_path, monkeypatch) as (stage, _):
        stage.variables["UV_PYTHON_INSTALL_DIR"] = str(stage.folder / "pythons")
        ours = stage.folder / "ours"
        shutil.copytree(PROJECT / ".github", ours / ".github")
        for file in (PROJECT / "action.yml", acting.SMALL / "Makefile"):
            shutil.copy(file, ours)
        revision = keep(ours)
        for name, text in examples(revision).items():
            brief = text.replace("path: /items/7", "path: /items/7, budget: 5s")
            write(stage.tree, f".github/workflows/{name}", brief)
        write_all(stage.tree, SHOP)
        base = keep(stage.tree)
        acting.publish(stage.tree, stage.remote)
        git(stage.tree, "switch", "--quiet", "--detach", "main")
        hostile = HOSTILE.format(loot=str(loot)) + SHOP["src/shop/main.py"]
        head = commit(stage.tree, "A change", **{"src/shop/main.py": hostile})
        git(stage.tree, "push", "--quiet", "--force", "origin", f"HEAD:refs/pull/{PULL}/head")
        git(stage.tree, "switch", "--quiet", "main")
        stage.github.add_pull(PULL, head, base)["head"]["owner"] = "stranger"

        def act(workflow: str, event: str, payload: dict[str, Any]) -> acting.Outcome:
            return stage.act(workflow, event, payload, local={f"{OURS}@{revision}": ours})

        ends = {"head": {"sha": head, "ref": "feature"}, "base": {"sha": "0" * 40, "ref": "main"}}
        asked = {"number": PULL, "pull_request": {"number": PULL, "state": "open", **ends}}
        measured = act("duetbench.yml", "pull_request", asked)
        assert measured.results == {"duetbench": "success"}, measured.text
        assert stage.github.comments_of(PULL) == []

        # It was where it wanted to be: above itself, in the checkout, and in a later step.
        assert "GITHUB_ENV=" in read("of-*")
        assert "[remote" in read("config")
        assert "GITHUB_ACTION=" in (later := read("later-*"))
        assert acting.TOKEN not in read("of-*") + read("config") + later
        artifacts = stage.folder / "artifacts" / str(measured.number)
        assert [place.name for place in artifacts.iterdir()] == ["duetbench"]

        about = run_of_pull(measured.number, head, "stranger")
        commented = act(
            "duetbench-comment.yml", "workflow_run", {"action": "completed", "workflow_run": about}
        )
        assert commented.results == {"comment": "success"}, commented.text
        (comment,) = stage.github.comments_of(PULL)
        assert f"`{head[:12]}` · [the run, with all figures](" in comment["body"]
        assert f"/actions/runs/{measured.number})" in comment["body"]
        assert read("later-*") == later


@pytest.mark.thorough
@pytest.mark.real
def test_a_checkout_of_another_user_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a job with `container:`; git itself plays the other owner. Once is enough."""
    step = acting.load((PROJECT / "action.yml").read_text("utf-8"))["runs"]["steps"][0]
    write(tmp_path, "ours/Makefile", "harness:\n")
    git(tmp_path, "init", "--quiet", "theirs")
    for name, value in {
        "GITHUB_ACTION_PATH": "ours",
        "GITHUB_WORKSPACE": "theirs",
        "HOME": "",
        "GIT_CONFIG_GLOBAL": "config",
    }.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(HistoryError, match=r"safe\.directory .*; it belongs to another user"):
        ask_or_none(tmp_path / "theirs", "status")
    for _ in range(2):
        subprocess.run(["bash", "-e", "-c", step["run"]], check=True)
        assert ask(tmp_path / "theirs", "status", "--porcelain") == ""
    assert (tmp_path / "config").read_text().count("directory = ") == 1
