"""Files from other machines: what could come, and what becomes of it."""

import io
import math
import re
import shutil
import subprocess
import tracemalloc
import zipfile
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from attributing import attribution
from duetbench.ci import archives, proposals
from duetbench.core.change import Cause, Commit, Release
from duetbench.core.comparison import Comparison, PackageChange
from duetbench.core.errors import ArtifactError
from duetbench.core.model import MOST, Artefact, Missing, Run
from duetbench.host import files
from foreign import (
    LOCKS,
    MACHINES,
    NOW,
    RESULTS,
    comparison,
    inside,
    judge_candidate,
    night,
    points,
    put_inside,
    shard_run,
)
from observatory.cli import app
from observatory.github import incoming
from observatory.github.incoming import Acceptance
from observatory.matrix.checkout import Checkout
from observatory.store.change import Change
from steps import BASE, HEAD
from synthetic import share

HIDDEN: Final = "\u202egnihtyna"  # shown from right to left
RUN: Final = "20261120T090000Z-nightly-3f2a9c17"
NIGHT: Final = "20261120T100000Z-night"
run, pointed = partial(shard_run, 1), partial(points, 1)


def altered(value: Any, **changes: Any) -> Any:
    return value.model_copy(update=changes)


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    """A folder with what three shards of an honest night have sent."""
    for number in (1, 2, 3):
        files.save(tmp_path / "incoming" / f"shard-{number}", shard_run(number))
    return tmp_path / "incoming"


def accepted(source: Path) -> Acceptance:
    shutil.rmtree(source.parent / "accepted", ignore_errors=True)
    return incoming.night(night(), source, source.parent / "accepted", LOCKS, NOW)


def test_an_honest_night_is_accepted_as_it_is(inbox: Path) -> None:
    """Runs, points with a run or alone, asv's figures: each where it belongs, byte for byte.

    What a killed shard has saved becomes a partial run.
    """
    for number in (1, 2):
        files.save(inbox / f"shard-{number}", points(number))
    put_inside(inbox, "shard-1", inside())
    result = accepted(inbox)
    assert (result.exit_code, result.refused, len(result.accepted)) == (0, {}, 7)
    for path in result.accepted:
        sent = next(inbox.glob(f"*/{path}"))
        assert (inbox.parent / "accepted" / path).read_bytes() == sent.read_bytes()
    shutil.rmtree(inbox / "shard-2" / "runs")
    shutil.rmtree(inbox / "shard-1" / "runs")
    part = altered(run(status="partial"), results=run().results[:1])
    files.save(inbox / "shard-1", part)
    result = accepted(inbox)
    assert (result.exit_code, len(result.accepted)) == (0, 6)
    assert files.read(Run, files.place(inbox.parent / "accepted", run())) == part


def send(folder: Path, what: Any) -> None:
    """Lay out an artefact, asv's file, or what a shell makes, in the artifact of shard 1."""
    if isinstance(what, str):
        subprocess.run(["sh", "-c", what], cwd=folder, check=True)
    elif isinstance(what, dict):
        put_inside(folder.parent, folder.name, what)
    else:
        if isinstance(what, Run):
            shutil.rmtree(folder / "runs")
        files.save(folder, what)


def stacked(**changes: Any) -> Run:
    head, *others = run().stacks
    return run(stacks=(altered(head, **changes), *others))


