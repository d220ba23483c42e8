"""The whole site: every link leads somewhere, and nothing is made again without a reason."""

from __future__ import annotations

import hashlib
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

import asv_files
import site_builds
import sites
import synthetic as runs
from bench import Bench
from servebench.core.errors import UsageError
from servebench.core.model import Run
from servebench.record import files, store
from servebench.record.comparison import Verdict
from servebench.record.night import NightRecord, ShardRecord
from servebench.record.trial import Said, Trial, save_trial
from servebench.site import asv_site, build

CASE = "asgi-wsgi/asgi-json/py3.14/w1/c128"


def a_night(day: int, cases: int = 6) -> Run:
    """A nightly run of a day of November 2026."""
    run = runs.nightly_run(cases, seed=day)
    started = f"2026-11-{day:02d}T03:00:00+00:00"
    commit = f"{day:02d}" * 20
    return run.model_copy(
        update={
            "id": store.run_id(started, "nightly", commit),
            "started": started,
            "commit": commit,
        }
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    results = folder / "results"
    for day in (1, 2, 3):
        store.finalise(results, a_night(day))
    bench = asv_files.Bench("handlers.Cpu.time_handler", {"endpoint": ("json", "a b")})
    asv_files.list_benchmarks(results / "asv", [bench])
    values = {("json",): [0.25, 0.26], ("a b",): [0.5, 0.52]}
    asv_files.write(results / "asv", "3.14", "current", [(bench, values)])
    sites.made(folder, results)
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
def test_no_link_is_dead_on_odd_sites(tmp_path: Path, kind: str) -> None:
    site = getattr(site_builds, kind)(tmp_path)
    assert list(sites.dead_links(site)) == []
    assert all(document.text for document in sites.documents(site).values())


def test_nothing_on_a_page_runs_or_loads_what_is_not_ours(tmp_path: Path) -> None:
    site = site_builds.hostile(tmp_path)
    for name, document in sites.documents(site).items():
        policy = [a["content"] for t, a in document.tags if a.get("http-equiv")]
        assert len(policy) == 1, name
        assert policy[0].startswith("default-src 'self'"), name
        for tag, attrs in document.tags:
            assert tag not in {"style", "iframe", "object", "embed", "base"}, name
            assert not [key for key in attrs if key.startswith("on") or key == "style"], name
            if tag == "script" and attrs.get("type") != "application/json":
                assert "/static/" in f"/{attrs['src']}", name
            if tag == "img":
                assert "onerror" not in attrs, name


def test_the_same_results_give_the_same_bytes(whole: Path) -> None:
    again = sites.made(whole, whole / "results")
    assert (again.written, again.removed) == (0, 0)
    sites.made(whole, whole / "results", "elsewhere")
    assert digests(whole / "site") == digests(whole / "elsewhere")


def test_one_more_night_gives_the_bytes_of_a_build_from_nothing(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for day in (1, 2):
        store.finalise(results, a_night(day))
    sites.made(tmp_path, results)
    site = tmp_path / "site"
    oldest = site / "runs" / a_night(1).id / "index.html"
    before, page = oldest.stat().st_mtime_ns, (site / "index.html").read_bytes()
    cut = site / "runs" / a_night(2).id / "index.html"
    cut.write_bytes(cut.read_bytes()[:100])
    store.finalise(results, a_night(3))
    sites.made(tmp_path, results)
    assert oldest.stat().st_mtime_ns == before
    assert (site / "index.html").read_bytes() != page
    sites.made(tmp_path, results, "elsewhere")
    assert digests(site) == digests(tmp_path / "elsewhere")


def test_a_run_that_is_gone_takes_its_pages_along(tmp_path: Path) -> None:
    results = tmp_path / "results"
    store.finalise(results, a_night(1))
    path = store.finalise(results, a_night(2))
    sites.made(tmp_path, results)
    page = tmp_path / "site" / "runs" / a_night(2).id / "index.html"
    assert page.is_file()
    path.unlink()
    assert sites.made(tmp_path, results).removed > 0
    assert not page.exists()
    assert list(sites.dead_links(tmp_path / "site")) == []


def test_a_folder_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "data").mkdir(parents=True)
    precious = site / "data" / "thesis.txt"
    precious.write_text("years of work")
    with pytest.raises(UsageError, match="expected an empty folder, or a site"):
        sites.made(tmp_path, tmp_path / "results")
    assert precious.read_text() == "years of work"
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="found a file"):
        sites.made(tmp_path, tmp_path / "results", "file")


