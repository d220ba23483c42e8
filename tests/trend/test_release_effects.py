"""Which releases are observed for what one request does, and in which case."""

from datetime import UTC, datetime
from typing import Final

import comparing
from duetbench.core.metrics import CPU
from duetbench.core.model import Effects, Verdict
from duetbench.core.units import Interval
from duetbench.project.project import Project
from duetbench.store.comparison import Comparison, SideRecord
from observatory.trend.backfill import PROFILE, to_observe
from observatory.trend.quotes import Quote

SERVED: Final = "asgi-wsgi/asgi-json/py3.14/w1/c128"


def a_quote(
    ratio: float, case: str = SERVED, metric: str = CPU, previous: str | None = "1.0"
) -> Quote:
    return Quote(
        "fastapi", "1.1", previous, datetime(2026, 11, 1, tzinfo=UTC), True, "m", case, "3.14",
        metric, Interval(ratio), Verdict.WORSE, "duets",
    )  # fmt: skip


def observed(case: str, *, head: str = "1.1", effects: Effects | None = None) -> Comparison:
    base, head_ = (
        SideRecord(label=f"fastapi=={v}", kind="stack", commit=None, stacks=(), interpreters=())
        for v in ("1.0", head)
    )
    seen = comparing.judged_case(case, effects=effects)
    return comparing.comparison_of(seen, base=base, head=head_)


def cases_of(*quotes: Quote, known: tuple[Comparison, ...] = ()) -> list[str]:
    declared = Project.here().cases(PROFILE)
    return [case.id for _, case in to_observe(quotes, declared, known)]


def test_only_material_changes_of_requests_and_starts_are_observed() -> None:
    """From 2 % of CPU, or 10 % of a start."""
    small, large = a_quote(1.019), a_quote(1.021)
    start = a_quote(0.89, "start-up/models/current/py3.14", "start_cpu")
    memory = a_quote(2.0, metric="pss_steady")
    assert cases_of(small, large, start, memory) == [SERVED, start.case]
    assert cases_of(a_quote(1.2, previous=None)) == []
    assert cases_of(a_quote(1.2, "no-such/case/py3.14")) == []


def test_what_moved_in_process_is_observed_where_it_is_served() -> None:
    """Of the same interpreter and stack; the endpoint that a benchmark names comes first."""
    handler = "inprocess/handlers.Cpu.time_request(endpoint=asgi-wsgi/wsgi-json)/py3.14t/current"
    models = "inprocess/pydantic_models.Serialise.time(size=20)/py3.14/pydantic-v1"
    found = cases_of(a_quote(1.2, handler, "seconds"), a_quote(1.2, models, "seconds"))
    assert found[0].startswith("asgi-wsgi/wsgi-json/py3.14t/")
    assert found[1:] == ["pydantic-v1-v2/pydantic-v1/py3.14/c16"]


def test_a_release_is_observed_once() -> None:
    quote, seen = a_quote(1.2), observed(SERVED, effects=Effects())
    assert cases_of(quote, known=(seen,)) == []
    others = (
        observed(SERVED),
        observed(SERVED, head="1.2", effects=Effects()),
        observed("a/b/py3.14", effects=Effects()),
    )
    assert cases_of(quote, known=others) == [SERVED]
