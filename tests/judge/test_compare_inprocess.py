"""Jobs inside the process in a comparison: which ones are counted, and what counts say."""

import json
import statistics
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from duetbench.core.model import Case, Verdict
from duetbench.host import paths
from duetbench.judge import counted, session
from duetbench.judge.counted import BothSides
from duetbench.judge.pairs import Sides
from duetbench.judge.session import Question
from duetbench.measure.instructions import counting
from duetbench.measure.testbed import SideCase
from duetbench.project import tools
from duetbench.project.case_names import INSIDE
from duetbench.project.project import Project
from duetbench.show.comparison_view import make_view
from duetbench.show.conclusion import exit_code
from duetbench.store import files
from duetbench.store.comparison import Collector, Comparison, Instructions, executes, set_material
from fake_sessions import FakeInstruments, SilentReporter, side
from observatory.trend.confirm import untouched
from synthetic import make_case

ROOT = paths.project_root()
JSON = "inprocess/instructions.Pydantic.track_validation(document=valid, size=20, source=json)"


UNITS = Project.here().units


def both(case: Case) -> BothSides:
    base, head = (SideCase(case, side(name, ()).testbed) for name in ("base", "head"))
    return base, head


def models(stack: str = "pydantic-v2") -> BothSides:
    return both(make_case("pydantic-v1-v2/services/py3.14", stack=stack))


def test_the_models_are_counted_once_per_environment_with_their_experiment() -> None:
    jobs = counted.jobs(
        [models(), models(), models("pydantic-v1"), both(make_case("one/a"))], UNITS
    )
    assert [(job.name, job.head.case.stack) for job in jobs] == [
        (name, stack)
        for stack in ("pydantic-v2", "pydantic-v1")
        for name in (
            "instructions.Pydantic.track_validation('valid', 20, 'python')",
            "instructions.Pydantic.track_validation('valid', 20, 'json')",
            "instructions.Written.track_serialisation(20, 'json')",
        )
    ]
    assert jobs[1].series == f"{JSON}/py3.14/pydantic-v2"
    assert all(INSIDE.fullmatch(job.series) for job in jobs)
    assert [counted.unit_of(job.series, UNITS) for job in jobs[:2]] == [
        job.base.job for job in jobs[:2]
    ]


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [
        # The floor is 0.2 %, and an interval ends 0.1 % from its ratio.
        (1.0029, Verdict.NO_CHANGE),
        (1.0031, Verdict.SLOWER),
        (1 / 1.0031, Verdict.FASTER),
    ],
)
def test_a_count_is_judged_with_a_fixed_resolution(ratio: float, verdict: Verdict) -> None:
    job, *_ = counted.jobs([models()], UNITS)
    micro = job.judge(Instructions(base=1e6, head=1e6 * ratio, spread=0.02), {})
    assert (micro.judgement.verdict, micro.unit) == (verdict, "instructions")
    assert micro.judgement.ratio == pytest.approx(ratio)
    assert micro.judgement.low == pytest.approx(ratio / 1.001)
    assert micro.judgement.detectable == pytest.approx(0.003)


def count(*rounds: float) -> counting.InstructionCount:
    middle = statistics.median(rounds)
    return counting.InstructionCount(middle, (max(rounds) - min(rounds)) / middle, 9, True, rounds)


