"""No page says more than its figures bear: contracts over all pages of built sites.

Of the reference results, and of a made-up history that asks for mistakes: noise in which nothing
happened, changes that overlap, a cause that nobody knows, another kernel, and a second machine
that was measured last, and once.
"""

import math
import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

import site_builds
import sites
import synthetic as runs
from duetbench.core.model import CaseResult, Profile, Run, StackRecord
from duetbench.store import files, run_files
from duetbench.store.change import Change, SeriesName
from duetbench.store.comparison import PackageChange

pytestmark = pytest.mark.long

FIRST: Final = datetime(2026, 10, 20, 3, tzinfo=UTC)
NIGHTS: Final = 30
CASES: Final = (
    "gil-endpoints/sync_cpu/py3.14t", "gil-endpoints/sync_cpu/py3.14",
    "asgi-wsgi/asgi-json/py3.14t/w1/c128", "asgi-wsgi/asgi-json/py3.14/w1/c128",
    "pydantic-v1-v2/pydantic-v2/py3.14/c16", "pydantic-v1-v2/pydantic-v1/py3.14/c16",
    "asgi-wsgi/wsgi-json/py3.14/w1/t64/c128",
    *(f"asgi-wsgi/asgi-json/py3.14{t}/w{n}/c{128 * n}" for n in (2, 3, 4) for t in ("", "t")),
)  # fmt: skip
MOVED: Final = {20: 1.3, 21: 1.4}
"""Night → how many times as much the first case costs from there on; its neighbour is next."""
KERNEL: Final = 10
"""The first night of another kernel."""

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


def a_run(place: int, machine: str = runs.MACHINE.id, launches: int = 3) -> Run:
    """A night of scatter: 1 % between nights, 1 to 20 % between launches."""
    source = random.Random(place)
    factor = math.prod(size for night, size in MOVED.items() if night <= place)
    results = []
    for number, name in enumerate(CASES):
        level = 1e-4 * (1 + number) * source.lognormvariate(0, 0.01) * (factor if not number else 1)
        spread = (0.01, 0.05, 0.2)[number % 3] if number else 0.002
        costs = [level * source.lognormvariate(0, spread) for _ in range(launches)]
        made = (
            runs.ok(name, n, {"server_cpu_per_request": cost, "throughput": 1 / cost})
            for n, cost in enumerate(costs)
        )
        results.append(CaseResult(case=runs.make_case(name), launches=tuple(made)))
    started, commit = (FIRST + timedelta(days=place)).isoformat(), f"{place:02x}" * 20
    profile: Profile = "nightly" if launches > 1 else "quick"
    kernel = "6.2.0" if place >= KERNEL else "6.1.0"
    digest = "01"[place >= min(MOVED)] * 64
    return runs.make_run(
        results, id=run_files.run_id(started, profile, commit), profile=profile, launches=launches,
        started=started, commit=commit,
        machine=runs.MACHINE.model_copy(update={"kernel": kernel, "id": machine}),
        stacks=(StackRecord(name="current", digest=digest, packages={"fastapi": digest[0]}),),
    )  # fmt: skip


def a_record(place: int, measured: list[Run]) -> Change:
    when, ratio = FIRST + timedelta(days=place), MOVED[place]
    packages = (
        PackageChange(stack="current", package=name, base="0", head="1")
        for name in ("fastapi", "granian")
    )
    return runs.change_record(
        id=f"{when:%Y%m%d}-unknown-{place}", when=when,
        series=SeriesName(machine=runs.MACHINE.id, case=CASES[0], metric="server_cpu_per_request"),
        before_run=measured[place - 1].id, after_run=measured[place].id, packages=tuple(packages),
        ratio=ratio, low=ratio - 0.02, high=ratio + 0.02, culprit=None,
    )  # fmt: skip


@pytest.fixture(scope="module")
def contested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("contested")
    results = folder / "results"
    measured = [a_run(place) for place in range(NIGHTS)]
    for run in (*measured, a_run(NIGHTS, "other-4c-11111111", launches=1)):
        site_builds.save_run(results, run)
    for place in MOVED:
        files.save(results, a_record(place, measured))
    site_builds.save_releases(results)
    return site_builds.build(folder)


@pytest.fixture(scope="module", params=["reference", "contested"])
def site(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    reference_results: Path,
) -> Path:
    if request.param == "contested":
        found: Path = request.getfixturevalue("contested")
        return found
    folder = tmp_path_factory.mktemp("reference")
    (folder / "results").symlink_to(reference_results)
    return site_builds.build(folder)


