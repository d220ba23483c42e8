"""Real sockets: who listens, who is foreign, who holds the connections."""

import os
import socket
from pathlib import Path

import pytest

from duetbench.core.errors import FlagName, LaunchError
from duetbench.host import ports
from serverlings import launch, said

pytestmark = pytest.mark.usefixtures("state_home")


@pytest.mark.parametrize("host", ["127.0.0.1", "::"])
def test_a_listener_is_named(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if family == socket.AF_INET6 and not socket.has_ipv6:
        pytest.skip("no IPv6")
    port = ports.free_port()
    with socket.socket(family) as server:
        try:
            server.bind((host, port))
        except OSError as error:
            pytest.skip(f"no IPv6 on this machine: {error}")
        server.listen()
        (sentence,) = ports.listeners(port)
        assert sentence.startswith(f"process {os.getpid()} (")
        assert sentence.endswith(") listens on it")
        with pytest.raises(LaunchError, match=f"process {os.getpid()} ") as refusal:
            ports.require_free(port)
        assert refusal.value.flag is FlagName.STRAY_PROCESS
    ports.require_free(port)


def test_a_foreign_listener_that_shares_the_port_is_found(tmp_path: Path) -> None:
    """SO_REUSEPORT lets a stranger take connections: it is told apart from our own listener."""
    port = ports.free_port()
    with launch(tmp_path, "listen", port, "shared") as ours:
        said(ours, "ready")
        assert ports.listeners(port, ours.members()) == []
        (tmp_path / "foreign").mkdir()
        with launch(tmp_path / "foreign", "listen", port, "shared") as foreign:
            said(foreign, "ready")
            assert len(ports.listeners(port)) == 2
            (sentence,) = ports.listeners(port, ours.members())
            assert f"process {foreign.pid} (" in sentence
            assert str(ours.pid) not in sentence
            with pytest.raises(LaunchError, match=f"process {foreign.pid} "):
                ports.require_free(port, 0.05)
        assert ports.listeners(port, ours.members()) == []
    ports.require_free(port, 30)
    assert not ports.listeners(port)
