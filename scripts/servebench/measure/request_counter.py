"""The server's own count of requests, to prove that every response was counted."""

from __future__ import annotations

import time
from typing import Final

import httpx
from prometheus_client.parser import text_string_to_metric_families

from servebench.core.errors import LaunchError
from servebench.core.flags import FlagName

_SCRAPE_SECONDS: Final = 1.0  # the exporter collects from the workers once a second
_LIMIT_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.2


class Counter:
    """Reads a counter of a Prometheus exporter, summed over its labels (the workers)."""

    def __init__(self, port: int, name: str) -> None:
        self._url = f"http://127.0.0.1:{port}/metrics"
        self._name = name

    def read(self) -> int:
        """Give the counter's value now; LaunchError count_mismatch if there is none."""
        try:
            answer = httpx.get(self._url, trust_env=False, timeout=5).raise_for_status()
            values = [
                sample.value
                for family in text_string_to_metric_families(answer.text)
                for sample in family.samples
                if sample.name in {self._name, f"{self._name}_total"}
            ]
        except (httpx.HTTPError, ValueError) as error:
            raise LaunchError(
                FlagName.COUNT_MISMATCH, f"expected the server's metrics, found {error}"
            ) from error
        if not values:
            raise LaunchError(
                FlagName.COUNT_MISMATCH,
                f"expected {self._name} among the server's metrics, found none",
            )
        return int(sum(values))

    def settled(self) -> int:
        """Give the value once it has not moved for two collections of the exporter.

        The last value when it still moves after 10 s: then somebody else sends requests. Raises
        LaunchError count_mismatch if there is no value within 10 s, or none any more.
        """
        deadline = time.monotonic() + _LIMIT_SECONDS
        value, since = self._first(deadline), time.monotonic()
        while time.monotonic() < deadline and time.monotonic() - since < 2.2 * _SCRAPE_SECONDS:
            time.sleep(_POLL_SECONDS)
            now = self.read()
            if now != value:
                value, since = now, time.monotonic()
        return value

    def _first(self, deadline: float) -> int:
        """Read the value as soon as there is one: before its first collection there is none."""
        while True:
            try:
                return self.read()
            except LaunchError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_POLL_SECONDS)