@pytest.mark.parametrize(
    ("base", "head", "verdict", "words"),
    [
        # The same code grows alike on both sides: rounds of one differ by 0.7 %, and this is all.
        ((1e5, 1.004e5, 1.007e5), (1e5, 1.004e5, 1.007e5), Verdict.NO_CHANGE,
         "the same instructions per request (exact to ±0.1 %)"),
        ((3e5, 3e5, 3e5), (2.007e5, 2.007e5, 2.007e5), Verdict.FASTER,
         "33.1 % fewer instructions per request (exact to ±0.1 %)"),
        ((1e5, 1e5, 1e5), (2.5e5, 2.5e5, 2.5e5), Verdict.SLOWER,
         "2.50 times the instructions per request (exact to ±0.1 %)"),
        # Differences 0, 0.04 and −0.04 %: t of 2 degrees is 4.30, so ±0.0994 %: below 0.1 %.
        ((1e5, 1e5, 1e5), (1e5, 1.0004e5, 0.9996e5), Verdict.NO_CHANGE,
         "the same instructions per request (exact to ±0.1 %)"),
        # Differences 0, 0.5 and −0.5 %: ±1.24 %, and five times that between processes.
        ((1e5, 1e5, 1e5), (1e5, 1.005e5, 0.995e5), Verdict.INCONCLUSIVE,
         "the same instructions per request, as far as counts repeat (−5.9…+6.2 %)"),
        ((1e5, 1e5, 1e5), (1.1e5, 1.1044e5, 1.0956e5), Verdict.SLOWER,
         "10.0 % more instructions per request (+4.3…+16.0 %, as far as counts repeat)"),
        # What draws the same numbers on both sides is not exact for that.
        ((1e5, 1.02e5, 1.04e5), (1e5, 1.02e5, 1.04e5), Verdict.INCONCLUSIVE,
         "the same instructions per request, as far as counts repeat (−3.8…+3.9 %)"),
    ],
)  # fmt: skip
def test_counts_are_as_exact_as_the_rounds_of_both_sides_agree(
    base: tuple[float, ...], head: tuple[float, ...], verdict: Verdict, words: str
) -> None:
    for sides, sign in (((base, head), 1), ((head, base), -1)):
        counts = counted._together(*(count(*rounds) for rounds in sides))
        assert isinstance(counts, Instructions)
        judgement = counted.judge(counts)
        moved = {Verdict.SLOWER: Verdict.FASTER, Verdict.FASTER: Verdict.SLOWER}
        assert judgement.verdict is (verdict if sign > 0 else moved.get(verdict, verdict))
        if sign > 0:
            assert executes(judgement) == f"executes {words}"


def test_counts_contain_full_collections_if_both_sides_know_them() -> None:
    """0.01 of 2e6 instructions are 20,000 of a request; the sides differ by that, either way.

    One side alone with a collector, or counted in few calls, has the plain count.
    """
    plain = count(1e5, 1e5, 1e5)
    base, head = (
        replace(plain, full=0.01, objects=9, collection=size) for size in (1_000_000, 2_000_000)
    )
    for sides, ratio in (
        ((base, head), 1.2 / 1.1), ((head, base), 1.1 / 1.2), ((base, base), 1),
        ((base, plain), 1), ((plain, head), 1),
    ):  # fmt: skip
        counts = counted._together(*sides)
        assert isinstance(counts, Instructions)
        assert counts.ratio == pytest.approx(ratio)
        assert (counts.collector_base is None) == (counts.collector_head is None)
    brief = replace(plain, brief=True)
    counts = counted._together(brief, replace(head, young=9e4))
    assert isinstance(counts, Instructions)
    assert (counts.ratio, counts.scatter, counts.collector_head) == (1.0, 0.03, None)
    # A single round of few calls shows nothing of how they scatter.
    counts = counted._together(replace(count(1e5), brief=True), replace(count(2e5), brief=True))
    assert isinstance(counts, Instructions)
    assert (counts.ratio, counts.scatter) == (2.0, 0.03)


@pytest.mark.parametrize(
    ("base", "head", "seconds", "change", "verdict", "material"),
    [
        # Half as much again of the own code: (150,000 − 450) / 25 in a ns is 6 µs.
        (3e5, 4.5e5, 1e-3, 0.005982, Verdict.SLOWER, False),
        (3e5, 4.5e5, 1e-4, 0.05982, Verdict.SLOWER, True),
        (4.5e5, 3e5, 1e-4, -0.05982, Verdict.FASTER, True),
        # 5 % of it, 0.6 µs, is less than the threshold of a request of 1 ms.
        (3e5, 3.15e5, 1e-3, 0.000587, Verdict.INCONCLUSIVE, None),
        # 2.4 times: 11.5 million less 0.0195 are 0.46 ms.
        (8e6, 19.5e6, 3e-3, 0.15307, Verdict.SLOWER, True),
    ],
)
def test_counts_show_the_least_that_the_whole_request_changes(
    base: float, head: float, seconds: float, change: float, verdict: Verdict, material: bool | None
) -> None:
    counts = Instructions(base=base, head=head, spread=0.0, scatter=0.0)
    request = counted.judge_request(counts, seconds)
    assert request is not None
    request = set_material(request, {})
    assert request.ratio is not None
    assert request.ratio - 1 == pytest.approx(change, rel=1e-3)
    assert (request.verdict, request.material) == (verdict, material)
    assert counted.judge_request(counts, 0.0) is None
    assert counted.judge_request(counts.model_copy(update={"head": base}), seconds) is None


