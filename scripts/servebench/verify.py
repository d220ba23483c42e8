"""Is the right thing served? Status, content type, body, floor and concurrency of an endpoint."""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import dataclass
from typing import Final

import httpx
import jsonschema

from servebench.errors import LaunchError
from servebench.flags import FlagName
from servebench.model import Endpoint, Expectation
from servebench.probe import NO_TLS
from servebench.validate import FLOOR_SLACK

SLOW_FLOOR: Final = 0.1
"""From this floor on (s) an endpoint is not asked one at a time: its overlap shows everything."""

SERIAL_SHARE: Final = 0.75
TOGETHER: Final = 1.8
TOGETHER_SLACK: Final = (0.05, 0.002)  # s, and s per request: for our own client
"""k requests at once must take less than 0.75 of k in a row, and less than 1.8 of one (plus the
slack): two batches instead of one would take 2."""

_OVERLAP_TRIES: Final = 3
_OVERLAP_SECONDS: Final = 3.0  # something else keeps a machine busy for a second or two
_EXCERPT: Final = 80

_Answer = tuple[float, int]
"""Seconds that a right answer took, and bytes of its body."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What an idle server showed.

    Attributes:
        unit: Fastest single request, s.
        requests: Requests sent to find out.
        overlap_seconds: Time of the overlapping requests together, s; None if none were asked.
        sizes: Bytes that right bodies had.
    """

    unit: float
    requests: int
    overlap_seconds: float | None
    sizes: frozenset[int]


def verify(
    endpoint: Endpoint, base_url: str, *, repeats: int = 3, timeout: float = 60.0
) -> Verified:
    """Ask an idle server and check every answer; all connections are closed afterwards.

    Args:
        endpoint: What was declared.
        base_url: Address without path.
        repeats: Requests sent one after another; slow endpoints that overlap need none.
        timeout: Of one request, s.

    Raises:
        LaunchError: wrong_status, wrong_body, transport_errors, impossible (too fast to be true)
            or not_concurrent.
    """
    return asyncio.run(_verify(endpoint, base_url.rstrip("/"), repeats, timeout))


def check_answer(expect: Expectation, where: str, status: int, media: str, body: bytes) -> None:
    """Compare an answer with its declaration.

    Args:
        expect: The declaration.
        where: The request, for the error.
        status: Status found.
        media: Content type found, with or without parameters.
        body: Body found.

    Raises:
        LaunchError: wrong_status or wrong_body.
    """
    if status != expect.status:
        raise LaunchError(
            FlagName.WRONG_STATUS,
            f"{where}: expected status {expect.status}, found {status} with {_excerpt(body)}; "
            "see the server's log",
        )
    found = media.partition(";")[0].strip().lower()
    if found != expect.content_type.lower():
        raise LaunchError(
            FlagName.WRONG_BODY,
            f"{where}: expected content type {expect.content_type}, found {found or 'none'}",
        )
    problem = _body_problem(expect, body)
    if problem:
        raise LaunchError(
            FlagName.WRONG_BODY, f"{where}: {problem}, found {_excerpt(body)}; see the handler"
        )


def _body_problem(expect: Expectation, body: bytes) -> str | None:
    if expect.text is not None:
        text = body.decode(errors="replace")
        return None if re.fullmatch(expect.text, text) else f"expected text like {expect.text!r}"
    try:
        value = json.loads(body)
    except ValueError:
        return "expected JSON"
    if expect.json_schema is not None:
        errors = jsonschema.Draft202012Validator(expect.json_schema).iter_errors(value)
        worst = jsonschema.exceptions.best_match(errors)
        return worst and f"expected JSON of the schema, but {worst.json_path}: {worst.message}"
    # As text, since to Python 1 == True == 1.0.
    wanted = json.dumps(expect.json_value, sort_keys=True)
    return None if json.dumps(value, sort_keys=True) == wanted else f"expected {wanted}"


def _excerpt(body: bytes) -> str:
    text = body[: _EXCERPT + 1].decode(errors="replace")
    return repr(text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}…")


async def _verify(endpoint: Endpoint, base_url: str, repeats: int, timeout: float) -> Verified:
    limits = httpx.Limits(max_connections=None)
    # No proxy of the environment: the server is on this machine.
    async with httpx.AsyncClient(
        base_url=base_url,
        timeout=timeout,
        limits=limits,
        trust_env=False,
        verify=NO_TLS,
        headers={"accept-encoding": "identity"},  # as the generator asks
    ) as client:
        overlaps = endpoint.overlap > 1
        alone = 0 if overlaps and endpoint.floor >= SLOW_FLOOR else max(1, repeats)
        answers = [await _ask(client, endpoint) for _ in range(alone)]
        together = await _overlap(client, endpoint, answers) if overlaps else None
    return Verified(
        unit=min(seconds for seconds, _ in answers),
        requests=len(answers),
        overlap_seconds=together,
        sizes=frozenset(size for _, size in answers),
    )


async def _ask(client: httpx.AsyncClient, endpoint: Endpoint) -> _Answer:
    where = f"GET {endpoint.path}"
    began = time.perf_counter()
    try:
        answer = await client.get(endpoint.path)
    except httpx.TimeoutException as error:
        raise LaunchError(
            FlagName.TRANSPORT_ERRORS,
            f"{where}: expected an answer within {client.timeout.read:g} s, found none; "
            "see the server's log",
        ) from error
    except httpx.HTTPError as error:
        raise LaunchError(
            FlagName.TRANSPORT_ERRORS,
            f"{where}: expected an answer, found {type(error).__name__} ({error}); "
            "see the server's log",
        ) from error
    seconds = time.perf_counter() - began
    media = answer.headers.get("content-type", "")
    check_answer(endpoint.expect, where, answer.status_code, media, answer.content)
    if seconds < endpoint.floor - FLOOR_SLACK:
        raise LaunchError(
            FlagName.IMPOSSIBLE,
            f"{where}: too fast to be true: expected at least {endpoint.floor:g} s, "
            f"found {seconds:.6f} s; does the handler wait as declared?",
        )
    return seconds, answer.num_bytes_downloaded  # as received, like the generator's rows


async def _overlap(client: httpx.AsyncClient, endpoint: Endpoint, answers: list[_Answer]) -> float:
    """Send the overlapping requests, and append their answers; give the best total, s.

    A busy machine can make a try slow, never a serial server fast: the best of them counts, and
    before a server is called serial there are at least three, over at least three seconds.
    """
    wanted = endpoint.overlap
    fixed, each = TOGETHER_SLACK
    totals: list[float] = []
    first = time.perf_counter()
    while True:
        began = time.perf_counter()
        answers += await asyncio.gather(*(_ask(client, endpoint) for _ in range(wanted)))
        totals.append(time.perf_counter() - began)
        single = min(seconds for seconds, _ in answers)
        limit = min(SERIAL_SHARE * wanted * single, TOGETHER * single + fixed + each * wanted)
        if min(totals) < limit:
            return min(totals)
        waited = time.perf_counter() - first
        if len(totals) >= _OVERLAP_TRIES and waited >= _OVERLAP_SECONDS:
            raise LaunchError(
                FlagName.NOT_CONCURRENT,
                f"GET {endpoint.path}: expected {wanted} requests at once within {limit:.3f} s "
                f"(one takes {single:.3f} s), found {min(totals):.3f} s as the best of "
                f"{len(totals)} tries; does something block the server?",
            )
