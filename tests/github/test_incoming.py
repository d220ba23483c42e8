"""Files from other machines: what could come, and what becomes of it."""

import math
import re
import tracemalloc
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from comparing import FIGURES
from duetbench.ci import archives, proposals
from duetbench.core.change import Cause, Commit, Share
from duetbench.core.comparison import Comparison, Missing, PackageChange, Release
from duetbench.core.errors import ArtifactError
from duetbench.core.model import MOST, Artefact, Run
from duetbench.host import files, git, result_files
from fake_github import BASE, HEAD, Step, zipped
from foreign import (
    LOCKS,
    MACHINES,
    NOW,
    RESULTS,
    asv_files,
    comparison,
    inside,
    judge_candidate,
    night,
    night_run,
    points,
)
from observatory.github import incoming
from observatory.github.incoming import Acceptance
from observatory.matrix.checkout import Checkout
from observatory.store.change import Change
from synthetic import attribution, make_run, share, steady_result

HIDDEN: Final = "\u202egnihtyna"  # shown from right to left
RUN: Final = "20261120T090000Z-nightly-3f2a9c17"
NIGHT: Final = "20261120T100000Z-night"
NAMES: Final = [f"night-{machine.id}" for machine in MACHINES]
run, pointed = partial(night_run, 1), partial(points, 1)


def altered(value: Any, **changes: Any) -> Any:
    return value.model_copy(update=changes)


def artifact(*values: Any) -> dict[str, bytes]:
    """The files of an artifact: of artefacts, asv's results, and files by their names."""
    result: dict[str, bytes] = {}
    for value in values:
        if isinstance(value, Artefact):
            result[str(files.place(Path(), value))] = files.encode(value)
        elif "durations" in value:
            result |= asv_files(value)
        else:
            result |= value
    return result


def honest() -> dict[str, dict[str, bytes]]:
    """What three machines of an honest night have sent."""
    return {NAMES[number - 1]: artifact(night_run(number)) for number in (1, 2, 3)}


def accepted(sent: dict[str, dict[str, bytes]]) -> Acceptance:
    return incoming.night(night(), sent, NOW)


def test_an_honest_night_is_accepted_as_it_is() -> None:
    """Runs, points with a run or alone, asv's figures: each where it belongs, byte for byte.

    What a killed machine has saved becomes a partial run.
    """
    part = altered(run(status="partial"), results=run().results[:1])
    sent = {
        NAMES[0]: artifact(part, pointed(), inside()),
        NAMES[1]: artifact(points(2)),
        "night-duetbench": artifact(night_run(3)),  # whichever machine was free
    }
    result = accepted(sent)
    assert (len(result.accepted), result.refused) == (6, {})
    every = {path: data for contents in sent.values() for path, data in contents.items()}
    del every["asv/benchmarks.json"]
    assert result.accepted == {
        path.replace(files.PARTIAL, ".json"): data for path, data in every.items()
    }


def stacked(**changes: Any) -> Run:
    head, *others = run().stacks
    return run(stacks=(altered(head, **changes), *others))


