"""Nights, from the schedule to the published site, run by act."""

import hashlib
import json
import subprocess
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

import asv_files
from acting import HOSTED, PROJECT, Acted, Stage, load, need
from bench import Bench, eventually
from duetbench.core.model import Run, StackRecord, Status
from duetbench.github.branches import BRANCH
from duetbench.host.machine import fingerprint
from duetbench.project import anchor, settings
from duetbench.project.anchor import Anchor
from duetbench.store import change as changes
from duetbench.store import store
from duetbench.store.change import ChangeRecord, Release, SeriesName, StackState
from duetbench.store.comparison import Judgement, PackageChange, Verdict
from duetbench.trend import table as history
from duetbench.trend.candidates import detect
from duetbench.trend.columns import of_run
from foreign import MACHINES, commands, conclusion, inside
from histories import FIRST, good, night_run, result_of, save
from repos import commit, git
from staging import ENDPOINTS, staged
from synthetic import make_case
from tiny_index import Index

SCHEDULED = {"schedule": "17 1 * * *"}
CASES = {f"short/{name}" for name in ENDPOINTS}
ALWAYS = ("stack", "plan", "store", "detect", "announce", "site", "deploy")

CHANGE = ChangeRecord(
    id="20261101-alpha", status="open",
    series=SeriesName(machine="xeon-2c-000000", case="short/one", metric="server_cpu_per_request"),
    when=datetime(2026, 11, 1, 3, tzinfo=UTC), base=StackState(stack="current", digest="a" * 64),
    head=StackState(stack="current", digest="b" * 64),
    packages=(PackageChange(stack="current", package="alpha", base="0.9", head="1.0"),), ratio=1.1,
    low=1.08, high=1.12, verdict=Verdict.SLOWER,
    culprit=Release(package="alpha", version="1.0", previous="0.9"), method="Planted by a test.",
)  # fmt: skip


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Stage, Index]]:
    """The stage of tiny nights, one launch per case, and the index of releases."""
    need("act")
    with staged(tmp_path, monkeypatch) as (stage, index):
        stage.variables["DUETBENCH_LAUNCHES"] = "1"
        yield stage, index


MACHINE = MACHINES[0]
CPU = "server_cpu_per_request"


def history_with_a_step() -> tuple[Run, ...]:
    """Sixteen nights of another machine, until now; in six, another lock and 20 % more CPU."""
    today = (datetime.now(UTC) - FIRST).days
    case = make_case("short/one")
    nights = []
    for number in range(-16, 0):
        level, version = (1e-4, "0.8") if number < -6 else (1.2e-4, "0.9")
        metrics = {CPU: level * (1 + 0.003 * (number * 7 % 5 - 2))}
        stack = StackRecord(name="current", digest=version[-1] * 64, packages={"alpha": version})
        run = night_run(today + number, MACHINE.id, [result_of(case, good(case, 1.0, metrics))])
        nights.append(store.rounded(run.model_copy(update={"stacks": (stack,)})))
    return tuple(nights)


def confirmed(folder: Path, runs: Sequence[Run]) -> ChangeRecord:
    """What the machine of these nights would send after its duets, which saw the same."""
    nights = [of_run(run) for run in runs]
    (candidate,) = detect(history.tables(nights)).candidates
    saw = Judgement(metric=CPU, verdict=Verdict.SLOWER, ratio=1.2, low=1.15, high=1.25, duets=12)
    short = make_case("short/one")
    evidence, record = conclusion(
        candidate, saw, oha=settings.load(PROJECT).oha.version,
        started=datetime.now(UTC).isoformat(),
        played={"case": short, "commands": commands(short, MACHINE)},
    )  # fmt: skip
    for below, value in (("changes", record), ("comparisons", evidence)):
        (folder / below).mkdir(parents=True)
        (folder / below / f"{value.id}.json").write_text(value.model_dump_json(indent=1) + "\n")
    return record


BROKEN = """
[endpoints.broken]
app = "short:app"
interface = "asgi"
path = "/there-is-no-such-thing"
expect = { content_type = "text/plain", text = "right" }
floor = 0.1
"""


def breaks_one(stage: Stage) -> str:
    """Declare an endpoint that its application does not have: none of its launches is good."""
    file = stage.tree / "apps" / "short" / "experiment.toml"
    listed = file.read_text().replace('"four"]', '"four", "broken"]')
    commit(stage.tree, "A broken one", **{"apps/short/experiment.toml": listed + BROKEN})
    return "short/broken"


