"""The whole site: links, no page made again without a reason, and figures of the files."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import site_builds
import sites
import synthetic as runs
from bench import Once
from disks import small_disk
from duetbench.core.errors import RecordError, UsageError
from duetbench.core.model import Run
from duetbench.host import files
from observatory.show.site import asv_site, build
from observatory.show.site.build import Folder
from observatory.store.night import NightRecord, ShardRecord

pytestmark = pytest.mark.long


def a_night(day: int) -> Run:
    """A run of six cases, on a day of November 2026."""
    return site_builds.a_run(day, *runs.nightly_run(6, seed=day).results)


def stored(folder: Path, *days: int) -> Path:
    """Nights among the results of a folder; the file of the last."""
    return [files.save(folder / "results", a_night(day)) for day in days][-1]


def text_of(folder: Path, name: str = "") -> str:
    return sites.read(folder / "site" / name / "index.html").text


def digests(site: Path) -> dict[str, str]:
    return {
        path.relative_to(site).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(site.rglob("*"))
        if path.is_file()
    }


def test_every_link_leads_to_a_file_of_the_site(site: Path) -> None:
    assert len(sites.documents(site)) > 20
    assert list(sites.dead_links(site)) == []


@pytest.mark.parametrize("kind", ["nothing", "one_night", "hostile"])
def test_on_odd_sites_no_link_is_dead_and_nothing_runs_that_is_not_ours(
    tmp_path: Path, kind: str
) -> None:
    site = getattr(site_builds, kind)(tmp_path)
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
        alone = name.startswith("cmp/") and name != "cmp/index.html"  # one file, without scripts
        assert policy[0].startswith("default-src 'none'" if alone else "default-src 'self'"), name
        for tag, attrs in document.tags:
            assert tag not in {"iframe", "object", "embed", "base"}, name
            assert alone or tag != "style", name
            assert not [key for key in attrs if key.startswith("on") or key == "style"], name
            if tag == "script" and attrs.get("type") != "application/json":
                assert "/static/" in f"/{attrs['src']}", name


def test_the_same_results_give_the_same_bytes_whatever_was_there(tmp_path: Path) -> None:
    newest = stored(tmp_path, 1, 2, 3)
    sites.build_site(tmp_path)
    newest.unlink()
    cut = tmp_path / "site" / "b" / a_night(2).results[0].case.id / "index.html"
    cut.write_bytes(cut.read_bytes()[:100])
    for folder in ("site", "elsewhere"):
        sites.build_site(tmp_path, folder)
    assert digests(tmp_path / "site") == digests(tmp_path / "elsewhere")
    assert not (tmp_path / "site" / "runs" / newest.name).exists()
    assert list(sites.dead_links(tmp_path / "site")) == []


def test_a_folder_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "data").mkdir(parents=True)
    precious = site / "data" / "thesis.txt"
    precious.write_text("years of work")
    with pytest.raises(UsageError, match="expected an empty folder, or a site"):
        sites.build_site(tmp_path)
    assert precious.read_text() == "years of work"
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="found a file"):
        sites.build_site(tmp_path, "file")


@pytest.mark.parametrize(
    ("replaced", "by", "told"),
    [(b"{", b"", "expected a run file"),
     (b"2026-11-02T03:00:00+00:00", b"the day after", "expected a moment like")],
    ids=["damaged", "date"],
)  # fmt: skip
def test_a_file_that_cannot_be_read_costs_itself_only_and_the_first_page_says_so(
    tmp_path: Path, replaced: bytes, by: bytes, told: str
) -> None:
    path = stored(tmp_path, 1, 2)
    path.write_bytes(path.read_bytes().replace(replaced, by))
    done = sites.build_site(tmp_path)
    text = text_of(tmp_path)
    assert "1 file of the results could not be read" in text
    assert str(tmp_path) not in text
    assert any(told in note for note in done.notes)
    runs_ = tmp_path / "site" / "runs"
    assert [path.name for path in runs_.iterdir()] == [f"{a_night(1).id}.json"]


def test_the_page_of_missing_addresses_works_at_any_depth(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    sites.build_site(tmp_path)
    links = sites.read(tmp_path / "site" / "404.html").links
    assert all(link.startswith(("/", "#")) for link in links)
    sites.build_site(tmp_path, "other", base="https://example.org/bench/")
    links = sites.read(tmp_path / "other" / "404.html").links
    assert all(link.startswith(("/bench/", "#")) for link in links)


def test_where_asv_has_no_site_a_page_says_why(tmp_path: Path) -> None:
    (tmp_path / "results" / "asv" / "folder.json").mkdir(parents=True)
    assert asv_site.NONE in sites.build_site(tmp_path, with_asv=True).notes
    assert asv_site.NONE in text_of(tmp_path, "asv")
    assert sites.build_site(tmp_path).notes == ()
    assert build.NO_ASV in text_of(tmp_path, "asv")


def test_what_is_missing_of_a_night_is_said_on_the_first_page(tmp_path: Path) -> None:
    results = tmp_path / "results"
    stored(tmp_path, 1)

    def record(day: int, *lost: str) -> None:
        shard = ShardRecord(
            shard=2, machine="m-2c", planned=5, missing=lost, reason="the runner was lost"
        )
        night = NightRecord(
            id=f"202611{day:02d}T030000Z-nightly-aaaaaaaa", commit=None, profile="nightly",
            status="incomplete" if lost else "complete", created=f"2026-11-{day:02d}T03:00:00Z",
            shards=(ShardRecord(shard=1, machine=None, planned=5), shard),
        )  # fmt: skip
        path = results / night.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files.encode(night))

    record(1, "a/one", "a/two")
    sites.build_site(tmp_path)
    assert "Last night 1 Nov 2026 , incomplete" in text_of(tmp_path)
    record(2)
    sites.build_site(tmp_path)
    assert "incomplete" not in text_of(tmp_path)


def test_a_disk_that_is_full_ends_the_build(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "disk").mkdir()
    with small_disk(tmp_path / "disk") as fill:
        fill()
        with pytest.raises(RecordError, match=r"free some space, .*, or name another folder"):
            sites.build_site(tmp_path, "disk/site")


@pytest.mark.parametrize("name", ["../outside.json", "/etc/outside", "", "a\0b"])
def test_nothing_is_written_outside_of_the_site(tmp_path: Path, name: str) -> None:
    folder = Folder(tmp_path / "site")
    folder.put(name, lambda: b"")
    assert folder.lost == [f"{name!r}: expected the name of a file inside the site"]
    assert [*tmp_path.iterdir()] == []


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


@pytest.fixture(scope="module", params=["reference", "past"])
def site(request: pytest.FixtureRequest, once: Once, reference_results: Path) -> Path:
    """The site of the committed results, and that of five made-up years."""
    if request.param == "past":
        return once("past", site_builds.history) / "site"

    def fill(folder: Path) -> None:
        (folder / "results").symlink_to(reference_results)
        site_builds.build(folder)

    return once("reference", fill) / "site"


def pages(site: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(site.rglob("*.html")):
        yield path.relative_to(site).as_posix(), path.read_text("utf-8")


def text_in(markup: str) -> str:
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
            text = text_in(row)
            if judged and holds_no_change(text) is not False:
                wrong.append(f"{name}: {text}")
        # The verdict of a comparison is one line; the intervals are below it.
        compared = name.startswith("cmp/")
        told = VERDICT.sub("", html) if compared else html
        for part in (*elements(told, "p", "p"), *elements(told, "li", "li")):
            text = STATEMENT.sub("", text_in(part))
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
