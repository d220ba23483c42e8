"""Files from other machines: what could come, and what becomes of it."""

import io
import math
import re
import subprocess
import tracemalloc
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from attributing import attribution
from duetbench.ci import archives, proposals
from duetbench.core.change import Cause, Release
from duetbench.core.comparison import Comparison, PackageChange
from duetbench.core.errors import ArtifactError
from duetbench.core.model import MOST, Artefact, Missing, Run
from duetbench.host import files
from foreign import (
    BASE,
    HEAD,
    LOCKS,
    MACHINES,
    NOW,
    RESULTS,
    comparison,
    inside,
    judge_candidate,
    night,
    points,
    put,
    put_inside,
    shard_run,
)
from observatory.cli import app
from observatory.github import incoming
from observatory.github.incoming import Acceptance
from observatory.matrix.checkout import Checkout
from observatory.store import points as records
from observatory.store.change import Change

Attack = Callable[[Path], object]
"""Lays out what shard 1 sends, in the folder of its artifact, where its run is already."""

HIDDEN: Final = "\u202egnihtyna"  # shown from right to left
RUN: Final = f"runs/{MACHINES[0].id}/2026/{shard_run(1).id}.json"
NIGHT: Final = "20261120T100000Z-night"


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    """A folder with what three shards of an honest night have sent."""
    for number in (1, 2, 3):
        put(tmp_path / "incoming", f"shard-{number}", shard_run(number))
    return tmp_path / "incoming"


def accepted(source: Path) -> Acceptance:
    return incoming.night(night(), source, source.parent / "accepted", LOCKS, NOW)


def test_an_honest_night_is_accepted_as_it_is(inbox: Path) -> None:
    """Runs, points with a run or alone, asv's figures: each where it belongs, byte for byte."""
    for number in (1, 2):
        put_points(inbox / f"shard-{number}", points(number))
    put_inside(inbox, "shard-1", inside())
    result = accepted(inbox)
    assert (result.exit_code, result.refused, result.missing) == (0, {}, ())
    assert len(result.accepted) == 7
    for path in result.accepted:
        sent = next(inbox.glob(f"*/{path}"))
        assert (inbox.parent / "accepted" / path).read_bytes() == sent.read_bytes()
    (inbox / "shard-2" / "runs").rename(inbox.parent / "gone")
    again = incoming.night(night(), inbox, inbox.parent / "again", LOCKS, NOW)
    assert (again.exit_code, again.refused, len(again.missing)) == (1, {}, 1)


def test_what_a_killed_shard_has_saved_counts(inbox: Path) -> None:
    """Its partial file becomes a partial run; the cases that it did not come to are missing."""
    (inbox / "shard-1" / RUN).unlink()
    part = shard_run(1)
    part = part.model_copy(update={"status": "partial", "results": part.results[:1]})
    files.save(inbox / "shard-1", part)
    result = accepted(inbox)
    assert (result.exit_code, len(result.accepted), result.refused) == (1, 3, {})
    assert "1 of 2 cases are missing: its run ended before it came to them" in result.missing[0]
    assert files.read(Run, inbox.parent / "accepted" / RUN) == part


# What shard 1 could send.


def put_points(shard: Path, one: records.Points) -> None:
    files.replace(shard / one.path, files.encode(one))


def shell(script: str) -> Attack:
    return lambda folder: subprocess.run(["sh", "-c", script], cwd=folder, check=True)


def run(**changes: Any) -> Attack:
    """A run that says something else, where it says that it belongs."""

    def attack(folder: Path) -> None:
        (folder / RUN).unlink()
        entry = shard_run(1).model_copy(update=changes)
        path = folder / "runs" / entry.machine.id / "2026" / f"{entry.id}.json"
        files.replace(path, files.encode(entry))

    return attack


def stack(**changes: Any) -> Attack:
    head, *others = shard_run(1).stacks
    return run(stacks=(head.model_copy(update=changes), *others))


def pointed(**changes: Any) -> Attack:
    return lambda folder: put_points(folder, points(**changes))