def test_every_figure_of_a_run_leads_to_its_case_and_its_file(whole: Path) -> None:
    site, run = whole / "site", a_night(3)
    document = sites.read(site / "runs" / run.id / "index.html")
    cases = {link for link in document.links if link.startswith("../../b/")}
    assert {f"../../b/{result.case.id}/" for result in run.results} == cases
    assert f"../../runs/{run.id}.json" in document.links
    (stored,) = (whole / "results" / "runs").rglob(f"{run.id}.json")
    assert (site / "runs" / f"{run.id}.json").read_bytes() == stored.read_bytes()


def test_what_asv_measured_has_a_run_and_its_raw_file(whole: Path) -> None:
    site = whole / "site"
    (page,) = (site / "runs").glob("*-asv-3f2a9c17/index.html")
    document = sites.read(page)
    assert "handlers.Cpu.time_handler(endpoint=json)" in document.text.replace(" ", "")
    assert "255 ms" in document.text
    (raw,) = [link for link in document.links if "/raw/asv/" in link]
    assert (page.parent / raw).resolve().is_relative_to(site)
    assert json.loads((page.parent / raw).read_text())["commit_hash"] == asv_files.COMMIT


def test_the_first_page_says_what_the_newest_run_found(whole: Path) -> None:
    text = sites.read(whole / "site" / "index.html").text
    assert a_night(3).id in text.replace(" ", "")
    assert "Of 6 cases" in text


def test_problems_are_told_on_the_first_page(tmp_path: Path) -> None:
    results = tmp_path / "results"
    store.finalise(results, a_night(1))
    store.finalise(results, a_night(2)).write_bytes(b"{")
    done = sites.made(tmp_path, results)
    text = sites.read(tmp_path / "site" / "index.html").text
    assert "1 file of the results could not be read" in text
    assert str(tmp_path) not in text
    assert any("expected a run file" in note for note in done.notes)


