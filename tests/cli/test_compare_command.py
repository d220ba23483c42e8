"""`duetbench compare` and `run` as people use them: refused, found, interrupted."""

import asyncio
import json
import logging
import os
import signal
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from bench import Bench, Done, eventually, launches
from comparing import SAME, WORSE
from duetbench.app import target
from duetbench.cli.options import budget_seconds
from duetbench.core.comparison import CaseComparison, Comparison, Finding
from duetbench.core.errors import DeclarationError, UsageError
from duetbench.core.model import Status
from duetbench.host.signals import InterruptedRun, interruptible
from duetbench.judge.comparison import InterruptedComparison, Session
from repos import borrow_cache, commit, git, make_repository, make_shop, write

SELECTED = ("--select", "asgi-wsgi/*-json/py3.14/w1/*")


@pytest.fixture
def repository(tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository around the command, with one commit on main and one that changes Flask's app."""
    assert bench.folder == tmp_path  # its variables are set first
    borrow_cache(tmp_path / "cache", monkeypatch)
    root = make_repository(tmp_path / "repository")
    git(root, "switch", "--quiet", "--create", "feature")
    app = root / "apps" / "asgi-wsgi" / "wsgi_app.py"
    app.write_text(app.read_text() + "\nCHANGED = True\n")
    commit(root, "Change the Flask application")
    monkeypatch.setenv("DUETBENCH_ROOT", str(root))
    return root


def test_budgets_are_times() -> None:
    texts = ("90s", "20m", "1h", "1h30m", "1m30s")
    assert [budget_seconds(text) for text in texts] == [90, 1200, 3600, 5400, 90]
    assert budget_seconds(None) is None
    for text in ("", "20", "0m", "m", "1.5h", "-1h", "30m1h", "20 m"):
        with pytest.raises(UsageError, match="expected a time such as 180s"):
            budget_seconds(text)


@pytest.mark.real
@pytest.mark.usefixtures("repository")
def test_wrong_usage_is_refused(bench: Bench) -> None:
    for arguments, sentence in (
        (("--base", "python=3.14", "--head", "python=3.13"), "no interpreter '3.13'"),
        (("nowhere",), "'nowhere' is no revision here"),
        (
            ("--limit", "speed=5%"),
            "one of cpu, throughput, latency, tail, memory, start, sql=N",
        ),
        (("--limit", "memory=5"), "expected a size such as 2.5%, found '5'"),
    ):
        done = bench("observatory", "compare", *arguments)
        assert (done.code, sentence in done.err, done.err.count("\n")) == (2, True, 1), done


def test_sizes_to_act_on_are_keys_of_a_repository_too(tmp_path: Path) -> None:
    for name, size in (("right", "20%"), ("wrong", "20")):
        write(tmp_path / name, "duetbench.toml", f"limits = {{ tail = '{size}', sql = 10 }}\n")
    right = target.configuration(tmp_path / "right")
    assert (right.material, right.most) == ({"tail": 0.2}, {"sql": 10})
    with pytest.raises(DeclarationError, match=r"expected a size such as 2\.5%, found '20'"):
        target.configuration(tmp_path / "wrong")
    for number, limit in enumerate(("inf", "1e400", "nan")):
        write(tmp_path / str(number), "duetbench.toml", f"limits = {{ sql = {limit} }}\n")
        with pytest.raises(DeclarationError, match=r"limits\.sql: found (inf|nan); allowed: a fin"):
            target.configuration(tmp_path / str(number))


@pytest.mark.parametrize("verb", [("compare", "HEAD~1"), ("run",)])
def test_a_repository_that_declares_nothing_is_never_exchanged_for_ours(
    verb: tuple[str, ...], tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_shop(tmp_path / "shop")
    commit(root, "Slower", **{"src/shop/slow.py": ""})
    monkeypatch.delenv("DUETBENCH_ROOT")
    monkeypatch.chdir(root / "src")
    done = bench(*verb)
    assert (done.code, done.out) == (2, f"repository: {root}\n")
    assert done.err.startswith(f"duetbench: {root} declares nothing to measure (no --app, ")
    assert "`duetbench init` writes" in done.err
    write(root, "pyproject.toml", "[tool.duetbench]\n")
    again = bench(*verb)
    assert (again.code, again.out, again.err) == (2, done.out, done.err)
    assert done.err.count("\n") == 1


@pytest.mark.real
def test_what_only_documents_change_is_not_measured(repository: Path, bench: Bench) -> None:
    commit(repository, "Words", **{"README.md": "# Better words\n"})
    files = [bench.folder / name for name in ("c.json", "c.md")]
    done = bench("observatory", "compare", "HEAD~1", "HEAD", "-o", files[0], "-o", files[1])
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"repository: {repository}\n")
    assert "Nothing to judge: no measured case depends on what differs: README.md." in " ".join(
        done.out.split()
    )
    record = json.loads(files[0].read_text())
    assert (record["status"], record["planned"], record["cases"]) == ("complete", 0, [])
    assert record["untouched"] > 20
    assert "README.md" in files[1].read_text()
    assert not bench.alive()


class _Played:
    def __init__(self, found: Finding, *, interrupted: bool = False) -> None:
        self.found, self.interrupted = found, interrupted
        self.session: Session | None = None

    def measure(self, session: Session) -> Comparison:
        self.session = session
        pairs = session.sides.pairs
        cases = tuple(CaseComparison(case=pair.case, because=pair.reason) for pair in pairs)
        found = (self.found.model_copy(update={"case": pair.case.id}) for pair in pairs)
        status = "partial" if self.interrupted else "complete"
        made = session.comparison("complete").model_copy(
            update={"cases": cases, "findings": (*found,), "status": status, "notes": ()}
        )
        if self.interrupted:
            raise InterruptedComparison(signal.SIGINT, made)
        return made


def play(bench: Bench, patch: pytest.MonkeyPatch, played: _Played, *arguments: str) -> Done:
    patch.setattr(Session, "measure", lambda session, _: played.measure(session))
    return bench("observatory", "compare", *SELECTED, *arguments)


@pytest.mark.real
def test_the_session_gets_the_touched_cases_and_its_verdict_decides(
    repository: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = _Played(WORSE)
    file = bench.folder / "c.json"
    more = "--start", "--limit", "memory=7 %", "-o", str(file)
    done = play(bench, monkeypatch, played, "--budget", "20m", "--seed", "7", *more)
    assert (done.code, done.err) == (1, "")
    session = played.session
    assert session is not None
    sides = session.sides
    base, head = sides.base, sides.head
    assert (base.record.commit, head.record.commit) == (
        git(repository, "rev-parse", "main"),
        git(repository, "rev-parse", "feature"),
    )
    assert [(pair.case.id, pair.reason, pair.start) for pair in sides.pairs] == [
        (f"asgi-wsgi/{name}/c128", "apps/asgi-wsgi/wsgi_app.py", True)
        for name in ("asgi-json/py3.14/w1", "wsgi-json/py3.14/w1/t64")
    ]
    assert (sides.untouched, session.extent.seconds, session.extent.seed) == (0, 1200, 7)
    assert (session.extent.material, session.extent.start) == ({"memory": 0.07}, True)
    again = session.reproduce
    assert again == (
        f"observatory compare {str(base.record.commit)[:12]} {str(head.record.commit)[:12]} "
        "--select 'asgi-wsgi/*-json/py3.14/w1/*' --profile quick --seed 7 --start --budget 20m "
        "--limit 'memory=7 %'"
    )
    assert json.loads(file.read_text())["reproduce"] == again


@pytest.mark.real
@pytest.mark.usefixtures("repository")
def test_an_interrupted_comparison_is_shown_as_far_as_it_came(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its report is written as well, and the exit code is the signal's."""
    file = bench.folder / "c.md"
    played = _Played(SAME, interrupted=True)
    done = play(bench, monkeypatch, played, "-o", str(file))
    assert (done.code, done.err) == (130, "observatory: interrupted by SIGINT\n")
    assert "Partial: " in done.out
    assert "Partial: " in file.read_text()


@pytest.mark.real
@pytest.mark.usefixtures("repository")
def test_reports_go_where_they_are_asked_for(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard output gets the document alone; a job of GitHub Actions its summary, unasked."""
    summary, page = bench.folder / "summary.md", bench.folder / "c.html"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    played = _Played(SAME)
    done = play(bench, monkeypatch, played, "-o", "-", "-o", str(page))
    assert json.loads(done.out)["status"] == "complete"
    assert "= same: " in " ".join(done.err.split())  # as wide as it may be
    assert "= same: " in summary.read_text().partition("\n")[0]
    assert "= same: " in page.read_text()


@pytest.mark.real
@pytest.mark.usefixtures("repository")
def test_a_file_that_cannot_be_written_hides_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result is shown all the same: the folder was there when it was asked for."""
    folder = bench.folder / "soon gone"
    folder.mkdir()

    class Removing(_Played):
        def measure(self, session: Session) -> Comparison:
            folder.rmdir()
            return super().measure(session)

    played = Removing(SAME)
    done = play(bench, monkeypatch, played, "-o", str(folder / "c.json"))
    assert (done.code, " ".join(done.out.split()).count("= same: ")) == (4, 1)
    assert "No such file or directory; free some space, or make the folder writable" in done.err


HANDLED = (signal.SIGINT, signal.SIGTERM)


@pytest.mark.long
@pytest.mark.real
def test_ctrl_c_keeps_what_was_measured(bench: Bench) -> None:
    names = ("right", "error")
    selected = [word for name in names for word in ("--select", f"badapps/{name}")]
    process = bench.start("--launches", "2", *selected)

    def good_ones() -> int:
        partial = bench.unfinished()
        found = [] if partial is None else [x for many in launches(partial).values() for x in many]
        return sum(launch.status is Status.OK for launch in found)

    try:
        eventually("a launch to be saved", lambda: good_ones() > 0)
        # A nervous hand presses it more than once; a terminal sends it to the whole group.
        for _ in range(3):
            os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate()
    finally:
        process.kill()
    assert process.returncode == 130, out
    assert not bench.alive()
    assert not bench.sessions
    partial = bench.unfinished()
    assert partial is not None
    assert partial.status == "partial"
    kept = [x for many in launches(partial).values() for x in many if x.status is Status.OK]
    assert len(kept) == 1  # of two
    told = f"interrupted by SIGINT: {len(kept)} of 4 launches kept: duetbench show "
    assert err.startswith(f"observatory: {told}")
    assert partial.notes[0].startswith("interrupted by SIGINT at ")
    shown = bench("show", err.split()[-1])
    assert (shown.code, f"Run {partial.id} (partial)\n" in shown.out) == (0, True), shown


@pytest.mark.real
@pytest.mark.parametrize(("case", "sign"), [("right", "--db-url"), ("blocked", "uvicorn")])
def test_sigterm_leaves_no_process(bench: Bench, case: str, sign: str) -> None:
    process = bench.start("--profile", "published", "--select", f"badapps/{case}")
    try:
        eventually("the moment", lambda: any(sign in words for words in _commands(bench)))
        assert bench.sessions
        process.terminate()
        out, err = process.communicate()
    finally:
        process.kill()
    assert process.returncode == 143, out
    assert err.startswith("observatory: interrupted by SIGTERM: 0 of 1 launches kept: "), err
    assert not bench.alive()
    assert not bench.sessions
    partial = bench.unfinished()
    assert partial is not None
    assert not launches(partial)[case]
    assert partial.notes[0].startswith("interrupted by SIGTERM at ")


def _commands(bench: Bench) -> Iterator[list[str]]:
    """The command lines of what is alive, without what ends while it is looked at."""
    for process in bench.alive():
        with suppress(psutil.Error):
            yield process.cmdline()


@pytest.fixture
def handlers() -> Iterator[None]:
    """Put back what an interruption leaves as it is."""
    before = {number: signal.getsignal(number) for number in HANDLED}
    with warnings.catch_warnings():
        yield
    logging.getLogger("asyncio").disabled = False
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
def test_an_interruption_is_not_lost_in_asyncio() -> None:

    async def interrupted() -> None:
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGINT)
        await asyncio.sleep(30)

    with pytest.raises(InterruptedRun) as caught, interruptible():
        asyncio.run(interrupted())
    assert (str(caught.value), caught.value.exit_code) == ("SIGINT", 130)


def test_signals_are_ignored_while_an_interrupted_command_cleans_up_and_not_after_it() -> None:
    """A second one changes nothing; whoever called the command gets the next."""
    handler, ignored = signal.getsignal(signal.SIGTERM), []

    def measure() -> None:
        with interruptible():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(30)
            finally:
                ignored.append(signal.getsignal(signal.SIGTERM) is signal.SIG_IGN)

    with pytest.raises(InterruptedRun):
        measure()
    assert ignored == [True]
    assert signal.getsignal(signal.SIGTERM) is handler is not signal.SIG_IGN