def series(*names: str) -> Attack:
    (head,) = points().cases
    return pointed(cases=tuple(replace(head, case=name) for name in names))


def asv(**changes: Any) -> Attack:
    return lambda folder: put_inside(folder.parent, folder.name, inside(**changes))


LOADED: Final = shard_run(1).results[0].case.model_copy(update={"env": {"LD_PRELOAD": "/tmp/x"}})
PART: Final = shard_run(1).results[0].model_copy(update={"case": LOADED})
ATTACKS: Final[dict[str, tuple[Attack, str]]] = {
    # Folders that are none of ours.
    "many files": (shell("for i in $(seq 64); do echo {} >$i.json; done"), "more than 64 files"),
    "up and out": (shell("echo {} >..%2f..%2fescape.json"), "the name '..%2f..%2fescape"),
    "link": (shell("ln -s /etc/passwd run.json"), "'run.json' is not a plain file"),
    "pipe": (shell("mkfifo run.json"), "'run.json' is not a plain file"),
    "sparse": (shell("truncate -s 2000000000 run.json"), "at most 8,000,000 bytes per file"),
    "much": (shell("truncate -s 4000001 run.json"), "at most 4,000,000 bytes of a night"),
    "odd name": (shell("echo {} >\"$(printf 'a\\n::x')\""), "the name 'a\\n::x'"),
    "nothing": (shell("rm -r runs"), "expected a run or anchored points, found none"),
    "another place": (shell("mv runs/* x; mkdir runs/y; mv x/* runs/y"), "expected it at runs/"),
    "an unknown key": (shell(f"sed -i 's/{{/{{\"x\": 1,/' {RUN}"), "Extra inputs"),
    # Runs that lie about where, when and with what they were measured.
    "another machine": (run(machine=MACHINES[1]), "machine of shard 1: expected"),
    "a run from the future": (
        run(started="2026-12-20T09:00:00+00:00", id="20261220T090000Z-nightly-3f2a9c17-s1"),
        "is the machine's clock right?",
    ),
    "no night": (run(night=None), "night: expected"),
    "another shard": (run(shard=2), "machine of shard 2: expected"),
    "a shard that is not there": (run(shard=9), "shard 9, which the plan does not have"),
    "another commit": (run(commit="0" * 40, id="20261120T090000Z-nightly-00000000"), "commit: exp"),
    "another lock": (stack(digest="0" * 64), "lock of stack 'current'"),
    "a package that no lock has": (
        stack(packages={"evil": "1"}),
        "'evil', which is no package of this checkout",
    ),
    "a case that is something else": (run(results=(PART,)), "which is no case of shard 1"),
    "a note that acts on a terminal": (run(notes=("\x1b]0;owned\x07",)), "U+001B"),
    "a note that shows something else": (run(notes=(HIDDEN,)), "a control character (U+"),
    # Points of something else.
    "points of another machine": (pointed(machine=MACHINES[1]), "machine of shard 1: expected"),
    "points of a case twice": (series(*[points().cases[0].case] * 2), "a case twice"),
    "points twice": (
        lambda folder: (pointed(id=f"{NIGHT}-0a0a0a-s1")(folder), pointed()(folder)),
        "a second run, or file of points, of one shard",
    ),
    "points of what no planned case counts": (
        series("inprocess/a/data.json"),
        "'inprocess/a/data.json', which is no case of shard 1",
    ),
    "a page for what has no point": (
        pointed(missing=(Missing(case="x", reason="y"),)),
        "'x', which is no case of shard 1",
    ),
    "points that a new anchor follows": (
        pointed(origin="backfill", label="as of 2026-11-01"),
        "origin, and release: expected ('night', None), found",
    ),
    "points with the name of another night's": (
        pointed(id="20261119T100000Z-night-0a1b2c-s1"),
        f"id of points: expected {NIGHT}-… of shard 1",
    ),
    # asv's figures that are more.
    "figures of another commit": (asv(commit_hash="0" * 40), "expected it at asv/"),
    "figures that cannot be": (asv(durations={"x": math.inf}), "should be a finite number"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_is_not_as_it_should_be_costs_the_others_nothing(inbox: Path, attack: str) -> None:
    """Nothing of it is used, not even a right run beside it, and the others are accepted."""
    send, reason = ATTACKS[attack]
    send(inbox / "shard-1")
    tracemalloc.start()
    result = accepted(inbox)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [*result.refused] == ["'shard-1'"], result
    assert reason in next(iter(result.refused.values()))
    assert "\n" not in next(iter(result.refused.values()))
    target = inbox.parent / "accepted"
    rest = sorted(path for path in target.rglob("*") if path.is_file())
    assert [path.read_bytes() for path in rest] == [files.encode(shard_run(n)) for n in (2, 3)]
    assert (result.exit_code, len(result.missing)) == (1, 1)
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


def test_machines_that_the_plan_does_not_name_may_be_new_but_not_another_one(
    tmp_path: Path,
) -> None:
    plan = night((MACHINES[0].id, None, None))
    put(tmp_path / "in", "shard-1", shard_run(1, plan))
    put(tmp_path / "in", "shard-2", shard_run(2, plan))
    put(tmp_path / "in", "shard-3", shard_run(3, plan, machine=MACHINES[0]))
    result = incoming.night(plan, tmp_path / "in", tmp_path / "out", LOCKS, NOW)
    assert len(result.accepted) == 2
    assert "which has a shard of its own" in next(iter(result.refused.values()))


# Archives.


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


# Comparisons, whose author may have written all of it.


def compared(**sent: Artefact | bytes) -> Any:
    content = {
        f"{name}.json": value if isinstance(value, bytes) else files.encode(value)
        for name, value in sent.items()
    }
    return proposals.proposal(content, BASE, HEAD)


def side(name: str, **changes: Any) -> Comparison:
    return comparison(**{name: getattr(comparison(), name).model_copy(update=changes)})


EVIL: Final = PackageChange(stack="current", package="evil", base="1", head="2")


def blamed(*suspects: str) -> Cause:
    return Cause(suspects=suspects)


def repeat(field: str, *entries: Any) -> Comparison:
    """A comparison that duetbench itself would not create."""
    return comparison().model_copy(update={field: entries})


def test_the_comparison_that_was_asked_for_is_accepted() -> None:
    result, _ = compared(comparison=comparison(why=attribution()))
    assert result == comparison(why=attribution())


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ({"comparison": side("head", commit=BASE)}, "commit of head: expected bbbb"),
        ({"comparison": side("head", dirty=True)}, "uncommitted changes of head"),
        ({"comparison": comparison(notes=("\x1b[2J",))}, "a control character"),
        ({"comparison": b"[" * 1_000_000}, "expected a comparison"),
        ({"comparison": repeat("cases", *comparison().cases * 2)}, "expected each case once"),
        ({"comparison": repeat("notes", *["x"] * (MOST + 1))}, "at most 2000 items"),
        ({"other": comparison()}, "files: expected ['comparison.json'], found"),
        ({"comparison": comparison(why=attribution(python="\x1b[2J"))}, "a control character"),
        ({"comparison": comparison(), "cause": blamed(EVIL.package)}, "'evil' as a cause"),
        (
            {"comparison": repeat("packages", EVIL), "cause": blamed(*[EVIL.package] * 2)},
            "a package twice as a cause",
        ),
    ],
)
def test_a_comparison_of_something_else_is_refused(
    sent: dict[str, Artefact | bytes], reason: str
) -> None:
    with pytest.raises(ArtifactError) as refused:
        compared(**sent)
    assert reason in str(refused.value)