def protect(stage: Stage) -> None:
    hook = stage.remote / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        '#!/bin/sh\nwhile read -r old new name; do [ "$name" != refs/heads/main ] || exit 1; done\n'
    )
    hook.chmod(0o755)


def plays_inside(stage: Stage) -> str:
    """Let each shard's machine bring figures inside the process: their path without the commit."""
    machine = fingerprint()
    document = inside(machine, commit_hash="COMMIT", date="DATE")
    document["results"]["gil.Cpu.time_tasks"][3] = "START"
    template, script = stage.folder / "inside.json", stage.folder / "micro.sh"
    template.write_text(json.dumps(document))
    script.write_text(
        f"mkdir -p measured/asv/{machine.id} && commit=$(git rev-parse HEAD) &&\n"
        f's="s/COMMIT/$commit/; s/\\"DATE\\"/$(git log -1 --format=%at)000/" &&\n'
        f'sed "$s; s/\\"START\\"/$(date +%s)000/" {template} > measured/asv/{machine.id}/'
        '$(echo "$commit" | cut -c 1-8)-duetbench-py3.14-stackcurrent.json\n'
    )
    stage.variables["STANDIN_MICRO"] = str(script)
    listed = asv_files.Bench("gil.Cpu.time_tasks", {"mode": ["serial"], "tasks": [1, 2, 4]})
    asv_files.list_benchmarks(stage.tree / "results" / "asv", [listed])
    suite = "class Cpu:\n    def time_tasks(self): ...\n"
    declared = (PROJECT / "benchmarks" / "gil.toml").read_text("utf-8")
    commit(stage.tree, "A suite", **{"benchmarks/gil.py": suite, "benchmarks/gil.toml": declared})
    git(stage.tree, "push", "--quiet", "origin", "main")
    return f"results/asv/{machine.id}"


def anchors(stage: Stage) -> None:
    """Declare an anchor, as which nothing is played: whoever plays has the points at hand."""
    declared = Anchor(
        name="first", commit=git(stage.tree, "rev-parse", "HEAD"), since=date(2026, 11, 1),
        protocol=1, interpreters={"3.14": "3.14.7"}, stacks={"current": "0" * 64},
    )  # fmt: skip
    commit(stage.tree, "An anchor", **{"apps/anchor.toml": anchor.text(declared)})
    git(stage.tree, "push", "--quiet", "origin", "main")
    stage.variables["STANDIN_POINTS"] = "1"


def remember(stage: Stage, record: ChangeRecord, *runs: Run) -> None:
    """Let the history begin with a change that an earlier night has confirmed, and with nights."""
    folder = stage.folder / "history"
    subprocess.run(["git", "clone", "--quiet", stage.remote, folder], check=True)
    git(folder, "switch", "--quiet", "--orphan", "gh-pages")
    changes.save(folder / "results", record)
    save(folder / "results", *runs)
    commit(folder, "A change")
    git(folder, "push", "--quiet", "origin", "gh-pages")


def night(stage: Stage, shards: int, **more: Any) -> Acted:
    variables = {"DUETBENCH_SHARDS": str(shards)}
    return stage.act("nightly.yml", "schedule", SCHEDULED, variables=variables, **more)


def end(stage: Stage, begun: Acted, job: str | None = None) -> Acted:
    """What follows when all shards have ended: act stops where a called workflow fails."""
    plan = (stage.folder / "artifacts" / str(begun.number) / "night" / "night.json").read_bytes()
    said = {"sha256": hashlib.sha256(plan).hexdigest(), "commit": json.loads(plan)["commit"]}
    file = stage.tree / ".github" / "workflows" / "nightly.yml"
    workflow = load(file.read_text("utf-8"))
    for name in ("stack", "plan", "run"):
        workflow["jobs"][name] = {"runs-on": HOSTED, "outputs": said, "steps": [{"run": "true"}]}
    file.write_text(yaml.safe_dump(workflow), "utf-8")
    same = {"GITHUB_RUN_ID": str(begun.number)}
    return stage.act("nightly.yml", "schedule", SCHEDULED, env=same, job=job)


def recorded(stage: Stage, folder: str) -> dict[str, Any]:
    """The JSON files of the history below `results/<folder>/`, by name."""
    prefix = f"results/{folder}/"
    return {
        path.rpartition("/")[2].removesuffix(".json"): stage.read("gh-pages", path)
        for path in stage.branch("gh-pages")
        if path.startswith(prefix)
    }


def runs_of(stage: Stage) -> list[Run]:
    runs = (
        store.decode(stage.git("show", f"gh-pages:{path}").encode(), path)
        for path in stage.branch("gh-pages")
        if path.startswith("results/runs/")
    )
    return [run for run in runs if run.shard is not None]


