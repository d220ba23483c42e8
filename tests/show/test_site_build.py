"""The whole site: links, the same bytes, what is odd, and no size that its interval denies."""

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

import sites
from bench import Once
from duetbench.core.errors import UsageError
from duetbench.host import files
from observatory.show import addresses
from observatory.store.points import Points

pytestmark = pytest.mark.long


@pytest.fixture(scope="module", params=["reference", "world"])
def site(request: pytest.FixtureRequest, once: Once, reference_results: Path) -> Path:
    """The site of the committed results, and of a small world."""
    if request.param == "world":
        return once("world", sites.build_world) / "site"
    fill = partial(sites.build_of, reference_results)
    return once("built-reference", fill) / "site"


def test_every_link_leads_to_a_file_of_the_site(site: Path) -> None:
    assert len(sites.documents(site)) > 20
    assert list(sites.dead_links(site)) == []


def test_every_case_of_a_trend_and_comparison_has_its_page(site: Path) -> None:
    results = site.parent / "results"
    names = [addresses.comparison(path.stem) for path in (results / "comparisons").glob("*.json")]
    for path in files.paths(Points, results):
        document = json.loads(path.read_bytes())
        known = [] if document["release"] else document["cases"]
        names += [addresses.case(case["case"]) for case in known]
    assert names
    assert [name for name in names if not (site / addresses.file(name)).is_file()] == []


@pytest.mark.parametrize("kind", ["nothing", "hostile"])
def test_on_odd_sites_no_link_is_dead_and_nothing_runs_that_is_not_ours(
    tmp_path: Path, kind: str
) -> None:
    site = getattr(sites, kind)(tmp_path)
    if kind == "nothing":
        for name, sentence in {
            "": "Nothing has been measured yet.",
            "p/": "No release has been measured alone yet.",
            "sides/": "No two ways have been compared yet.",
        }.items():
            assert sentence in (site / name / "index.html").read_text("utf-8")
    assert list(sites.dead_links(site)) == []
    for name, document in sites.documents(site).items():
        assert document.text, name
        named = ((a.get("http-equiv"), a.get("content")) for _, a in document.tags)
        policy = [str(text) for name_, text in named if name_ == "Content-Security-Policy"]
        assert len(policy) == 1, name
        alone = name.startswith("cmp/")  # one file, without scripts
        assert policy[0].startswith("default-src 'none'" if alone else "default-src 'self'"), name
        for tag, attrs in document.tags:
            assert tag not in {"iframe", "object", "embed", "base"}, name
            assert alone or tag != "style", name
            assert not [key for key in attrs if key.startswith("on") or key == "style"], name
            if tag == "script" and attrs.get("type") != "application/json":
                assert "/static/" in f"/{attrs['src']}", name


def test_the_same_results_give_the_same_bytes_whatever_was_there(tmp_path: Path) -> None:
    def digests(site: Path) -> dict[str, str]:
        paths = (path for path in site.rglob("*") if path.is_file())
        return {
            path.relative_to(site).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in paths
        }

    shutil.copytree(sites.WORLD / "runs", tmp_path / "results" / "runs")
    newest = max(tmp_path.rglob("*-nightly-*.json"))
    sites.build_site(tmp_path)
    newest.unlink()
    cut = tmp_path / "site" / addresses.file(addresses.experiment("asgi-wsgi"))
    cut.write_bytes(cut.read_bytes()[:100])
    for folder in ("site", "elsewhere"):
        sites.build_site(tmp_path, folder)
    assert digests(tmp_path / "site") == digests(tmp_path / "elsewhere")
    assert not (tmp_path / "site" / "runs" / newest.name).exists()
    assert list(sites.dead_links(tmp_path / "site")) == []


def test_a_folder_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    precious = tmp_path / "site" / "data" / "thesis.txt"
    precious.parent.mkdir(parents=True)
    precious.write_text("years of work")
    with pytest.raises(UsageError, match="expected an empty folder, or a site"):
        sites.build_site(tmp_path)
    assert precious.read_text() == "years of work"
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="found a file"):
        sites.build_site(tmp_path, "file")


