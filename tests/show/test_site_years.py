"""Years of nights: what their site takes in bytes, files and memory, and what reading them takes.

The nights are copies of a real one, with figures of their own: 183 in five years, a tenth of all.
"""

import json
import random
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

import pytest

import sites
from bench import Once
from duetbench.store import files
from observatory.trend import reading

pytestmark = pytest.mark.long

RESULTS: Final = sites.PROJECT / "results"
RUN: Final = RESULTS / "runs/xeon-2c-a70dae/2026/20261125T161444Z-nightly-d34e11a4.json"
POINTS: Final = RESULTS / "points/xeon-2c-a70dae/2026/20261125T050642Z-night-ca31bd-s1.json"
NIGHTS: Final = 183
FIRST: Final = datetime(2021, 11, 20, 3, tzinfo=UTC)
BUILD: Final = """
import sys
from pathlib import Path
import sites
sites.build_site(Path(sys.argv[1]))
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM:")).split()[1])
"""


def lay_out(results: Path, nights: int) -> None:
    """Lay out nights: each a run with one launch of 52 cases, and points of 80."""
    source = random.Random(1)
    run, points = (json.loads(path.read_bytes()) for path in (RUN, POINTS))
    launches = [launch for result in run["results"] for launch in result["launches"]]
    figures = [dict(launch["metrics"]) for launch in launches]
    ratios = [point for case in points["cases"] for point in case["points"]]
    for number in range(nights):
        when = FIRST + timedelta(days=10 * number)
        for launch, usual in zip(launches, figures, strict=True):
            launch["metrics"] = {
                name: float(f"{value * source.gauss(1, 0.02):.6g}") if value % 1 else value
                for name, value in usual.items()
            }
        for point in ratios:
            point["ratio"] = round(source.gauss(1, 0.005), 7)
        at, started = f"{when:%Y%m%dT%H%M%SZ}", f"{when:%Y-%m-%dT%H:%M:%SZ}"
        run |= {"id": f"{at}-nightly-3f2a9c17", "started": started}
        points |= {"id": f"{at}-night-3f2a9c", "started": started, "when": started, "night": at}
        for folder, document in (("runs", run), ("points", points)):
            path = results / folder / "xeon-2c-a70dae" / f"{when:%Y}" / f"{document['id']}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(document, separators=(",", ":")) + "\n")


def built(nights: int, folder: Path) -> None:
    """Build a site of some nights in a process of its own, and note its memory."""
    lay_out(folder / "results", nights)
    words = [sys.executable, "-c", BUILD, str(folder)]
    support = {"PYTHONPATH": str(Path(sites.__file__).parent)}
    (folder / "memory").write_bytes(subprocess.check_output(words, env=support))


def memory(folder: Path) -> int:
    """What building a site took, bytes."""
    return 1024 * int((folder / "memory").read_text())


@pytest.fixture(scope="module")
def years(once: Once) -> Path:
    return once("years", partial(built, NIGHTS))


def test_a_night_adds_less_to_the_site_than_it_has_and_hardly_a_file(
    years: Path,
) -> None:
    """Its run has 135 kB, its points 37 kB; the figures of 132 series add their own."""
    paths = [path for path in (years / "site").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in paths) <= 100_000 * NIGHTS
    raw = [path for path in paths if path.parent.name in {"runs", "points"}]
    assert len(raw) <= NIGHTS
    data = [path.stat().st_size for path in paths if path.name == "data.json"]
    assert max(data) <= 800 * NIGHTS


def test_a_night_takes_a_fraction_of_a_megabyte_of_memory(years: Path, tmp_path: Path) -> None:
    built(3, tmp_path)
    assert memory(years) - memory(tmp_path) <= 0.35e6 * NIGHTS


def test_each_file_is_read_and_parsed_once(years: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results, read, checked = years / "results", Counter[Path](), []
    contents = files.contents

    def counted(path: Path) -> bytes:
        read[path] += 1
        return contents(path)

    monkeypatch.setattr(files, "contents", counted)
    monkeypatch.setattr(files, "_require_object", lambda *found: checked.append(found))
    assert len(reading.read(results).nights) == 2 * NIGHTS
    assert (len(read), read.total(), checked) == (2 * NIGHTS, 2 * NIGHTS, [])
    read.clear()
    assert len(reading.read(results, with_runs=False).nights) == NIGHTS
    assert read.total() == NIGHTS
