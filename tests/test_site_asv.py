"""Years of asv's result files: each is read once, and nothing else is different."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pytest

import asv_files
import repos
import sites
from asv_files import Bench
from servebench.inprocess import readings
from servebench.site import asv_nights, history, kept, packs, reading, story
from servebench.site.folder import Folder
from servebench.site.reading import Sources

HANDLER = Bench("handlers.Cpu.time_handler")
FIRST = Bench("scaling.Scaling.time_threads")
_DAY: Final = 86_400_000


def commit(day: int) -> str:
    """The commit of a day."""
    return f"{day:02x}" * 20


def measured(
    results: Path,
    day: int,
    python: str = "3.14",
    bench: Bench = HANDLER,
    value: float | None = 0.25,
    machine: str = "synthetic-2c",
) -> Path:
    """The file of one environment of a day's commit; without a value it failed."""
    folder = results / "asv"
    asv_files.list_benchmarks(folder, [HANDLER, FIRST])
    asv_files.write(
        folder, python, "current", [(bench, {(): value and value + day / 1000})],
        commit=commit(day), hour=day % 24, committed=1_790_000_000_000 + day * _DAY,
        machine=machine,
    )  # fmt: skip
    (path,) = (folder / machine).glob(f"{commit(day)[:8]}-*py{python}-*")
    return path


def assert_same(found: Sources, other: Sources) -> None:
    """Both have the same nights, in the same order, of the same files."""
    assert found.asv_files == other.asv_files
    assert found.problems == other.problems
    for one, two in zip(found.nights, other.nights, strict=True):
        assert (one.header, one.source) == (two.header, two.source)
        for name in ("mean", "low", "high", "launches"):
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of asv's files that were read, as they are."""
    names: list[str] = []
    load = readings.load

    def told(path: Path) -> object:
        names.append(path.name)
        return load(path)

    monkeypatch.setattr(readings, "load", told)
    return names


def digests(site: Path) -> dict[str, str]:
    """Every file and what is in it."""
    return {
        path.relative_to(site).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(site.rglob("*"))
        if path.is_file()
    }


def test_each_file_is_read_once(tmp_path: Path, loaded: list[str]) -> None:
    """A file with other bytes has its commit read again, and no other."""
    results, cache = tmp_path / "results", tmp_path / "cache"
    for day in (1, 2):
        measured(results, day)
        measured(results, day, "3.14t")
    first = reading.read(results, cache)
    assert len(first.nights) == 2
    assert len(loaded) == 4
    assert_same(reading.read(results, cache), first)
    assert len(loaded) == 4
    loaded.clear()
    new = measured(results, 2, bench=FIRST)
    more = reading.read(results, cache)
    assert sorted(loaded) == [new.name, new.name.replace("py3.14-", "py3.14t-")]
    assert more.nights[0].source == first.nights[0].source
    assert set(more.nights[1].header.groups) == {f"inprocess/{b.name}" for b in (HANDLER, FIRST)}
    assert_same(reading.read(results, tmp_path / "another"), more)


def test_many_commits_are_packed_and_read_the_same(tmp_path: Path, loaded: list[str]) -> None:
    """Those in the pack are nowhere else, and a damaged pack costs time only."""
    results, cache = tmp_path / "results", tmp_path / "cache"
    measured(results, 0)
    reading.read(results, cache)
    assert len(list(cache.rglob("*.night"))) == 1
    for day in range(1, packs.TAIL):
        measured(results, day)
    loaded.clear()
    reading.read(results, cache)
    assert len(loaded) == packs.TAIL - 1
    (pack,) = cache.rglob("asv.pack")
    assert not list(cache.rglob("*.night"))
    measured(results, packs.TAIL)
    found = reading.read(results, cache)
    assert len(found.nights) == packs.TAIL + 1
    assert len(list(cache.rglob("*.night"))) == 1
    loaded.clear()
    assert_same(reading.read(results, cache), found)
    assert loaded == []
    pack.unlink()  # nights that were read of it keep what it was
    pack.write_bytes(b"rubbish")
    assert_same(reading.read(results, cache), found)
    assert len(loaded) == packs.TAIL
    assert len(packs.read(pack)) == packs.TAIL + 1


def test_an_old_stack_stands_at_the_day_that_its_commit_names(tmp_path: Path) -> None:
    """And names its packages: 0.121003 is 0.121.3; what a stack has not is no package of it."""
    results, root = tmp_path / "results", tmp_path / "checkout"
    root.mkdir()
    repos.git(root, "init", "--quiet")
    packages = {"package": ("python", "fastapi", "httpx")}
    versions = Bench("guard.Packages.track_version", packages, "version")
    asv_files.list_benchmarks(results / "asv", [HANDLER, versions])
    made = []
    for number, (subject, fastapi) in enumerate(
        (
            ("Stacks as of 2025-11-20", 0.121003),
            ("Stacks as of 2026-02-30", 0.135001),
            ("Stacks as of today again", 0.163002),
        )
    ):
        figures = {("python",): 3.014, ("fastapi",): fastapi, ("httpx",): asv_files.SKIPPED}
        made.append(repos.commit(root, subject))
        asv_files.write(
            results / "asv", "3.14", "current", [(HANDLER, {(): 0.25}), (versions, figures)],
            commit=made[-1], hour=number, committed=1_795_183_592_000 + number * 5000,
        )  # fmt: skip
    sources = asv_nights.dated(root, reading.read(results, tmp_path / "cache"))
    by_commit = {night.header.commit: night.header for night in sources.nights}
    assert [(by_commit[one].time, by_commit[one].packages) for one in made] == [
        (1763683199, {"current": {"fastapi": "0.121.3"}}),
        (1795183597, {"current": {"fastapi": "0.135.1"}}),
        (1795183602, {"current": {"fastapi": "0.163.2"}}),
    ]
    assert set(sources.asv_files) == {night.source for night in sources.nights}
    (table,) = history.tables(sources.nights)
    assert [night.commit for night in table.nights] == made
    assert [(bump.night, bump.packages[0].head) for bump in story.bumps(table)] == [
        (1, "0.135.1"), (2, "0.163.2"),
    ]  # fmt: skip
    elsewhere = reading.read(results, tmp_path / "cache")
    assert asv_nights.dated(tmp_path, elsewhere) == elsewhere


