"""Detection inside the process: asv's figures, commit by commit, with the locks that git holds."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import asv_files
import site_builds
from bench import Bench
from detecting import (
    BUMPED,
    COMMIT,
    MACHINE,
    digest,
    dismissed,
    header_of,
    moved_at,
    pieces,
    recorded,
    run_of,
)
from detecting import table as of_servers
from duetbench.core.model import StackRecord
from duetbench.github import issues
from duetbench.github.incoming import acceptance
from duetbench.judge import inprocess
from duetbench.judge.duets import declared_benchmarks
from duetbench.project import tools
from duetbench.project.project import Project
from duetbench.show.site.pages import trends
from duetbench.show.site.pages.changes import feed_title as title
from duetbench.store import change, files
from duetbench.store.change import Candidate, Candidates, ChangeRecord, Dismissal, SeriesName
from duetbench.store.comparison import (
    Comparison,
    Judgement,
    MicroComparison,
    PackageChange,
    SideRecord,
    Verdict,
)
from duetbench.trend import asv
from duetbench.trend import table as history
from duetbench.trend.candidates import detect, of_table
from duetbench.trend.columns import RunColumns, empty
from duetbench.trend.conclude import closed, conclude
from duetbench.trend.confirm import confirm
from duetbench.trend.steps import steps
from duetbench.trend.table import Table
from fake_sessions import FakeProcesses, of_benchmarks, pair
from foreign import MACHINES, NOW, TRUSTED, comparison
from histories import FIRST
from repos import commit, make_repository, write

ENDPOINT = "asgi-wsgi/asgi-json"
CASE = f"inprocess/handlers.Cpu.time_request(endpoint={ENDPOINT})/py3.14/current"
SERIES = SeriesName(machine=MACHINE, case=CASE, metric="seconds")
GUARD = "inprocess/guard.Packages.track_version(package=python)/py3.14/current"
HANDLERS = asv_files.Bench("handlers.Cpu.time_request", {"endpoint": [ENDPOINT, "driver/asgi"]})


def table(
    figures: Mapping[str, Sequence[float]],
    versions: Sequence[str | None],
    *,
    commits: Sequence[str] | None = None,
    runs: Sequence[str] | None = None,
) -> Table:
    """The commits of one machine; those of the guard are figures of their own unit.

    Args:
        figures: By case, one per commit.
        versions: Of the package `granian` in the stack `current`; None: its lock is not known.
        commits: Their names.
        runs: What their nights are called.
    """
    cases, nights = tuple(figures), []
    for number, version in enumerate(versions):
        header = header_of(
            number,
            cases,
            run=runs[number] if runs else run_of(number),
            kind="inprocess",
            commit=commits[number] if commits else f"{number:040x}",
            interpreters={"3.14": "3.14"},
            stacks={} if version is None else {"current": digest(version)},
            packages={} if version is None else {"current": {"granian": version}},
            metrics=("seconds", "version"),
        )
        mean, low, high, launches = empty(header)
        for row, case in enumerate(cases):
            mean[row, int(case == GUARD)] = figures[case][number]
        nights.append(RunColumns(header, mean, low, high, launches))
    (made,) = history.tables(nights)
    return made


def moved(ratio: float, before: int = 20, after: int = 6, scatter: float = 0.003) -> list[float]:
    """A time of 200 µs that changes."""
    return pieces((before, 2e-4), (after, 2e-4 * ratio), scatter=scatter)


def test_a_step_where_the_commits_lock_changed_is_a_candidate() -> None:
    """5 % more from the first commit with the new lock, which has its date."""
    found = detect([table({CASE: moved(1.05)}, BUMPED)], inside={CASE})
    (one,) = found.candidates
    assert (one.before_run, one.after_run) == (run_of(19), run_of(20))
    assert (one.base_commit, one.head_commit) == (f"{19:040x}", f"{20:040x}")
    assert one.when == FIRST + timedelta(days=20)
    assert one.packages == (PackageChange(stack="current", package="granian", base="1", head="2"),)
    assert one.id.startswith("20261121-current-inside-")
    (step,) = one.steps
    assert step.series == SERIES
    assert step.ratio == pytest.approx(1.05, abs=0.005)
    assert step.nights == (20, 6)


@pytest.mark.parametrize(
    ("ratio", "inside", "count"),
    [
        (1.012, {CASE}, 1),
        # The relevance floor of a process is 1 %.
        (1.008, {CASE}, 0),
        # What no comparison can play could not be confirmed.
        (1.5, {CASE.replace(ENDPOINT, "one/other")}, 0),
        (1.5, set[str](), 0),
    ],
)
def test_what_is_searched(ratio: float, inside: set[str], count: int) -> None:
    """Times that a comparison plays, from its floor on."""
    assert len(steps(table({CASE: moved(ratio, scatter=1e-6)}, BUMPED), inside)) == count


def test_a_wall_time_and_a_version_are_not_searched() -> None:
    """Comparisons play neither."""
    wall = CASE.replace("Cpu", "Wall")
    made = table({wall: moved(1.5), GUARD: moved(1.5)}, BUMPED)
    assert steps(made, {CASE}) == ()


def test_beside_an_unknown_lock_nothing_is_said() -> None:
    """It may have changed there: the step is no candidate, and not called unexplained."""
    versions: list[str | None] = [*["1"] * 20, *["2"] * 10]
    figures = {CASE: moved(1.1, after=10)}
    lost = [None if 18 <= place <= 22 else version for place, version in enumerate(versions)]
    assert of_table(table(figures, lost), {CASE}) == ((), ())
    same = of_table(table(figures, ["1"] * 30), {CASE})
    assert (same[0], [step.series for step in same[1]]) == ((), [SERIES])
    assert len(of_table(table(figures, versions), {CASE})[0]) == 1


def test_server_runs_and_benchmarks_of_one_bump_are_one_candidate() -> None:
    """The same locks, first seen at the same commit; another commit may be another bump."""
    servers = of_servers({"x/a": moved(1.05)}, BUMPED)
    inside = table({CASE: moved(1.2)}, BUMPED, commits=[COMMIT] * 26)
    (both,) = detect([inside, servers], inside={CASE}).candidates
    (alone,) = detect([servers]).candidates
    assert [step.series.case for step in both.steps] == [CASE, "x/a"]
    assert both.model_copy(update={"steps": alone.steps}) == alone
    two = detect([table({CASE: moved(1.2)}, BUMPED), servers], inside={CASE}).candidates
    assert len({one.id for one in two}) == 2


def test_what_was_judged_of_servers_says_nothing_of_benchmarks() -> None:
    """And the other way round; both are known where both were judged."""
    both = [
        of_servers({"x/a": moved(1.05)}, BUMPED),
        table({CASE: moved(1.2)}, BUMPED, commits=[COMMIT] * 26),
    ]
    record = recorded("open", 1.05, 20)
    inner = record.model_copy(update={"id": "inner", "series": SERIES})
    for records, left in (((record,), [CASE]), ((inner,), ["x/a"]), ((record, inner), [])):
        found = detect(both, records, inside={CASE})
        assert [step.series.case for one in found.candidates for step in one.steps] == left
        assert found.known == 2 - len(left)


def test_commits_that_were_measured_late_are_known_by_their_place() -> None:
    """Names say when something was measured; the order of commits is that of their dates."""
    backwards = [f"{99 - number}-asv" for number in range(26)]
    made = table({CASE: moved(1.1)}, BUMPED, runs=backwards)
    (one,) = detect([made], inside={CASE}).candidates
    judged = dismissed(one, Verdict.NO_CHANGE, 1).model_copy(
        update={"id": "earlier", "series": (SERIES,)}
    )
    found = detect([made], (), {judged.id: judged}, {CASE})
    assert (found.candidates, found.known) == ((), 1)


def test_a_series_is_found_in_a_comparison_by_its_name() -> None:
    """For all that a comparison plays, as asv's results name it."""
    case = pair("pydantic-v1-v2/services/py3.14", stack="pydantic-v2")
    names = {"Validate": ("size", "source"), "Serialise": ("size", "target"), "Cpu": ("endpoint",)}
    found = inprocess.targets([case], lambda _: "x", ("handlers", "pydantic_models"), {})
    assert len(found) == 4
    for target in found:
        assert tuple(name for name, _ in target.parameters) == names[target.benchmark.split(".")[1]]
        assert inprocess.SERIES.fullmatch(target.series)
    assert [target.series for target in found[1:2]] == [
        "inprocess/pydantic_models.Validate.time_valid(size=20, source=python)/py3.14/pydantic-v2"
    ]


