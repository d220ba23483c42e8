"""What is looked at beside the load ends with it, however that ends."""

import signal
import threading
from types import SimpleNamespace
from typing import cast

import pytest

from duetbench.host import ports
from duetbench.host.signals import InterruptedRun
from duetbench.measure.server import Serving


@pytest.fixture
def server() -> Serving:
    return cast(Serving, SimpleNamespace(port=1, session=None))


def test_connections_of_a_generator_that_starts_late_are_counted(
    server: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None at the first two looks; the third sees them, and is the last."""
    looks = iter([{}, {}, {7: 3}])
    seen = threading.Event()

    def look(_port: int, _session: object) -> dict[int, int]:
        found = next(looks)
        if found:
            seen.set()
        return found

    monkeypatch.setattr(ports, "connections_per_process", look)
    with Serving.connections(server, after=0.0) as found:
        assert seen.wait(30)
    assert found == {7: 3}


def test_an_interrupt_at_its_start_leaves_no_thread(
    server: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "connections_per_process", lambda _port, _session: {})
    threads: list[threading.Thread] = []
    real = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        threads.append(thread)
        real(thread)
        raise InterruptedRun(signal.SIGTERM)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(InterruptedRun), Serving.connections(server, after=0.0):
        pytest.fail("it was interrupted before")
    (thread,) = threads
    thread.join(30)
    assert not thread.is_alive()