# Confirmed changes.

_RECORD, _EVIDENCE = judge_candidate()


def confirm(tmp_path: Path, *known: Change) -> Acceptance:
    return incoming.verdicts(tmp_path / "in", tmp_path / "out", NOW, known, LOCKS)


def send(tmp_path: Path, *values: Artefact) -> None:
    machine = next((v.machine for v in values if isinstance(v, Comparison)), _EVIDENCE.machine)
    artifact = f"confirmed-{machine.id}"
    for value in values:
        below = "changes" if isinstance(value, Change) else "comparisons"
        name = f"{artifact}/{below}/{value.id}.json"  # type: ignore[attr-defined]
        files.replace(tmp_path / "in" / name, files.encode(value))


def altered(value: Artefact, **changes: Any) -> Artefact:
    return value.model_copy(update=changes)


@pytest.mark.parametrize("path", files.paths(Change, RESULTS), ids=lambda path: path.stem)
def test_confirmed_changes_come_with_their_evidence(tmp_path: Path, path: Path) -> None:
    """All that our machines have concluded; a release is often one of several between two locks."""
    record, evidence = judge_candidate(path.stem)
    assert confirm(tmp_path).exit_code == 0
    send(tmp_path, evidence, record)
    done = confirm(tmp_path, record)
    assert (done.exit_code, done.refused) == (0, {})
    change = f"changes/{record.id}.json"
    assert sorted(done.accepted) == [change, f"comparisons/{evidence.id}.json"]
    assert (tmp_path / "out" / change).read_bytes() == files.encode(record)