RESULT: Final = run().results[0]
LOADED: Final = altered(RESULT.case, env={"LD_PRELOAD": "/tmp/x"})
(POINT,) = pointed().cases
ATTACKS: Final[list[tuple[str, Any]]] = [
    # Folders that are none of ours.
    ("more than 64 files", "for i in $(seq 64); do echo {} >$i.json; done"),
    ("the name '..%2f..%2fescape", "echo {} >..%2f..%2fescape.json"),
    ("the name 'a\\n::x'", "echo {} >\"$(printf 'a\\n::x')\""),
    ("'run.json' is not a plain file", "ln -s /etc/passwd run.json"),
    ("'run.json' is not a plain file", "mkfifo run.json"),
    ("at most 8,000,000 bytes per file", "truncate -s 2000000000 run.json"),
    ("at most 4,000,000 bytes of a night", "truncate -s 4000001 run.json"),
    ("expected a run or anchored points, found none", "rm -r runs"),
    ("expected it at runs/", "mv runs/* x; mkdir runs/y; mv x/* runs/y"),
    ("Extra inputs", "sed -i 's/{/{\"x\": 1,/' runs/*/*/*"),
    # Runs that lie about where, when and with what they were measured, or act on who reads them.
    ("machine of shard 1: expected", run(machine=MACHINES[1])),
    ("is the machine's clock right?",
     run(started="2026-12-20T09:00:00+00:00", id="20261220T090000Z-nightly-3f2a9c17-s1")),
    ("night: expected", run(night=None)),
    ("machine of shard 2: expected", run(shard=2)),
    ("shard 9, which the plan does not have", run(shard=9)),
    ("artifact: expected shard-2", shard_run(2)),
    ("commit: expected", run(commit="0" * 40, id="20261120T090000Z-nightly-00000000")),
    ("dirty: expected False", run(dirty=True)),
    (f"id: expected {RUN}… of shard 1", run(id=f"{RUN}-s2")),
    ("lock of stack 'current'", stacked(digest="0" * 64)),
    ("lock of stack 'own': expected none", stacked(name="own")),
    ("'evil', which is no package of this checkout", stacked(packages={"evil": "1"})),
    ("which is no case of shard 1",
     altered(run(), results=(altered(RESULT, case=LOADED),))),
    ("U+001B", run(notes=("\x1b]0;owned\x07",))),
    ("a control character (U+202E", run(notes=(HIDDEN,))),
    # Points of something else.
    ("machine of shard 1: expected", pointed(machine=MACHINES[1])),
    ("anchor: expected 2026-11", pointed(anchor="2026-10")),
    ("a case twice", pointed(cases=(POINT, POINT))),
    ("is in the future", pointed(when="2026-11-22T10:00:00Z")),
    ("a second run, or file of points", (pointed(id=f"{NIGHT}-0a0a0a-s1"), pointed())),
    ("'inprocess/a/data.json', which is no case of shard 1",
     pointed(cases=(replace(POINT, case="inprocess/a/data.json"),))),
    ("'x', which is no case of shard 1", pointed(missing=(Missing(case="x", reason="y"),))),
    ("origin: expected night, found",
     pointed(origin="backfill", label="as of 2026-11-01")),
    (f"id: expected {NIGHT}-… of shard 1", pointed(id="20261119T100000Z-night-0a1b2c-s1")),
    # asv's figures that are more.
    ("commit of asv's results", inside(commit_hash="3f2a9c17" + "0" * 32)),
    ("machine of asv's results",
     "mkdir -p asv/x; echo '{\"machine\": \"x\", \"version\": 1}' >asv/x/machine.json"),
    ("should be a finite number", inside(durations={"x": math.inf})),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "what"), ATTACKS)
def test_what_is_not_as_it_should_be_costs_the_others_nothing(
    inbox: Path, reason: str, what: Any
) -> None:
    """Nothing of it is used, not even a right run beside it, and the others are accepted."""
    for each in what if isinstance(what, tuple) else (what,):
        send(inbox / "shard-1", each)
    tracemalloc.start()
    result = accepted(inbox)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [*result.refused] == ["'shard-1'"], result
    assert reason in result.refused["'shard-1'"]
    assert "\n" not in result.refused["'shard-1'"]
    rest = sorted(path for path in (inbox.parent / "accepted").rglob("*") if path.is_file())
    assert [path.read_bytes() for path in rest] == [files.encode(shard_run(n)) for n in (2, 3)]
    assert result.exit_code == 1
    assert peak < 50_000_000


