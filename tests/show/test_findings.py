"""The page of findings: sentences with figures from runs, and nothing that was not measured."""

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import synthetic
from duetbench.cli.show import findings_command
from duetbench.core.errors import FlagName, RecordError
from duetbench.core.metrics import METRICS
from duetbench.core.model import CaseResult, Flag, Profile, Run
from duetbench.core.units import Interval
from duetbench.project.project import Project
from duetbench.project.published import Published, load_published
from duetbench.show.claims import change
from duetbench.show.findings import RunSource, write_findings
from duetbench.show.page import About
from duetbench.store import store
from duetbench.trend.summary import summarise

ROOT = Path(__file__).parents[2]
PUBLISHED = Published.model_validate(
    {
        "source": "A page, 2025",
        "cases": {"gil": ["demo/x/py3.14", "demo/x/py3.14/short"], "ft": "demo/x/py3.14t"},
        "figures": {"gil": {"throughput": 5.0}, "ft": {"throughput": 10.0}},
        "shapes": [
            {
                "statement": "scales without the GIL",
                "metric": "throughput",
                "numerator": "ft",
                "denominator": "gil",
                "least": 1.7,
                "if_not": "There is one core.",
            },
            {"statement": "in the process too", "pending": "timed elsewhere"},
        ],
        "answers": [
            (
                "On 3.14t it served {{ fig('ft', 'throughput') }}, {{ change('ft', 'gil', "
                "'throughput') }} (published: {{ theirs('ft', 'throughput') }})."
            )
        ],
    }
)


def result(case_id: str, *throughputs: float, flag: FlagName | None = None) -> CaseResult:
    case = synthetic.make_case(case_id)
    flags = [Flag(name=flag, detail="as seen")] if flag else []
    return CaseResult(
        case=case,
        launches=tuple(
            synthetic.ok(case.id, number, {"throughput": value}, *flags)
            for number, value in enumerate(throughputs)
        ),
    )


def page(*runs: Run) -> str:
    sources = [RunSource(f"{run.profile} profile", "file.json", summarise(run)) for run in runs]
    about = {"demo": About("Does it scale?", ("Another generator.",))}
    return write_findings(sources, {"demo": PUBLISHED}, about)


def twice(flag: FlagName | None = None) -> list[CaseResult]:
    """5.00/s with the GIL, and 10.0/s without, 2.00 times as much."""
    free = result("demo/x/py3.14t", 9.9, 10.0, 10.1, flag=flag)
    return [result("demo/x/py3.14", 4.95, 5.0, 5.05), free]


def test_a_question_is_answered_with_its_figures() -> None:
    text = page(synthetic.make_run(twice(FlagName.CORES_SHARED)))
    assert "*Does it scale?*" in text
    assert (
        "- On 3.14t it served 10.0/s (±2.5 %), 2.00 times as high (1.96…2.05) (published: 10.0/s). "
        "[cores\\_shared] *(nightly profile)*" in text
    )
    assert (
        "| scales without the GIL | ≥ 1.7 | 2.00 | 2.00 (1.96…2.05) | holds \\[cores\\_shared\\] |"
        in text
    )
    assert "| in the process too | — | — | — | not measured: timed elsewhere |" in text
    assert "Deviation from the source: Another generator." in text
    assert "Where it differs" not in text


def test_nothing_is_decided_from_disturbed_launches() -> None:
    text = page(synthetic.make_run(twice(FlagName.HOST_NOISE)))
    assert "2.00 (1.96…2.05) | not decided" in text
    assert "measured under host\\_noise: measure again on a quiet machine" in text


def test_what_was_not_measured_is_never_claimed() -> None:
    ft = synthetic.make_case("demo/x/py3.14t")
    failed = CaseResult(case=ft, launches=(synthetic.failed(ft.id, 0, FlagName.NOT_READY, "10 s"),))
    for results in ([result("demo/x/py3.14", 5.0)], [result("demo/x/py3.14", 5.0), failed]):
        text = page(synthetic.make_run(results))
        assert "- Not measured: throughput of demo/x/py3.14t." in text
        assert "no figures of x/py3.14t" in text
        assert "served" not in text
    elsewhere = page(synthetic.make_run([result("other/x", 5.0)]))
    assert "- Not measured: no sentence is declared for this experiment, or no run" in elsewhere
    assert "## other" in elsewhere
    assert "No run: nothing was measured." in write_findings([], {"demo": PUBLISHED}, {})