def measured(run: Run) -> set[str]:
    """The cases of a run that have a valid launch."""
    return {
        result.case.id
        for result in run.results
        if any(launch.status is Status.OK for launch in result.launches)
    }


@pytest.mark.long
@pytest.mark.real
def test_two_nights_at_once_one_of_which_loses_a_machine(scene: tuple[Stage, Index]) -> None:
    """A release comes out: it is locked, measured, stored and shown; an earlier change is told.

    Both push, nothing is lost or doubled, and what is missing is recorded and red.
    """
    stage, index = scene
    earlier = history_with_a_step()
    remember(stage, CHANGE, *earlier)
    found = confirmed(stage.folder / "judged", earlier)
    stage.variables["STANDIN_CONFIRMED"] = str(stage.folder / "judged")
    broken = breaks_one(stage)
    place = plays_inside(stage)
    anchors(stage)
    before, later = git(stage.tree, "rev-parse", "HEAD"), stage.folder / "later"
    subprocess.run(["git", "clone", "--quiet", stage.remote, later], check=True)
    newer = commit(later, "Words", **{"README.md": "# Other words\n"})
    git(later, "push", "--quiet", "origin", "main")
    protect(stage)
    index.add("alpha", "2.0", "2026-11-01")
    index.add("alpha", "3.0", f"{datetime.now(UTC):%Y-%m-%d}")  # nobody has looked at it yet
    dying = stage.start(
        "nightly.yml", "schedule", SCHEDULED, variables={"DUETBENCH_SHARDS": "3"}, job="run",
        env={"STANDIN_DEAD_SHARD": "3"},
    )  # fmt: skip
    # Of one commit, both could begin in one second here, and one machine has one run by one name.
    eventually("the first one's commit", lambda: bool(stage.git("branch", "--list", BRANCH)))
    whole = stage.start("nightly.yml", "schedule", SCHEDULED, tree=later, job="store")
    hurt, fine = dying.end(), whole.end()
    good = dict.fromkeys(("stack", "plan", "run/1", "store/1"), "success")
    assert fine.results == {**good, "store": "success"}, fine.text
    lost = {"run/3": "failure", "store/3": "failure"}
    assert hurt.results == {**good, "run/2": "success", "store/2": "success", **lost}, hurt.text
    assert hurt.failed["run/3"][0] == "Measure"
    assert hurt.failed["store/3"] == ["Check what came"]

    # The stack: a commit of its own, which says what was released; then the newer code.
    tip, bump, start = (stage.git("rev-parse", f"{BRANCH}~{n}").strip() for n in range(3))
    assert (start, stage.git("rev-parse", "main").strip()) == (before, newer)
    assert stage.git("diff", "--name-only", before, bump).split() == ["apps/stacks/current.txt"]
    assert stage.git("diff", "--name-only", bump, tip).split() == ["README.md"]
    message = stage.git("log", "-1", "--format=%B", bump)
    assert all(word in message for word in ("alpha", "1.0", "2.0"))

    # The history: one file per shard, by a commit of its own; then the night's record.
    subjects = stage.git("log", "--reverse", "--format=%s", "gh-pages").splitlines()[1:]
    assert sorted(subject.split()[0] for subject in subjects) == ["Night", *["Runs:"] * 3]
    runs = runs_of(stage)
    assert sorted((run.shard, run.commit) for run in runs) == sorted(
        [(1, bump), (1, tip), (2, bump)]
    )
    assert all(run.stacks[0].packages["alpha"] == "2.0" for run in runs)
    ((_, record),) = recorded(stage, "nights").items()
    assert record["status"] == "complete"
    assert [case for shard in record["shards"] for case in shard["failed"]] == [broken]
    assert [measured(run) for run in runs if run.commit == tip] == [CASES]

    ended = end(stage, hurt)
    rest = dict.fromkeys((*ALWAYS, "run", f"confirm/{MACHINE.id}", "keep"), "success")
    assert ended.results == {**rest, "store": "failure"}, ended.text
    assert ended.failed["store"] == ["Check what came", "Push it"]
    assert "no run of this shard arrived" in ended.text
    assert runs_of(stage) == runs
    by_status = {record["status"]: record for record in recorded(stage, "nights").values()}
    assert set(by_status) == {"complete", "incomplete"}
    (gone,) = (shard for shard in by_status["incomplete"]["shards"] if shard["missing"])
    assert (gone["shard"], gone["runs"]) == (3, [])
    came = (measured(run) for run in runs if run.night == by_status["incomplete"]["id"])
    assert CASES <= set.union(set(gone["missing"]), *came) <= {*CASES, broken}
    assert stage.git("ls-tree", "--name-only", "gh-pages").split() == ["results"]
    assert [*recorded(stage, "packages")["alpha"]["versions"]] == ["2.0"]

    # Against the anchor: each shard's points, and what has none.
    points = recorded(stage, "points").values()
    assert sorted((one["shard"], one["night"], one["commit"]) for one in points) == sorted(
        (run.shard, run.night, run.commit) for run in runs
    )
    without = {
        (status, shard["shard"]): [one["reason"] for one in shard["without_point"]]
        for status, record in by_status.items()
        for shard in record["shards"]
    }
    played = (("complete", 1), ("incomplete", 1), ("incomplete", 2))
    assert without == {
        **{key: ["base: not_ready: 60 s"] for key in played},
        ("incomplete", 3): ["no points of this shard arrived"] * gone["planned"],
    }

    # Inside the process: of one commit and machine once, with the machine's description.
    inner = [path for path in stage.branch("gh-pages") if path.startswith(place)]
    assert f"{place}/machine.json" in inner
    figures = {stage.read("gh-pages", path)["commit_hash"]: path for path in inner[:-1]}
    assert len(inner) == 3
    assert all(path.startswith(f"{place}/{at[:8]}-duetbench-") for at, path in figures.items())
    assert set(figures) == {bump, tip}

    # What the machine has confirmed, as it came.
    assert recorded(stage, "changes")[found.id] == json.loads(found.model_dump_json())
    assert list(recorded(stage, "comparisons")) == [found.evidence]

    # The issues, with the addresses of pages that are published in the same night.
    site = stage.site(hurt.number)
    assert [issue["state"] for issue in stage.github.state.issues] == ["open", "open"]
    bodies = "\n".join(issue["body"] for issue in stage.github.state.issues)
    assert all(f"/c/{change}/" in bodies for change in (CHANGE.id, found.id))
    for page in ("", f"c/{CHANGE.id}/", f"c/{found.id}/", "data/"):
        assert (site / page / "index.html").is_file(), page
    assert list(site.glob("b/inprocess/gil.Cpu.time_tasks*/py3.14/current/index.html"))
    assert "short" in (site / "index.html").read_text("utf-8")


