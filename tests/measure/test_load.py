"""Load from the real oha against real servers: what is asked is what is counted, or it fails."""

import gzip
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bare import Programs
from duetbench.app import tools, workspace
from duetbench.core.errors import FlagName, LaunchError
from duetbench.core.model import Expectation, Load
from duetbench.core.text import from_bytes
from duetbench.load import launch
from duetbench.load import oha as load
from duetbench.load.oha import Burst
from duetbench.load.oha_results import figures, sizes
from duetbench.load.verify import verify
from goldens import assert_said
from observatory.matrix.checkout import Checkout
from synthetic import make_endpoint
from tiny_http import Answer, serving

pytestmark = pytest.mark.real

PACKED = gzip.compress(b"hello" * 99)
HELLO = Expectation(content_type="text/plain", text="(hello)+")
LYING = '{"summary":{"total":9},"statusCodeDistribution":{"200":5},"errorDistribution":{}}'


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def oha() -> Path:
    return tools.find_oha(Checkout.here().configuration.oha)


def closed(connections: int = 2, duration: float = 0.3, timeout: float = 30) -> Load:
    return Load(connections=connections, duration=duration, timeout=timeout)


def client(program: Path, load_: Load, url: str, **request: Any) -> load.Client:
    return load.Client(program, load_, url, make_endpoint(**request))


def generate(
    oha: Path,
    asked: Load,
    url: str,
    cores: Sequence[int] | None = None,
    during: Callable[[load.Generation], object] = load.Generation.wait_load,
    **request: Any,
) -> load.Generation:
    with load.Generation(replace(client(oha, asked, url, **request), cores=cores)) as generation:
        during(generation)
        return generation.collect()


def test_a_command_line_tells_no_secret(tmp_path: Path) -> None:
    """Bodies and many addresses are in files; of the rest, the program is recorded."""
    loading = client(
        Path("oha"), closed(), "u", path="/1", method="POST", body="x", paths=("/2",),
        headers={"authorization": "Bearer s3cret"},
    )  # fmt: skip
    asked = ["-m", "POST", "-H", "authorization: Bearer s3cret", "-D", "body"]
    argv = load.command(loading)
    assert argv[argv.index("-m") :][:6] == asked
    assert argv[-2:] == ["--urls-from-file", "urls.txt"]
    with load.Generator(replace(loading, oha=Programs(tmp_path).write("oha", "exec sleep 60"))):
        (record,) = (tmp_path / "state").rglob("*.json")
        assert "s3cret" not in record.read_text()


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"headers": {"Host": "localhost", "User-Agent": "me", "accept": "text/html"}},
        {"headers": {"accept-encoding": "gzip"}, "method": "POST", "body": "{}"},
        {"method": "POST"},
        {"method": "DELETE"},
    ],
)
def test_whoever_asks_sends_the_same_headers(oha: Path, request_: dict[str, Any]) -> None:
    """The answer may repeat them: to verification, spot checks and the load it has one size."""
    with serving(Answer()) as server:
        loading = client(oha, closed(), server.url, **request_)
        endpoint = workspace._fill_in(loading.request, {})
        verify(endpoint, server.server_port, repeats=1)
        with Burst(replace(loading, request=endpoint), 0.001, 1) as burst:
            burst.collect()
        assert len(server.heads) >= 2
        heads = {(head.partition("\r\n")[0], *lines(head)) for head in server.heads}
        assert len(heads) == 1, heads
        assert len(lines(server.heads[0])) == len({line.split(":")[0] for line in heads.pop()[1:]})


def lines(head: str) -> list[str]:
    names = (line.partition(":") for line in head.strip().split("\r\n")[1:])
    return sorted(f"{name.lower()}:{value}" for name, _, value in names)


