"""Every flag that a single launch can raise, each with figures worked out by hand."""

import json
import re
from dataclasses import fields
from typing import Any, Final

from pydantic import TypeAdapter

from duetbench.core.errors import FlagName
from duetbench.core.model import Case, Expectation, Load
from duetbench.load.validity import Facts, judge
from goldens import DATA, assert_said
from synthetic import make_case

LOADS: Final = {
    "closed": Load(connections=128, duration=30, timeout=30),
    "one": Load(connections=1, duration=10, timeout=30),
    "paced": Load(connections=5, rate=10, duration=10, timeout=60),
    "open": Load(connections=100, rate=10, duration=10, timeout=60),
}
GOOD: Final = {
    "requests": 300_000, "good": 300_000, "timeouts": 0, "errors": 0, "window": 30.0,
    "throughput": 10_000, "in_flight": 127.9,
    "response_min": 0.0101, "response_mean": 0.0128, "response_p50": 0.0127,
    "response_p90": 0.014, "response_p95": 0.015, "response_p99": 0.016,
    "response_p999": 0.02, "response_max": 0.04,
    "client_cores": 0.6, "server_cores": 0.98, "host_steal": 0.002, "host_other": 0.03,
    "warm_up": 6.1,
}  # fmt: skip
"""Of a closed loop over 128 connections, with a floor of 10 ms: at most 12,800/s."""

PACED_GOOD: Final = {
    "offered": 10, "throughput": 9.9, "requests": 100, "good": 100,
    "window": 10.0, "in_flight": 2.0,
    "response_min": 0.199, "response_mean": 0.205, "response_p50": 0.203, "response_max": 0.237,
    "service_min": 0.199, "service_mean": 0.205, "service_p50": 0.203, "service_max": 0.237,
}  # fmt: skip
PIDS: Final = {"pids_before": [10, 11], "pids_after": [10, 11]}


def make_facts(given: dict[str, Any]) -> Facts:
    """Facts of a load, by default a closed loop: what is `given` beside its usual figures.

    `case` are fields of its case, and `taking` the seconds of each request.
    """
    load, own = given.pop("load", "closed"), given.pop("case", {})
    sizes = {"text": own.pop("text", "x"), "size": own.pop("size", None)}
    own["endpoint_expect"] = Expectation(content_type="text/plain", **sizes)
    own["endpoint_floor"] = given.pop("floor", 0.01 if load == "closed" else 0.0)
    case: Case = make_case("e/x", load=LOADS[load], server="granian", slots=None, **own)
    closed = load in {"closed", "one"}
    figures: dict[str, float] = {} if given.pop("bare", False) else GOOD if closed else PACED_GOOD
    times = [name for name in figures if name.startswith(("response", "service"))]
    figures = figures | dict.fromkeys(times if "taking" in given else (), given.pop("taking", 0))
    known = {field.name for field in fields(Facts) if "_cores" not in field.name} & given.keys()
    more = {**(PIDS if closed and figures else {}), **{name: given.pop(name) for name in known}}
    values = {"case": case, "server_cores": 1, "client_cores": 1, **more}
    return TypeAdapter(Facts).validate_python({**values, "figures": {**figures, **given}})


def test_a_fault_raises_its_flag_alone_and_what_lies_within_its_limit_none() -> None:
    def flags(text: str) -> str:
        raised = judge(make_facts(json.loads(text)))
        return "; ".join(f"{flag.name}: {flag.detail}" for flag in raised)

    assert_said("flags", flags)


def test_every_flag_is_judged_here_or_raised_where_it_is_seen() -> None:
    raised_elsewhere = {
        FlagName.NOT_READY, FlagName.STRAY_PROCESS, FlagName.HARNESS_ERROR,
        FlagName.FEW_LAUNCHES, FlagName.STOP_TIMEOUT, FlagName.ERROR_INSIDE,
    }  # fmt: skip
    raised = re.findall(r"^=> (\w+):", (DATA / "said/flags.txt").read_text("utf-8"), re.MULTILINE)
    assert {*raised} == set(FlagName) - raised_elsewhere
