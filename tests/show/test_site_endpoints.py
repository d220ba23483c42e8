"""Pages of endpoints: all variants side by side, of one run of one machine."""

import re
from pathlib import Path

import pytest

import site_builds
import sites
import synthetic as runs
from duetbench.core.model import Run
from site_builds import FREE, JSON, a_run, scattered

TWO = "asgi-wsgi/asgi-json/py3.14/w2/c256"
NAME = "asgi-wsgi/asgi-json"
HERE = runs.MACHINE.id
OTHER = runs.MACHINE.model_copy(update={"id": "other-4c-1"})


def site_of(folder: Path, *measured: Run) -> Path:
    for one in measured:
        site_builds.stored(folder / "results", one)
    return site_builds.built(folder)


def text_of(site: Path, name: str = NAME) -> str:
    return sites.read(site / "b" / name / "index.html").text


def night(day: int, **changes: object) -> Run:
    one = scattered(JSON, 4900.0 + day, 5000.0, 5100.0)
    other = scattered(FREE, 5900.0, 6000.0, 6100.0)
    return a_run(day, one, other, scattered(TWO, 8000.0, 8000.0, 8100.0), **changes)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("endpoints")
    few = a_run(4, scattered(JSON, 1234.0), profile="quick", launches=1)
    return site_of(folder, night(1), night(2), night(3, machine=OTHER), few)


def test_all_variants_are_of_one_run_of_the_machine_that_was_measured_last(site: Path) -> None:
    """A quick look at one case does not take the place of a night of all three."""
    text = text_of(site)
    assert f"Its 3 variants side by side, all measured on {HERE}" in text.replace("- ", "-")
    told = f"3 launches each in the nightly run {night(2).id} of 2 Nov 2026 . Nothing is ranked"
    assert told in text.replace("- ", "-")
    assert "other-4c" not in text.replace("- ", "-")
    assert "1,234" not in text
    html = (site / "b" / NAME / "index.html").read_text("utf-8")
    (figure,) = re.findall(r'<figure[^>]* id="throughput".*?</figure>', html, re.DOTALL)
    said = re.findall(r"<title>([^<:]*): ([^<]*), 95 % interval", figure)
    assert said[:3] == [
        ("3.14, asgi-json/py3.14/w1/c128", "5,000/s"),
        ("3.14, asgi-json/py3.14/w2/c256", "8,033/s"),
        ("3.14t, asgi-json/py3.14t/w1/c128", "5,999/s"),
    ]
    assert len(said) == 2 * 3, "once for wide pages, once for narrow ones"
    assert "2 points" in text


def test_one_launch_is_hollow_and_stands_in_only_where_there_is_no_more(tmp_path: Path) -> None:
    """Of the case that the night has too, the figure of the night is shown."""
    few = a_run(2, scattered(JSON, 1234.0), scattered(TWO, 9000.0), site_builds.failed(FREE),
                profile="quick", launches=1)  # fmt: skip
    site = site_of(tmp_path, a_run(1, scattered(JSON, 4900.0, 5000.0, 5100.0)), few)
    text = text_of(site)
    assert "; where that has none, 1 launch each in the quick run" in text
    assert "1,234" not in text
    html = (site / "b" / NAME / "index.html").read_text("utf-8")
    said = re.findall(r"<title>([^<]*throughput[^<]*|[^<]*/s[^<]*)</title>", html)
    (one,) = {one for one in said if "9,000/s" in one}
    assert "not judged" in one
    assert "hollow" in html
    assert "no figure: failed; not_ready: 60 s were not enough" in html
    assert not re.search("verdict v-|class=.(better|worse)", html)


def test_crumbs_lead_from_a_case_to_its_endpoint_and_from_there_to_the_experiment(
    site: Path,
) -> None:
    crumbs = re.compile(r'<nav class="trail".*?</nav>', re.DOTALL)

    def links(name: str) -> list[str]:
        (found,) = crumbs.findall((site / "b" / name / "index.html").read_text("utf-8"))
        return re.findall(r'href="([^"]+)"', found)

    assert links(JSON)[-1] == "../../../../../../b/asgi-wsgi/asgi-json/"
    assert links(NAME)[-2:] == ["../../../x/asgi-wsgi/", "../../../b/asgi-wsgi/"]
    listed = (site / "b" / "asgi-wsgi" / "index.html").read_text("utf-8")
    assert 'href="../../b/asgi-wsgi/asgi-json/"' in listed


def test_cases_whose_ids_are_short_or_odd_keep_their_pages(tmp_path: Path) -> None:
    names = ("alone", "a/b", "a/b/c", "a/<x>/c", "a b/c (d)/e")
    measured = a_run(1, *(scattered(name, 1.0, 2.0, 3.0) for name in names))
    site = site_of(tmp_path, measured)
    assert list(sites.dead_links(site)) == []
    for name in ("alone", "a/b", "a/b/c"):
        assert "Newest figures" in text_of(site, name), "a case, not what cases begin with"
    assert "1 variants" not in text_of(site, "a b/c (d)")
    assert "Its 1 variant side by side" in text_of(site, "a b/c (d)")