def test_one_launch_speaks_last_and_decides_nothing() -> None:
    single = synthetic.make_run(
        [result("demo/x/py3.14", 6.0), result("demo/x/py3.14t", 5.0), result("demo/y/py3.14", 7.0)],
        profile="published",
    ).model_copy(update={"launches": 1})
    several = synthetic.make_run(twice(), launches=3)
    text = page(single, several)
    assert "On 3.14t it served 10.0/s (±2.5 %), 2.00 times as high (1.96…2.05)" in text
    assert "*(nightly profile)*" in text
    row = next(line for line in text.splitlines() if line.startswith("| scales without"))
    assert row.endswith(
        "| 2.00 (1.96…2.05) | holds | 0.833 | not decided: one launch \\[few\\_launches\\] |"
    )
    assert "- 1 statement — not decided (published profile): from one launch nothing is." in text
    # Tables: three launches, then the one case that they do not have.
    first, rest = text.split("From the published profile: 3 of 3 launches measured. ")
    assert "From the nightly profile: 6 of 6 launches measured." in first
    assert rest.startswith("Shown are the 1 of its 3 cases that are not above.")
    assert "| x | 3.14 |" not in rest
    assert "| y |" in rest
    alone = page(single)
    assert "5.00/s, about the same (one launch: no verdict)" in alone
    assert "lower" not in alone
    assert "does not hold" not in alone


def test_two_runs_of_one_lock_say_how_far_runs_lie_apart() -> None:
    """CPU per request 100 and 110 µs, 100 and 90 µs: -0.50 % on average, from -10 to +10 %."""

    def run(profile: Profile, **micros: float) -> Run:
        results = [
            synthetic.steady_result(
                synthetic.make_case(f"demo/{name}/py3.14"),
                {"server_cpu_per_request": value * 1e-6, "throughput": 9.0},
                launches=1,
            )
            for name, value in micros.items()
        ]
        return synthetic.make_run(results, profile=profile)

    text = page(run("published", x=100, y=100), run("nightly", x=110, y=90))
    assert (
        "CPU per request of 2 cases differs by -0.5 % on average (-10…+10 %), which no interval "
        "within a run shows." in text
    )


@pytest.mark.parametrize(
    ("estimate", "words"),
    [
        (Interval(0.79, 0.77, 0.81, 3), "21 % lower (19…23 %)"),
        (Interval(1.1, 1.05, 1.16, 3), "10 % higher (5.0…16 %)"),
        (Interval(2.1, 2.0, 2.2, 3), "2.10 times as high (2.00…2.20)"),
        (Interval(0.5, 0.4, 0.6, 3), "0.500 times as high (0.400…0.600)"),
        (Interval(1.0, 0.995, 1.004, 3), "the same within 0.50 %"),
        (
            Interval(1.2, 0.9, 1.6, 3),
            "no different as far as can be told (0.900…1.60 times)",
        ),
        (Interval(0.79), "about the same (one launch: no verdict)"),
        (Interval(3.12), "about 3 times as high (one launch)"),
    ],
)
def test_words_claim_no_more_than_the_interval_bears(estimate: Interval, words: str) -> None:
    assert change(estimate) == words


def full_run(profile: Profile) -> Run:
    """A synthetic run of every experiment of this checkout."""
    figures = dict.fromkeys(METRICS, 0.97)
    results = [
        synthetic.steady_result(case, figures)
        for experiment in Project(ROOT).experiments
        for case in experiment.cases[profile]
    ]
    return synthetic.make_run(results, profile=profile)


def test_the_real_experiments_make_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [full_run("published"), full_run("nightly")]
    (tmp_path / "pyproject.toml").write_text("[tool.duetbench]\n")
    (tmp_path / "apps").symlink_to(ROOT / "apps")
    monkeypatch.setenv("DUETBENCH_ROOT", str(tmp_path))
    app = typer.Typer()
    app.command()(findings_command)
    empty = CliRunner().invoke(app, [])
    assert isinstance(empty.exception, RecordError)

    for run in runs:
        store.finalise(tmp_path / "results", run)
    output = tmp_path / "results" / "FINDINGS.md"
    done = CliRunner().invoke(app, ["-o", str(output)], catch_exceptions=False)
    assert done.exit_code == 0
    text = output.read_text("utf-8")
    published = load_published(ROOT)
    for name, found in published.items():
        assert f"## {name}\n" in text
        for shape in found.shapes:
            assert shape.statement.replace("_", "\\_").replace("*", "\\*") in text
    assert text.count("### Answer") == len(published)
    assert "(runs/synthetic-2c-0a1b2c3d/2026/20261120T090000Z-published-3f2a9c17.json)" in text
    assert "Not measured" not in text
    assert "{{" not in text
    assert not any(line != line.rstrip() for line in text.splitlines())

    some = [one for one in full_run("published").results if "-cpu/" in one.case.id]
    later = synthetic.make_run(some, id="later", profile="published", started="2026-11-21T09:00Z")
    store.finalise(tmp_path / "results", later)
    named = CliRunner().invoke(app, ["Z-published", "later"], catch_exceptions=False)
    assert "### Published profile of 2026-11-21 09:00: [" in named.output
    assert "Not measured" not in named.output