@pytest.mark.parametrize(
    "name",
    [
        CASE.replace(ENDPOINT, "<b>/x"),
        CASE.replace(ENDPOINT, "../../x"),
        CASE.replace("current", "../x"),
        CASE.replace("3.14", "3.14\n"),
        "asgi-wsgi/asgi-json/py3.14/w1/c128",
    ],
)
def test_other_names_are_none_of_a_comparison(name: str) -> None:
    """What a machine sends may be called anything."""
    assert not inprocess.SERIES.fullmatch(name)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Our applications and locks in a repository of their own."""
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, "/dev/null")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    root = make_repository(tmp_path / "checkout")
    write(root, "benchmarks/handlers.py", "")
    monkeypatch.setenv("DUETBENCH_ROOT", str(root))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(tools, "oha_version", lambda: TRUSTED.oha)
    return root


def bump(root: Path, version: str) -> str:
    """Lock another FastAPI, and give the SHA-256 of the lock."""
    lock = root / "apps" / "stacks" / "current.txt"
    text = re.sub(r"(?m)^fastapi==\S+", f"fastapi=={version}", lock.read_text("utf-8"))
    lock.write_text(text, "utf-8")
    return hashlib.sha256(lock.read_bytes()).hexdigest()


def runs_of(table: Table) -> list[RunColumns]:
    """The runs that a table was made of."""
    return [
        RunColumns(header, table.mean[place], table.low[place], table.high[place], counts)
        for place, (header, counts) in enumerate(zip(table.nights, table.launches, strict=True))
    ]


def test_git_tells_the_locks_and_the_guard_the_interpreter(checkout: Path, tmp_path: Path) -> None:
    """Each commit's own; one that git does not have has none, and is counted in a note."""
    digests = [bump(checkout, "1.0")]
    commits = [commit(checkout, "One")]
    digests.append(bump(checkout, "2.0"))
    commits += [commit(checkout, "Two"), "e" * 40, "f" * 40]
    made = runs_of(table({CASE: [1.0] * 4}, [None] * 4, commits=commits))
    for place, version in ((1, "3.14.7"), (3, "3.14.8")):
        made[place].header.interpreters["3.14"] = version
    found, (note,) = asv.with_git(made, checkout)
    assert [one.header.stacks.get("current") for one in found] == [*digests, None, None]
    packages = [one.header.packages.get("current", {}).get("fastapi") for one in found]
    assert packages == ["1.0", "2.0", None, None]
    named = [one.header.interpreters["3.14"] for one in found]
    assert named == [*["3.14.7"] * 3, "3.14.8"]
    assert "around 2 of 4 commits" in note

    again, (note,) = asv.with_git(made, tmp_path)
    assert [one.header.stacks for one in again] == [{}] * 4
    assert note.startswith("figures inside the process are not searched: ")
    assert asv.with_git([], tmp_path) == ([], ())


