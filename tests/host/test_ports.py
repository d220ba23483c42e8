"""Real sockets: who listens."""

import os
import socket

import pytest

from duetbench.core.errors import FlagName, LaunchError
from duetbench.host import ports


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