def test_a_night_that_no_machine_takes_is_red(scene: tuple[Stage, Index]) -> None:
    stage, _ = scene
    begun = night(stage, 1, labels=(), job="run")
    said = {"stack": "success", "plan": "success", "store/1": "failure"}
    assert begun.results == said, begun.text
    done = end(stage, begun, "store")
    assert done.results["store"] == "failure"
    assert done.failed["store"][-1] == "Push it"
    ((_, record),) = recorded(stage, "nights").items()
    assert record["status"] == "empty"
    assert {case for shard in record["shards"] for case in shard["missing"]} == CASES


def test_a_plan_that_was_replaced_is_neither_measured_nor_stored(
    tmp_path: Path, bench: Bench
) -> None:
    """A measuring machine can replace an artifact of its own run, but not a job's output."""
    plan = tmp_path / "night.json"
    plan.write_text("{}")
    done = bench("ci", "history", "push", tmp_path, "--plan", plan, "--plan-sha256", "0" * 64)
    assert done.code == 4
    assert "it was replaced" in done.err
    done = bench("run", "--plan", plan, "--plan-sha256", "0" * 64, "--shard", "1")
    assert (done.code, "it was replaced" in done.err) == (4, True)


def test_without_an_index_the_night_measures_what_is_locked(
    scene: tuple[Stage, Index], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the stack could not be renewed is red; the plan is of the stack that there is."""
    stage, _ = scene
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    done = night(stage, 1, job="plan")
    assert done.results == {"stack": "failure", "plan": "success"}, done.text


def test_a_night_of_another_branch_does_nothing(scene: tuple[Stage, Index]) -> None:
    """Somebody starts it by hand there: nothing is locked, planned, stored or published."""
    stage, _ = scene
    git(stage.tree, "switch", "--quiet", "--create", "mine")
    before = stage.git("for-each-ref")
    event = {"ref": "refs/heads/mine", "repository": {"default_branch": "main"}}
    done = stage.act("nightly.yml", "workflow_dispatch", event)
    assert set(done.results.values()) <= {"skipped"}, done.text
    assert stage.git("for-each-ref") == before
    git(stage.tree, "switch", "--quiet", "main")
    event["ref"] = "refs/heads/main"
    done = stage.act("nightly.yml", "workflow_dispatch", event, job="stack")
    assert done.results == {"stack": "success"}, done.text
