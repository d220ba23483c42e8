"""What the load generator recorded, request by request, and the figures computed from it.

oha's own summary counts errors and aborted requests as throughput, includes wrong answers in its
percentiles, and does not separate queueing from service. duetbench computes every figure from rows.

The clock of all rows starts when oha starts its load: it sends nothing after `Load.duration` on
that clock, and ticks of a rate are due at i / rate.
"""

import math
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import AliasPath, BaseModel, ConfigDict, Field, ValidationError

from duetbench.core.errors import FlagName, LaunchError
from duetbench.core.metrics import PERCENTILES
from duetbench.core.model import Load
from duetbench.core.units import student
from duetbench.host.files import first_problem

Floats = NDArray[np.float64]

LAST_WAVE: Final = 1.5
"""Service times before its end within which the last answer may end the window.

One service time explains an unfinished wave; the half more allows for the spread within one.
"""

THIRD_ANSWERS: Final = 5  # fewest for a median of times
GROWTH_WINDOWS: Final = 5  # fewest for an interval

RECORD: Final = np.dtype(
    [("start", "f8"), ("scheduled", "f8"), ("end", "f8"), ("status", "i8"), ("length", "i8")]
)
Rows = np.recarray[Any, np.dtype[np.record]]
"""One `RECORD` per answered request, whose fields are columns: `rows.end`.

start: when the request was sent (the first one of a connection: when it was opened), s. scheduled:
when it should have been sent: its tick; for a closed loop its start, s. end: when the whole answer
had arrived, s. length: bytes of the body as received, without frames of chunks.
"""


class OhaSummary(BaseModel):
    """The part of oha's JSON that the rows lack."""

    model_config = ConfigDict(frozen=True)

    seconds: float = Field(
        validation_alias=AliasPath("summary", "total"), gt=0, allow_inf_nan=False
    )
    statuses: dict[int, int] = Field(alias="statusCodeDistribution")
    failures: dict[str, int] = Field(alias="errorDistribution")

    @property
    def answered(self) -> int:
        return sum(self.statuses.values())

    @property
    def rate(self) -> float:
        """Answers per second until the last one: no wave is cut."""
        return self.answered / self.seconds

    @property
    def timeouts(self) -> int:
        return sum(number for text, number in self.failures.items() if text == "timeout")

    @property
    def errors(self) -> int:
        """The number of requests that failed otherwise: refused, reset, cut off."""
        return sum(self.failures.values()) - self.timeouts


def read_summary(text: str) -> OhaSummary:
    """Read oha's JSON; LaunchError load_failed if it is anything else."""
    try:
        return OhaSummary.model_validate_json(text)
    except ValidationError as error:
        raise LaunchError(
            FlagName.LOAD_FAILED,
            f"expected oha's JSON summary, found {text[:80]!r} ({first_problem(error)}); "
            "run `duetbench setup` to get the pinned oha",
        ) from error


def read_rows(database: Path) -> Rows:
    """Read oha's SQLite database (1 s per million rows).

    Raises LaunchError load_failed if it is missing, not oha's, or holds impossible times.
    """
    try:
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as file:
            count = file.execute("SELECT count(*) FROM oha").fetchone()[0]
            cursor = file.execute(
                "SELECT start, start_latency_correction, end, status, len_bytes FROM oha"
            )
            rows = np.fromiter(cursor, dtype=RECORD, count=count).view(np.recarray)
    except (sqlite3.Error, ValueError, TypeError) as error:
        raise LaunchError(
            FlagName.LOAD_FAILED,
            f"expected oha's rows in {database.name}, found {error}; is the disk full?",
        ) from error
    # Without a rate it is NULL, read as NaN.
    rows.scheduled = np.where(np.isnan(rows.scheduled), rows.start, rows.scheduled)
    ordered = (rows.scheduled <= rows.start) & (rows.start <= rows.end) & np.isfinite(rows.end)
    if not ordered.all():
        raise LaunchError(
            FlagName.LOAD_FAILED,
            f"expected scheduled <= start <= end in all rows of oha, found "
            f"{int((~ordered).sum())} of {len(rows)} rows with another order",
        )
    return rows


def window(rows: Rows, load: Load, *, status: int, floor: float) -> tuple[float, float]:
    """Choose the time that throughput refers to: begin and end on the clock of the rows, s.

    It ends at the deadline, with one exception; `floor` is the service floor, s.

    Slow requests are answered in waves. The deadline cuts the last wave, and N/t would fall short
    by up to a service time over the duration. So the window ends with the last good answer before
    the deadline. That never flatters: a slot gives at most t/floor answers in any time t, so
    N(t)/t <= slots/floor for every t. Nor does it hide a stall: after more than `LAST_WAVE` service
    times of silence, the deadline counts.

    An open load has no waves. It begins one floor late, since no answer can come before.
    """
    begin, deadline = float(rows.start.min()) + floor * load.open, load.duration
    good = rows.status == status
    in_time = good & (rows.end <= deadline)
    if load.open or not in_time.any():
        return begin, deadline
    last = float(rows.end[in_time].max())
    # Only answers in time: those that a stall delayed would excuse it.
    usual = max(floor, float(np.median((rows.end - rows.start)[in_time])))
    return begin, last if deadline - last <= LAST_WAVE * usual else deadline