def test_an_artifact_that_is_itself_a_link_or_has_an_odd_name(inbox: Path) -> None:
    (inbox / "shard-4").symlink_to("shard-2")
    (inbox / "x`\n::set-env name=A::b").mkdir()
    result = accepted(inbox)
    assert len(result.accepted) == 3
    assert [*result.refused] == ["'shard-4'", "'x'\\n::set-env name=A::b'"]
    for number in range(archives.MOST_ARTIFACTS):
        (inbox / f"many-{number}").touch()
    with pytest.raises(ArtifactError, match="expected at most 300 artifacts"):
        accepted(inbox)


def test_a_machine_that_the_plan_does_not_name_may_be_new_but_not_another_one(inbox: Path) -> None:
    plan = night((MACHINES[0].id, None, None))
    shutil.rmtree(inbox / "shard-3")
    files.save(inbox / "shard-3", shard_run(3, machine=MACHINES[0]))
    result = incoming.night(plan, inbox, inbox.parent / "out", LOCKS, NOW)
    assert len(result.accepted) == 2
    assert "which has a shard of its own" in next(iter(result.refused.values()))


def zipped(**entries: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("archive", "reason"),
    [
        (zipped(**{"../x": b""}), "the name '../x'"),
        (zipped(**{"a/b/c/d/e/f/g": b""}), "the name 'a/b/c/d/e/f/g'"),
        (zipped(bomb=bytes(9_000_000)), "8,000,000 bytes per file"),
        (zipped(**{f"f{n}": bytes(7_000_000) for n in range(5)}), "in all"),
        (zipped(**{"x": b"1", "x/y/z": b"2"}), "'x' is a file and a folder"),
        (b"PK\x03\x04 none", "expected a zip archive"),
    ],
)
def test_an_archive_is_unpacked_within_bounds(archive: bytes, reason: str) -> None:
    with pytest.raises(ArtifactError, match=reason):
        archives.unzip(archive)
    assert archives.unzip(zipped(**{"a/b.json": b"x"})) == {"a/b.json": b"x"}


# What a pull request sends, whose author may have written all of it.

MOVE: Final = PackageChange(stack="current", package="lib", base="2.0", head="3.0")


def released(*steps: tuple[str | None, str], package: str = "lib") -> Cause:
    """A cause that names releases of a package: each the version before it, and its own."""
    each = (Release(package=package, version=new, previous=old) for old, new in steps)
    return Cause(shares=tuple(share(one, low=1.01, ratio=1.02, high=1.03) for one in each))


OURS: Final = comparison(why=attribution())
MOVED: Final = altered(OURS, packages=(MOVE,))


def side(name: str, **changes: Any) -> Comparison:
    return comparison(**{name: altered(getattr(OURS, name), **changes)})


FAULTS: Final[list[tuple[str, Comparison | bytes, Cause | None]]] = [
    ("expected a comparison", b"[" * 1_000_000, None),
    ("kind of base: expected revision", side("base", kind="stack"), None),
    ("commit of head: expected aaaa", side("head", commit=BASE), None),
    ("uncommitted changes of head", side("head", dirty=True), None),
    ("a control character", comparison(notes=("\x1b[2J",)), None),
    ("a control character", comparison(why=attribution(python="\x1b[2J")), None),
    ("expected each case once", altered(OURS, cases=OURS.cases * 2), None),
    ("at most 2000 items", altered(OURS, notes=("x",) * (MOST + 1)), None),
    ("'evil' as a cause, or a suspect", MOVED, Cause(suspects=("evil",))),
    ("a package twice as a cause", MOVED, Cause(suspects=("lib", "lib"))),
    ("a package twice as a cause", MOVED, released(("2.0", "2.1"), ("2.1", "2.2"))),
    ("'evil' as a cause", MOVED, released(("2.0", "3.0"), package="evil")),
]


