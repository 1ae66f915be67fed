"""Ports of pods that share the node's network: only those at which a process of the pod listens."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from cathedra.node.runtime.runtime import Runtime
from cathedra.node.server.ports import address_of, port_connector

LISTEN = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
both = sys.argv[1] == "::"
listening = socket.create_server((sys.argv[1], int(sys.argv[2])), family=family, reuse_port=True, dualstack_ipv6=both)
print(listening.getsockname()[1], flush=True)
sys.stdin.read()
"""


class Listener:
    def __init__(self, address: str, port: int = 0) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", LISTEN, address, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline() or b"-1")

    @property
    def pid(self) -> int:
        return self.process.pid


@pytest.fixture
def started() -> Iterator[list[Listener]]:
    found: list[Listener] = []
    yield found
    for listener in found:
        listener.process.communicate()


@pytest.mark.parametrize(
    ("place", "reached"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("0.0.0.0", "127.0.0.1"),
        ("::1", "::1"),
        ("::", "127.0.0.1"),
        ("127.0.0.2", None),
    ],
)
def test_a_socket_of_the_pod_is_reached_where_it_listens(
    started: list[Listener], place: str, reached: str | None
) -> None:
    started.append(listener := Listener(place))
    assert address_of(listener.port, [listener.pid, 2**22 + 1]) == reached
    assert address_of(listener.port, [os.getpid()]) is None
    assert address_of(listener.port, []) is None


def test_a_socket_that_the_kernel_prefers_must_be_the_pods_too(started: list[Listener]) -> None:
    started.append(own := Listener("0.0.0.0"))
    with socket.socket() as foreign:
        foreign.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        foreign.bind(("127.0.0.1", own.port))
        foreign.listen()
        assert address_of(own.port, [own.pid]) is None
        assert address_of(own.port, [own.pid, os.getpid()]) == "127.0.0.1"


class Shared:
    """A runtime whose pods share the node's network."""

    sandboxes = None

    def __init__(self, *processes: int) -> None:
        self._processes = frozenset(processes)
        self.asked: list[object] = []

    async def processes(self, container_ids: object) -> frozenset[int]:
        self.asked.append(container_ids)
        return self._processes


async def test_a_port_at_which_another_process_listens_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        runtime: Runtime = Shared(1)  # type: ignore[assignment]
        with pytest.raises(ConnectionRefusedError, match="no process of the pod listens there"):
            await port_connector(runtime, "uid", lambda: {"c"})(port)
        own = Shared(os.getpid())
        connection = await port_connector(own, "uid", lambda: {"c"})(port)  # type: ignore[arg-type]
        assert own.asked == [{"c"}]
        connection.close()