RESULT: Final = run().results[0]
LOADED: Final = altered(RESULT.case, env={"LD_PRELOAD": "/tmp/x"})
(POINT,) = pointed().cases
ATTACKS: Final[list[tuple[str, Any]]] = [
    # Files that are none of ours.
    ("at most 4,000,000 bytes of a night", (run(), {"run.json": bytes(4_000_001)})),
    ("'GITHUB_ENV', which is none of", (run(), {"GITHUB_ENV": b"LD_PRELOAD=/tmp/x.so"})),
    ("expected a run or anchored points", inside()),
    ("expected it at runs/",
     {path.replace(MACHINES[0].id, "y"): data for path, data in artifact(run()).items()}),
    ("Extra inputs", {path: b'{"x": 1,' + data[1:] for path, data in artifact(run()).items()}),
    # Runs that lie about where, when and with what they were measured, or act on who reads them.
    ("machines of an artifact: expected 1", run(machine=MACHINES[1])),
    ("is the machine's clock right?",
     run(started="2026-12-20T09:00:00+00:00", id="20261220T090000Z-nightly-3f2a9c17")),
    ("machines of an artifact: expected 1", night_run(2)),
    ("commit: expected", run(commit="0" * 40, id="20261120T090000Z-nightly-00000000")),
    ("dirty: expected False", run(dirty=True)),
    (f"id: expected {RUN}…", run(id=f"{RUN}-s2")),
    ("lock of stack current", stacked(digest="0" * 64)),
    ("'own', which is no stack of this checkout", stacked(name="own")),
    ("'evil', which is no package of this checkout", stacked(packages={"evil": "1"})),
    ("which is no case of the night",
     altered(run(), results=(altered(RESULT, case=LOADED),))),
    ("U+001B", run(notes=("\x1b]0;owned\x07",))),
    ("a control character (U+202E", run(notes=(HIDDEN,))),
    # Points of something else.
    ("machines of an artifact: expected 1", pointed(machine=MACHINES[1].id)),
    ("anchor: expected 2026-11", pointed(anchor="2026-10")),
    ("a case twice", pointed(cases=(POINT, POINT))),
    ("is in the future", pointed(when="2026-11-22T10:00:00Z")),
    ("found none, or a second one", (pointed(id=f"{NIGHT}-0a0a0a"), pointed())),
    ("'inprocess/a/data.json', which is no case of the night",
     pointed(cases=(replace(POINT, case="inprocess/a/data.json"),))),
    ("'x', which is no case of the night", pointed(missing=(Missing(case="x", reason="y"),))),
    ("origin: expected night, found",
     pointed(origin="backfill", label="as of 2026-11-01")),
    (f"id: expected {NIGHT}-…", pointed(id="20261119T100000Z-night-0a1b2c")),
    # asv's figures that are more.
    ("commit of asv's results", (run(), inside(commit_hash="3f2a9c17" + "0" * 32))),
    ("machine of asv's results",
     (run(), {"asv/x/machine.json": b'{"machine": "x", "version": 1}'})),
    ("should be a finite number", (run(), inside(durations={"x": math.inf}))),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "what"), ATTACKS)
def test_what_is_not_as_it_should_be_costs_the_others_nothing(reason: str, what: Any) -> None:
    """Nothing of it is used, not even a right run beside it, and the others are accepted."""
    values = what if isinstance(what, tuple) else (what,)
    result = accepted({**honest(), NAMES[0]: artifact(*values)})
    assert [*result.refused] == [repr(NAMES[0])], result
    (refusal,) = result.refused.values()
    assert reason in refusal
    assert "\n" not in refusal
    assert [*result.accepted.values()] == [files.encode(night_run(number)) for number in (2, 3)]


@pytest.mark.parametrize(
    ("archive", "reason"),
    [
        (zipped({"../x": b""}), "the name '../x'"),
        (zipped({"..%2fx": b""}), "the name '..%2fx'"),
        (zipped({"a\n::x": b""}), r"the name 'a\\n::x'"),
        (zipped({"a/b/c/d/e/f/g": b""}), "the name 'a/b/c/d/e/f/g'"),
        (zipped({f"f{n}": b"" for n in range(65)}), "more than 64 files"),
        (zipped({"bomb": bytes(9_000_000)}), "8,000,000 bytes per file"),
        (zipped({f"f{n}": bytes(7_000_000) for n in range(5)}), "in all"),
        (b"PK\x03\x04 none", "expected a zip archive"),
    ],
)
def test_an_archive_is_unpacked_within_bounds(archive: bytes, reason: str) -> None:
    tracemalloc.start()
    with pytest.raises(ArtifactError, match=reason):
        archives.unzip(archive)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 60_000_000
    assert archives.unzip(zipped({"a/b.json": b"x"})) == {"a/b.json": b"x"}


# What a pull request sends, whose author may have written all of it.

MOVE: Final = PackageChange(stack="current", package="lib", base="2.0", head="3.0")


def released(*steps: tuple[str | None, str], package: str = "lib") -> Cause:
    """A cause that names releases of a package: each the version before it, and its own."""
    each = (Release(package=package, version=new, previous=old) for old, new in steps)
    return Cause(shares=tuple(share(item, low=1.01, ratio=1.02, high=1.03) for item in each))


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
    for move, item in ((MOVE, release), (back, turned)):
        with nullcontext() if step in PASSED else refused:
            proposals.require_moved([item], (), [move])


# Confirmed changes.

_RECORD, _EVIDENCE = judge_candidate()


def confirm(candidate: Change, *sent: Artefact) -> Acceptance:
    """Send values as the machine of the evidence among them; a candidate is known."""
    machine = next((v.machine for v in sent if isinstance(v, Comparison)), _EVIDENCE.machine)
    return incoming.verdicts((candidate,), {f"confirmed-{machine.id}": artifact(*sent)}, LOCKS)