@pytest.mark.parametrize(("reason", "sent", "cause"), FAULTS)
def test_a_comparison_of_something_else_is_refused(
    reason: str, sent: Comparison | bytes, cause: Cause | None
) -> None:
    content = {proposals.COMPARISON: sent if isinstance(sent, bytes) else files.encode(sent)}
    content |= {proposals.CAUSE: files.encode(cause)} if cause else {}
    with pytest.raises(ArtifactError) as refused:
        proposals.proposal(content, BASE, HEAD)
    assert reason in str(refused.value)
    content = {proposals.COMPARISON: files.encode(OURS)}
    assert "### " in proposals.proposal(content, BASE, HEAD)


PASSED: Final = (("2.0", "3.0"), ("2.0", "2.5"), ("2.4", "2.5rc1"), ("2.9", "3.0"))
# Not on the way, backwards, nowhere, or out of nothing.
ASIDE: Final = (("1.9", "2.5"), ("2.5", "3.1"), ("2.5", "2.4"), ("2.5", "2.5"), (None, "3.0"))
SPELLINGS: Final = ("2.5 ", "v2.5", "2.05", "2.5+see.evil", "<img>")
"""Of a version there is no end of others."""


@pytest.mark.parametrize("step", [*PASSED, *ASIDE, *(("2.0", version) for version in SPELLINGS)])
def test_a_cause_is_a_release_on_the_way(step: tuple[str | None, str]) -> None:
    """What is named becomes a page, and a command that readers copy; back is the same way."""
    (release,) = released(step).shares[0].releases
    turned = altered(release, version=release.previous or "", previous=release.version)
    back = altered(MOVE, base=MOVE.head, head=MOVE.base)
    refused = pytest.raises(ArtifactError, match="'lib' as a cause")
    for move, one in ((MOVE, release), (back, turned)):
        with nullcontext() if step in PASSED else refused:
            proposals.require_moved([one], (), [move])


# Confirmed changes.

_RECORD, _EVIDENCE = judge_candidate()


def confirm(tmp_path: Path, candidate: Change, *sent: Artefact) -> Acceptance:
    """Send values as the machine of the evidence among them; a candidate is known."""
    machine = next((v.machine for v in sent if isinstance(v, Comparison)), _EVIDENCE.machine)
    for value in sent:
        files.save(tmp_path / "in" / f"confirmed-{machine.id}", value)
    return incoming.verdicts(tmp_path / "in", tmp_path / "out", (candidate,), LOCKS)


@pytest.mark.parametrize("path", files.paths(Change, RESULTS), ids=lambda path: path.stem)
def test_confirmed_changes_come_with_their_evidence(tmp_path: Path, path: Path) -> None:
    """All that our machines have concluded; a release is often one of several between two locks."""
    record, evidence = judge_candidate(path.stem)
    assert confirm(tmp_path, record).exit_code == 0
    done = confirm(tmp_path, record, evidence, record)
    assert (done.exit_code, done.refused) == (0, {})
    change = f"changes/{record.id}.json"
    assert sorted(done.accepted) == [change, f"comparisons/{evidence.id}.json"]
    assert (tmp_path / "out" / change).read_bytes() == files.encode(record)


EVIL: Final = altered(MOVE, package="evil")
JUMP: Final = Release(package="gunicorn", version="9.1", previous="9.0")
FORGED: Final = PackageChange(stack="current", package="fastapi", base="1", head="99")
LATER: Final = Release(package="fastapi", version="99", previous="1")
ELSEWHERE: Final = altered(_RECORD.series, case="own/page")
(SHARE,) = _RECORD.shares
NAMELESS: Final = altered(SHARE, releases=())
COMMITTED: Final = altered(NAMELESS, commits=(Commit(id="0" * 40, subject="x"),))