def figures(
    rows: Rows, summary: OhaSummary, load: Load, *, status: int = 200, floor: float = 0.0
) -> dict[str, float]:
    """Compute the metrics of one load, and figures that only checks use; `floor` is in s.

    The latter are: good (requests with the declared status), window (length of the time that
    throughput refers to, s), and in_flight (time-weighted mean of the requests in flight).

    Requests that end after the deadline count for latencies, but not for throughput. Only good
    answers count for latencies. Without any good answer before the deadline there are only counts.
    """
    good = rows.status == status
    figures: dict[str, float] = {
        "requests": len(rows),
        "good": int(good.sum()),
        "timeouts": summary.timeouts,
        "errors": summary.errors,
    }
    if load.rate is not None:
        figures["offered"] = load.rate
    if not good.any():
        return figures
    figures |= _throughput(rows, good, window(rows, load, status=status, floor=floor))
    figures |= times("response", (rows.end - rows.scheduled)[good])
    # A closed loop schedules nothing: service times would be the same.
    return (
        figures if load.rate is None else figures | times("service", (rows.end - rows.start)[good])
    )


def sizes(rows: Rows, status: int) -> dict[int, int]:
    """Count the answers of the declared status by the bytes of their bodies."""
    sizes, counts = np.unique(rows.length[rows.status == status], return_counts=True)
    return dict(zip(sizes.tolist(), counts.tolist(), strict=True))


def time_thirds(rows: Rows, load: Load, *, status: int) -> tuple[float, ...]:
    """Median service times by third of sending, s; empty if a third has fewer than five answers."""
    good = rows.status == status
    start, times = rows.start[good], (rows.end - rows.start)[good]
    third = np.minimum(start / load.duration * 3, 2).astype(int)
    if np.bincount(third, minlength=3).min() < THIRD_ANSWERS:
        return ()
    return tuple(float(np.median(times[third == part])) for part in range(3))


def growth(
    course: Sequence[tuple[float, int]], ends: Floats, began: float
) -> tuple[float, float] | None:
    """Estimate the growth of memory in bytes per answer; see `per_answer`.

    The estimate of the later half of the windows, before which pools fill, and its lower end. None
    with fewer than five windows, or without answers in them.

    `course` has moments of the monotonic clock and the bytes held at each. `ends` are the arrivals
    of answers on the clock of the rows, which `began` on the monotonic clock (s).
    """
    inside = [(at - began, size) for at, size in course if at >= began]
    if len(inside) <= GROWTH_WINDOWS:
        return None
    at, sizes = (np.asarray(column, dtype=float) for column in zip(*inside, strict=True))
    answers = np.diff(np.searchsorted(np.sort(ends), at)).astype(float)
    increases, half = np.diff(sizes), len(sizes) // 2
    slope = per_answer(increases[half:], answers[half:]) or per_answer(increases, answers)
    return slope and slope[:2]


def per_answer(increases: Floats, answers: Floats) -> tuple[float, float, float] | None:
    """Estimate the growth of memory in bytes per answer: estimate, lower and upper end (95 %).

    The ratio of both sums over windows, with Student's t interval from the windows' deviations (the
    ratio estimator; Cochran, Sampling Techniques, 1977, 6.3). Steps, such as a filled arena, widen
    the interval; memory kept for every answer does not. None without answers, or with one window.
    """
    count, total = len(increases), float(answers.sum())
    if not total or count < 2:
        return None
    ratio = float(increases.sum()) / total
    scatter = math.sqrt(float(((increases - ratio * answers) ** 2).sum()) * count / (count - 1))
    half = student(count - 1) * scatter / total
    return ratio, ratio - half, ratio + half


def times(kind: str, seconds: Floats) -> dict[str, float]:
    """Return min, mean, the supported percentiles and max as `<kind>_<point>`, in s.

    A percentile is the smallest time that its share of the times does not exceed: a measured time,
    never one in between.

    The slow half is the mean of the times from the median to the p99. A request that is slow once
    in five raises it by two fifths of that, where it moves the median by nothing, and the p99 only
    if it exceeds all else that makes one in a hundred slow. Half of all answers steady it, and the
    slowest hundredth, which a pause of the machine makes, is left out. Unlike a difference to the
    median, it does not get worse when the median alone gets better.
    """
    supported = [(name, part) for name, part, fewest in PERCENTILES if len(seconds) >= fewest]
    parts = np.quantile(seconds, [part for _, part in supported], method="inverted_cdf")
    ordered, count = np.sort(seconds), len(seconds)
    half = ordered[math.ceil(count / 2) - 1 : math.ceil(0.99 * count)]
    return {
        f"{kind}_min": float(seconds.min()),
        f"{kind}_slow_half": float(half.mean()),
        f"{kind}_mean": float(seconds.mean()),
        **{f"{kind}_{name}": float(t) for (name, _), t in zip(supported, parts, strict=True)},
        f"{kind}_max": float(seconds.max()),
    }


def _throughput(rows: Rows, good: NDArray[np.bool_], span: tuple[float, float]) -> dict[str, float]:
    begin, finish = span
    in_time, seconds = rows.end <= finish, finish - begin
    if seconds <= 0 or not (good & in_time).any():
        return {}
    # The operational form of Little's law (Little, 1961; Denning and Buzen, 1978): the area under
    # the number in flight is the sum of the requests' times in the window. Unlike X * R it holds
    # exactly over a finite window, with waves and ramps; in a closed loop it must be c.
    inside = np.maximum(np.minimum(rows.end, finish) - rows.start, 0)
    return {
        "window": seconds,
        "throughput": int((good & in_time).sum()) / seconds,
        "in_flight": float(inside.sum()) / (finish - float(rows.start.min())),
    }