@pytest.mark.parametrize("body", ["Zoë\n".encode(), b"\xff\r\n\x00data:;base64,", b"data:;base64,"])
def test_a_mix_is_sent_as_it_is_declared(oha: Path, body: bytes) -> None:
    """Method, header and body of all; of four addresses three are one: 3/4, give or take 1/10."""
    with serving(Answer(status=201)) as server:
        mix = client(
            oha, closed(4, 0.5), server.url, method="POST", path="/a", paths=("/a", "/a", "/b"),
            headers={"x-token": "t", "host": "localhost"}, body=from_bytes(body),
        )  # fmt: skip
        with load.Generation(mix) as generation:
            generation.wait_load()
            result = generation.collect()
        assert set(result.summary.statuses) == {201}
        count = len(server.heads)
        assert count > 40
        assert set(server.bodies) == {body}
        for head in server.heads:
            assert head.startswith(("POST /a ", "POST /b "))
            assert "\r\nx-token: t\r\n" in head
            assert [line for line in head.lower().split("\r\n") if line[:5] == "host:"] == [
                "host: localhost"
            ]
        share = sum(head.startswith("POST /a ") for head in server.heads) / count
    assert share == pytest.approx(0.75, abs=max(0.1, 4 * (0.75 * 0.25 / count) ** 0.5))


def test_every_request_of_a_closed_loop_is_counted(oha: Path, tmp_path: Path) -> None:
    """The server's count is the rows' count; in flight are the connections; nothing is left."""
    ends: list[int] = []

    def finish(generation: load.Generation) -> None:
        generation.wait_load()
        ends.append(len(server.heads))

    cores = sorted(os.sched_getaffinity(0))[-1:]
    with serving(Answer(delay=0.02)) as server:
        result = generate(oha, closed(4, 1.5), server.url, cores, finish)
        assert len(result.rows) == len(server.heads) == ends[0]
        assert server.connections == 4
    seen = figures(result.rows, result.summary, closed(4, 1.5), floor=0.02)
    assert seen["in_flight"] == pytest.approx(4, rel=0.05)
    assert seen["throughput"] <= 4 / 0.02
    assert seen["response_min"] >= 0.019
    assert result.summary.seconds >= 1.5
    assert result.client_cores is not None
    assert 0 < result.client_cores < 1.05
    assert not list(tmp_path.glob("duetbench-tmp-*/*"))


def test_a_paced_load_keeps_its_limit_and_sends_all_that_has_a_place(oha: Path) -> None:
    """20/s for 1 s, two in flight, 0.25 s each: 20 ticks, of which most are never sent.

    8/s for 0.5 s with places for all: whatever the server does, all 4 are sent.
    """
    asked = Load(connections=2, rate=20, duration=1, timeout=30)
    with serving(Answer(delay=0.25)) as server:
        result = generate(oha, asked, server.url)
    seen = figures(result.rows, result.summary, asked, floor=0.25)
    assert 2 <= seen["requests"] <= 10
    edges = np.concatenate([result.rows.start, result.rows.end])
    steps = np.repeat([1, -1], len(result.rows))
    assert steps[np.argsort(edges, kind="stable")].cumsum().max() <= 2
    assert seen["throughput"] <= 2 / 0.25
    assert seen["response_max"] > seen["service_max"]
    asked = Load(connections=20, rate=8, duration=0.5, timeout=30)
    with serving(Answer(delay=0.4)) as server:
        result = generate(oha, asked, server.url)
    seen = figures(result.rows, result.summary, asked, floor=0.4)
    assert seen["requests"] == 4


@pytest.mark.parametrize(
    ("answer", "request_", "size"),
    [
        (Answer(body=PACKED, encoding="gzip"), {"expect": HELLO}, len(PACKED)),
        (Answer(body=PACKED, encoding="gzip", chunked=True), {"expect": HELLO}, len(PACKED)),
        (Answer(status=204, body=b""), {"expect": Expectation(status=204)}, 0),
        (Answer(status=304, body=b""), {"expect": Expectation(status=304)}, 0),
        (Answer(body=b""), {"method": "HEAD"}, 0),
    ],
)
def test_answers_of_every_shape_have_the_size_that_came(
    oha: Path, answer: Answer, request_: dict[str, Any], size: int
) -> None:
    """Compressed where the server compresses unasked, no frames of chunks, or without a body."""
    with serving(answer) as server:
        result = generate(oha, closed(), server.url, **request_)
        endpoint = client(oha, closed(), server.url, **request_).request
        assert {answer.size for answer in verify(endpoint, server.server_port)} == {size}
    assert sizes(result.rows, answer.status) == {size: len(result.rows)}


