"""Anchored points as files, and the journal that they come from."""

import math
from pathlib import Path

import pytest

import foreign
from duetbench.core.errors import RecordError
from duetbench.store import files
from duetbench.store.files import Journal
from observatory.store.points import AnchoredPoint, Points


@pytest.mark.parametrize(
    ("duets", "width"), [(1, 1.960), (2, 12.706), (3, 4.303), (5, 2.776), (20, 2.093)]
)
def test_the_interval_is_wider_where_duets_are_few(duets: int, width: float) -> None:
    """Student's t as tables have it; one count is no sample of one."""
    point = AnchoredPoint(
        metric="throughput", ratio=2.0, se=0.01, anchor=1.0, duets=duets, excluded=0
    )
    half = math.exp(width * 0.01)
    assert point.interval.ends == pytest.approx((2 / half, 2 * half), rel=1e-5)


def test_a_file_is_where_its_contents_say(tmp_path: Path) -> None:
    result = foreign.points()
    path = files.save(tmp_path, result)
    place = f"points/{result.machine.id}/2026/{result.id}.json"
    assert path.relative_to(tmp_path).as_posix() == place
    assert (files.paths(Points, tmp_path), files.read(Points, path)) == ([path], result)
    of_machine, name = path.parents[1], path.name
    another = of_machine.with_name("another") / "2026" / name
    for moved in (path.with_name("another.json"), of_machine / "2025" / name, another):
        moved.parent.mkdir(parents=True, exist_ok=True)
        path.rename(moved)
        with pytest.raises(RecordError, match=f"{moved}: expected it at {place} below"):
            files.read_all(Points, tmp_path)
        moved.rename(path)
    assert files.read_all(Points, tmp_path) == [result]


def test_a_journal_goes_on_behind_what_is_whole(tmp_path: Path) -> None:
    """Half a line is what a killed program has left; the next line does not end up behind it."""
    path = tmp_path / "below" / "journal.jsonl"
    first = Journal(path)
    assert first.lines == []
    for line in (["duet", {"seconds": 1.5}], ["count", 7]):
        first.add(line)
    whole = path.read_text()
    path.write_text(whole + '["duet", {"sec')
    again = Journal(path)
    assert again.lines == first.lines
    again.add(["count", 8])
    assert path.read_text() == whole + '["count", 8]\n'
    again.forget()
    again.forget()
    assert (path.exists(), again.lines) == (False, [])
