"""The declarations of the sources' figures: refused when wrong, and in step with the plan."""

import fnmatch
from pathlib import Path

import pytest

import synthetic
from bench import experiments
from duetbench.core.errors import DeclarationError
from duetbench.core.metrics import METRICS
from duetbench.core.model import Case, Profile
from duetbench.load.summary import summarise
from observatory.matrix.experiments import PROFILES
from observatory.matrix.published import load_published
from observatory.show import tables
from observatory.show.claims import check
from repos import write

ROOT = Path(__file__).parents[2]
PUBLISHED = load_published(ROOT)
EXPERIMENTS = {experiment.name: experiment for experiment in experiments()}


def declared(experiment: str) -> dict[str, Case]:
    """Every case that the experiment has in any profile, by id."""
    cases = EXPERIMENTS[experiment].cases
    return {case.id: case for profile in PROFILES for case in cases[profile]}


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_every_name_is_a_case_and_every_case_is_in_a_table(name: str) -> None:
    """And the published profile measures every published row."""
    cases, source = declared(name), PUBLISHED[name]
    sides = {side for item in source.shapes for side in (item.numerator, item.denominator) if side}
    for short in (*source.cases, *source.figures, *sides):
        assert set(source.ids(short)) <= cases.keys(), short
    published = {case.id for case in EXPERIMENTS[name].cases["published"]}
    assert {PUBLISHED[name].ids(short)[0] for short in PUBLISHED[name].figures} <= published
    globs = [glob for layout in PUBLISHED[name].tables for glob in layout.select]
    shown = {glob: {*fnmatch.filter(cases, glob)} for glob in globs}
    assert all(shown.values()), shown
    assert set.union(*shown.values()) == {*cases}


@pytest.mark.parametrize("name", sorted(PUBLISHED))
@pytest.mark.parametrize("profile", PROFILES)
def test_shapes_and_tables_can_be_filled_from_any_profile(name: str, profile: Profile) -> None:
    """No row needs an id to be told apart; a run of the published profile has every shape."""
    figures = dict.fromkeys(METRICS, 1.0)
    results = (synthetic.steady_result(c, figures) for c in EXPERIMENTS[name].cases[profile])
    run = summarise(synthetic.make_run(results))
    for table in tables.of_cases(tuple(run.cases.values()), PUBLISHED[name]):
        assert "case" not in table.keys, table.title
    answers = check(PUBLISHED[name], [run])
    if profile == "published":
        assert [answer.shape.statement for answer in answers if answer.ours is None] == []


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_the_published_figures_have_the_shape_that_is_expected(name: str) -> None:
    published, cases = PUBLISHED[name], declared(name)
    ids = [published.ids(short)[0] for short in published.figures]
    figures = (synthetic.steady_result(cases[case], published.figures_of(case)) for case in ids)
    for actual in check(published, [summarise(synthetic.make_run(figures))]):
        good = {"holds", "cannot be asked here", "not measured"}
        assert actual.verdict in good, actual.shape.statement
        if actual.ours is not None and actual.published is not None:
            assert actual.ours.estimate == pytest.approx(actual.published)


def test_a_wrong_declaration_is_refused_with_its_place(tmp_path: Path) -> None:
    write(tmp_path, "apps/x/experiment.toml", "")
    text = "source = 'a page'\n[figures]\n'x/y' = { speed = 1 }"
    write(tmp_path, "apps/x/published.toml", text)
    with pytest.raises(DeclarationError, match=r"x/published.toml.*unknown metric 'speed'; "):
        load_published(tmp_path)