def pages(site: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(site.rglob("*.html")):
        yield path.relative_to(site).as_posix(), path.read_text("utf-8")


def text_of(markup: str) -> str:
    document = sites.Document()
    document.feed(markup)
    document.close()
    return document.text


def elements(html: str, opening: str, tag: str) -> Iterator[str]:
    yield from re.findall(rf"<{opening}(?![a-z])[^>]*>.*?</{tag}>", html, re.DOTALL)


def holds_no_change(text: str) -> bool | None:
    found = ENDS.findall(text)
    if factors := FACTORS.findall(text):
        low, high = map(float, factors[-1])
        return low <= 1 <= high
    if not found:
        return None
    low, high = (float(end.replace("−", "-").replace(",", "")) for end in found[-1])
    return low <= 0 <= high


def test_no_page_says_more_than_its_intervals(site: Path) -> None:
    """No row; and in a sentence `21 % lower` is followed by `(19…23 %)`, or why there is none."""
    wrong = []
    for name, html in pages(site):
        for row in elements(html, "tr", "tr"):
            judged = 'class="verdict v-worse' in row or 'class="verdict v-better' in row
            text = text_of(row)
            if judged and holds_no_change(text) is not False:
                wrong.append(f"{name}: {text}")
        # The verdict of a comparison is one line; the intervals are below it.
        compared = name.startswith(("cmp/", "x/side-by-side/"))
        told = VERDICT.sub("", html) if compared else html
        for part in (*elements(told, "p", "p"), *elements(told, "li", "li")):
            text = STATEMENT.sub("", text_of(part))
            wrong += [
                f"{name}: {text}"
                for found in SIZES.finditer(text)
                if not BORNE.match(text[found.end() :])
                if not (compared and text[: found.start()].endswith(("▲ ", "▼ ")))
            ]
    assert wrong == []


QUOTED: Final = re.compile(
    r'<b class="quoted [^>]*data-release="([^"]+)"[^>]*>'
    r"([\d.]+)(?: | |&nbsp;)(?:%|times) (more|fewer|less|the|longer|shorter)[^<]*</b>"
)
FINDING: Final = re.compile(
    r"(?<![\w.])([a-z][\w-]*) (\d[\w.]*)(?: with [\w-]+ [\d.]+)?"
    r" (?:needs|takes|serves|has a) ([\d.]+)(?: %| times) (more|fewer|less|longer|shorter)"
)
"""A release that does something: `fastapi 0.142.0 needs 20 % more`."""


def sizes_of(text: str) -> Iterator[tuple[str, str]]:
    """Each release with a size that a text gives it."""
    for release, size, way in QUOTED.findall(text):
        yield release, f"{size} % {way}"
    for package, version, size, way in FINDING.findall(text.replace("&nbsp;", " ")):
        yield f"{package} {version}", f"{size} % {way}"


def test_no_release_has_two_sizes(site: Path) -> None:
    """Lists, titles, pages, the feed, the search: one size each, wherever a release has one."""
    sizes: dict[str, set[str]] = {}
    texts = [*(html for _, html in pages(site))]
    texts += [(site / name).read_text("utf-8") for name in ("changes.atom", "search.json")]
    for release, size in (found for text in texts for found in sizes_of(text)):
        sizes.setdefault(release, set()).add(size)
    assert {release: many for release, many in sizes.items() if len(many) > 1} == {}
    released = {path.parent.relative_to(site / "p") for path in site.glob("p/*/*/index.html")}
    assert {" ".join(path.parts) for path in released} == sizes.keys()


def test_another_page_leads_to_each_explanation(site: Path) -> None:
    links = {
        page: [link.partition("#")[0] for link in document.links]
        for page, document in sites.documents(site).items()
    }
    for page in (page for page in links if page.startswith("why/")):
        address = page.removesuffix("index.html")
        assert any(
            link.endswith(address) for other in links if other != page for link in links[other]
        ), page


def test_a_page_of_a_release_begins_with_its_size(site: Path) -> None:
    for path in site.glob("p/*/*/index.html"):
        html = path.read_text("utf-8")
        title = text_of(next(elements(html, "h1", "h1")))
        (begun,) = set(sizes_of(title.replace("\xa0", " ")))
        assert begun[0] == " ".join(path.parent.relative_to(site / "p").parts)
        assert next(sizes_of(html[html.index("</h1>") :])) == begun, title
