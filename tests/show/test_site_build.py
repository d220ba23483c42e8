"""The whole site: every link leads somewhere, and nothing is made again without a reason."""

import hashlib
import json
import re
import zipfile
from pathlib import Path

import pytest

import asv_files
import site_builds
import sites
import synthetic as runs
from disks import small_disk
from duetbench.core.errors import RecordError, UsageError
from duetbench.core.model import Run
from duetbench.store import files, run_files
from observatory.show.site import asv_site
from observatory.show.site.build import Folder
from observatory.store.night import NightRecord, ShardRecord

pytestmark = pytest.mark.long


def a_night(day: int) -> Run:
    """A run of six cases, on a day of November 2026."""
    return site_builds.a_run(day, *runs.nightly_run(6, seed=day).results)


def stored(folder: Path, *days: int) -> Path:
    """Nights among the results of a folder; the file of the last."""
    return [run_files.finalise(folder / "results", a_night(day)) for day in days][-1]


def text_of(folder: Path, name: str = "") -> str:
    return sites.read(folder / "site" / name / "index.html").text


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    results = folder / "results"
    stored(folder, 1, 2, 3)
    bench = asv_files.Bench("handlers.Cpu.time_handler", {"endpoint": ("json", "a b")})
    asv_files.list_benchmarks(results / "asv", [bench])
    values = {("json",): [0.25, 0.26], ("a b",): [0.5, 0.52]}
    asv_files.write(results / "asv", "3.14", "current", [(bench, values)])
    sites.build_site(folder)
    return folder


def digests(site: Path) -> dict[str, str]:
    return {
        path.relative_to(site).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(site.rglob("*"))
        if path.is_file()
    }


def test_every_link_leads_to_a_file_of_the_site(whole: Path) -> None:
    assert len(sites.documents(whole / "site")) > 20
    assert list(sites.dead_links(whole / "site")) == []


@pytest.mark.parametrize("kind", ["nothing", "one_night", "hostile"])
def test_on_odd_sites_no_link_is_dead_and_nothing_runs_that_is_not_ours(
    tmp_path: Path, kind: str
) -> None:
    site = getattr(site_builds, kind)(tmp_path)
    if kind == "nothing":
        for name, sentence in {
            "": "Nothing has been measured yet.",
            "c/": "No change is open.",
            "b/": "No case has been measured yet.",
            "cmp/": "No comparison is stored.",
        }.items():
            assert sentence in (site / name / "index.html").read_text("utf-8")
    assert list(sites.dead_links(site)) == []
    for name, document in sites.documents(site).items():
        assert document.text, name
        named = ((a.get("http-equiv"), a.get("content")) for _, a in document.tags)
        policy = [str(text) for name_, text in named if name_ == "Content-Security-Policy"]
        assert len(policy) == 1, name
        assert policy[0].startswith("default-src 'self'"), name
        for tag, attrs in document.tags:
            assert tag not in {"style", "iframe", "object", "embed", "base"}, name
            assert not [key for key in attrs if key.startswith("on") or key == "style"], name
            if tag == "script" and attrs.get("type") != "application/json":
                assert "/static/" in f"/{attrs['src']}", name


def test_the_same_results_give_the_same_bytes(whole: Path) -> None:
    again = sites.build_site(whole)
    assert (again.written, again.removed) == (0, 0)
    sites.build_site(whole, "elsewhere")
    assert digests(whole / "site") == digests(whole / "elsewhere")


def test_one_more_night_gives_the_bytes_of_a_build_from_nothing_and_takes_them_along(
    tmp_path: Path,
) -> None:
    stored(tmp_path, 1, 2)
    sites.build_site(tmp_path)
    site = tmp_path / "site"
    oldest = site / "runs" / f"{a_night(1).id}.json"
    before, page = oldest.stat().st_mtime_ns, (site / "index.html").read_bytes()
    cut = site / "b" / a_night(2).results[0].case.id / "index.html"
    cut.write_bytes(cut.read_bytes()[:100])
    newest = stored(tmp_path, 3)
    sites.build_site(tmp_path)
    assert oldest.stat().st_mtime_ns == before
    assert (site / "index.html").read_bytes() != page
    sites.build_site(tmp_path, "elsewhere")
    assert digests(site) == digests(tmp_path / "elsewhere")
    newest.unlink()
    assert sites.build_site(tmp_path).removed > 0
    assert not (site / "runs" / f"{a_night(3).id}.json").exists()
    assert list(sites.dead_links(site)) == []


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
    assert asv_site.LEFT_OUT in text_of(tmp_path, "asv")


