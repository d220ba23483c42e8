"""What makes one more night quick: packs of nights, blocks of JSON, copies of the process."""

from __future__ import annotations

import hashlib
import json
import math
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sites
from servebench.errors import RecordError
from servebench.site import (
    arrays,
    copies,
    history,
    kept,
    nights,
    packs,
    parquet,
    reading,
    scaling,
    synthetic,
)
from servebench.site.nights import Night
from servebench.site.synthetic import Imagined


def made_up(folder: Path, years: float = 0.12, series: int = 45) -> Imagined:
    """Some 40 nights of three cases as a results folder."""
    imagined = synthetic.imagine(years, series, 7)
    synthetic.write(imagined, folder)
    return imagined


def files(results: Path) -> list[Path]:
    """The files of nights, oldest first."""
    return sorted((results / reading.NIGHTS).rglob(f"*{nights.SUFFIX}"), key=lambda one: one.name)


def packs_in(cache: Path) -> list[Path]:
    """The packs in a cache."""
    return list((cache / kept.PACKS).glob("*/nights.pack"))


def assert_same(one: Night, other: Night) -> None:
    """Both are the same night."""
    assert (one.header, one.source) == (other.header, other.source)
    for name in ("mean", "low", "high", "launches"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize(
    ("largest", "gaps"), [(9, 0.0), (99_999, 0.1), (10**9, 0.5), (2**40, 0.01), (0, 1.0)]
)
def test_a_block_of_json_reads_as_every_list_of_its_own(largest: int, gaps: float) -> None:
    """Numbers of all lengths, zeros, nulls at either end, and rows of nothing else."""
    source = np.random.default_rng(largest)
    rows = np.floor(10 ** source.uniform(-1, math.log10(largest + 1), (40, 23)))
    rows[source.random(rows.shape) < gaps] = np.nan
    rows[0], rows[1, 0], rows[1, -1], rows[2] = np.nan, np.nan, np.nan, 0.0
    wanted = [[None if math.isnan(one) else int(one) for one in row] for row in rows.tolist()]
    written = arrays.lists(rows)
    assert written == [json.dumps(row, separators=(",", ":")) for row in wanted]
    below = arrays.lists(np.where(rows == 0, -7.0, rows))  # what hardly ever happens
    assert [json.loads(row) for row in below] == [
        [-7 if one == 0 else one for one in row] for row in wanted
    ]
    assert arrays.lists(np.zeros((2, 0))) == ["[]", "[]"]


@pytest.mark.filterwarnings("ignore:All-NaN slice encountered:RuntimeWarning")
def test_medians_are_those_of_numpy() -> None:
    """To the last bit: odd and even numbers of figures, gaps, and rows without any."""
    source = np.random.default_rng(3)
    for length in (1, 2, 3, 8, 365, 700):
        values = source.lognormal(0, 3, (5, 7, length))
        values[source.random(values.shape) < 0.2] = np.nan
        values[0, 0] = np.nan
        np.testing.assert_array_equal(arrays.medians(values), np.nanmedian(values, axis=-1))


def test_a_pack_holds_nights_as_they_were_and_what_they_share_once() -> None:
    """Of two machines, with other cases and metrics, failures and reasons."""
    imagined = synthetic.imagine(0.3, 45, 2)
    one = [replace(night, source=f"a{n}") for n, night in enumerate(synthetic.generate(imagined))]
    other = [
        replace(night, source=f"b{n}")
        for n, night in enumerate(synthetic.generate(synthetic.imagine(0.01, 8, 3)))
    ]
    every = [*one, *other]
    found = packs.unpack(b"".join(packs.pack(every)), "here")
    assert list(found) == [night.source for night in every]
    for night in every:
        assert_same(found[night.source], night)
    first, second = found["a0"].header, found["a1"].header
    assert first.cases is second.cases
    assert first.metrics is second.metrics
    assert packs.unpack(b"".join(packs.pack([])), "here") == {}


def test_a_damaged_pack_is_refused(tmp_path: Path) -> None:
    """Whatever is wrong with it; and a reader of files goes without."""
    whole = b"".join(packs.pack(synthetic.generate(synthetic.imagine(0.02, 45, 2))))
    path = tmp_path / "nights.pack"
    path.write_bytes(whole)
    assert len(packs.read(path)) == 1  # none of them has a source
    for damaged, message in (
        (whole[:-1], "damaged"),
        (whole + b"\0", "cut short"),
        (b"something" + whole, "expected a pack of nights of format 1"),
        (whole.replace(b'"run":', b'"ran":'), "damaged"),
    ):
        with pytest.raises(RecordError, match=message):
            packs.unpack(damaged, "here")
        path.write_bytes(damaged)
        assert packs.read(path) == {}
    path.write_bytes(b"")
    assert packs.read(path) == {}


def test_nights_are_packed_when_there_are_many_and_read_the_same(tmp_path: Path) -> None:
    """From their files, from the pack, and from both once another night has come."""
    results, cache = tmp_path / "results", tmp_path / "cache"
    made_up(results)
    last = files(results)[-1]
    aside = last.rename(tmp_path / last.name)
    first = reading.read(results, cache)
    assert len(first.nights) >= packs.TAIL
    (pack,) = packs_in(cache)
    written = pack.stat().st_mtime_ns
    for one, other in zip(first.nights, reading.read(results, cache).nights, strict=True):
        assert_same(one, other)
    aside.rename(last)
    more = reading.read(results, cache)
    assert len(more.nights) == len(first.nights) + 1
    for path, night in zip(files(results), more.nights, strict=True):
        source = hashlib.sha256(path.read_bytes()).hexdigest()
        assert_same(night, nights.unpack(path.read_bytes(), "", source))
    assert pack.stat().st_mtime_ns == written  # one more is not worth it


def test_a_pack_is_not_asked_for_what_a_file_was(tmp_path: Path) -> None:
    """A file with other bytes is read, and a damaged pack costs time only."""
    results, cache = tmp_path / "results", tmp_path / "cache"
    made_up(results)
    reading.read(results, cache)
    path = files(results)[3]
    packed = nights.unpack(path.read_bytes(), "")
    path.write_bytes(nights.pack(replace(packed, mean=packed.mean * 2)))
    found = reading.read(results, cache).nights
    np.testing.assert_array_equal(found[3].mean, packed.mean * 2)
    (pack,) = packs_in(cache)
    damaged = pack.read_bytes()[:-100]
    pack.unlink()  # nights that were read of it keep what it was
    pack.write_bytes(damaged)
    for one, other in zip(found, reading.read(results, cache).nights, strict=True):
        assert_same(one, other)
    assert len(packs.read(pack)) == len(found)  # it was made anew


def test_results_in_different_places_have_packs_of_their_own(tmp_path: Path) -> None:
    """Looking at one does not undo what was done for the other."""
    cache = tmp_path / "cache"
    for name in ("one", "two"):
        made_up(tmp_path / name)
        reading.read(tmp_path / name, cache)
    assert len(packs_in(cache)) == 2


def digests(site: Path) -> dict[str, str]:
    """Every file and what is in it."""
    return {
        path.relative_to(site).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(site.rglob("*"))
        if path.is_file()
    }


def test_one_more_night_gives_the_bytes_of_a_build_from_nothing(tmp_path: Path) -> None:
    """With a pack, with Parquet where there is pyarrow, and with pages that others made."""
    results = tmp_path / "results"
    made_up(results, years=0.25)
    last = files(results)[-1]
    aside = last.rename(tmp_path / last.name)
    sites.made(tmp_path, results, with_parquet=True)
    aside.rename(last)
    more = sites.made(tmp_path, results, with_parquet=True)
    assert 0 < more.rendered < more.pages
    for path in packs_in(tmp_path / "cache"):
        path.unlink()
    sites.made(tmp_path, results, "elsewhere", with_parquet=True)
    found = digests(tmp_path / "site")
    assert found == digests(tmp_path / "elsewhere")
    assert parquet.available() == any(name.endswith(".parquet") for name in found)


def doubled() -> list[int]:
    """Something to do."""
    return [2 * one for one in range(3)]


def test_copies_answer_in_any_order_and_are_gone_afterwards() -> None:
    """A mistake in a copy is one here, too."""

    def wrong() -> None:
        raise ZeroDivisionError

    before = set(threading.enumerate())
    with copies.copies([doubled, wrong], 2) as pool:
        second, first = pool.submit(copies.at, 1), pool.submit(copies.at, 0)
        assert first.result() == [0, 2, 4]
        with pytest.raises(ZeroDivisionError):
            second.result()
        assert not copies.possible()
    assert set(threading.enumerate()) <= before


def test_what_has_other_threads_is_not_copied() -> None:
    """Their locks would never be released in the copy."""
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert not copies.possible()
    finally:
        done.set()
        thread.join()


@pytest.mark.skipif(not parquet.available(), reason="pyarrow is an extra")
def test_parquet_is_the_same_wherever_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a copy of the process, and where there is one core only."""
    (table,) = history.tables(synthetic.generate(synthetic.imagine(1.2, 25, 2)))
    wanted = [(table, year) for year in scaling.years(table)]
    assert len(wanted) == 2
    before = set(threading.enumerate())
    with parquet.files(wanted) as made:
        beside = made()
        assert set(threading.enumerate()) <= before
    monkeypatch.setattr(copies, "cores", lambda: 1)
    with parquet.files(wanted) as made:
        assert made() == beside == [parquet.parquet_file(*one) for one in wanted]
    with parquet.files([]) as made:
        assert made() == []


@pytest.mark.skipif(not parquet.available(), reason="pyarrow is an extra")
def test_a_build_that_fails_leaves_no_copy_behind() -> None:
    """Whatever goes wrong while Parquet is made."""
    before = set(threading.enumerate())
    (table,) = history.tables(synthetic.generate(synthetic.imagine(0.1, 25, 2)))
    with (
        pytest.raises(ZeroDivisionError),
        parquet.files([(table, year) for year in scaling.years(table)]),
    ):
        raise ZeroDivisionError
    assert set(threading.enumerate()) <= before
