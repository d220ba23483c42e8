"""Change records for tests."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from servebench.record.change import ChangeRecord, Release, SeriesName, StackState
from servebench.record.comparison import PackageChange, Verdict


def a_record(**changed: Any) -> ChangeRecord:
    fields: dict[str, Any] = {
        "id": "20261120-granian-0",
        "status": "open",
        "series": SeriesName(machine="m", case="a/b", metric="server_cpu_per_request"),
        "when": datetime(2026, 11, 20, 3, tzinfo=UTC),
        "base": StackState(stack="current", digest="0" * 64),
        "head": StackState(stack="current", digest="1" * 64),
        "packages": (
            PackageChange(stack="current", package="granian", base="2.8.6", head="2.8.7"),
        ),
        "ratio": 1.031,
        "low": 1.025,
        "high": 1.037,
        "verdict": Verdict.SLOWER,
        "culprit": Release(package="granian", version="2.8.7", previous="2.8.6"),
        "method": "Ten duets.",
    }
    return ChangeRecord(**{**fields, **changed})