@pytest.mark.parametrize(
    ("reason", "sent"),
    [
        ("without its evidence", (_RECORD,)),
        ("'another', which was no candidate", (_EVIDENCE, altered(_RECORD, id="another"))),
        ("less than or equal to 1000", (_EVIDENCE, altered(_RECORD, high=1e9))),
        ("'evil', which is no package of this", (altered(_EVIDENCE, packages=(EVIL,)), _RECORD)),
        ("more comparisons than candidates", (_EVIDENCE, altered(_EVIDENCE, id="b"), _RECORD)),
        ("packages: expected", (_EVIDENCE, altered(_RECORD, packages=(EVIL,)))),
        ("when: expected", (_EVIDENCE, altered(_RECORD, when=NOW))),
        ("'own/page', which is no series", (_EVIDENCE, altered(_RECORD, series=ELSEWHERE))),
        ("'own/page', which is no series", (_EVIDENCE, altered(_RECORD, unplayed=(ELSEWHERE,)))),
        ("'gunicorn' as a cause", (_EVIDENCE, altered(_RECORD, culprit=JUMP, shares=()))),
        # What moved is not what the evidence says, which comes from there, too.
        ("'fastapi' as a cause", (altered(_EVIDENCE, packages=(*_EVIDENCE.packages, FORGED)),
                                  altered(_RECORD, culprit=LATER, shares=()))),
        # Readers copy a command with the first release.
        ("first release: expected fastapi", (_EVIDENCE, altered(_RECORD, culprit=JUMP))),
        ("that is no release", (_EVIDENCE, altered(_RECORD, shares=(SHARE, COMMITTED)))),
        ("that is no release", (_EVIDENCE, altered(_RECORD, shares=(NAMELESS,)))),
    ],
)  # fmt: skip
def test_a_record_that_does_not_belong_is_refused(
    tmp_path: Path, reason: str, sent: tuple[Artefact, ...]
) -> None:
    """A change becomes an issue and a page."""
    done = confirm(tmp_path, _RECORD, *sent)
    assert (done.exit_code, done.accepted) == (3, ())
    assert reason in next(iter(done.refused.values()))
    assert not (tmp_path / "out").exists()


def test_another_machine_cannot_replace_a_conclusion(tmp_path: Path) -> None:
    """Whoever comes second is refused, and so is who has another's evidence."""
    confirm(tmp_path, _RECORD, _EVIDENCE, _RECORD)
    shutil.copytree(tmp_path / "in" / f"confirmed-{_EVIDENCE.machine.id}", tmp_path / "in" / "x")
    done = incoming.verdicts(tmp_path / "in", tmp_path / "out", (_RECORD,), LOCKS)
    assert (len(done.accepted), [*done.refused]) == (2, ["'x'"])
    assert "machine: expected x" in done.refused["'x'"]


def test_the_verb_tells_what_it_refused_and_nothing_acts_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hostile names and texts stay in their line; no file of the runner's is written to."""
    written = [tmp_path / f"GITHUB_{name}" for name in ("ENV", "PATH", "OUTPUT", "STATE")]
    for file in written:
        file.touch()
        monkeypatch.setenv(file.name, str(file))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    source, ours = tmp_path / "in", (Checkout.here().lock("current").record(),)
    files.save(source / "shard-1", shard_run(1, stacks=ours))
    files.save(source / "shard-2", shard_run(2, stacks=ours, notes=("x\nLD_PRELOAD=/tmp/x.so",)))
    (source / "x`\n::set-env name=LD_PRELOAD::##[add-path] <img src=x>").mkdir()
    (source / "shard-3").mkdir()
    (source / "shard-3" / "GITHUB_ENV").write_text("LD_PRELOAD=/tmp/x.so\n")
    plan = files.write(tmp_path / "night.json", night())
    words = ["accept", "--plan", str(plan), "--from", str(source), "--to", str(tmp_path / "out")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1, done.output
    lines = done.output.splitlines()
    assert [line.split(":")[0] for line in lines] == ["accepted", *["refused"] * 3]
    assert "##[" not in done.output
    assert {file.read_text() for file in written} == {""}
    printed = (tmp_path / "summary").read_text()
    assert printed.startswith("**1 accepted, 3 refused**")
    outside = re.sub(r"`[^`\n]*`", "", printed)
    assert not {"<img", "::", "LD_PRELOAD", "<"} & set(re.split(r"[\s=]", outside))