_JUMP: Final = Release(package="gunicorn", version="9.1", previous="9.0")


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ((_RECORD,), "without its evidence"),
        ((_EVIDENCE, altered(_RECORD, id="another")), "'another', which was no candidate"),
        ((_EVIDENCE, altered(_RECORD, high=1e9)), "less than or equal to 1000"),
        ((altered(_EVIDENCE, packages=(EVIL,)), _RECORD), "'evil', which is no package of this"),
        ((_EVIDENCE, altered(_RECORD, culprit=_JUMP, shares=())), "'gunicorn' as a cause"),
        ((_EVIDENCE, altered(_EVIDENCE, id="b"), _RECORD), "more comparisons than candidates"),
    ],
)
def test_a_record_that_does_not_belong_is_refused(
    tmp_path: Path, sent: tuple[Artefact, ...], reason: str
) -> None:
    """A change becomes an issue and a page."""
    send(tmp_path, *sent)
    done = confirm(tmp_path, _RECORD)
    assert done.accepted == ()
    assert reason in next(iter(done.refused.values()))
    assert not (tmp_path / "out").exists()


# The verb.


def test_the_verb_tells_what_it_refused_and_nothing_acts_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hostile names and texts stay in their line; no file of the runner's is written to."""
    written = {}
    for name in ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STATE"):
        written[name] = tmp_path / name
        written[name].touch()
        monkeypatch.setenv(name, str(written[name]))
    summary = tmp_path / "summary"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    project, source = Checkout.here(), tmp_path / "in"
    ours = (project.lock("current").record(),)
    put(source, "shard-1", shard_run(1, stacks=ours))
    put(source, "shard-2", shard_run(2, stacks=ours, notes=("x\nLD_PRELOAD=/tmp/x.so",)))
    (source / "x`\n::set-env name=LD_PRELOAD::##[add-path] <img src=x>").mkdir()
    (source / "shard-3").mkdir()
    (source / "shard-3" / "GITHUB_ENV").write_text("LD_PRELOAD=/tmp/x.so\n")
    plan = files.write(tmp_path / "night.json", night())
    words = ["accept", "--plan", str(plan), "--from", str(source), "--to", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*words])
    assert done.exit_code == 1, done.output
    lines = done.output.splitlines()
    assert len(lines) == 6
    assert all(line.split(":")[0] in {"accepted", "refused", "missing"} for line in lines)
    assert "##[" not in done.output
    assert {path.read_text() for path in written.values()} == {""}
    printed = summary.read_text()
    assert printed.startswith("**1 accepted, 3 refused**")
    outside = re.sub(r"`[^`\n]*`", "", printed)
    assert not {"<img", "::", "LD_PRELOAD", "<"} & set(re.split(r"[\s=]", outside))