def test_the_page_of_missing_addresses_works_at_any_depth(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    sites.made(tmp_path, tmp_path / "results")
    links = sites.read(tmp_path / "site" / "404.html").links
    assert all(link.startswith(("/", "#")) for link in links)
    sites.made(tmp_path, tmp_path / "results", "other", base="https://example.org/bench/")
    links = sites.read(tmp_path / "other" / "404.html").links
    assert all(link.startswith(("/bench/", "#")) for link in links)


def test_where_asv_s_site_is_not_a_page_says_why(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    done = sites.made(tmp_path, tmp_path / "results", with_asv=True)
    assert asv_site.NONE in done.notes
    assert asv_site.NONE in sites.read(tmp_path / "site" / "asv" / "index.html").text


def test_asv_s_site_of_an_earlier_build_is_kept(tmp_path: Path) -> None:
    results, asv = tmp_path / "results", tmp_path / "site" / "asv"
    results.mkdir()
    sites.made(tmp_path, results)
    (asv / asv_site.SIGN).write_text("asv's")
    (asv / "index.html").write_text("<!doctype html>asv's")
    sites.made(tmp_path, results)
    assert (asv / "index.html").read_text() == "<!doctype html>asv's"
    assert (asv / asv_site.SIGN).is_file()


def test_static_files_are_one_folder_named_by_its_contents() -> None:
    served = build.static_files()
    assert {"site.css", "icon.svg", "js/ages.js"} <= set(served)
    assert b".chart-drawing" in served["site.css"]
    folder = build.static_folder(served)
    assert folder == build.static_folder(dict(served))
    assert folder != build.static_folder({**served, "site.css": served["site.css"] + b" "})
    assert build.static_folder({"a": b"b", "c": b""}) != build.static_folder({"a": b"", "c": b"b"})


@pytest.fixture
def measured(bench: Bench) -> Bench:
    assert bench.run("right").code == 0
    return bench


@pytest.mark.real
def test_the_command_on_a_page_repeats_its_figure(measured: Bench, tmp_path: Path) -> None:
    sites.made(tmp_path, measured.results, root=measured.root)
    first = measured.recorded()
    page = tmp_path / "site" / "runs" / first.id / "index.html"
    document = sites.read(page)
    commands = [word for word in document.words if word.startswith("servebench run")]
    command = shlex.split(commands[-1])
    done = measured(*command[1:], "--results", tmp_path / "again")
    assert done.code == 0, done
    (path,) = store.runs(tmp_path / "again")
    second = store.load(path)
    assert second.profile == first.profile
    assert [result.case for result in second.results] == [result.case for result in first.results]


def test_what_is_missing_of_a_night_is_said_on_the_first_page(tmp_path: Path) -> None:
    results = tmp_path / "results"
    store.finalise(results, a_night(1))

    def record(day: int, *lost: str) -> None:
        shard = ShardRecord(
            shard=2, machine="m-2c", planned=5, missing=lost, reason="the runner was lost"
        )
        night = NightRecord(
            id=f"202611{day:02d}T030000Z-nightly-aaaaaaaa",
            created=f"2026-11-{day:02d}T03:00:00+00:00",
            commit=None,
            profile="nightly",
            status="incomplete" if lost else "complete",
            shards=(ShardRecord(shard=1, machine=None, planned=5), shard),
        )
        path = results / night.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files.encode(night))

    record(1, "a/one", "a/two")
    sites.made(tmp_path, results)
    text = sites.read(tmp_path / "site" / "index.html").text
    assert "The night of 1 Nov 2026 is incomplete." in text
    told = "Shard 2 of 2, for the machine m- 2c: 2 of 5 cases missing: the runner was lost"
    assert told in text
    record(2)
    sites.made(tmp_path, results)
    assert "incomplete" not in sites.read(tmp_path / "site" / "index.html").text
    assert told in sites.read(tmp_path / "site" / "runs" / "index.html").text


def test_a_file_with_a_date_that_is_none_costs_itself_only(tmp_path: Path) -> None:
    results = tmp_path / "results"
    store.finalise(results, a_night(1))
    path = store.finalise(results, a_night(2))
    path.write_bytes(path.read_bytes().replace(b"2026-11-02T03:00:00+00:00", b"the day after"))
    done = sites.made(tmp_path, results)
    assert any("expected a moment like" in note for note in done.notes)
    assert not (tmp_path / "site" / "runs" / a_night(2).id).exists()
    assert (tmp_path / "site" / "runs" / a_night(1).id).is_dir()


def a_trial(number: int, kind: str, verdict: Verdict, **more: Any) -> Trial:
    said = Said(
        case=CASE, metric="server_cpu_per_request", verdict=verdict, ratio=1.05, low=None,
        high=None, detectable=0.01, screened=8, confirmed=8,
    )  # fmt: skip
    fields: dict[str, Any] = {
        "id": f"202611{number:02d}T120000Z-compare-abc", "kind": kind,
        "machine": runs.MACHINE.id, "commit": None, "started": f"2026-11-{number:02d}T12:00:00Z",
        "screening_seconds": 60.0, "confirmation_seconds": 30.0, "wall_seconds": 120.0,
        "planned": 1, "said": (said,), "figures": (),
    }  # fmt: skip
    return Trial(**{**fields, **more})


def test_the_method_page_has_the_instrument_s_own_error_rates(tmp_path: Path) -> None:
    results, site = tmp_path / "results", tmp_path / "site"
    store.finalise(results, a_night(1))
    sites.made(tmp_path, results)
    assert "have not been measured yet" in sites.read(site / "method" / "index.html").text
    machine = site / "machines" / runs.MACHINE.id / "index.html"
    assert "has not been measured" in sites.read(machine).text
    for number, verdict in ((1, Verdict.NO_CHANGE), (2, Verdict.SLOWER)):
        save_trial(results, a_trial(number, "aa", verdict))
    plant = a_trial(3, "busy", Verdict.SLOWER, planted=CASE, size=0.05)
    save_trial(results, plant)
    sites.made(tmp_path, results)
    text = sites.read(site / "method" / "index.html").text
    assert "3 comparisons whose right answer was known beforehand" in text
    assert "1 of 2 comparisons of a stack with itself gave a false verdict" in text
    assert text.count("handler computes longer 5 %") == 2, "what was found, and which size"
    assert "Of 2 comparisons of a stack with itself on this machine, 1 gave a false" in (
        sites.read(machine).text
    )
    assert list(sites.dead_links(site)) == []