def test_a_damaged_file_costs_itself_only_and_is_told_every_time(tmp_path: Path) -> None:
    """Until it is mended; nothing of that is remembered."""
    results, cache = tmp_path / "results", tmp_path / "cache"
    measured(results, 1)
    broken = measured(results, 1, "3.14t")
    measured(results, 2)
    whole = broken.read_bytes()
    for damaged in (b"{", b"[]", whole.replace(b'"commit_hash"', b'"commit"')):
        broken.write_bytes(damaged)
        for _ in range(2):
            found = reading.read(results, cache)
            (problem,) = found.problems
            assert problem.startswith(f"asv/synthetic-2c/{broken.name}: expected asv's results")
            assert str(tmp_path) not in problem
            assert [night.header.pythons for night in found.nights] == [("3.14",), ("3.14",)]
    broken.write_bytes(whole)
    mended = reading.read(results, cache)
    assert mended.problems == ()
    assert [night.header.pythons for night in mended.nights] == [("3.14", "3.14t"), ("3.14",)]


def test_another_list_of_benchmarks_or_machine_is_another_reading(tmp_path: Path) -> None:
    """A figure of another version of its benchmark is none; nor is one of another machine."""
    results, cache = tmp_path / "results", tmp_path / "cache"
    measured(results, 1)
    (night,) = reading.read(results, cache).nights
    folder = results / "asv"
    asv_files.list_benchmarks(folder, [replace(HANDLER, version="2")])
    assert reading.read(results, cache).nights == ()
    asv_files.list_benchmarks(folder, [HANDLER, FIRST])
    (again,) = reading.read(results, cache).nights
    assert again.source == night.source
    (folder / "synthetic-2c" / "machine.json").unlink()
    found = reading.read(results, cache)
    assert found.nights == ()
    assert "machine.json" in found.problems[0]
    (folder / readings.LIST).write_text("{")
    (problem,) = reading.read(results, cache).problems
    assert problem.startswith("asv/benchmarks.json: expected asv's results")


def test_what_holds_today_is_found_without_reading_the_years_before(
    tmp_path: Path, loaded: list[str]
) -> None:
    """For every benchmark, also one that was measured long ago only, and on both machines."""
    results = tmp_path / "results"
    for day in range(1, 6):
        measured(results, day)
    measured(results, 2, "3.14t", FIRST)
    measured(results, 5, machine="other-4c")
    measured(results, 7, value=None)
    found = reading.read(results, tmp_path / "cache")
    assert len(found.nights) == 7
    every = readings.read(results / "asv")
    assert len(every) == 7
    loaded.clear()
    some = asv_nights.newest(results / "asv", found.nights, found.asv_files)
    assert [(one.commit, one.machine) for one in some] == [
        (commit(5), "other-4c"), (commit(5), "synthetic-2c"), (commit(2), "synthetic-2c"),
    ]  # fmt: skip
    assert len(loaded) == 4
    for prefix in ("scaling", "scaling.Scaling.time_threads"):
        assert readings.newest(some, prefix) == readings.newest(every, prefix)
    both = [readings.newest(among, "handlers") for among in (some, every)]
    assert {one.commit for one in both if one} == {commit(5)}
    assert asv_nights.newest(results / "asv", found.nights, {}) == ()


def test_one_more_commit_gives_the_bytes_of_a_build_from_nothing(tmp_path: Path) -> None:
    """With a pack; and when only lists of files on pages are longer."""
    results = tmp_path / "results"
    for day in range(packs.TAIL + 1):
        measured(results, day)
    sites.made(tmp_path, results)
    assert list((tmp_path / "cache" / kept.PACKS).glob("*/asv.pack"))
    measured(results, packs.TAIL + 1, value=0.5)
    sites.made(tmp_path, results)
    measured(results, packs.TAIL + 1, "3.14t")
    more = sites.made(tmp_path, results)
    assert 0 < more.rendered < more.pages
    sites.made(tmp_path / "fresh", results)
    assert digests(tmp_path / "site") == digests(tmp_path / "fresh" / "site")
    assert list(sites.dead_links(tmp_path / "site")) == []


def test_a_copy_follows_its_file_and_is_not_read_otherwise(tmp_path: Path) -> None:
    """Of the same size with another date it is another file; of the same date it is the same."""
    source, copy = tmp_path / "source.json", tmp_path / "site" / "copy.json"
    source.write_text("one")
    folder = Folder(tmp_path / "site")
    folder.follow("copy.json", source)
    folder.follow("copy.json", source)
    assert (folder.written, folder.kept) == (1, 1)
    source.write_text("two")
    date = (10**18, 10**18)
    os.utime(source, ns=date)
    folder.follow("copy.json", source)
    assert copy.read_text() == "two"
    copy.write_text("TWO")
    os.utime(copy, ns=date)
    folder.follow("copy.json", source)
    assert copy.read_text() == "TWO"
    assert (folder.written, folder.kept) == (2, 2)