NUMBER: Final = r"[\d,]+(?:\.\d+)?"
ENDS: Final = re.compile(rf"([+−-]?{NUMBER})(?: %)?…([+−-]?{NUMBER}) (?:%|kB)")
FACTORS: Final = re.compile(rf"({NUMBER})…({NUMBER})×")
SIZES: Final = re.compile(
    rf"{NUMBER} % (?:higher|lower|faster|slower|more|less|fewer|longer|shorter)"
    rf"|{NUMBER} times as (?:high|many|much|fast)|ratio of {NUMBER}"
)
"""A size in a sentence."""
VERDICT: Final = re.compile(r'<p class="says">.*?</p>')
STATEMENT: Final = re.compile(r"^.*? — (?:does not hold|holds|not |cannot )")
"""What an article states, and whether it holds here."""
BORNE: Final = re.compile(
    rf"^(?: CPU to import the application|(?: [\w.]+){{0,4}}) ?"
    rf"\((?:[+−]?{NUMBER}…[+−]?{NUMBER}[^)]*|one launch[^)]*"
    rf"|exact to ±{NUMBER} %)\)"
    r"| (?:on|and) .*\(medians\)"
)
"""What has to follow it, or what there is more of: its interval, or that there is none."""


def pages(site: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(site.rglob("*.html")):
        yield path.relative_to(site).as_posix(), path.read_text("utf-8")


def elements(html: str, *tags: str) -> Iterator[str]:
    """The texts of these elements."""
    for tag in tags:
        for part in re.findall(rf"<{tag}(?![a-z])[^>]*>.*?</{tag}>", html, re.DOTALL):
            yield sites.document(part).text


def excludes_no_change(text: str) -> bool:
    """Whether the last interval of a row excludes "no change"."""
    if factors := FACTORS.findall(text):
        low, high = map(float, factors[-1])
        return not low <= 1 <= high
    *_, ends = ENDS.findall(text) or [("-1", "1")]
    low, high = (float(end.replace("−", "-").replace(",", "")) for end in ends)
    return not low <= 0 <= high


def test_no_page_says_more_than_its_intervals(site: Path) -> None:
    """No row; and in a sentence `21 % lower` is followed by `(19…23 %)`, or why there is none."""
    wrong = []
    for name, html in pages(site):
        moved = re.findall(
            r'<tr(?:(?!</tr>).)*class="verdict v-(?:worse|better).*?</tr>', html, re.S
        )
        texts = [sites.document(row).text for row in moved]
        wrong += [f"{name}: {text}" for text in texts if not excludes_no_change(text)]
        # The verdict of a comparison is one line; the intervals are below it.
        compared = name.startswith("cmp/")
        for part in elements(VERDICT.sub("", html) if compared else html, "p", "li"):
            text = STATEMENT.sub("", part)
            wrong += [
                f"{name}: {text}"
                for actual in SIZES.finditer(text)
                if not BORNE.match(text[actual.end() :])
                if not (compared and text[: actual.start()].endswith(("▲ ", "▼ ")))
            ]
    assert wrong == []


QUOTED: Final = re.compile(
    r'<b class="quoted [^>]*data-release="([^"]+)"[^>]*>'
    r"([\d.]+)(?: | |&nbsp;)(?:%|times) (more|fewer|less|the|longer|shorter)[^<]*</b>"
)
FINDING: Final = re.compile(
    r"(?<![\w.])([a-z][\w-]* \d[\w.]*)(?: with [\w-]+ [\d.]+)?"
    r" (?:needs|takes|serves|has a) ([\d.]+)(?: %| times) (more|fewer|less|longer|shorter)"
)
"""A release that does something: `fastapi 0.142.0 needs 20 % more`."""


def test_no_release_has_two_sizes(site: Path) -> None:
    """Lists, titles, pages, the search: one size each, wherever a release has one."""
    sizes: dict[str, set[tuple[str, str]]] = {}
    texts = [*(html for _, html in pages(site))]
    texts.append((site / "search.json").read_text("utf-8"))
    for text in texts:
        actual = QUOTED.findall(text) + FINDING.findall(text.replace("&nbsp;", " "))
        for release, *size in actual:
            sizes.setdefault(release, set()).add((size[0], size[1]))
    assert {release: many for release, many in sizes.items() if len(many) > 1} == {}
    released = {path.parent.relative_to(site / "p") for path in site.glob("p/*/*/index.html")}
    assert {" ".join(path.parts) for path in released} == sizes.keys()
