"""The history: real git remotes that race, refuse, hang up and damage nothing."""

import base64
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer
from tenacity.wait import wait_random_exponential
from werkzeug import Request, Response

import foreign
import synthetic
from bare import Programs
from disks import small_disk
from duetbench.core.errors import HistoryError, RecordError
from duetbench.host import files, result_files
from duetbench.host.files import MOST_BYTES
from duetbench.host.git import ask, credentials
from histories import hook, listing, make_remote, night_run, place_of, save
from observatory.store import history_branch
from observatory.store.history_branch import BRANCH, PushResult, Remote, push, remote_of
from observatory.store.kinds import collect
from repos import git, keep


@pytest.fixture(autouse=True)
def _git_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration and no token of the machine takes part."""
    for name in ("GITHUB_TOKEN", "GITHUB_SERVER_URL", "GIT_CONFIG_COUNT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(history_branch, "_WAIT", wait_random_exponential(0.05, max=1.0))


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    return make_remote(tmp_path)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three tries."""
    monkeypatch.setattr(history_branch, "TRIES", 3)


def file(name: str, data: bytes = b"{}\n") -> dict[str, bytes]:
    """A file that nobody checks."""
    return {f"runs/{name}/2026/run.json": data}


def sent(remote: Remote, files: Mapping[str, bytes], heard: list[str] | None = None) -> PushResult:
    return push(files, remote, "Night", print if heard is None else heard.append)


def pull(remote: Remote, results: Path) -> int:
    """Pull; return how many files were written."""
    return history_branch.pull(remote, results, print)[1]


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_what_is_pushed_can_be_pulled(remote: Remote, tmp_path: Path) -> None:
    source = save(tmp_path / "source", night_run(0), night_run(1), night_run(0, "beta"))
    files, runs, others = collect(source)
    assert (len(files), len(runs), others) == (3, 3, [])
    assert (len(sent(remote, files).added), listing(remote)) == (
        3, sorted(f"results/{path}" for path in files),
    )  # fmt: skip
    again = sent(remote, files)
    assert (again.added, len(again.there)) == ([], 3)
    assert git(place_of(remote), "rev-list", "--count", BRANCH) == "1"

    target = tmp_path / "target"
    tip = git(place_of(remote), "rev-parse", BRANCH)
    assert history_branch.pull(remote, target, print) == (tip, 3)
    assert contents(target) == contents(source)
    sent(remote, file("gamma"))
    assert pull(remote, target) == 1


def test_a_history_alone_is_without_what_is_committed_beside_the_code(
    remote: Remote, tmp_path: Path
) -> None:
    results = save(tmp_path / "fork" / "results", night_run(0))
    keep(results.parent)
    (results / "FINDINGS.md").write_text("Words")
    sent(remote, file("alpha"))
    assert history_branch.pull(remote, results, print, alone=True)[1] == 1
    assert [*contents(results)] == ["FINDINGS.md", "runs/alpha/2026/run.json"]


