"""Latencies as histograms: high dynamic range, three significant digits, nanoseconds.

Source of the method: HdrHistogram (Gil Tene), https://hdrhistogram.github.io/HdrHistogram/.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray

from servebench.metrics import PERCENTILES

DIGITS: Final = 3

_BITS: Final = 11  # of a value that HdrHistogram tells apart with three digits: 2048 > 2 * 10**3


def histogram(seconds: NDArray[np.float64]) -> Any:
    """Build the histogram of times in s; its values are nanoseconds.

    A million single calls would take two seconds, so equal buckets are counted first, by cutting
    each value to the bits that the histogram keeps anyway: the counts are the same.
    """
    values = np.rint(seconds * 1e9).astype(np.int64)
    longest = max(2, int(values.max(initial=0)))
    found = HdrHistogram(1, longest, DIGITS)
    shift = np.maximum(np.frexp(values.astype(np.float64))[1] - _BITS, 0)
    buckets, counts = np.unique((values >> shift) << shift, return_counts=True)
    for value, count in zip(buckets.tolist(), counts.tolist(), strict=True):
        found.record_value(value, count)
    return found


def summarise(kind: str, seconds: NDArray[np.float64]) -> dict[str, float]:
    """Give min, mean, the supported percentiles and max as `<kind>_<point>`, in s.

    Min, mean and max are exact; percentiles are within 0.1 %, and within min and max.

    Args:
        kind: Prefix of the metrics' names: response or service.
        seconds: Times in s; at least one.
    """
    low, high = float(seconds.min()), float(seconds.max())
    found = {f"{kind}_min": low, f"{kind}_mean": float(seconds.mean())}
    counted = histogram(seconds)
    for name, percentile, fewest in PERCENTILES:
        if len(seconds) >= fewest:
            value = counted.get_value_at_percentile(percentile) / 1e9
            found[f"{kind}_{name}"] = min(max(value, low), high)
    found[f"{kind}_max"] = high
    return found