@pytest.mark.parametrize("path", result_files.of_kind(Change, RESULTS), ids=lambda path: path.stem)
def test_confirmed_changes_come_with_their_evidence(path: Path) -> None:
    """All that our machines have concluded; a release is often one of several between two locks."""
    record, evidence = judge_candidate(path.stem)
    sent = artifact(evidence, record)
    assert confirm(record, evidence, record) == (sent, {})
    assert {*sent} == {f"changes/{record.id}.json", f"comparisons/{evidence.id}.json"}


EVIL: Final = altered(MOVE, package="evil")
JUMP: Final = Release(package="gunicorn", version="9.1", previous="9.0")
FORGED: Final = PackageChange(stack="current", package="fastapi", base="1", head="99")
LATER: Final = Release(package="fastapi", version="99", previous="1")
ELSEWHERE: Final = altered(_RECORD.series, case="own/page")
(SHARE,) = _RECORD.cause.shares
NAMELESS: Final = altered(SHARE, releases=())
COMMITTED: Final = altered(NAMELESS, commits=(Commit(id="0" * 40, subject="x"),))


def blaming(*shares: Share) -> Change:
    """Our record with another cause."""
    return altered(_RECORD, cause=Cause(shares=shares))  # type: ignore[no-any-return]


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
        ("'gunicorn' as a cause", (_EVIDENCE, blaming(altered(SHARE, releases=(JUMP,))))),
        # What moved is not what the evidence says, which comes from there, too.
        ("'fastapi' as a cause", (altered(_EVIDENCE, packages=(*_EVIDENCE.packages, FORGED)),
                                  blaming(altered(SHARE, releases=(LATER,))))),
        ("that is no release", (_EVIDENCE, blaming(SHARE, COMMITTED))),
        ("that is no release", (_EVIDENCE, blaming(NAMELESS))),
    ],
)  # fmt: skip
def test_a_record_that_does_not_belong_is_refused(reason: str, sent: tuple[Artefact, ...]) -> None:
    """A change becomes a page."""
    result = confirm(_RECORD, *sent)
    assert result.accepted == {}
    assert reason in next(iter(result.refused.values()))


def test_another_machine_cannot_replace_a_conclusion() -> None:
    """Whoever comes second is refused, and so is who has another's evidence."""
    ours = artifact(_EVIDENCE, _RECORD)
    sent = {f"confirmed-{_EVIDENCE.machine.id}": ours, "x": ours}
    result = incoming.verdicts((_RECORD,), sent, LOCKS)
    assert (result.accepted, [*result.refused]) == (ours, ["'x'"])
    assert "machine: expected x" in result.refused["'x'"]


def test_the_verb_tells_what_it_refused_and_nothing_acts_on_it(step: Step) -> None:
    """Hostile names and texts stay in their line."""
    checkout = Checkout.here("nightly")
    commit, _ = git.revision(checkout.root)
    assert commit is not None
    stacks = (checkout.lock("current").record(),)
    results = [steady_result(checkout.cases()[0], FIGURES)]
    fields = {"commit": commit, "stacks": stacks, "id": f"20261120T090000Z-nightly-{commit[:8]}"}
    ours, evil = (
        make_run(results, machine=machine, **fields, notes=notes)
        for machine, notes in zip(MACHINES[:2], ((), ("x\nLD_PRELOAD=/tmp/x.so",)), strict=True)
    )
    hostile = "x`\n::set-env name=LD_PRELOAD::##[add-path] <img src=x>"
    for name, contents in {
        NAMES[0]: artifact(ours),
        NAMES[1]: artifact(evil),
        NAMES[2]: {"GITHUB_ENV": b"LD_PRELOAD=/tmp/x.so\n"},
        f"night-{hostile}": {},
        "others": {},
    }.items():
        step.github.leave(7, name, zipped(contents))
    words = ("--to", step.folder / "out")
    result = step("accept", "night-*", *words)
    assert result.code == 1, result
    kinds = ["accepted", *["refused"] * 3]
    assert [line.split(":")[0] for line in result.out.splitlines()] == kinds
    (file,) = (step.folder / "out").rglob("*.json")
    assert file.name == f"{ours.id}.json"
    assert step.summary.startswith("**1 accepted, 3 refused**")
    outside = re.sub(r"`[^`\n]*`", "", step.summary)
    assert not {"<img", "::", "LD_PRELOAD", "<"} & set(re.split(r"[\s=]", outside))

    # What is there already stays as it is.
    assert step("accept", NAMES[0], *words).code == 0
    assert step("accept", NAMES[2], *words).code == 3
    file.write_text("other")
    result = step("accept", NAMES[0], *words)
    assert (result.code, "is never rewritten" in result.out) == (1, True)
    assert file.read_text() == "other"