def test_full_collections_count_only_as_far_as_their_number_is_known() -> None:
    """0.01 of 20 million are 200,000: a quarter of them, 50,000, are sure, so 2 µs."""
    few, many = (Collector(full=full, objects=9, instructions=2e7) for full in (0.0, 0.01))
    counts = Instructions(base=3e5, head=5e5, spread=0.0, collector_base=few, collector_head=many)
    for sides, sign in ((counts, 1), (_swapped(counts), -1)):
        request = counted.judge_request(sides, 1e-4)
        assert request is not None
        assert request.ratio is not None
        assert request.ratio - 1 == pytest.approx(sign * (5e4 - 5e2) / 25e9 / 1e-4, rel=1e-3)


def _swapped(counts: Instructions) -> Instructions:
    return counts.model_copy(
        update={
            "base": counts.head,
            "head": counts.base,
            "collector_base": counts.collector_head,
            "collector_head": counts.collector_base,
        }
    )


def compared(folder: Path, fake: FakeInstruments) -> Comparison:
    jobs = counted.jobs([models()], UNITS)
    sides = Sides(side("base", ()), side("head", ()), Path(), (), (), untouched=7)
    question = Question(sides, jobs, 200)
    return session.compare(question, SilentReporter(), fake, folder, lambda: fake.now)


@pytest.fixture
def _no_oha(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tools, "oha_version", lambda _: "1.16.0")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.usefixtures("_no_oha")
def test_jobs_alone_are_judged_without_a_server(tmp_path: Path) -> None:
    fake = FakeInstruments(slower={models()[1].case.id: 0.06})
    comparison = compared(tmp_path / "kept", fake)
    assert (comparison.status, comparison.planned, comparison.cases, fake.duet_log) == (
        "complete",
        0,
        (),
        [],
    )
    assert [micro.judgement.verdict for micro in comparison.micro] == [Verdict.SLOWER] * 3
    assert comparison.method["inprocess_floor"] == counted.FLOOR
    view = make_view(comparison)
    assert view.headline == (
        "▼ slower in 3 of 3 benchmarks in process: most of all Validating a list of 20 objects "
        "from Python values with Pydantic 2, Python 3.14 takes 6.0 % more instructions in process"
    )
    assert exit_code(comparison) == 1
    (stored,) = (tmp_path / "kept").iterdir()
    assert Comparison.model_validate_json(stored.read_bytes()) == comparison
    validator = jsonschema.Draft202012Validator(json.loads(files.schema(Comparison)))
    good = json.loads(comparison.model_dump_json())
    assert list(validator.iter_errors(good)) == []
    for change in ({"surprise": 1}, {"format": 3}, {"status": "fine"}):
        assert not validator.is_valid({**good, **change})


@pytest.mark.usefixtures("_no_oha")
def test_what_cannot_be_counted_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake, lacking = FakeInstruments(), "counting instructions needs valgrind on PATH"
    monkeypatch.setattr(fake, "instructions", lambda pairs, *_: (lacking,) * len(pairs))
    comparison = compared(tmp_path / "kept", fake)
    assert comparison.micro == ()
    assert [(missing.case, missing.reason) for missing in comparison.missing][1:2] == [
        (f"{JSON}/py3.14/pydantic-v2", lacking)
    ]
    assert not untouched(comparison)