def test_pushers_that_race_all_land(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them finds the branch there at first: every file once, one commit each, in a row."""
    pushers = 4
    all_have_looked, looked = threading.Barrier(pushers, timeout=60), threading.local()
    real = history_branch._clone

    def clone(remote: Remote, work: Path) -> str:
        found = real(remote, work)
        if not hasattr(looked, "before"):
            looked.before = True
            all_have_looked.wait()
        return found

    monkeypatch.setattr(history_branch, "_clone", clone)
    heard: list[str] = []
    with ThreadPoolExecutor(pushers) as pool:
        [*pool.map(lambda n: sent(remote, file(f"m{n}", b"%d" % n), heard), range(pushers))]
    assert listing(remote) == [f"results/runs/m{n}/2026/run.json" for n in range(pushers)]
    count = partial(git, place_of(remote), "rev-list", "--count", BRANCH)
    assert (count(), count("--merges")) == (str(pushers), "0")
    assert len(heard) >= pushers - 1
    shown = (f"{BRANCH}:results/runs/m{n}/2026/run.json" for n in range(pushers))
    assert [git(place_of(remote), "cat-file", "blob", path) for path in shown] == [*"0123"]


@pytest.mark.usefixtures("few")
def test_a_remote_that_always_refuses(remote: Remote, tmp_path: Path) -> None:
    source = save(tmp_path / "source", night_run())
    before = contents(source)
    hook(remote, "pre-receive", "exit 1\n")
    with pytest.raises(HistoryError, match=r"declined.*push them again later"):
        sent(remote, collect(source)[0])
    assert contents(source) == before
    assert (place_of(remote) / "counted").read_text().strip() == "3"


def test_a_program_in_the_configuration_of_a_checkout_is_not_started(tmp_path: Path) -> None:
    """Git would start it whenever it looks for changes."""
    git(tmp_path, "init", "--quiet")
    monitor = Programs(tmp_path).write("monitor", "touch started")
    git(tmp_path, "config", "core.fsmonitor", str(monitor))
    for program, started in ((ask, False), (git, True)):
        program(tmp_path, "status")
        assert (tmp_path / "started").exists() is started


# Before the branch has moved nothing has arrived; afterwards all has, and nobody said so.
@pytest.mark.parametrize("name", ["pre-receive", "post-receive"])
def test_a_push_that_is_cut_off(remote: Remote, name: str) -> None:
    """Whether it had arrived is looked up: nothing is lost, nothing is there twice."""
    hook(remote, name, '[ "$COUNT" -ge 1 ] || kill -9 $PPID\n')
    heard: list[str] = []
    pushed = sent(remote, file("alpha"), heard)
    assert len(heard) == 1
    assert pushed.there == ["runs/alpha/2026/run.json"] * (name == "post-receive")
    assert git(place_of(remote), "rev-list", "--count", BRANCH) == "1"
    assert listing(remote) == ["results/runs/alpha/2026/run.json"]


def test_other_bytes_under_the_same_name_are_refused(remote: Remote, tmp_path: Path) -> None:
    """That holds back nothing else: a night has the files of many machines. Nor does a pull."""
    sent(remote, file("alpha", b"one"))
    pushed = sent(remote, file("beta") | file("alpha", b"two"))
    assert pushed.added == ["runs/beta/2026/run.json"]
    assert pushed.conflicts == ["runs/alpha/2026/run.json"]
    here = tmp_path / "runs" / "alpha" / "2026" / "run.json"
    here.parent.mkdir(parents=True)
    here.write_bytes(b"two")
    assert (pull(remote, tmp_path), here.read_bytes()) == (1, b"two")
    here.unlink()
    pull(remote, tmp_path)
    assert here.read_bytes() == b"one"


def test_only_whole_files_enter(remote: Remote, tmp_path: Path) -> None:
    good = save(tmp_path / "good", night_run())
    (path,) = result_files.runs(good)
    spoils: tuple[tuple[str, Callable[[Path], object], str], ...] = (
        ("cut", lambda p: p.write_bytes(p.read_bytes()[:-40]), "truncated or damaged"),
        ("moved", lambda p: p.rename(p.with_name("another.json")), "by its content"),
        ("linked", lambda p: p.with_suffix(".link").symlink_to(p), "found a link"),
        ("large", lambda p: p.write_bytes(b" " * (MOST_BYTES + 1)), "at most 16,000,000 bytes"),
    )
    for name, spoil, sentence in spoils:
        spoil(result_files.runs(folder := save(tmp_path / name, night_run()))[0])
        with pytest.raises(RecordError, match=sentence):
            collect(folder)
    (good / "README.md").write_text("Not ours")
    (good / "runs" / "notes.json").write_text("{}")
    (path.parent / ".hidden.json").write_text("{}")
    files, _, others = collect(good)
    assert [*files] == [path.relative_to(good).as_posix()]
    assert sorted(others) == ["README.md", "runs/notes.json"]
    assert collect(tmp_path / "nowhere") == ({}, [], [])
    sent(remote, files)


def of_asv(folder: Path, seconds: float) -> Path:
    """A results folder as `observatory inprocess --to` leaves it, with one of asv's files."""
    document = foreign.inside(durations={"<build>": seconds})
    for path, content in foreign.asv_files(document).items():
        files.replace(folder / path, content)
        if path.endswith("-stackcurrent.json"):
            (folder / path).with_name("3f2a9c17-load-runs-py3.14-stackcurrent.json").write_text(
                "{}"
            )
    return folder


def of_change(folder: Path, status: str) -> Path:
    """A results folder with the record of a change."""
    files.save(folder, synthetic.change_record(status=status))
    return folder


def test_what_may_change_is_replaced(remote: Remote, tmp_path: Path) -> None:
    """A change that was closed; asv's figures of a night without a new commit. Nothing else."""
    for first, again, strangers in (
        (of_change(tmp_path / "a", "open"), of_change(tmp_path / "b", "closed"), 0),
        (of_asv(tmp_path / "c", 1.0), of_asv(tmp_path / "d", 2.0), 2),
    ):
        entries, _, others = collect(first)
        assert len(others) == strangers, "what asv writes for its own site stays here"
        sent(remote, entries)
        (newer,) = sent(remote, collect(again)[0]).added
        pull(remote, first)
        assert (first / newer).read_bytes() == (again / newer).read_bytes()


def test_a_file_of_asv_belongs_where_it_says(tmp_path: Path) -> None:
    """Under another commit's name it would stand in the graphs where it does not belong."""
    folder = of_asv(tmp_path / "one", 1.0)
    (path,) = folder.glob("asv/*/*-duetbench-*.json")
    moved = path.rename(path.with_name("00000000-duetbench-py3.14-stackcurrent.json"))
    with pytest.raises(RecordError, match="by its content"):
        collect(folder)
    nameless = json.dumps(foreign.inside(params={"python": "3.14"}))
    for spoilt in ("[]", "{", '{"params": 1, "commit_hash": "x"}', nameless):
        moved.write_text(spoilt)
        with pytest.raises(RecordError, match="expected a file of asv's"):
            collect(folder)


def test_a_run_that_was_cut_short_is_kept(tmp_path: Path) -> None:
    """A killed runner's partial file becomes a partial run of that name, unless it was finished."""
    cut = night_run(status="partial")
    (path,), (run,), _ = collect(save(tmp_path, cut))
    assert (path, run.status) == (cut.path, "partial")
    (only,), (run,), _ = collect(save(tmp_path, night_run(), cut))
    assert (only, run.status) == (path, "complete")


def test_links_and_strangers_in_the_branch_are_not_laid_out(remote: Remote, tmp_path: Path) -> None:
    work = tmp_path / "work"
    folder = work / "results" / "runs" / "alpha" / "2026"
    folder.mkdir(parents=True)
    (folder / "passwords.json").symlink_to("/etc/passwd")
    (folder / "run.json").write_text("{}")
    (work / "results" / "evil.sh").write_text("exit 1")
    (work / "index.html").write_text("not results")
    keep(work)
    git(work, "push", "--quiet", remote.address, f"HEAD:{BRANCH}")
    pull(remote, tmp_path / "target")
    written = contents(tmp_path / "target")
    assert written.pop("runs/alpha/2026/run.json") == b"{}"
    assert written == {"runs/alpha/2026/passwords.json": b"/etc/passwd"}, "a file, and no link"


@pytest.mark.usefixtures("few")
def test_a_full_disk(remote: Remote, tmp_path: Path) -> None:
    """A pull leaves no half of a file, says so, and works once there is room."""
    sent(remote, collect(save(tmp_path / "source", *(night_run(n) for n in range(3))))[0])
    target = tmp_path / "target"
    target.mkdir()
    with small_disk(target) as fill:
        fill()
        with pytest.raises(HistoryError, match="could not be fetched: "):
            pull(remote, target)
        assert list(contents(target)) == ["ballast"]
        (target / "ballast").unlink()
        assert pull(remote, target) == 3


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    with HTTPServer(host="127.0.0.1") as served:
        yield served


@pytest.mark.usefixtures("few")
def test_the_token_goes_to_github_alone(
    server: HTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only to the workflow's own server, as a header that git reads from its environment."""
    heard: list[str | None] = []

    def refuse(request: Request) -> Response:
        heard.append(request.headers.get("Authorization"))
        return Response("no", status=403)

    server.expect_request("/me/it/info/refs").respond_with_handler(refuse)
    address = server.url_for("/me/it")
    monkeypatch.setenv("GITHUB_TOKEN", "secret-token")
    for ours in (server.url_for("").rstrip("/"), "https://github.com"):
        monkeypatch.setenv("GITHUB_SERVER_URL", ours)
        remote = remote_of(tmp_path, address)
        assert "secret" not in repr(remote)
        with pytest.raises(HistoryError, match=r"403") as problem:
            sent(remote, file("alpha"))
        assert "secret" not in str(problem.value)
    expected = base64.b64encode(b"x-access-token:secret-token").decode()
    assert heard == [f"basic {expected}"] * 3 + [None] * 3
    # What somebody has set in the environment stays.
    result = credentials("https://github.com/a/b", {"GITHUB_TOKEN": "t", "GIT_CONFIG_COUNT": "2"})
    assert result["GIT_CONFIG_COUNT"] == "3"
    assert result["GIT_CONFIG_KEY_2"] == "http.https://github.com/a/b.extraheader"
