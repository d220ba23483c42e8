"""A table → Parquet: one row per point, for notebooks and data bases.

Parquet is a download beside the site and not what its pages read; pyarrow, which writes it, is
larger than all else that servebench needs, and therefore an extra: `pip install
'servebench[parquet]'`. Without it the site has no Parquet and says so.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import numpy as np

from servebench.metrics import METRICS
from servebench.site import history
from servebench.site.history import STATES, Table
from servebench.site.shards import Year

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
def imported() -> Iterator[None]:
    """Import pyarrow meanwhile, if it is there: most of that is reading its libraries."""

    def bring() -> None:
        with suppress(ImportError):
            importlib.import_module("pyarrow.parquet")

    thread = threading.Thread(target=bring)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def parquet_file(table: Table, year: Year) -> bytes:
    """The bytes of the Parquet file of one table and year; pyarrow must be there."""
    import pyarrow as pa  # noqa: PLC0415 - an extra, and slow to import
    from pyarrow import parquet  # noqa: PLC0415

    places = np.array(list(history.series(table)), dtype=np.intp).reshape(-1, 2)
    cases, metrics = places[:, 0], places[:, 1]
    status = table.status[year.span][:, cases]
    nights, series = np.nonzero(status)
    case, metric = cases[series], metrics[series]
    headers = table.nights[year.span]

    def named(codes: Any, names: Sequence[str | None]) -> Any:
        # Parquet knows no null among a dictionary's words, only places without a word.
        absent = np.array([name is None for name in names], dtype=bool)
        places = np.asarray(codes, dtype=np.int32)
        words = pa.array([name or "" for name in names], pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(places, mask=absent[places]), words)

    def figures(block: Any) -> Any:
        return pa.array(block[year.span][nights, case, metric], pa.float32(), from_pandas=True)

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
        "stack": named(stack_of[nights, case], stacks),
        "mean": figures(table.mean),
        "low": figures(table.low),
        "high": figures(table.high),
        "launches": pa.array(table.launches[year.span][nights, case, metric]),
        "status": named(status[nights, series], STATES),
        "flags": named(
            table.flags[year.span][nights, case], [",".join(names) for names in table.flag_sets]
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