def test_raw_files_are_those_of_the_results(whole: Path) -> None:
    site, run = whole / "site", a_night(3)
    (kept,) = (whole / "results" / "runs").rglob(f"{run.id}.json")
    assert (site / "runs" / f"{run.id}.json").read_bytes() == kept.read_bytes()
    index = json.loads((site / "index.json").read_bytes())
    assert f"runs/{run.id}.json" in index["runs"]
    links = re.findall(r"\]\(([^)]*)\)", (site / "llms.txt").read_text())  # for agents
    assert len(links) >= 6
    assert all((site / link).exists() for link in links)
    for result in run.results:
        document = json.loads((site / index["cases"][result.case.id]).read_bytes())
        assert [table["run"][-1] for table in document["tables"]] == [run.id]
    (raw,) = (site / "raw/asv").rglob(f"{asv_files.COMMIT[:8]}-*.json")
    assert json.loads(raw.read_text())["commit_hash"] == asv_files.COMMIT


def test_raw_files_older_than_a_machine_s_newest_three_months_are_in_archives(
    tmp_path: Path,
) -> None:
    """August's are, and pages link the archive; September's to November's have their own."""
    kept: list[Path] = []
    for month in (8, 8, 9, 10, 11):
        run = site_builds.a_run(1, started=f"2026-{month:02d}-{len(kept) + 1:02d}T03:00:00+00:00")
        kept.append(run_files.finalise(tmp_path / "results", run))
    sites.build_site(tmp_path)
    site, archive = tmp_path / "site", f"runs/{runs.MACHINE.id}-202608.zip"
    with zipfile.ZipFile(site / archive) as packed:
        assert {name: packed.read(name) for name in packed.namelist()} == {
            path.name: path.read_bytes() for path in kept[:2]
        }
    named = [archive, *(f"runs/{path.name}" for path in kept[2:])]
    index = json.loads((site / "index.json").read_bytes())
    assert sorted(index["runs"]) == sorted(named)
    (data,) = (json.loads(path.read_bytes()) for path in site.rglob("data.json"))
    assert data["tables"][0]["file"] == {"of": named, "at": [0, 0, 1, 2, 3]}
    assert "in an archive for each month" in text_of(tmp_path, "data")
    assert sites.build_site(tmp_path).written == 0


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
    text = text_of(tmp_path)
    assert "The night of 1 Nov 2026 is incomplete." in text
    told = "Shard 2 of 2, for the machine m- 2c: 2 of 5 cases missing: the runner was lost"
    assert told in text
    record(2)
    sites.build_site(tmp_path)
    assert "incomplete" not in text_of(tmp_path)


def test_a_name_that_no_file_can_have_is_named_and_a_disk_that_is_full_ends_the_build(
    tmp_path: Path,
) -> None:
    """What is the matter with all files says what to do; what is the matter with one is told."""
    folder = Folder(tmp_path / "one")
    for name in ("x" * 300, "fine", "fine/below"):
        folder.put(name, lambda: b"data")
    reasons = ("File name too long", "File exists")
    told = [
        f"{'x' * 300}: cannot be written ({reasons[0]})",
        f"fine/below: cannot be written ({reasons[1]})",
    ]
    assert (folder.lost, folder.written) == (told, 1)
    (tmp_path / "results").mkdir()
    (tmp_path / "disk").mkdir()
    with small_disk(tmp_path / "disk") as fill:
        fill()
        with pytest.raises(RecordError, match=r"is full: free some space, or name another folder"):
            sites.build_site(tmp_path, "disk/site")
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match=r"\(Not a directory\); check whether the folder is"):
        sites.build_site(tmp_path, "file/site")


@pytest.mark.parametrize("name", ["../outside.json", "/etc/outside", ""])
def test_nothing_is_written_outside_of_the_site(tmp_path: Path, name: str) -> None:
    folder = Folder(tmp_path / "site")
    folder.put(name, lambda: b"")
    assert folder.lost == [f"{name!r}: expected the name of a file inside the site"]
    assert [*tmp_path.iterdir()] == []
