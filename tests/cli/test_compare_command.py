"""`duetbench compare` and `run` as people use them: refused, found, interrupted."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from bench import Bench, eventually, launches
from comparing import SAME, WORSE
from duetbench.app import target
from duetbench.cli.options import budget_seconds
from duetbench.core.comparison import Comparison
from duetbench.core.errors import InterruptedRun, UsageError
from duetbench.core.model import Status
from duetbench.host.signals import interruptible
from duetbench.judge.comparison import InterruptedComparison
from fake_sessions import note_sessions
from goldens import assert_said
from repos import borrow_cache, commit, git, make_repository, write

SELECTED = ("--select", "asgi-wsgi/*-json/py3.14/w1/*")


def test_budgets_are_times_and_sizes_to_act_on_are_shares(tmp_path: Path) -> None:
    def limits(text: str) -> str:
        write(tmp_path / text, "duetbench.toml", f"limits = {{ {text} }}\n")
        return str(target.configuration(tmp_path / text).limits)

    assert_said("times", lambda text: f"{budget_seconds(text):g}")
    assert_said("limits", limits, tmp_path)
    assert budget_seconds(None) is None
    with pytest.raises(UsageError, match="expected a time such as 180s"):
        budget_seconds("")


@pytest.mark.real
def test_the_session_gets_the_touched_cases_and_reports_go_where_they_are_asked_for(
    bench: Bench,
) -> None:
    """Standard output gets the document alone; a job of GitHub Actions its summary, unasked.

    An interrupted comparison is shown and written as far as it came, with the signal's exit code;
    a file that cannot be written hides nothing, though its folder was there when it was asked for.
    """
    borrow_cache(bench.folder / "cache", bench.patch)
    repository = make_repository(bench.folder / "repository", bench.patch)
    git(repository, "switch", "--quiet", "--create", "feature")
    app = repository / "apps" / "asgi-wsgi" / "wsgi_app.py"
    app.write_text(app.read_text() + "\nCHANGED = True\n")
    commit(repository, "Change the Flask application")
    summary, page = bench.folder / "summary.md", bench.folder / "c.html"
    compare = ("observatory", "compare", *SELECTED)
    more = ("--budget", "20m", "--seed", "7", "--start", "--limit", "memory=7 %")
    sessions = note_sessions(bench.patch, WORSE)
    bench.patch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    result = bench(*compare, *more, "-o", "-", "-o", page)
    bench.patch.delenv("GITHUB_STEP_SUMMARY")
    assert result.code == 1
    (session,) = sessions
    sides, extent = session.sides, session.extent
    commits = [str(side.record.commit) for side in (sides.base, sides.head)]
    assert commits == [git(repository, "rev-parse", name) for name in ("main", "feature")]
    assert [(pair.case.id, pair.reason, pair.start) for pair in sides.pairs] == [
        (f"asgi-wsgi/{name}/c128", "apps/asgi-wsgi/wsgi_app.py", True)
        for name in ("asgi-json/py3.14/w1", "wsgi-json/py3.14/w1/t64")
    ]
    assert (sides.untouched, extent.seconds, extent.seed) == (0, 1200, 7)
    assert (extent.material, extent.start) == ({"memory": 0.07}, True)
    base, head = (commit[:12] for commit in commits)
    assert session.reproduce == (
        f"observatory compare {base} {head} "
        "--select 'asgi-wsgi/*-json/py3.14/w1/*' --profile quick --seed 7 --start --budget 20m "
        "--limit 'memory=7 %'"
    )
    assert json.loads(result.out)["reproduce"] == session.reproduce
    assert "▼ worse " in " ".join(result.err.split())  # as wide as it may be
    assert "▼ worse " in summary.read_text().partition("\n")[0]
    assert "▼ worse " in page.read_text()

    def interrupt(made: Comparison) -> None:
        partial = made.model_copy(update={"status": "partial"})
        raise InterruptedComparison(signal.SIGINT, partial)

    file = bench.folder / "c.md"
    note_sessions(bench.patch, SAME, interrupt)
    result = bench(*compare, "-o", file)
    assert (result.code, result.err) == (130, "observatory: interrupted by SIGINT\n")
    for text in (result.out, file.read_text()):
        assert "Partial: " in text

    folder = bench.folder / "soon gone"
    folder.mkdir()
    note_sessions(bench.patch, SAME, lambda _: folder.rmdir())
    says = "No such file or directory; free some space, or make the folder writable"
    result = bench.refused(says, *compare, "-o", folder / "c.json", code=4)
    assert " ".join(result.out.split()).count("= same: ") == 1


@pytest.mark.long
@pytest.mark.real
def test_ctrl_c_keeps_what_was_measured(bench: Bench) -> None:
    names = ("right", "error")
    selected = [word for name in names for word in ("--select", f"badapps/{name}")]
    process = bench.start("--launches", "2", *selected)

    def good_ones() -> int:
        partial = bench.unfinished()
        actual = [] if partial is None else [x for many in launches(partial).values() for x in many]
        return sum(launch.status is Status.OK for launch in actual)

    eventually("a launch to be saved", lambda: good_ones() > 0)
    # A nervous hand presses it more than once; a terminal sends it to the whole group.
    for _ in range(3):
        os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, bench.alive(), bench.sessions) == (130, [], []), out
    partial = bench.unfinished()
    assert partial is not None
    assert partial.status == "partial"
    kept = [x for many in launches(partial).values() for x in many if x.status is Status.OK]
    assert kept
    sentence = f"interrupted by SIGINT: {len(kept)} of 4 launches kept: duetbench show "
    assert err.startswith(f"observatory: {sentence}")
    assert partial.notes[0].startswith("interrupted by SIGINT at ")
    assert f"Run {partial.id} (partial)\n" in bench.done("show", err.split()[-1])


@pytest.mark.real
def test_sigterm_leaves_no_process(bench: Bench) -> None:
    """While a server does not get ready."""
    process = bench.start("--profile", "published", "--select", "badapps/blocked")
    eventually("its server", lambda: bool(bench.sessions))
    process.terminate()
    _, err = process.communicate()
    assert (process.returncode, bench.alive(), bench.sessions) == (143, [], []), err
    assert err.startswith("observatory: interrupted by SIGTERM: 0 of 1 launches kept: "), err


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
