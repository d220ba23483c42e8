"""Years of asv's result files: each is read once, and nothing else is different."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pytest

import asv_files
import repos
import sites
from asv_files import Bench
from duetbench.store import asv_results
from duetbench.trend import asv, events, reading
from duetbench.trend import table as history
from duetbench.trend.reading import Sources

HANDLER = Bench("handlers.Cpu.time_handler")
FIRST = Bench("data_files.Scaling.time_threads")
_DAY: Final = 86_400_000


def commit(day: int) -> str:
    return f"{day:02x}" * 20


def measured(
    results: Path,
    day: int,
    python: str = "3.14",
    bench: Bench = HANDLER,
    value: float | None = 0.25,
    machine: str = "synthetic-2c",
) -> Path:
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
    assert found.problems == other.problems
    for one, two in zip(found.nights, other.nights, strict=True):
        assert (one.header, one.files) == (two.header, two.files)
        for name in ("mean", "low", "high", "launches"):
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    load = asv_results.load

    def told(path: Path) -> object:
        names.append(path.name)
        return load(path)

    monkeypatch.setattr(asv_results, "load", told)
    return names


def test_each_file_is_read_once(tmp_path: Path, loaded: list[str]) -> None:
    results, cache = tmp_path / "results", tmp_path / "cache"
    for day in (1, 2):
        measured(results, day)
        measured(results, day, "3.14t")
    first = reading.read(results, cache, tmp_path)
    assert len(first.nights) == 2
    assert len(loaded) == 4
    assert_same(reading.read(results, cache, tmp_path), first)
    assert len(loaded) == 4
    loaded.clear()
    new = measured(results, 2, bench=FIRST)
    more = reading.read(results, cache, tmp_path)
    assert sorted(loaded) == [new.name, new.name.replace("py3.14-", "py3.14t-")]
    assert set(more.nights[1].header.groups) == {f"inprocess/{b.name}" for b in (HANDLER, FIRST)}
    assert_same(reading.read(results, tmp_path / "another", tmp_path), more)


def test_an_old_stack_stands_at_the_day_that_its_commit_names(tmp_path: Path) -> None:
    """With the packages of its lock; its interpreter is what the guard saw: 3.014007 is 3.14.7."""
    results, root = tmp_path / "results", tmp_path / "checkout"
    repos.git(tmp_path, "init", "--quiet", str(root))
    shutil.copy(sites.PROJECT / "pyproject.toml", root)
    guard = Bench("guard.Packages.track_version", {"package": ("python", "httpx")}, "version")
    asv_files.list_benchmarks(results / "asv", [HANDLER, guard])
    made = []
    subjects = ("Stacks as of 2025-11-20", "Stacks as of 2026-02-30", "Stacks as of today again")
    for number, subject in enumerate(subjects):
        repos.write(root, "apps/stacks/current.txt", f"fastapi==0.{number}.0 --hash=sha256:0\n")
        figures = {("python",): 3.014007 if number else None, ("httpx",): asv_files.SKIPPED}
        made.append(repos.commit(root, subject))
        asv_files.write(
            results / "asv", "3.14", "current", [(HANDLER, {(): 0.25}), (guard, figures)],
            commit=made[-1], hour=number, committed=1_795_183_592_000 + number * 5000,
        )  # fmt: skip
    sources = reading.read(results, tmp_path / "cache", root)
    by_commit = {one.header.commit: one.header for one in sources.nights}
    assert [by_commit[one].time for one in made] == [1763683199, 1795183597, 1795183602]
    (table,) = history.tables(sources.nights)
    assert [header.commit for header in table.nights] == made
    assert [header.interpreters for header in table.nights] == [{"3.14": "3.14.7"}] * 3
    moved = [(bump.night, bump.packages[0].head) for bump in events.bumps(table)]
    assert moved == [(1, "0.1.0"), (2, "0.2.0")]
    elsewhere = reading.read(results, tmp_path / "cache", tmp_path)
    assert [one.header.time for one in elsewhere.nights] == [1795183592, 1795183597, 1795183602]
    assert [one.header.stacks for one in elsewhere.nights] == [{}] * 3
    assert "figures inside the process are not searched" in elsewhere.notes[0]


def test_a_damaged_file_costs_itself_only_and_is_told_every_time(tmp_path: Path) -> None:
    results, cache = tmp_path / "results", tmp_path / "cache"
    measured(results, 1)
    broken = measured(results, 1, "3.14t")
    measured(results, 2)
    whole = broken.read_bytes()
    for damaged in (b"{", b"[]", whole.replace(b'"commit_hash"', b'"commit"')):
        broken.write_bytes(damaged)
        for _ in range(2):
            found = reading.read(results, cache, tmp_path)
            (problem,) = found.problems
            assert problem.startswith(f"asv/synthetic-2c/{broken.name}: expected asv's results")
            assert str(tmp_path) not in problem
            assert [night.header.pythons for night in found.nights] == [("3.14",), ("3.14",)]
    broken.write_bytes(whole)
    mended = reading.read(results, cache, tmp_path)
    assert mended.problems == ()
    assert [night.header.pythons for night in mended.nights] == [("3.14", "3.14t"), ("3.14",)]


def test_another_list_of_benchmarks_or_machine_is_another_reading(tmp_path: Path) -> None:
    results, cache = tmp_path / "results", tmp_path / "cache"
    measured(results, 1)
    (night,) = reading.read(results, cache, tmp_path).nights
    folder = results / "asv"
    asv_files.list_benchmarks(folder, [replace(HANDLER, version="2")])
    assert reading.read(results, cache, tmp_path).nights == ()
    asv_files.list_benchmarks(folder, [HANDLER, FIRST])
    (again,) = reading.read(results, cache, tmp_path).nights
    assert again.header == night.header
    (folder / "synthetic-2c" / "machine.json").unlink()
    found = reading.read(results, cache, tmp_path)
    assert found.nights == ()
    assert "machine.json" in found.problems[0]
    (folder / asv_results.LIST).write_text("{")
    (problem,) = reading.read(results, cache, tmp_path).problems
    assert problem.startswith("asv/benchmarks.json: expected asv's results")


def test_what_holds_today_is_found_without_reading_the_years_before(
    tmp_path: Path, loaded: list[str]
) -> None:
    results = tmp_path / "results"
    for day in range(1, 6):
        measured(results, day)
    measured(results, 2, "3.14t", FIRST)
    measured(results, 5, machine="other-4c")
    measured(results, 7, value=None)
    found = reading.read(results, tmp_path / "cache", tmp_path)
    assert len(found.nights) == 7
    every = asv_results.read(results / "asv")
    assert len(every) == 7
    loaded.clear()
    some = asv.newest(results / "asv", found.nights)
    assert [(one.commit, one.machine) for one in some] == [
        (commit(5), "other-4c"), (commit(5), "synthetic-2c"), (commit(2), "synthetic-2c"),
    ]  # fmt: skip
    assert len(loaded) == 4
    for prefix in ("scaling", "data_files.Scaling.time_threads"):
        assert asv_results.newest(some, prefix) == asv_results.newest(every, prefix)
    both = [asv_results.newest(among, "handlers") for among in (some, every)]
    assert {one.commit for one in both if one} == {commit(5)}
    assert asv.newest(results / "asv", ()) == ()