@pytest.mark.parametrize(
    ("answer", "asked", "counts"),
    [
        # A redirect is a success to oha, and is not followed.
        (Answer(status=302), closed(), {"good": 0, "timeouts": 0, "errors": 0}),
        (Answer(delay=5), closed(timeout=0.4), {"requests": 0, "timeouts": 2, "errors": 0}),
        (Answer(endless=0.01), closed(timeout=0.4), {"requests": 0, "timeouts": 2, "errors": 0}),
    ],
)
def test_answers_that_are_wrong_or_late_are_not_good(
    oha: Path, answer: Answer, asked: Load, counts: dict[str, float]
) -> None:
    with serving(answer) as server:
        result = generate(oha, asked, server.url)
    seen = figures(result.rows, result.summary, asked)
    assert seen.items() >= counts.items()
    assert bool(seen["requests"]) is (answer.status == 302)
    assert not {"throughput", "response_mean"} & set(seen)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo broken >&2; exit 3", "expected exit code 0, found 3; it said: broken"),
        ("echo '<html>' >summary.json", "found '<html>"),
        (f"echo '{LYING}' >summary.json", "rows.sqlite, found unable to open"),
        ("exec sleep 60", "it still runs"),
        # Five million answers in the summary, and some in the rows.
        ('"{oha}" "$@"; sed -i \'s/"200": [0-9]*/"200": 5000000/\' summary.json', "5000000 rows"),
        # On SIGINT oha stores what it has and exits with 0: its time betrays it.
        ('"{oha}" "$@" & sleep 1; kill -KILL $!; wait $!', "found 137"),
        ('trap : INT; "{oha}" "$@" & sleep 1; kill -INT $!; wait $!', "s of load"),
    ],
    ids=["fails", "rubbish", "no rows", "hangs", "lies", "killed", "interrupted"],
)
def test_a_generator_that_is_wrong_gives_no_figure(
    oha: Path, script: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = "exec" in script
    monkeypatch.setattr(load, "START_SECONDS", 0.1 if hangs else 10)
    program = Programs(tmp_path).write("oha", script.replace("{oha}", str(oha)))
    asked = closed(1, 0.1, 0.1) if hangs else closed(duration=5 * ("kill" in script) or 0.3)
    with serving(Answer(delay=0.01)) as server, pytest.raises(LaunchError, match=words) as caught:
        generate(program, asked, server.url)
    assert caught.value.flag is FlagName.LOAD_FAILED
    assert not list(tmp_path.glob("duetbench-tmp-*/*"))


def test_a_warm_up_ends_when_it_is_steady_or_at_its_limit(
    oha: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "WINDOW_SECONDS", 0.1)
    monkeypatch.setattr(launch, "MOST_WINDOWS", 600)  # a busy machine takes long for each
    monkeypatch.setattr(launch, "STEADY_SPREAD", 100)  # and has no two alike
    with serving(Answer(delay=0.01)) as server:
        warm_up = launch.warm_up(client(oha, closed(), server.url))
        assert (len(warm_up.windows), warm_up.steady) == (launch.STEADY_WINDOWS, True)
        monkeypatch.setattr(launch, "MOST_WINDOWS", 1)
        short = launch.warm_up(client(oha, closed(), server.url))
        assert (len(short.windows), short.steady) == (1, False)
        slow = launch.warm_up(client(oha, closed(), server.url), slots=1, once=True)
        assert (len(slow.windows), slow.steady) == (1, True)
        # A rate would send two; a closed loop reaches every worker.
        paced = Load(connections=100, rate=10, duration=9, timeout=30)
        with Burst(client(oha, paced, server.url), 0.2) as burst:
            assert burst.collect().rate > 20


def test_steady_means_near_the_mean_and_going_nowhere() -> None:
    """Worked out by hand; both limits are 5 %."""

    def judge(windows: str) -> str:
        return "steady" if launch.is_steady([*map(float, windows.split())]) else "not yet"

    assert_said("steady", judge)
