"""The branches of nights: real git remotes that race, refuse, hang up and damage nothing."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from bare import Programs
from bench import PROJECT, Ended, execute
from duetbench.ci.actions import credentials
from repos import commit, git, keep, protect, write

LOCK: Final = "apps/stacks/one.txt"
CODE: Final = "apps/tiny.py"
STACK: Final = "duetbench/stack"
HISTORY: Final = "gh-pages"
RENEWED: Final = f"echo 'beta==2.0' >{LOCK}"
PUSHERS: Final = 4


@dataclass(frozen=True)
class Place:
    """A checkout of a remote, in which the script runs; its waits end at once."""

    folder: Path
    origin: Path

    def __call__(self, *words: str, **variables: str) -> Ended:
        env = {**os.environ, "PATH": f"{self.origin.parent}:{os.environ['PATH']}", **variables}
        argv = ["sh", str(PROJECT / "scripts" / "branches.sh"), *words]
        return execute(argv, cwd=self.folder, env=env)

    def done(self, *words: str, **variables: str) -> str:
        result = self(*words, **variables)
        assert result.returncode == 0, result
        return result.stdout

    def add(self, name: str, text: str = "{}") -> None:
        """Clone the history, and push a file to it."""
        self.done("history")
        write(self.folder, f"history/results/{name}", text)
        self.done("keep", "Night")

    def clone(self, name: str) -> "Place":
        git(self.origin.parent, "clone", "--quiet", self.origin.as_uri(), name)
        return Place(self.folder.with_name(name), self.origin)

    def subjects(self, branch: str) -> list[str]:
        """Of its commits, the newest first, as asv follows them."""
        words = ("log", "--first-parent", "--format=%s", branch)
        return git(self.origin, *words).splitlines()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """No configuration and no token of the machine takes part; main takes no push."""
    for name in ("GITHUB_TOKEN", "GITHUB_SERVER_URL", "GITHUB_OUTPUT", "GIT_CONFIG_COUNT"):
        monkeypatch.delenv(name, raising=False)
    origin = tmp_path / "origin.git"
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", str(origin))
    folder = tmp_path / "here"
    write(folder, LOCK, "beta==1.0\n")
    write(folder, CODE, "")
    write(folder, ".github/workflows/one.yml", "name: One\n")
    write(folder, ".gitignore", "/history/\n")
    keep(folder)
    git(folder, "remote", "add", "origin", origin.as_uri())
    git(folder, "push", "--quiet", "origin", "main")
    protect(origin)
    programs(origin, RENEWED)
    return Place(folder, origin)


def programs(origin: Path, renew: str) -> None:
    """Let what `observatory` does be a shell's words."""
    Programs(origin.parent).write("observatory", renew)
    Programs(origin.parent).write("sleep", "exit")


def test_new_locks_are_a_commit_of_their_own(here: Place, tmp_path: Path) -> None:
    """On a branch of its own, which main can be protected from; what it measures is checked out."""
    main = git(here.folder, "rev-parse", "HEAD")
    output = tmp_path / "output"
    assert here.done("locks", GITHUB_OUTPUT=str(output)) == "-beta==1.0\n+beta==2.0\n"
    tip = git(here.origin, "rev-parse", STACK)
    shown = git(here.origin, "show", "--name-only", "--format=%P%n%s%n%b", tip).splitlines()
    assert [*filter(None, shown)] == [main, "Renew the locks", "-beta==1.0", "+beta==2.0", LOCK]
    assert git(here.origin, "rev-parse", "main") == main
    assert git(here.folder, "rev-parse", "HEAD") == tip
    assert output.read_text().splitlines() == [f"commit={main}", f"commit={tip}"]
    assert here.clone("again").done("locks")
    assert git(here.origin, "rev-parse", STACK) == tip

    write(here.folder, CODE, "not committed\n")
    result = here("code")
    assert (result.returncode, "without changes" in result.stderr) == (2, True)


def test_the_branch_of_the_locks_follows_the_code(here: Place, tmp_path: Path) -> None:
    """One line of commits: main's code is taken over, but neither its locks nor its workflows."""
    here.done("locks")
    git(here.origin, "config", "receive.denyNonFastForwards", "true")
    later = here.clone("later")
    new = {CODE: "later\n", ".github/workflows/one.yml": "name: Two\n", LOCK: "beta==1.5\n"}
    main = commit(later.folder, "Later", **new, **{"new.txt": "", "apps/stacks/two.txt": "x\n"})
    programs(here.origin, "exit 4")  # the index is down
    output = tmp_path / "output"
    assert later("locks", GITHUB_OUTPUT=str(output)).returncode == 4
    tip = git(here.origin, "rev-parse", STACK)
    # What can be measured although the locks cannot be renewed.
    assert {*output.read_text().splitlines()} == {f"commit={tip}"}
    assert here.subjects(STACK)[:2] == [f"Code of {main[:12]}", "Renew the locks"]
    changed = git(here.origin, "diff", "--name-only", f"{tip}~1", tip).split()
    assert changed == ["apps/stacks/two.txt", CODE, "new.txt"]
    assert git(here.origin, "show", f"{tip}:{LOCK}") == "beta==2.0"

    # What somebody pushes there beside the locks is not measured: the code is main's.
    theirs = here.clone("theirs")
    git(theirs.folder, "switch", "--quiet", STACK)
    more = {"extra.py": "", "apps/stacks/experiment.toml": ""}
    commit(theirs.folder, "Mine", **{CODE: "stolen\n", LOCK: "beta==9\n"}, **more)
    git(theirs.folder, "push", "--quiet", "origin", STACK)
    git(later.folder, "switch", "--quiet", "main")
    for _ in range(2):  # nothing more to take over: the branch stays where it is
        later.done("code")
    assert here.subjects(STACK)[:2] == [f"Code of {main[:12]}", "Mine"]
    differences = git(later.folder, "diff", "--name-only", main, "HEAD").split()
    assert differences == [".github/workflows/one.yml", LOCK]
    assert git(later.folder, "show", f"HEAD:{LOCK}") == "beta==9"