def test_another_interpreter_begins_another_series() -> None:
    """A step where the guard saw another version is the interpreter's."""
    made = table({CASE: moved(1.1)}, [None] * 26)
    assert len(steps(made, {CASE})) == 1
    for header in made.nights[20:]:
        header.interpreters["3.14"] = "3.14.8"
    assert steps(made, {CASE}) == ()


def test_a_bump_in_asvs_results_becomes_a_change(
    checkout: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From asv's files and git to the record, its issue and its feed; only the judge is ours."""
    results = checkout / "results" / "asv"
    asv_files.list_benchmarks(results, [HANDLERS])
    for number in range(14):
        bump(checkout, "1.0" if number < 8 else "2.0")
        level = (2e-4 if number < 8 else 2.12e-4) * (1 + 0.002 * (number * 7 % 5 - 2))
        asv_files.write(
            results,
            "3.14",
            "current",
            [(HANDLERS, {(ENDPOINT,): [level] * 3, ("driver/asgi",): [level] * 3})],
            commit=commit(checkout, f"Night {number}"),
            machine=MACHINE,
            committed=1000 * int((FIRST + timedelta(days=number)).timestamp()),
        )
    assert declared_benchmarks(Project(checkout))[CASE].startswith(f"{ENDPOINT}/py3.14/")
    file = tmp_path / "candidates.json"
    done = Bench(checkout, tmp_path, "detecting", capsys, monkeypatch)(
        "ci", "detect", "--output", file
    )
    assert (done.code, done.err) == (0, "")
    assert "time in process (seconds)" in done.out
    (candidate,) = files.read(Candidates, file).candidates
    assert [step.series for step in candidate.steps] == [SERIES]
    assert candidate.steps[0].ratio == pytest.approx(1.06, abs=0.005)
    assert candidate.packages == (
        PackageChange(stack="current", package="fastapi", base="1.0", head="2.0"),
    )

    fake = FakeProcesses(slower={ENDPOINT: 0.06})

    def judge(_: Candidate, seconds: float) -> Comparison:
        return of_benchmarks(fake, tmp_path / "kept", seconds, (ENDPOINT,))

    out = tmp_path / "out"
    told = confirm([candidate], judge, 600.0, out, told=lambda _: None, clock=lambda: fake.now)
    (record,) = told.records
    assert change.read(out / "changes" / f"{candidate.id}.json") == record
    assert (record.series, record.verdict, record.status) == (SERIES, Verdict.SLOWER, "open")
    assert record.culprit is not None
    assert (record.culprit.package, record.culprit.version) == ("fastapi", "2.0")
    assert "A step between 8 and 6 commits" in record.method
    assert " pairs of processes between the two stacks" in record.method
    for named in (issues.change_title(record), title(record)):
        assert f"fastapi 1.0 → 2.0: {CASE} takes " in named

    change.save(Project.here().results, record)
    site = site_builds.gathered(checkout)
    cut = trends.around(site, record)
    assert cut is not None
    drawn = trends.trend_around("../", record, cut, site.events[MACHINE, "inprocess"], "time")
    # The quartiles of asv's samples are no confidence interval.
    assert [point.value.low for point in drawn.points] == [None] * 14

    done = Bench(checkout, tmp_path, "again", capsys, monkeypatch)("ci", "detect", "--json")
    assert (json.loads(done.out)["candidates"], json.loads(done.out)["known"]) == ([], 1)


def played(
    folder: Path, monkeypatch: pytest.MonkeyPatch, slower: float, name: str = ENDPOINT
) -> Comparison:
    """A real comparison of one benchmark by processes that measure nothing."""
    monkeypatch.setattr(tools, "oha_version", lambda: "1.16.0")
    return of_benchmarks(FakeProcesses(slower={name: slower}), folder, None, (name,))


def a_candidate(*series: SeriesName, ratio: float = 1.06, machine: str = MACHINE) -> Candidate:
    """Series that moved together."""
    released = PackageChange(stack="current", package="granian", base="1", head="2")
    ratios = [ratio] * len(series)
    return moved_at(*series, ratios=ratios, packages=[released], machine=machine)


def test_processes_decide_about_a_benchmark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they do not see is dismissed; a benchmark they did not play is named, not claimed."""
    other = SERIES.model_copy(update={"case": CASE.replace("json", "io")})
    served = SERIES.model_copy(update={"case": "x/a", "metric": "throughput"})
    slower = played(tmp_path, monkeypatch, 0.06)
    record = conclude(a_candidate(SERIES, other, served), slower)
    assert isinstance(record, ChangeRecord)
    # No server run was confirmed: nothing says that those moved because of it.
    assert (record.series, record.others, record.unplayed) == (SERIES, (), (other,))
    same = conclude(a_candidate(SERIES), played(tmp_path, monkeypatch, 0.0))
    assert isinstance(same, Dismissal)
    assert (same.verdict, same.series) == (Verdict.NO_CHANGE, (SERIES,))
    opposite = conclude(a_candidate(SERIES, ratio=0.9), slower)
    assert isinstance(opposite, Dismissal)
    assert (opposite.verdict, opposite.final) == (Verdict.INCONCLUSIVE, False)


def test_a_change_inside_the_process_can_be_undone() -> None:
    """Within 3 %: 1.10 · 0.93 = 1.023 is as before, 1.10 · 0.95 = 1.045 is not."""
    slower = recorded("open", 1.10, 20).model_copy(update={"series": SERIES})
    for ratio, undone in ((0.93, 1), (0.95, 0)):
        later = recorded("closed", ratio, 30).model_copy(update={"series": SERIES})
        assert len(closed((slower, later), {})) == undone


def test_a_confirmed_benchmark_is_accepted(tmp_path: Path) -> None:
    """From the machine that it moved on, with its evidence; another unit is refused."""
    machine = MACHINES[0].id
    series = SERIES.model_copy(update={"machine": machine})
    candidate = a_candidate(series, machine=machine).model_copy(
        update={"when": datetime(2026, 11, 19, tzinfo=UTC)}
    )
    judgement = Judgement(
        metric="", verdict=Verdict.SLOWER, ratio=1.05, low=1.04, high=1.06, duets=12
    )
    micro = MicroComparison(
        benchmark="x", stack="current", python="3.14", series=CASE, unit="s", judgement=judgement,
        base=(2e-4,), head=(2.1e-4,),
    )  # fmt: skip
    base, head = (
        SideRecord(
            label="current", kind="stack", commit=None, interpreters=(),
            stacks=(StackRecord(name="current", digest=state.digest, packages={}),),
        )
        for state in (candidate.base, candidate.head)
    )  # fmt: skip
    evidence = comparison(base=base, head=head, planned=0, cases=(), micro=(micro,), reproduce=())
    record = conclude(candidate, evidence)
    assert isinstance(record, ChangeRecord)
    foreign = record.model_copy(update={"series": series.model_copy(update={"metric": "bytes"})})
    for place, sent, refused in (("good", record, 0), ("bad", foreign, 1)):
        folder = tmp_path / place / f"confirmed-{machine}"
        for below, value in (("changes", sent), ("comparisons", evidence)):
            (folder / below).mkdir(parents=True)
            text = value.model_dump_json(indent=1) + "\n"
            (folder / below / f"{value.id}.json").write_text(text)
        done = acceptance.confirmed(
            tmp_path / place, tmp_path / f"{place}-out", TRUSTED, NOW, {candidate.id: candidate}
        )
        assert len(done.refused) == refused, done.refused
