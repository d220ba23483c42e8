"""A table → Parquet: one row per point, for notebooks and data bases.

Parquet is a download beside the site and not what its pages read; pyarrow, which writes it, is
larger than all else that servebench needs, and therefore an extra: `pip install
'servebench[parquet]'`. Without it the site has no Parquet and says so.
"""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import numpy as np

from servebench.metrics import METRICS
from servebench.site import copies, history
from servebench.site.history import STATES, Table
from servebench.site.scaling import Year

COLUMNS: Final = {
    "machine": "the machine's id; figures of different machines are never compared",
    "kind": "load: a server run; inprocess: an asv benchmark",
    "case": "the case's id",
    "metric": "name of the metric; of benchmarks their unit",
    "unit": "SI unit of mean, low and high",
    "run": "the run's id; its file is runs/<run>.json",
    "time": "start of the run, UTC",
    "commit": "40 hex digits; null outside a repository",
    "stack": "SHA-256 of the lock of the case's stack; null for benchmarks",
    "mean": "geometric mean over launches (benchmarks: median); null: none, status says why",
    "low": "lower end of the 95 % interval (benchmarks: lower quartile); null: none",
    "high": "upper end of it",
    "launches": "how many launches (benchmarks: samples) the figure rests on, up to 255",
    "status": "measured, disturbed (nothing is decided from it), failed, not measured",
    "flags": "names of the validity flags, comma-separated",
}
"""Every column with its meaning, in order."""


def available() -> bool:
    """Whether pyarrow is installed."""
    return importlib.util.find_spec("pyarrow") is not None


@contextmanager
def files(wanted: Sequence[tuple[Table, Year]]) -> Iterator[Callable[[], list[bytes]]]:
    """Make Parquet files in a copy of this process, while this one goes on; pyarrow must be there.

    Where no copy can be made, they are made when they are asked for.

    Args:
        wanted: What they are made of.

    Returns:
        What waits for them, in their order. To be called once.
    """
    jobs = [partial(parquet_file, table, year) for table, year in wanted]
    if not jobs or copies.cores() < 2 or not copies.possible():
        yield lambda: [job() for job in jobs]
        return
    with copies.copies(jobs, 1) as pool:
        answers = [pool.submit(copies.at, place) for place in range(len(jobs))]

        def wait() -> list[bytes]:
            found: list[bytes] = [answer.result() for answer in answers]
            pool.shutdown()  # its threads, too: afterwards this process may be copied again
            return found

        yield wait


def parquet_file(table: Table, year: Year) -> bytes:
    """The bytes of the Parquet file of one table and year; pyarrow must be there."""
    import pyarrow as pa  # noqa: PLC0415 - an extra, and slow to import
    from pyarrow import parquet  # noqa: PLC0415

    places = np.array(list(history.series(table)), dtype=np.intp).reshape(-1, 2)
    cases, metrics = places[:, 0], places[:, 1]
    status = table.status[year.span][:, cases]
    there = status > 0
    nights, series = (found.astype(np.int32) for found in np.nonzero(there))
    case = cases.astype(np.int32)[series]
    metric = metrics.astype(np.int32)[series]
    headers = table.nights[year.span]

    def named(codes: Any, names: Sequence[str | None]) -> Any:
        # Parquet knows no null among a dictionary's words, only places without a word; and of a
        # dictionary that has a word twice pyarrow makes other bytes every time.
        words = {name: place for place, name in enumerate(dict.fromkeys(names))}
        places = np.array([words[name] for name in names], dtype=np.int32)[codes]
        missing = places == words[None] if None in words else None
        listed = pa.array([name or "" for name in words], pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(places, mask=missing), listed)

    def taken(block: Any) -> Any:
        return block[year.span][:, cases, metrics][there]

    def figures(block: Any) -> Any:
        return pa.array(taken(block), pa.float32(), from_pandas=True)

    units = [METRICS[name].unit if name in METRICS else name for name in table.metrics]
    zero = np.zeros(len(nights), dtype=np.int32)
    stacks, stack_of = _stacks(table, year)
    columns = {
        "machine": named(zero, [table.machine]),
        "kind": named(zero, [table.kind]),
        "case": named(case, table.cases),
        "metric": named(metric, table.metrics),
        "unit": named(metric, units),
        "run": named(nights, [header.run for header in headers]),
        "time": pa.array([header.time for header in headers], pa.timestamp("s", "UTC")).take(
            pa.array(nights)
        ),
        "commit": named(nights, [header.commit for header in headers]),
        "stack": named(stack_of[:, cases][there], stacks),
        "mean": figures(table.mean),
        "low": figures(table.low),
        "high": figures(table.high),
        "launches": pa.array(taken(table.launches)),
        "status": named(status[there], STATES),
        "flags": named(
            table.flags[year.span][:, cases][there], [",".join(names) for names in table.flag_sets]
        ),
    }
    sink = io.BytesIO()
    figures_ = ["mean", "low", "high"]
    parquet.write_table(
        pa.table(columns),
        sink,
        compression="zstd",
        use_dictionary=[name for name in COLUMNS if name not in figures_],
        use_byte_stream_split=figures_,
    )
    return sink.getvalue()


def _stacks(table: Table, year: Year) -> tuple[list[str | None], Any]:
    """Digests of locks, and nights × cases: places among them (0: none)."""
    digests: dict[str | None, int] = {None: 0}
    headers = table.nights[year.span]
    found = np.zeros((len(headers), len(table.cases)), dtype=np.int32)
    rows = {case: row for row, case in enumerate(table.cases)}
    for night, header in enumerate(headers):
        codes = {
            name: digests.setdefault(digest, len(digests)) for name, digest in header.stacks.items()
        }
        if codes:
            places = [rows[case] for case in header.cases]
            found[night, places] = [codes.get(name, 0) for name in header.stack_of]
    return list(digests), found