def test_two_nights_at_once_make_one_line(here: Place) -> None:
    """Who is late begins again from what the other has pushed."""
    theirs = here.clone("theirs")
    script = PROJECT / "scripts" / "branches.sh"
    other = f"cd {theirs.folder} && touch ../began && sh {script} locks >&2"
    version = "$([ $PWD = " + str(theirs.folder) + " ] && echo 1.5 || echo 2.0)"
    programs(here.origin, f"[ -e ../began ] || ({other})\necho beta=={version} >{LOCK}")
    here.done("locks")
    bodies = git(here.origin, "log", "--first-parent", "--format=%b", STACK).split("\n")
    assert [*filter(None, bodies)] == ["-beta==1.5", "+beta==2.0", "-beta==1.0", "+beta==1.5"]


def test_what_is_kept_is_cloned_and_nothing_is_kept_twice(here: Place) -> None:
    here.done("history")
    here.done("keep", "Nothing")
    here.add("runs/one.json")
    here.done("keep", "Again")
    assert here.subjects(HISTORY) == ["Night"]
    other = here.clone("other")
    other.done("history")
    assert (other.folder / "history/results/runs/one.json").read_text() == "{}"
    assert git(here.origin, "ls-tree", "--name-only", HISTORY) == "results"
    git(other.folder, "remote", "set-url", "origin", "file:///nowhere")
    for verb in ("history", "code"):  # where nothing answers no branch begins
        assert other(verb).returncode != 0
    assert not (other.folder / "history").exists()


def test_pushers_that_race_all_land(here: Place) -> None:
    """None of them finds the branch there at first: every file once, one commit each, in a row."""
    places = [here.clone(f"m{number}") for number in range(PUSHERS)]
    for place in places:
        place.done("history")
        write(place.folder, f"history/results/{place.folder.name}.json", place.folder.name)
    with ThreadPoolExecutor(PUSHERS) as pool:
        [*pool.map(lambda place: place.done("keep", "Night"), places)]
    listed = git(here.origin, "ls-tree", "-r", "--name-only", HISTORY).splitlines()
    assert listed == [f"results/m{number}.json" for number in range(PUSHERS)]
    assert here.subjects(HISTORY) == ["Night"] * PUSHERS
    blobs = [git(here.origin, "show", f"{HISTORY}:{path}") for path in listed]
    assert blobs == [f"m{number}" for number in range(PUSHERS)]


def test_a_remote_that_always_refuses(here: Place) -> None:
    Programs(here.origin / "hooks").write("pre-receive", "echo x >>counted; exit 1")
    here.done("history")
    write(here.folder, "history/results/one.json", "{}")
    result = here("keep", "Night")
    assert (result.returncode != 0, "declined" in result.stderr) == (True, True)
    assert (here.origin / "counted").read_text().split() == ["x"] * 6


def test_a_measurement_is_never_rewritten(here: Place) -> None:
    """Of two that push other bytes under one name, the second is red."""
    other = here.clone("other")
    other.done("history")
    write(other.folder, "history/results/runs/one.json", "two")
    here.add("runs/one.json", "one")
    assert other("keep", "Night").returncode != 0
    assert git(here.origin, "show", f"{HISTORY}:results/runs/one.json") == "one"


def test_a_link_in_the_history_is_no_link_here(here: Place) -> None:
    here.add("runs/one.json")
    theirs = here.clone("theirs")
    git(theirs.folder, "switch", "--quiet", HISTORY)
    (theirs.folder / "results" / "passwords.json").symlink_to("/etc/passwd")
    commit(theirs.folder, "A link")
    git(theirs.folder, "push", "--quiet", "origin", HISTORY)
    here.done("history")
    file = here.folder / "history" / "results" / "passwords.json"
    assert (file.is_symlink(), file.read_text()) == (False, "/etc/passwd")


def test_the_token_goes_to_github_alone(here: Place) -> None:
    """Git asks the script's helper for the workflow's own server, and for no other."""
    fill = 'printf "protocol=https\\nhost=$1\\n\\n" | git credential fill'
    Programs(here.origin.parent).write("ask", fill)
    script = (PROJECT / "scripts" / "branches.sh").read_text("utf-8")
    begin = script[: script.index("again()")]
    variables = {"GITHUB_TOKEN": "t0ken", "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "false"}
    env = {**os.environ, **variables, "PATH": f"{here.origin.parent}:{os.environ['PATH']}"}
    for host, given in (("github.com", True), ("github.com.example.org", False)):
        argv = ["sh", "-c", f"{begin}\nask {host}"]
        result = execute(argv, cwd=here.folder, env=env)
        assert ("password=t0ken" in result.stdout) is given, result
    # The tool gives it to git in the environment; what somebody has set there stays.
    made = credentials("https://github.com/a/b", {"GITHUB_TOKEN": "t", "GIT_CONFIG_COUNT": "2"})
    assert made["GIT_CONFIG_COUNT"] == "3"
    assert made["GIT_CONFIG_KEY_2"] == "http.https://github.com/a/b.extraheader"
    assert credentials("https://github.com.example.org/a/b", {"GITHUB_TOKEN": "t"}) == {}
